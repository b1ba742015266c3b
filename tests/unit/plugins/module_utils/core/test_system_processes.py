# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names and environments of user processes are claims, and one module decides which to believe."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import system_processes as system
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.gpu_programs import NAMES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs import gpus_in_use
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gpu_processes, jobs, places
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.leftovers import judge

LIBRARY = Path(__file__).resolve().parents[5] / "plugins" / "module_utils"


class Tree:
    def __init__(self, root):
        self.root = root
        self.host = Host(str(root))

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def process(self, pid, name, uid, parent=1, cmdline="", environ="", cgroup=""):
        uids = uid if isinstance(uid, tuple) else (uid,) * 4
        numbers = "\t".join(str(one) for one in uids)
        folder = "proc/{0}/".format(pid)
        self.write(folder + "comm", name + "\n")
        self.write(folder + "status", "Name:\t{0}\nPPid:\t{1}\nUid:\t{2}\n".format(name, parent, numbers))
        self.write(folder + "stat", "{0} ({1}) S {2}\n".format(pid, name, " ".join(["7"] * 30)))
        self.write(folder + "cmdline", cmdline)
        self.write(folder + "environ", environ)
        self.write(folder + "cgroup", cgroup)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.mark.parametrize(
    "uid, believed",
    [
        (0, True),
        (118, True),
        (999, True),
        (1001, False),
        (100000, False),  # root of a container in a user namespace
        (62000, False),  # a directory service may assign it to a person
        (61500, True),  # systemd has it in use
        (4294967294, False),
        ((1001, 0, 0, 0), False),  # a set-user-id program that a user started
        ((0, 1001, 0, 1001), True),  # slurmstepd while it opens a user's files
    ],
)
def test_a_name_counts_only_from_the_system(tree, uid, believed):
    tree.write("run/systemd/dynamic-uid/61500", "exporter\n")
    tree.process(7, "nv-hostengine", uid)
    assert system.is_daemon(tree.host, 7, NAMES) is believed
    assert (gpus_in_use._user(tree.host, 7, ("0",)) == "") is believed


