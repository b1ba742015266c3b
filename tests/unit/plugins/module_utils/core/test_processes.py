# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading /proc: hostile names, files that are cut short, PIDs that are used again; and who else reads it."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts, open_files, processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host

LIBRARY = Path(__file__).resolve().parents[5] / "plugins" / "module_utils"
HERE = Host()


@pytest.fixture
def child():
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


# Parsers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a) R 1 (b", ") S 0 ", "((", "a\nb", "a) Z 1\nUid:\t0\t0\t0\t0", "\x1b[2J", "x\u2028y", ""]
)
def test_a_real_process_with_a_hostile_name_is_read_as_any_other(child, name):
    code = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        found = processes.stat(HERE, process.pid)
        assert found.state in ("S", "R", "D") and found.number(processes.PPID) == os.getpid()
        assert found.name.encode("utf-8", "surrogateescape") == name.encode()[:15]
        assert processes.uids(HERE, process.pid) == (os.getuid(),) * 4
        assert processes.start_time(HERE, process.pid) == found.number(processes.STARTTIME) > 0
        process.communicate("\n")


@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_content_of_a_file_of_proc_crashes_a_reader(tmp_path_factory, content, length):
    root = tmp_path_factory.getbasetemp() / "any_proc"
    folder = root / "proc" / "7"
    (folder / "task" / "7" / "fd").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "sys" / "kernel" / "random").mkdir(parents=True, exist_ok=True)
    for file in ("stat", "status", "cmdline", "environ", "cgroup", "limits", "maps", "comm", "wchan", "mountinfo"):
        (folder / file).write_bytes(content[:length])
    for file in ("stat", "uptime", "swaps", "sys/kernel/random/boot_id"):
        (root / "proc" / file).write_bytes(content[:length])
    host = Host(str(root))
    processes.stat(host, 7)
    processes.start_time(host, 7)
    for reader in (processes.uids, processes.cmdline, processes.environ, processes.limits, processes.name):
        reader(host, 7)
    processes.ancestors(host, 7)
    processes.waits_in(host, 7)
    processes.pod(processes.cgroup(host, 7))
    processes.container(processes.cgroup(host, 7))
    open_files.mapped(host, 7)
    mounts.read(host, 7)
    mounts.swaps(host)
    for reader in (processes.boot_id, processes.boot_time, processes.uptime):
        reader(host)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)))
def test_the_words_of_a_command_line_are_as_they_were_given(tmp_path_factory, words):
    folder = tmp_path_factory.getbasetemp() / "words" / "proc" / "7"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cmdline").write_bytes("".join(one + "\0" for one in words).encode())
    assert processes.cmdline(Host(str(folder.parents[1])), 7) == words


@pytest.mark.parametrize("path", ["/a/b c", "/a/b\rc", "/a/b\x0bc", "/a/b\u2028c (deleted)"])
def test_a_mapped_file_has_any_name(tmp_path, path):
    folder = tmp_path / "proc" / "7"
    folder.mkdir(parents=True)
    line = "7f00-7f01 r-xp 00000000 08:01 131 {0}{1}\n7f02-7f03 rw-p 00000000 00:00 0\n"
    (folder / "maps").write_bytes(line.format(" " * 20, path).encode())
    assert open_files.mapped(Host(str(tmp_path)), 7) == [path]


def test_of_two_variables_with_one_name_the_first_counts():
    assert processes.parse_environ("A=1\0B\0A=2\0C=x=y\0=z\0") == {"A": "1", "C": "x=y", "": "z"}


POD = "6b3f9d3e-0a6b-4f0e-9f3f-2c9f6c1d7e8a"


@pytest.mark.parametrize(
    "text, pod, container",
    [
        (
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{1}.slice/cri-containerd-{2}.scope\n",
            True,
            True,
        ),
        ("12:memory:/kubepods/burstable/pod{0}/{2}\n", True, True),
        ("0::/kubepods/pod{0}\n", True, False),
        ("0::/system.slice/docker-{2}.scope\n", False, True),
        ("0::/system.slice/sshd.service\n", False, False),
        ("0::/x/tripod{0}y/z\n", False, False),
    ],
)
def test_pods_and_containers_by_cgroup(text, pod, container):
    text = text.format(POD, POD.replace("-", "_"), "0f" * 32)
    assert processes.pod(text) == (POD if pod else "")
    assert processes.container(text) == ("0f" * 6 if container else "")


def test_the_boot():
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", processes.boot_id(HERE))
    assert abs(processes.boot_time(HERE) + processes.uptime(HERE) - time.time()) < 5.0


# Processes that end -----------------------------------------------------------------------------------


