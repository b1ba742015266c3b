# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When an active check refuses, and that nothing of it outlives it."""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import child
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import (
    apart,
    bind,
    checks,
    survey,
    tools,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.tools import (
    CUDA_FAULTS,
    DCGM_SEVERITIES,
    TOOLS,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Outcome, Remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs

ON_GPUS = ("host_device_bandwidth", "gpu_peer_bandwidth", "gpu_memory_test", "nccl_all_reduce", "dcgm_diagnosis")


def test_all_are_active_one_after_another_and_named_once():
    assert {check.cost for check in checks.CHECKS} == {Cost.ACTIVE}
    assert {check.lane for check in checks.CHECKS} == {"active"}
    assert len({check.id for check in checks.CHECKS}) == len(checks.CHECKS) == 9


def test_every_table_names_its_sources_and_its_words_are_known():
    for tool in TOOLS.values():
        assert tool.source.strip() and tool.remedy and tool.programs
    for fault in CUDA_FAULTS.values():
        assert fault.source.strip() and fault.reason and fault.remedy
        assert fault.action is None or Remedy(fault.action)
    for severity in DCGM_SEVERITIES.values():
        assert severity.source.strip() and Remedy(severity.action) and Outcome(severity.outcome)


# Refusals ---------------------------------------------------------------------------------------------


def test_a_process_on_a_gpu_is_never_disturbed(machine, health):
    node = machine("nd96asr_v4", "gpu.count=2")
    node.simulator.control("process", "add", "1", str(os.getpid()), "100")
    for name in ("nvbandwidth", "all_reduce_perf", "dcgmi"):
        node.printing(name, "")
    verdict = node.check(*ON_GPUS)
    assert [one[3] for one in health.findings(verdict)] == ["unknown"] * len(ON_GPUS)
    for result in verdict["results"]:
        (finding,) = result["findings"]
        assert str(os.getpid()) in finding["reason"] and "wait until it has ended" in finding["remedy"]
    assert [node.calls(name) for name in ("nvbandwidth", "all_reduce_perf", "dcgmi")] == [[], [], []]
    node.simulator.control("process", "remove", "1", str(os.getpid()))
    assert health.findings(node.check("host_device_bandwidth", tools={"nvbandwidth": None})) == []


def root_with(tmp_path, **files):
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(str(tmp_path))


def test_a_free_node_is_free(tmp_path):
    survey.node_is_free(root_with(tmp_path, proc__1__comm="systemd\n", proc__77__comm="slurmd\n"))


def test_a_job_that_our_prolog_noted(tmp_path, monkeypatch):
    host = root_with(tmp_path, proc__1__comm="init\n")
    jobs.begin(host, jobs.Running(42, 1000))
    with pytest.raises(NodeError, match="job 42 runs on it"):
        survey.node_is_free(host)
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    survey.node_is_free(host)
    monkeypatch.delenv("SLURM_JOB_ID")
    # Its epilog is at work; and then that was killed.
    root_with(tmp_path, proc__7__stat="7 (gpunode) S " + " ".join(["0"] * 18) + " 99 0\n")
    jobs.end(host, jobs.Running(42, 1000), (7, 99))
    with pytest.raises(NodeError, match="job 42 runs on it"):
        survey.node_is_free(host)
    (tmp_path / "proc/7/stat").unlink()
    survey.node_is_free(host)


class Asked(Host):
    """``told``: the answer of squeue; None: slurmctld does not answer."""

    told = "17|1000\n"

    def which(self, program):
        return program

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        if self.told is None:
            raise NodeError("squeue", "did not end within 10 s", "look")
        return Completed(tuple(argv), 0, self.told if "squeue" in argv else "", "")


def test_a_job_without_a_step_of_a_slurm_without_our_prolog(tmp_path, monkeypatch):
    host = Asked(root_with(tmp_path, proc__1__comm="init\n", proc__77__comm="slurmd\n").root)
    with pytest.raises(NodeError, match="job 17 runs on it"):
        survey.node_is_free(host)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    survey.node_is_free(host)
    host.told = None  # what the node knows counts then
    survey.node_is_free(host)


def test_a_job_of_a_slurm_without_our_prolog(tmp_path, monkeypatch):
    host = root_with(tmp_path, proc__9__comm="slurmstepd\n", proc__9__cmdline="slurmstepd: [4711.batch]\0")
    with pytest.raises(NodeError, match="job 4711 runs on it"):
        survey.node_is_free(host)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    survey.node_is_free(host)
    nameless = root_with(tmp_path, proc__9__cmdline="")
    with pytest.raises(NodeError, match="job of process 9"):
        survey.node_is_free(nameless)
    with pytest.raises(NodeError, match="job of process 9"):
        survey.node_is_free(root_with(tmp_path, proc__9__cmdline="slurmstepd\0infinity\0" + "17\0"))
    # cgroup v2: the one that holds the scope is always there, and of no job.
    survey.node_is_free(root_with(tmp_path, proc__9__cmdline="/usr/sbin/slurmstepd\0infinity\0"))


def test_a_lost_gpu_is_unknown_and_the_others_are_measured(machine, health):
    node = machine("nd96asr_v4", "gpu.count=3")
    node.simulator.control("fault", "gpu", "1", "lost")
    verdict = node.check("host_device_bandwidth")
    assert [(one[3], one[4]) for one in health.findings(verdict)] == [("unknown", "look")]
    assert len(health.measured(verdict, "host_to_device_gigabytes_per_second")) == 2


def test_a_node_without_a_gpu_has_nothing_to_measure(machine):
    node = machine("nd96asr_v4", "gpu.count=1")
    node.environment["LD_LIBRARY_PATH"] = "/nonexistent"
    verdict = node.check(*ON_GPUS, "gpu_compute", "ib_bandwidth", "scratch_rate", "hpl_result")
    assert verdict["results"] == [] and len(verdict["not_applicable"]) == len(ON_GPUS) + 4


# Tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "refused"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}, "2 of its 8 GPUs"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7"}, ""),
        ({"SLURM_JOB_ID": "7"}, ""),  # this Slurm divides no GPUs
        ({"SLURM_JOB_GPUS": "0"}, ""),  # no job: a variable that a shell kept
        ({}, ""),
    ],
)
def test_a_job_with_a_part_of_the_gpus_loads_none(environment, refused):
    if not refused:
        survey._whole_node(environment, 8)
        return
    with pytest.raises(NodeError, match=refused):
        survey._whole_node(environment, 8)