@pytest.mark.parametrize("numbers, believed", [("", True), ("7", True), ("7\t1", False), ("7\t3\t1", False)])
def test_root_of_a_container_is_no_root_of_the_node(tree, numbers, believed):
    tree.process(7, "slurmd", 0)
    status = tree.root / "proc/7/status"
    status.write_text(status.read_text() + ("NSpid:\t" + numbers + "\n" if numbers else ""))
    assert system.is_daemon(tree.host, 7, ("slurmd",), root=True) is believed
    assert places.running(tree.host) == ([7] if believed else [])
    # A daemon of the driver may run in a container, and a step of a job may have a namespace of its own.
    assert system.is_daemon(tree.host, 7, ("slurmd",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a PID namespace")
def test_a_real_process_of_root_in_a_pid_namespace():
    rename = (
        "import ctypes; libc = ctypes.CDLL(None); libc.prctl(15, b'trial-daemon', 0, 0, 0); "
        "import os; print(os.getpid(), flush=True); input()"
    )
    for command, believed in (([], True), (["unshare", "--pid", "--fork"], False)):
        with subprocess.Popen(
            [*command, sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            told = int(child.stdout.readline())
            pids = [pid for pid in processes.pids(Host()) if processes.name(Host(), pid) == "trial-daemon"]
            assert (told in pids) is believed and len(pids) == 1
            assert system.is_daemon(Host(), pids[0], ("trial-daemon",), root=True) is believed
            child.communicate("\n")


@pytest.mark.parametrize(
    "name, cmdline, uid, running",
    [
        ("slurmd-wlm", "slurmd\0-N\0rack7\0", 0, True),
        ("slurmd-wlm", "/usr/sbin/slurmd\0", 0, True),
        ("slurmd-wlm", "slurmd\0", 1001, False),
        ("slurmd-exporter", "/usr/bin/slurmd-exporter\0slurmd\0", 0, False),
        ("bash", "slurmd\0", 0, False),
        ("other-wlm", "slurmd\0", 0, False),
        ("slurmd-wlm", "", 0, False),
    ],
)
def test_a_slurmd_that_executed_its_file_again_is_slurmd(tree, name, cmdline, uid, running):
    """As slurmd 24.11 of Debian 13 after ``scontrol reconfigure`` (tests/real_slurm)."""
    tree.process(7, name, uid, cmdline=cmdline)
    assert places.running(tree.host) == ([7] if running else [])


def test_the_first_user_is_the_one_of_login_defs(tree):
    tree.process(7, "Xorg", 700)
    assert system.is_daemon(tree.host, 7, NAMES)
    tree.write("etc/login.defs", "UID_MIN 500\n")
    assert not system.is_daemon(tree.host, 7, NAMES)


def test_a_server_of_the_control_daemon_of_root_belongs_to_the_node(tree):
    tree.process(7, "nvidia-cuda-mps", 0)
    tree.process(8, "nvidia-cuda-mps", 1001, parent=7)
    assert system.is_daemon(tree.host, 8, NAMES)
    # That of a user's own control daemon, and one without any, do not.
    tree.process(9, "nvidia-cuda-mps", 1001)
    tree.process(10, "nvidia-cuda-mps", 1001, parent=9)
    tree.process(11, "python", 1001, parent=7)
    tree.process(12, "Xorg", 1001, parent=7)
    assert not any(system.is_daemon(tree.host, pid, NAMES) for pid in (9, 10, 11, 12))


def test_a_user_process_named_slurmstepd_is_not_a_step(tree):
    tree.process(7, "slurmstepd", 1001, cmdline="slurmstepd: [99.0]\0")
    assert list(jobs.steps(tree.host)) == []
    tree.process(8, "slurmstepd", 0, cmdline="slurmstepd: [12.0]\0")
    assert [pid for pid, dummy in jobs.steps(tree.host)] == [8]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_real_process_of_a_user_with_the_name_of_a_daemon():
    rename = (
        "import ctypes, os; libc = ctypes.CDLL(None); os.setuid({0}); libc.prctl(15, b'slurmstepd', 0, 0, 0); "
        "print(1, flush=True); input()"
    )
    for uid, believed in ((54321, False), (0, True)):
        with subprocess.Popen(
            [sys.executable, "-c", rename.format(uid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout.readline() == "1\n"
            assert system.is_daemon(Host(), child.pid, ("slurmstepd",)) is believed
            child.communicate("\n")


def claims(tree, job, pid=7, uid=1001):
    tree.process(pid, "python", uid, environ="A=b\0SLURM_JOB_ID={0}\0".format(job))
    return gpu_processes.described(tree.host, pid, ("0",)).claim


def test_a_job_is_believed_only_from_its_own_user(tree):
    over = jobs.Running(42, 1001)
    jobs.begin(tree.host, jobs.Running(77, 1002))
    jobs.begin(tree.host, jobs.Running(78, 1001))
    assert claims(tree, 77) is None and gpu_processes.job_of(tree.host, 7) is None
    one = gpu_processes.described(tree.host, 7, ("0",))
    assert judge(one, over, (jobs.Running(77, 1002),)).end
    assert claims(tree, 78) == 78 and gpu_processes.job_of(tree.host, 7) == 78
    assert claims(tree, 79) is None
    jobs.end(tree.host, jobs.Running(78, 1001), None)
    assert claims(tree, 78) == 78


@pytest.mark.parametrize(
    "scope", ["sys/fs/cgroup/system.slice/slurmstepd.scope", "sys/fs/cgroup/memory/slurm/uid_1002"]
)
def test_a_job_without_a_note_is_believed_from_a_user_in_its_cgroup(tree, scope):
    tree.write(scope + "/job_77/cgroup.procs", "")
    tree.write(scope + "/job_77/step_0/cgroup.procs", "20\n21\n")
    tree.process(20, "slurmstepd", 0)
    tree.process(21, "python", 1002)
    assert claims(tree, 77) is None
    assert claims(tree, 77, pid=8, uid=1002) == 77


# The single place ---------------------------------------------------------------------------------------------------

_ALONE = "core/processes.py"


def reads_names(text):
    """Lines that read the name of a process or compare a name that was read for a message."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith("comm"):
            if node.value in ("comm", "/comm") or "/proc/" in node.value:
                found.append(node.lineno)
        compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            compared = [node.func.value] if node.func.attr in ("startswith", "endswith") else []
        for one in compared:
            for inner in ast.walk(one):
                if isinstance(inner, ast.Call) and ast.unparse(inner.func).endswith("processes.name"):
                    found.append(inner.lineno)
    return found


def test_no_other_module_compares_the_names_of_processes():
    found = {
        str(path.relative_to(LIBRARY)): reads_names(path.read_text(encoding="utf-8"))
        for path in sorted(LIBRARY.rglob("*.py"))
    }
    assert found.pop(_ALONE)
    found.pop("core/registry.py")  # "comm" is a tag there
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_rule_sees_what_it_forbids():
    assert reads_names('host.read_line("/proc/{0}/comm".format(pid)) == "Xorg"')
    assert reads_names('host.read(folder + "/comm")')
    assert reads_names("processes.name(host, pid) in NAMES")
    assert reads_names('processes.name(host, pid).startswith("slurmstepd")')
    assert not reads_names('told = "process " + processes.name(host, pid)')
