# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a device open: real processes, devices by number, and what the kernel holds without a process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import openers, proof
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Content, Disk

NUMBER = (259, 1)
DISK = Disk("nvme0n1", "S0", "M", 64 << 20)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A /proc with chosen processes of this machine; a file named *.block counts as the device 259:1."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "dev").mkdir()
    monkeypatch.setattr(openers, "PAUSE_SECONDS", 0.01)
    real = openers.block_device

    def block_device(path):
        return NUMBER if os.path.realpath(path).endswith(".block") else real(path)

    monkeypatch.setattr(openers, "block_device", block_device)
    return tmp_path


def holding(machine, path, mode="rb", name=None):
    """A process that has it open, and is seen by the machine."""
    lines = ["import sys, time", "stream = open(sys.argv[1], sys.argv[2])"]
    if name is not None:
        lines.append("open('/proc/self/comm', 'w').write({0!r})".format(name))
    lines += ["print(1, flush=True)", "time.sleep(60)"]
    process = subprocess.Popen([sys.executable, "-c", "\n".join(lines), str(path), mode], stdout=subprocess.PIPE)
    process.stdout.readline()
    (machine / "proc" / str(process.pid)).symlink_to("/proc/{0}".format(process.pid))
    return process


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_a_process_that_has_it_open_is_named_however_it_opened_it(machine, mode):
    device = machine / "a.block"
    device.write_bytes(b"")
    process = holding(machine, device, mode)
    try:
        found = openers.look(Host(str(machine)), {"nvme0n1": NUMBER, "nvme1n1": (259, 2)})
        assert found["nvme1n1"] == ()
        (who,) = found["nvme0n1"]
        assert who.startswith("process {0} (python".format(process.pid))
    finally:
        process.kill()
        process.communicate()
    (machine / "proc" / "1x").write_text("")
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) == {"nvme0n1": ()}


HIDING = {
    "its first thread has ended": """
threading.Thread(target=lambda: (print(1, flush=True), time.sleep(60))).start()
ctypes.CDLL(None).pthread_exit(None)
""",
    "a thread has a table of its own": """
def alone():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    own.set()
    time.sleep(60)
own = threading.Event()
threading.Thread(target=alone).start()
own.wait()
stream.close()
print(1, flush=True)
time.sleep(60)
""",
}


@pytest.mark.parametrize("how", sorted(HIDING))
def test_a_thread_that_has_it_open_is_seen_where_the_process_shows_nothing(machine, how):
    device = machine / "a.block"
    device.write_bytes(b"")
    code = "import ctypes, sys, threading, time\nstream = open(sys.argv[1], 'rb')\n" + HIDING[how]
    process = subprocess.Popen([sys.executable, "-c", code, str(device)], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"1\n"
        (machine / "proc" / str(process.pid)).symlink_to("/proc/{0}".format(process.pid))
        found = openers.look(Host(str(machine)), {"nvme0n1": NUMBER})
        assert found is not None and len(found["nvme0n1"]) == 1
    finally:
        process.kill()
        process.communicate()


def test_a_first_thread_that_ends_while_it_is_looked_at_hides_nothing_of_the_others(machine, monkeypatch):
    for thread in ("10", "11"):
        (machine / "proc/10/task" / thread / "fd").mkdir(parents=True)
        (machine / "proc/10/task" / thread / "fd/3").write_text("")

    def ends(path):
        if "/task/10/" not in path:
            return NUMBER
        os.unlink(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(openers, "block_device", ends)
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) == {"nvme0n1": ("process 10 (?)",)}


def test_the_name_that_a_process_gives_itself_is_shown_without_what_could_do_harm(machine):
    device = machine / "a.block"
    device.write_bytes(b"")
    process = holding(machine, device, name="\x1b[31mx\ny'")
    try:
        found = openers.look(Host(str(machine)), {"nvme0n1": NUMBER})
        assert found == {"nvme0n1": ("process {0} (??31mx?y?)".format(process.pid),)}
    finally:
        process.kill()
        process.communicate()


def test_a_probe_of_a_moment_is_waited_for(machine, monkeypatch):
    device = machine / "a.block"
    device.write_bytes(b"")
    process = holding(machine, device)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        process.kill()
        process.communicate()

    monkeypatch.setattr(openers.time, "sleep", pause)
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) == {"nvme0n1": ()}
    assert len(pauses) == 1


def test_a_process_that_may_not_be_asked_makes_the_answer_unknown(machine, monkeypatch):
    (machine / "proc" / str(os.getpid())).symlink_to("/proc/self")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(openers, "block_device", refuse)
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) is None


@pytest.mark.parametrize("namespace, known", [("pid:[4026531836]", True), ("pid:[4026532301]", False)])
def test_where_processes_of_others_are_hidden_the_answer_is_unknown(machine, namespace, known):
    """A container without the host's PID namespace lists its own processes only, and root may ask all of them."""
    (machine / "proc" / "self" / "ns").mkdir(parents=True)
    (machine / "proc" / "self" / "ns" / "pid").symlink_to(namespace)
    assert (openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) is not None) is known


def test_the_search_ends_in_time_and_then_the_answer_is_unknown(machine, monkeypatch):
    (machine / "proc" / str(os.getpid())).symlink_to("/proc/self")
    monkeypatch.setattr(openers, "LIMIT_SECONDS", -1.0)
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) is None