def test_what_has_ended_has_nothing(child):
    one = (child.pid, processes.start_time(HERE, child.pid))
    assert processes.alive(HERE, one)
    child.kill()
    assert processes.left_after(HERE, [one], 10.0) == []  # a zombie: nobody has waited for it
    assert processes.stat(HERE, child.pid).ended
    child.wait()
    assert (processes.stat(HERE, child.pid), processes.uids(HERE, child.pid)) == (None, ())
    assert (processes.cmdline(HERE, child.pid), processes.environ(HERE, child.pid)) == ([], {})
    assert open_files.of_process(HERE, child.pid) == (set(), True, 0)


def test_a_signal_reaches_the_process_and_no_other_one_with_its_pid(child):
    start = processes.start_time(HERE, child.pid)
    assert not processes.send(HERE, (child.pid, start - 1), signal.SIGKILL)
    assert child.poll() is None
    assert processes.send(HERE, (child.pid, start), signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM
    assert not processes.send(HERE, (child.pid, start), signal.SIGTERM)


def test_a_pid_that_is_used_again_between_the_look_and_the_signal_gets_none(child, monkeypatch):
    """The process ends after its start time was compared; another one takes its number."""
    one = (child.pid, processes.start_time(HERE, child.pid))
    sent, kill = [], os.kill
    monkeypatch.setattr(os, "kill", lambda *words: sent.append(words))

    def ends_right_after(host, which):
        kill(child.pid, signal.SIGKILL)
        child.wait()
        return True

    monkeypatch.setattr(processes, "alive", ends_right_after)
    assert not processes.send(HERE, one, signal.SIGTERM)
    assert sent == []


def test_without_pidfd_the_start_time_is_compared(child, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    start = processes.start_time(HERE, child.pid)
    assert not processes.send(HERE, (child.pid, start + 1), signal.SIGTERM)
    assert processes.send(HERE, (child.pid, start), signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM


def test_each_thread_with_its_own_name():
    ready, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (ready.set(), leave.wait()))
    thread.start()
    ready.wait()
    try:
        assert set(processes.tids(HERE, "self")) >= {os.getpid(), thread.native_id}
        assert processes.stat(HERE, os.getpid(), thread.native_id).number(processes.PPID) == os.getppid()
    finally:
        leave.set()
        thread.join()


# The only readers -------------------------------------------------------------------------------------

READERS = ("core/processes.py", "core/open_files.py", "core/mounts.py")
# Why each other module may: by name of the file, what it opens.
EXCEPTIONS = {
    "checkpoints/launch.py": ("/proc/{0}/mem",),  # it writes to the memory of the child that it traces
    "core/safe_files.py": ("/proc/sys/kernel/random/boot_id",),  # Host is built on it, and the readers on Host
    "health/active/scratch.py": ("/proc/{0}/fd/{1}",),  # a name for its own file, which fio opens
    "node/diagnose/parts.py": ("/proc/uptime", "/proc/self/mountinfo"),  # copied into the archive as they are
    "placement/running/choose.py": ("/proc",),  # the mount point
    "resources/nvme_scratch/options.py": ("/proc/",),  # a mount point that is refused
    "resources/node_runtime/launcher.py": ("/proc/self/exe",),  # a default for the path of Python
}
_PROCESS = re.compile(r"/proc/?$|/proc/(?:self|thread-self|\d+|\{[^{}]*\}|%[sd])(?:/(?!fd\b)|/?$)|/proc/\{[^{}]*\}/fd")
_KERNEL = re.compile(r"/boot_id$|/proc/(?:uptime|mounts|swaps|stat)$|mountinfo$")


def reads(text):
    """The strings of a module that name a file of a process, of the boot or of the mounts, without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [one for one in strings if " " not in one and (_PROCESS.match(one) or _KERNEL.search(one))]


def test_no_other_module_reads_processes_the_boot_or_mounts():
    found = {
        str(path.relative_to(LIBRARY)): reads(path.read_text(encoding="utf-8"))
        for path in sorted(LIBRARY.rglob("*.py"))
    }
    assert all(found.pop(one) for one in READERS)
    assert {path: tuple(strings) for path, strings in found.items() if strings} == EXCEPTIONS


@pytest.mark.parametrize(
    "text",
    [
        'host.names("/proc")',
        'os.listdir(host.path("/proc/"))',
        'host.read("/proc/{0}/cmdline".format(pid))',
        'host.read("/proc/" + pid + "/stat")',
        'host.read(f"/proc/{pid}/environ")',
        'host.read("/proc/self/status")',
        'folder = "/proc/{0}".format(pid)',
        'os.listdir("/proc/{0}/fd".format(pid))',
        'host.read_line("/proc/sys/kernel/random/boot_id")',
        'host.read("/proc/uptime")',
        'host.read(folder + "/mountinfo")',
        'open("/proc/mounts")',
        'host.read("/proc/stat")',
    ],
)
def test_the_rule_detects_what_it_forbids(text):
    assert reads(text)


@pytest.mark.parametrize("text", ['host.read("/proc/meminfo")', '"/proc/self/fd/{0}"', '"""Of /proc/PID/stat."""'])
def test_the_rule_permits_other_files(text):
    assert not reads(text)