@pytest.mark.parametrize(
    ("settings", "hosts", "others"),
    [
        ((), None, None),
        (("gpu.confidential_computing=1",), "Confidential Computing", None),
        (("gpu.virtualization_mode=2",), "vGPU", "vGPU"),
        (("gpu.virtualization_mode=0",), None, None),
    ],
    ids=["passed through", "confidential", "vgpu", "bare metal"],
)
def test_gpus_of_which_the_product_does_not_tell_the_rates(machine, health, settings, hosts, others):
    """Copies of Confidential Computing are encrypted: about 9 GB/s on a healthy H100. A vGPU has a part of its GPU."""
    node = machine("vm_h100", "gpu.cuda.multiprocessors=2", *settings)
    for slow in ("host_to_device 85", "device_to_host 85", "hbm 80"):
        node.fault("gpu 0 slow " + slow)
    verdict = node.check("host_device_bandwidth", "gpu_memory_test", memory_test_seconds=1)
    found = {(one[0], one[1]) for one in health.findings(verdict)}
    copies = {("host_device_bandwidth", "low_" + way) for way in ("host_to_device", "device_to_host")}
    assert found == (set() if hosts else copies) | (set() if others else {("gpu_memory_test", "low_gpu_memory")})
    seen = {one["id"]: one["seen"] for one in verdict["results"]}
    for check, why in (("host_device_bandwidth", hosts), ("gpu_memory_test", others)):
        assert ("limits by product do not apply ({0})".format(why) in seen[check]) == (why is not None)


def test_a_numa_node_without_memory_leaves_it_to_the_first_touch(monkeypatch):
    """The kernel answers EINVAL."""

    class Kernel:
        def syscall(self, *dummy):
            ctypes.set_errno(22)
            return -1

    monkeypatch.setattr(bind.ctypes, "CDLL", lambda *dummy, **more: Kernel())
    bind.to_node(0, sorted(os.sched_getaffinity(0)))