def test_a_process_that_ends_meanwhile_holds_nothing(machine):
    (machine / "proc" / "4194303").mkdir()
    (machine / "proc" / "4194302" / "fd").mkdir(parents=True)
    (machine / "proc" / "4194302" / "fd" / "5").symlink_to("/gone")
    assert openers.look(Host(str(machine)), {"nvme0n1": NUMBER}) == {"nvme0n1": ()}


def test_a_loop_device_and_an_nvme_target_hold_it_without_a_process(machine):
    (machine / "dev/nvme0n1.block").write_bytes(b"")
    for path in (
        "sys/block/loop3/loop/backing_file",
        "sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1/device_path",
    ):
        (machine / path).parent.mkdir(parents=True)
        (machine / path).write_text("/dev/nvme0n1.block\n")
    (machine / "sys/block/loop4/loop").mkdir(parents=True)
    (machine / "sys/block/loop4/loop/backing_file").write_text("/home/image.block\n")
    found = openers.look(Host(str(machine)), {"nvme0n1": NUMBER})
    assert found == {"nvme0n1": ("NVMe target nqn.x", "loop3")}


def test_devices_are_known_by_number_as_the_kernel_tells_it():
    nodes = [os.path.join("/dev", name) for name in os.listdir("/dev")]
    blocks = [path for path in nodes if stat.S_ISBLK(os.lstat(path).st_mode)]
    for path in blocks:
        found = os.stat(path).st_rdev
        assert openers.block_device(path) == (os.major(found), os.minor(found))
    assert openers.block_device("/dev/null") is None and openers.block_device(__file__) is None
    with pytest.raises(FileNotFoundError):
        openers.block_device("/dev/there-is-no-such-thing")


def test_without_statx_the_answer_is_the_same(monkeypatch):
    monkeypatch.setattr(openers, "_statx", None)
    test_devices_are_known_by_number_as_the_kernel_tells_it()


# The two together ---------------------------------------------------------------------------------------


@pytest.fixture
def disk(machine):
    (machine / "sys/class/block/nvme0n1").mkdir(parents=True)
    (machine / "sys/class/block/nvme0n1/dev").write_text("259:1\n")
    with open(str(machine / "dev/nvme0n1"), "wb") as stream:
        stream.truncate(DISK.size_bytes)
    return Host(str(machine))


def test_a_blank_disk_gets_its_proof_and_data_in_its_middle_are_seen(disk, machine):
    (found,) = proof.complete(disk, [DISK], [])
    assert found.openers == () and found.content.other_at is None and found.read_error is None
    proof.demand(disk, [("/dev/nvme0n1", DISK.size_bytes, "disk S0")])
    with open(str(machine / "dev/nvme0n1"), "r+b") as stream:
        stream.seek(DISK.size_bytes // 2)
        stream.write(b"data" * 100_000)
    (found,) = proof.complete(disk, [DISK], [])
    assert DISK.size_bytes // 2 <= found.content.other_at < DISK.size_bytes // 2 + 400_000
    with pytest.raises(NodeError, match=r"disk S0: it is not blank any more \(byte 3"):
        proof.demand(disk, [("/dev/nvme0n1", DISK.size_bytes, "disk S0")])


def test_what_cannot_be_read_or_asked_is_not_blank(disk, machine):
    os.truncate(str(machine / "dev/nvme0n1"), 4096)
    (found,) = proof.complete(disk, [DISK], [])
    assert found.content is None and "it ends at byte" in found.read_error
    os.unlink(str(machine / "sys/class/block/nvme0n1/dev"))
    (found,) = proof.complete(disk, [DISK], [])
    assert found.openers is None
    os.truncate(str(machine / "dev/nvme0n1"), DISK.size_bytes)
    with pytest.raises(NodeError, match="could not be found out whether a process holds it open"):
        proof.demand(disk, [("/dev/nvme0n1", DISK.size_bytes, "disk S0")])


def test_a_disk_that_hangs_costs_only_itself(disk, machine, monkeypatch):
    (machine / "dev/nvme1n1").write_bytes(bytes(1 << 20))
    look = proof.samples.look

    def hang(path, size_bytes):
        return look(path, size_bytes) if path.endswith("nvme1n1") else subprocess.run(["sleep", "9"], check=True)

    monkeypatch.setattr(proof.samples, "look", hang)
    monkeypatch.setattr(proof, "LIMIT_SECONDS", 0.5)
    found = proof.contents(disk, {"nvme0n1": 1 << 20, "nvme1n1": 1 << 20})
    assert found["nvme0n1"] == "reading it did not end within 0.5 s"
    assert found["nvme1n1"] == Content(1 << 20)


def test_only_what_could_be_blank_is_read_and_a_disk_beneath_a_mount_is_not_asked_for(disk, monkeypatch):
    asked = []
    monkeypatch.setattr(proof, "contents", lambda host, sizes: asked.append(sorted(sizes)) or {})
    monkeypatch.setattr(openers, "look", lambda host, numbers: asked.append(sorted(numbers)) or {})
    used = Disk("nvme0n1", "S0", "M", 64 << 20, holders=("md127",))
    assert proof.complete(disk, [used], ["nvme0n1"]) == (used,) and asked == []
    proof.complete(disk, [used], [])
    assert asked == [["nvme0n1"], []]
