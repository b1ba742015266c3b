# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode info``: a line for each GPU, a line for each process, whatever the processes are called."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import gpu_processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.gpu_processes import Owners, place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
UID = os.getuid()
USER = pwd.getpwuid(UID).pw_name
JOB = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"
DOCKER = "0::/system.slice/docker-" + "ab12" * 16 + ".scope\n"


def info(machine, root, *words, **environment):
    return forked.run(
        [sys.executable, gpunode_on.__file__, str(root), "--", "info", *words],
        env=machine.environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def machine(nvml_simulator):
    return nvml_simulator("nd96asr_v4")


def process(root, pid, cmdline=b"python3\0train.py\0", name="python3", uid=UID, cgroup="0::/user.slice\n"):
    """A process in a captured /proc."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "status").write_text("Name:\t{0}\nState:\tR (running)\nUid:\t{1}\t{1}\t{1}\t{1}\n".format(name, uid))
    (folder / "cmdline").write_bytes(cmdline)
    (folder / "cgroup").write_text(cgroup)


def row(done, start):
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(start)]
    return line.split()


def test_a_gpu_is_a_line_with_what_an_operator_looks_for(machine, tmp_path):
    for setting in (
        ("set", "gpu.2.utilization.gpu_percent", "97"),
        ("set", "gpu.2.temperature.gpu_celsius", "61"),
        ("process", "add", "2", "4294967", "30720"),
    ):
        machine.control(*setting)
    done = info(machine, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "driver 580.95.05, CUDA 13.0, 8 x NVIDIA A100-SXM4-40GB" in done.stdout.splitlines()[0]
    assert row(done, "GPU  ADDRESS") == "GPU ADDRESS TEMP POWER MHz MEMORY UTIL PERSIST".split()
    found = row(done, "2    0003:00:00.0")
    assert found[4:] == ["1410+1215", "30.0/40.0", "GiB", "97%", "off"] and found[3].endswith("/400W"), found
    assert row(done, "1    0002:00:00.0")[5:8] == ["0.0/40.0", "GiB", "0%"]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_process_has_its_user_memory_job_and_command(machine, tmp_path):
    process(tmp_path, 4294901, b"/opt/conda/bin/python3\0train.py\0--lr\0" + b"1\0", cgroup=JOB)
    process(tmp_path, 4294902, b"vllm\0serve\0", uid=4294001, cgroup=DOCKER)
    for gpu, pid, mib in (("0", "4294901", "1024"), ("1", "4294901", "2048"), ("1", "4294902", "4096")):
        machine.control("process", "add", gpu, pid, mib)
    done = info(machine, tmp_path)
    table = [line.split() for line in done.stdout.partition("\n\n")[2].splitlines()]
    assert table == [
        "GPU PID USER MEMORY RUNS IN COMMAND".split(),
        ["0", "4294901", USER, "1.0", "GiB", "job", "4711", "python3", "train.py", "--lr", "1"],
        ["1", "4294902", "4294001", "4.0", "GiB", "container", "ab12ab12ab12", "vllm", "serve"],
        ["1", "4294901", USER, "2.0", "GiB", "job", "4711", "python3", "train.py", "--lr", "1"],
    ]
    (told,) = json.loads(info(machine, tmp_path, "--json").stdout)["gpus"][0]["processes"]["running"]
    assert (told["user"], told["job"], told["container"], told["command"]) == (
        USER,
        "4711",
        None,
        "python3 train.py --lr 1",
    )
    assert told["used_memory_bytes"] == 1024**3


def test_names_of_processes_do_not_reach_the_terminal_raw(machine, tmp_path):
    evil = "\033]0;owned\007\033[2Jx\u202e\n0    0001:00:00.0  99C"
    process(tmp_path, 4294901, evil.encode() + b"\xff\0")
    process(tmp_path, 4294902, b"", name="\033[31m)")  # no command line: the name of the program
    process(tmp_path, 4294903, b"y" * 3000000)
    for pid in ("4294901", "4294902", "4294903"):
        machine.control("process", "add", "0", pid, "10")
    for environment in ({}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}):
        done = info(machine, tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        assert all(letter.isprintable() for letter in done.stdout.replace("\n", "")), done.stdout
        assert "?]0;owned??[2Jx??0    0001" in done.stdout and " ?[31m)" in done.stdout
        assert len([line for line in done.stdout.splitlines() if line.startswith("0    0001:00:00.0")]) == 1
        assert max(map(len, done.stdout.splitlines())) <= 80
    (told,) = [
        one
        for one in json.loads(info(machine, tmp_path, "--json").stdout)["gpus"][0]["processes"]["running"]
        if one["pid"] == 4294903
    ]
    assert len(told["command"]) == 4096


def test_a_process_that_cannot_be_seen_is_a_row_and_a_note(machine, tmp_path):
    machine.control("process", "add", "4", "4294901", "10")
    done = info(machine, tmp_path)
    assert done.returncode == 0 and row(done, "4    4294901") == ["4", "4294901", "-", "10.0", "MiB", "-"]
    assert "note: not seen from here: process 4294901; it ended just now, or it is hidden" in done.stdout


def test_a_lost_gpu_in_the_middle_keeps_the_table_and_says_why_below(machine, tmp_path):
    whole = info(machine, tmp_path).stdout.splitlines()
    machine.control("fault", "gpu", "3", "lost")
    done = info(machine, tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [lines[number] for number in (1, 2, 3, 4, 6, 7, 8, 9)] == [
        whole[number] for number in (1, 2, 3, 4, 6, 7, 8, 9)
    ]
    assert lines[5].split() == ["3", "-", "DOES", "NOT", "ANSWER"]
    assert "GPU 3" in lines[10] and "GPU_IS_LOST" in done.stdout and max(map(len, lines)) <= 80


def test_a_partitioned_gpu_has_no_utilisation_and_says_so(machine, tmp_path):
    machine.control("set", "gpu.5.mig_mode", "1")
    machine.control("gpu-reset", "5")
    done = info(machine, tmp_path)
    assert done.returncode == 0 and row(done, "5    000c:00:00.0")[-2:] == ["MIG", "off"], done.stdout
    machine.control("set", "gpu.6.latched.mig_mode", "0")
    machine.control("set", "gpu.6.mig_mode", "1")
    assert "note: the MIG mode changes with the next reset: GPU 6" in info(machine, tmp_path).stdout


def test_what_slows_a_gpu_down_is_a_note_and_a_power_cap_is_none(machine, tmp_path):
    machine.control("throttle", "1", "sw_power_cap")
    assert "note" not in info(machine, tmp_path).stdout
    machine.control("throttle", "1", "hw_thermal")
    assert "note: slowed down (hardware_thermal_slowdown): GPU 1" in info(machine, tmp_path).stdout


def test_only_the_gpus_that_were_asked_for(machine, tmp_path):
    done = info(machine, tmp_path, "--gpu", "1,000e:00:00.0", "--json")
    assert [gpu["index"] for gpu in json.loads(done.stdout)["gpus"]] == [1, 7]


@pytest.mark.parametrize("environment", [{}, {"LD_LIBRARY_PATH": ""}])
def test_a_machine_without_a_gpu_is_in_order_and_says_where_to_look(machine, tmp_path, environment):
    """With the driver installed and without; to name a GPU is wrong use there, as anywhere."""
    machine.control("fault", "driver", "not-loaded")
    done = info(machine, tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("The PCI bus has no NVIDIA GPU") and "lspci -d 10de:" in done.stdout
    assert info(machine, tmp_path, "--gpu", "all", **environment).returncode == 0
    for words in (("--gpu", "9"), ("--gpu", "GPU-0"), ("--gpu", "0", "--json")):
        done = info(machine, tmp_path, *words, **environment)
        told = json.loads(done.stdout)["error"]["message"] if "--json" in words else done.stderr
        assert done.returncode == 2 and "this machine has no such GPU; compare with 'nvidia-smi -L'" in told, done


# Whose they are ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cgroups", "job", "container"),
    [
        (JOB, "4711", None),
        ("5:devices:/slurm/uid_1000/job_12/step_0/task_0\n", "12", None),
        ("5:devices:/slurm_node7/uid_1000/job_12/step_0/task_0\n", "12", None),
        ("0::/system.slice/node7_slurmstepd.scope/job_12/step_batch\n", "12", None),
        (DOCKER, None, "ab12ab12ab12"),
        ("3:cpu:/docker/" + "0f" * 32 + "\n", None, "0f0f0f0f0f0f"),
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "0f" * 32 + ".scope\n", None, "0f0f0f0f0f0f"),
        # A user may name cgroups of his own as he likes.
        ("0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/x\n", None, None),
        ("0::/../../user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/x\n", None, None),
        (DOCKER.strip() + "/x-slurmstepd.scope/job_9/x\n", None, "ab12ab12ab12"),
        # From Slurm 26.05 on.
        ("0::/system.slice/slurmstepd.scope/sAB2CD3EF4GH56/step_0\n", "sAB2CD3EF4GH56", None),
        ("0::/system.slice/sshd.service\n", None, None),
        ("", None, None),
    ],
)
def test_job_and_container_are_those_of_the_cgroup(cgroups, job, container):
    assert place(cgroups) == (job, container)


@pytest.mark.parametrize("end", ["\r", "\v", "\x1c", "\x85", "\u2028"])
def test_nobody_writes_a_user_or_a_job_behind_a_line_end_of_his_own(tmp_path, end):
    forged = "0::/user.slice/user-1000.slice/x" + end + "0::/system.slice/slurmstepd.scope/job_77/step_0\n"
    folder = tmp_path / "proc" / "11"
    folder.mkdir(parents=True)
    name = "a{0}Uid:\t0\t".format(end)
    (folder / "status").write_bytes("Name:\t{0}\nUid:\t7001\t0\t0\t0\n".format(name).encode())
    (folder / "cgroup").write_bytes(forged.encode())
    (owner,) = Owners(Host(str(tmp_path))).of([11]).values()
    assert (owner.uid, owner.job, owner.command) == (7001, None, name)
    assert place(forged) == (None, None)


def test_a_name_that_is_no_utf8_leaves_the_json_valid(tmp_path):
    process(tmp_path, 11, b"")
    (tmp_path / "proc" / "11" / "status").write_bytes(b"Name:\tb\xff\xfe\nUid:\t7001\t0\t0\t0\n")
    command = Owners(Host(str(tmp_path))).of([11])[11].command
    assert command.encode("utf-8").decode("utf-8").startswith("b\ufffd")


def test_what_hangs_costs_a_second_once_and_takes_only_its_own_part(tmp_path, monkeypatch):
    for pid, uid in ((11, 7001), (12, 7002), (13, 7001)):
        process(tmp_path, pid, uid=uid)
    asked = gpu_processes._command

    def command(host, pid):
        return time.sleep(60) if pid == 12 else asked(host, pid)

    monkeypatch.setattr(gpu_processes, "LIMIT_SECONDS", 0.3)
    monkeypatch.setattr(gpu_processes, "_command", command)
    owners = Owners(Host(str(tmp_path)))
    began = time.monotonic()
    first, took = owners.of([11, 12, 13]), time.monotonic() - began
    assert took < 5 and first[11].command == "python3 train.py" and first[12].command == "python3"
    again = owners.of([11, 12, 13])
    assert again[13].command == "python3 train.py" and again[12].command == "python3" and again[12].user == "7002"


def test_a_name_service_that_hangs_leaves_the_number_of_the_user(tmp_path, monkeypatch):
    process(tmp_path, 11, uid=7001)
    monkeypatch.setattr(gpu_processes, "LIMIT_SECONDS", 3.0)
    monkeypatch.setattr(gpu_processes, "_user", lambda dummy: time.sleep(60))
    owners = Owners(Host(str(tmp_path)))
    assert owners.of([11])[11].user == "7001"
    began = time.monotonic()
    assert owners.of([11])[11].user == "7001" and time.monotonic() - began < 2.0