@pytest.mark.parametrize("name", ["python", "nvidia_smi"])
def test_a_tool_that_no_check_uses_is_refused_with_the_names_of_the_others(name):
    settings.check({"tools": {one: "/opt/" + one for one in TOOLS}})
    with pytest.raises(NodeError) as told:
        settings.check({"tools": {name: "/usr/bin/" + name}})
    assert told.value.remedy == "choose among " + ", ".join(TOOLS)


def test_where_tools_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    host = Host()
    assert tools.find(host, {}, "nvbandwidth") is None
    with pytest.raises(NodeError, match="not on the node; build it from github.com/NVIDIA/nvbandwidth"):
        tools.need(host, {}, "nvbandwidth")
    program = tmp_path / "bin" / "nvbandwidth"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert tools.find(host, {}, "nvbandwidth") == str(program)
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert tools.find(host, {"tools": {"nvbandwidth": str(own)}}, "nvbandwidth") == str(own)


@pytest.mark.parametrize("given", ["nvbandwidth", "/nonexistent", "/etc/passwd", 7, ["/bin/sh"], "/"])
def test_a_tool_that_cannot_be_run_is_named(given):
    with pytest.raises(NodeError, match="setting tools.nvbandwidth"):
        tools.find(Host(), {"tools": {"nvbandwidth": given}}, "nvbandwidth")


def test_places_of_images(tmp_path):
    place = tmp_path / "opt/nvidia/nvbandwidth/nvbandwidth"
    place.parent.mkdir(parents=True)
    place.write_text("")
    place.chmod(0o755)
    assert tools.find(Host(str(tmp_path)), {}, "nvbandwidth") == str(place)


# Apart ------------------------------------------------------------------------------------------------


def test_the_answer_of_a_process_apart_and_its_errors():
    assert apart.measure("x", 20, lambda: (os.getpid() != parent, 7), None, ()) == (True, 7)
    with pytest.raises(NodeError, match="did not end within 0.3 s"):
        apart.measure("GPU 3", 0.3, lambda: time.sleep(60), None, ())
    with pytest.raises(NodeError, match="the process that measured it died"):
        apart.measure("GPU 3", 20, lambda: os.kill(os.getpid(), signal.SIGKILL), None, ())
    with pytest.raises(NodeError, match="because"):
        apart.measure("GPU 3", 20, refuse, None, ())


parent = os.getpid()


def refuse():
    raise NodeError("GPU 3", "because", "do something")


def test_a_process_is_bound_to_a_node_and_so_is_what_it_starts():
    cpus = sorted(os.sched_getaffinity(0))[:1]

    def look():
        done = apart.run(["/bin/cat", "/proc/self/status", "/proc/self/numa_maps"], 10, apart.environment())
        return os.sched_getaffinity(0), done.stdout

    own, text = apart.measure("x", 20, look, 0, cpus)
    assert own == set(cpus)
    assert "Cpus_allowed_list:\t{0}\n".format(cpus[0]) in text
    if os.path.exists("/proc/self/numa_maps"):
        assert " bind:0 " in text
    assert os.sched_getaffinity(0) != own or len(os.sched_getaffinity(0)) == 1


def test_cpus_that_this_process_may_not_have_are_named():
    with pytest.raises(NodeError, match="NUMA node 3: this process cannot be bound"):
        apart.measure("x", 20, lambda: None, 3, (9999,))


