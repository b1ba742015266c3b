# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files in a directory of another user, and writers that fail or are killed at each step."""

from __future__ import annotations

import errno
import os
import signal
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files, safe_files
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.tests.unit import forked

OLD, NEW = MARKER + "\nold\n", MARKER + "\nnew\n"
CALLS = ("open", "write", "fchmod", "fchown", "fsync", "replace")


@pytest.fixture
def swapped(tmp_path, monkeypatch):
    """The owner of the directory puts something else in place of the file after it was looked at."""
    (tmp_path / "gpu.prom").write_text(OLD)

    def swap(make):
        look = managed_files.apply.__globals__["look"]

        def looked(host, path):
            found = look(host, path)
            (tmp_path / "gpu.prom").unlink()
            make(tmp_path / "gpu.prom")
            return found

        monkeypatch.setitem(managed_files.apply.__globals__, "look", looked)
        return managed_files.write_beside(Host("/"), str(tmp_path / "gpu.prom"), NEW)

    return swap


def test_a_link_in_place_of_the_file_redirects_nothing(swapped, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("secret\n")
    assert swapped(lambda path: path.symlink_to(victim)) is None
    assert victim.read_text() == "secret\n"
    assert (tmp_path / "gpu.prom").read_text() == NEW and not (tmp_path / "gpu.prom").is_symlink()


@pytest.mark.parametrize("link", [False, True])
def test_a_fifo_blocks_neither_reader_nor_writer(tmp_path, monkeypatch, link):
    fifo, path = tmp_path / "fifo", tmp_path / "gpu.prom"
    os.mkfifo(fifo)
    path.symlink_to(fifo) if link else fifo.rename(path)
    found = os.stat(__file__)
    signal.alarm(10)
    try:
        if not link:  # it was a file when it was looked at
            monkeypatch.setattr(os, "lstat", lambda dummy: found)
        assert managed_files.look(Host("/"), str(path)).text == ""
        monkeypatch.undo()
        assert "is not ours" in managed_files.write_beside(Host("/"), str(path), NEW)
    finally:
        signal.alarm(0)


def test_a_foreign_file_stays(tmp_path):
    (tmp_path / "gpu.prom").write_text("mine\n")
    assert "is not ours" in managed_files.write_beside(Host("/"), str(tmp_path / "gpu.prom"), NEW)
    assert (tmp_path / "gpu.prom").read_text() == "mine\n"


def test_a_file_that_another_user_owned_belongs_to_the_writer_afterwards(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / "gpu.prom"
    path.write_text(OLD)
    os.chown(path, 12345, 12345)
    path.chmod(0o666)
    assert managed_files.write_beside(Host("/"), str(path), NEW) is None
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (os.geteuid(), 0o644)


WRITER = """
import os, signal, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import managed_files, safe_files
way, call, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def faulty(real):
    def act(*given, **more):
        global count
        count -= 1
        if count != 0:
            return real(*given, **more)
        if number == 0:
            real(*given, **more)
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(number, os.strerror(number))
    return act
if call == "write":
    fdopen = os.fdopen
    class Stream:
        def __init__(self, stream): self.stream = stream; self.write = faulty(stream.write)
        def __enter__(self): return self
        def __exit__(self, *given): self.stream.close()
        def __getattr__(self, name): return getattr(self.stream, name)
    safe_files.os.fdopen = lambda *given, **more: Stream(fdopen(*given, **more))
else:
    setattr(os, call, faulty(getattr(os, call)))
text = "%s\\nnew %s\\n" % (managed_files.MARKER, "x" * 20000)
if way == "state":
    Host("/").write("state", text, 0o600)
else:
    print(managed_files.write_beside(Host("/"), "state", text) or "")
"""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, 0], ids=["full", "I/O error", "killed"])
@pytest.mark.parametrize("way", ["state", "beside"])
def test_a_writer_that_fails_or_is_killed_leaves_the_old_or_the_new_file(tmp_path, way, number):
    path = tmp_path / "state"
    faults = 0
    for call in CALLS:
        for count in (1, 2):
            path.write_text(OLD)
            argv = [
                sys.executable,
                "-c",
                WRITER.replace('"state"', repr(str(path)), 0),
                way,
                call,
                str(number),
                str(count),
            ]
            text = WRITER.replace('write("state"', "write({0!r}".format(str(path)))
            argv[2] = text.replace('Host("/"), "state"', 'Host("/"), {0!r}'.format(str(path)))
            done = forked.run(argv, capture_output=True, text=True)
            new = path.read_text() != OLD
            assert not new or path.read_text().endswith("x\n")
            if number:  # the old file stays, or its writer says nothing
                assert new or "it could not be" in done.stdout + done.stderr or call == "open"
                assert os.listdir(tmp_path) == ["state"]
            faults += done.returncode != 0 or bool(done.stdout.strip())
            # The next writer removes what a killed one left.
            Host("/").write(str(path), OLD)
            assert os.listdir(tmp_path) == ["state"] and path.read_text() == OLD
    assert faults >= 6


def test_the_temporary_file_of_a_living_writer_is_not_removed(tmp_path):
    path = tmp_path / "state"
    directory = os.open(tmp_path, os.O_RDONLY)
    with safe_files.replaced_in(directory, "state", 0o644) as stream:
        stream.write(b"first")
        Host("/").write(str(path), "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and os.listdir(tmp_path) == ["state"]
    os.close(directory)


def test_a_full_file_system_gives_a_message(tmp_path, monkeypatch):
    monkeypatch.setattr(
        safe_files, "_temporary", lambda *dummy: (one for one in ()).throw(OSError(errno.ENOSPC, "full"))
    )
    with pytest.raises(NodeError, match="free some space"):
        Host("/").write(str(tmp_path / "state"), "x")


def test_a_temporary_file_that_another_node_writes_stays(tmp_path, monkeypatch):
    """As on a file system whose locks are local to a node: the lock of the other writer does not count here."""
    monkeypatch.setattr(safe_files.fcntl, "flock", lambda *dummy: None)
    directory = os.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        monkeypatch.setattr(safe_files, "_node", lambda: "0" * 8)
        with safe_files.replaced_in(directory, "gpu.json", 0o644) as other:
            other.write(b"other node")
            monkeypatch.setattr(safe_files, "_node", lambda: "f" * 8)
            with safe_files.replaced_in(directory, "gpu.json", 0o644) as own:
                own.write(b"this node")
        assert (tmp_path / "gpu.json").read_bytes() == b"other node"
    finally:
        os.close(directory)
    assert os.listdir(str(tmp_path)) == ["gpu.json"]


@pytest.mark.parametrize("node, hours, left", [("0", 23, True), ("0", 25, False), ("f", 0, False)])
def test_a_temporary_file_of_a_killed_writer_of_another_node_goes_after_a_day(tmp_path, monkeypatch, node, hours, left):
    monkeypatch.setattr(safe_files, "_node", lambda: "f" * 8)
    path = tmp_path / ".gpu.json.{0}{1}".format(node * 8, "a" * 8)
    path.write_text("half")
    written = os.stat(str(path)).st_mtime - 3600 * hours
    os.utime(str(path), (written, written))
    directory = os.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with safe_files.replaced_in(directory, "gpu.json", 0o644):
            pass
    finally:
        os.close(directory)
    assert path.exists() == left