def test_the_environment_of_a_tool(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    made = apart.environment(["GPU-a", "GPU-b"])
    assert made["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b" and made["LC_ALL"] == "C"
    assert made["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "CUDA_VISIBLE_DEVICES" not in apart.environment()


def test_what_is_measured_does_not_depend_on_the_environment_of_a_user(monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    for name in ("CUDA_DISABLE_PTX_JIT", "CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_PATH", "CUDA_INJECTION64_PATH"):
        monkeypatch.setenv(name, "1")
    # No daemon of MPS, also not the one at the default place, in a directory that any user can make.
    assert apart.environment()["CUDA_MPS_PIPE_DIRECTORY"] == "/dev/null"
    # A tool keeps its cache: NCCL compiles for minutes on a GPU that is newer than its build.
    assert "CUDA_CACHE_DISABLE" not in apart.environment()

    def seen():
        apart.become(["GPU-a"])
        return {name: value for name, value in os.environ.items() if name.startswith("CUDA_")}

    assert apart.measure("x", 20, seen, None, ()) == {
        "CUDA_VISIBLE_DEVICES": "GPU-a",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_MPS_PIPE_DIRECTORY": "/dev/null",
        "CUDA_CACHE_DISABLE": "1",
    }


def test_a_tool_that_does_not_end_is_ended_with_what_it_started(tmp_path):
    note = tmp_path / "pids"
    script = "sleep 300 & echo $! >{0}; echo $$ >>{0}; wait".format(note)
    with pytest.raises(NodeError, match="/bin/sh: it did not end within 1 s"):
        apart.run(["/bin/sh", "-c", script], 1, apart.environment())
    assert gone(note, 2)


@pytest.mark.parametrize("inherited", [signal.default_int_handler, signal.SIG_IGN], ids=["a terminal", "a shell's &"])
def test_a_tool_that_wants_to_be_interrupted_is_interrupted_first(tmp_path, inherited):
    note = tmp_path / "note"
    before = signal.signal(signal.SIGINT, inherited)
    script = "trap 'echo stopped >{0}; exit 0' INT; while true; do sleep 0.1; done".format(note)
    try:
        with pytest.raises(NodeError):
            apart.run(["/bin/sh", "-c", script], 1, apart.environment(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert note.read_text() == "stopped\n"


# A program, and a script that starts one.
KILLED = ("echo $$ >>{0}; exec sleep 300", "sleep 300 & echo $! >>{0}; wait")


@pytest.mark.parametrize("tool", KILLED, ids=["a program", "a script"])
@pytest.mark.parametrize("victim", ["the process apart", "the check"])
def test_nothing_is_left_when_a_check_is_killed(tmp_path, victim, tool):
    """The runner kills a check that is past its limit, without a chance to clean up."""
    note = tmp_path / "pids"
    code = (
        "import os, sys\n"
        "from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import apart\n"
        "def task():\n"
        "    open({0!r}, 'a').write(str(os.getpid()) + '\\n')\n"
        "    apart.run(['/bin/sh', '-c', {1!r}], 300, apart.environment())\n"
        "apart.measure('x', 300, task, None, ())\n"
    ).format(str(note), tool.format(note))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (note.exists() and len(note.read_text().split()) == 2):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    time.sleep(1)  # the tool may be quicker than what guards it
    os.kill(process.pid if victim == "the check" else int(note.read_text().split()[0]), signal.SIGKILL)
    assert process.wait(timeout=30) != 0
    assert gone(note, 2)


def test_a_tool_whose_check_was_killed_has_time_to_stop(tmp_path, monkeypatch):
    """dcgmi stops its host engine when it is interrupted."""
    note = tmp_path / "pids"
    script = "trap 'echo stopped >>{0}.told' INT; echo $$ >{0}; while true; do sleep 0.1; done".format(note)
    monkeypatch.setattr(apart, "_GRACE_SECONDS", 2.0)
    pid = os.fork()
    if pid == 0:
        try:
            apart.run(["/bin/sh", "-c", script], 300, apart.environment(), signal.SIGINT)
        finally:
            os._exit(1)
    while not (note.exists() and note.read_text().strip()):
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(0.6)
    told = tmp_path / "pids.told"
    assert told.read_text() == "stopped\n" and state(note.read_text().strip()) not in ("Z", "")
    assert gone(note, 1) and told.read_text().count("stopped") == 2


def gone(note, count):
    pids = note.read_text().split()
    assert len(pids) == count
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        left = [pid for pid in pids if state(pid) not in ("Z", "")]
        if not left:
            return True
        time.sleep(0.05)
    return False


def state(pid):
    try:
        return pathlib.Path("/proc/{0}/stat".format(pid)).read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_process_whose_parent_ended_meanwhile_ends(tmp_path):
    pid = os.fork()
    if pid == 0:
        try:
            child.die_with_parent(1 if os.getppid() != 1 else 2)
        finally:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
