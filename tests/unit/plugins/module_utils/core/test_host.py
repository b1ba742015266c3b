# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, commands and locks of a real machine: the one the test runs on."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path):
    path = tmp_path / "folder" / "file"
    Host(str(tmp_path)).write("/folder/file", "one\n", mode=0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    Host(str(tmp_path)).write("/folder/file", "two\n", mode=0o644)
    assert path.read_text() == "two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(str(path.parent)) == ["file"], "a temporary file was left"


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    Host(str(tmp_path)).write("/link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_bytes_that_are_no_utf8_survive_reading_and_writing(tmp_path):
    (tmp_path / "odd").write_bytes(b"caf\xe9\n")
    host = Host(str(tmp_path))
    host.write("/odd", host.read("/odd"))
    assert (tmp_path / "odd").read_bytes() == b"caf\xe9\n"


def test_a_place_that_takes_no_file_is_one_sentence():
    with pytest.raises(NodeError, match=r"^/proc/gpu_node_test: it could not be written \(.*\); .+\.$"):
        Host().write("/proc/gpu_node_test", "text")


def test_a_command_that_cannot_be_killed_is_left_behind(monkeypatch):
    """As one in state D: its disk does not answer, and neither would a run that waited for it."""
    monkeypatch.setattr(subprocess.Popen, "kill", lambda child: None)
    began = time.monotonic()
    with pytest.raises(NodeError, match="did not end within 0.2 s"):
        Host().run(["sleep", "6"], timeout_seconds=0.2)
    assert time.monotonic() - began < 4


def test_a_file_that_is_written_anew_must_not_be_taken_for_missing(tmp_path):
    host = Host(str(tmp_path))
    assert host.read_or_fail("/fstab") is None
    (tmp_path / "fstab").write_text("a\r\n")
    assert host.read_or_fail("/fstab") == "a\r\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(NodeError, match=r"^/folder: it cannot be read \(Is a directory\); correct that"):
        host.read_or_fail("/folder")


def test_a_missing_file_reads_as_none_and_a_missing_folder_as_empty(tmp_path):
    host = Host(str(tmp_path))
    assert host.read("/missing") is None
    assert host.names("/missing") == []
    host.remove("/missing")


def test_a_command_has_no_terminal_and_speaks_english():
    done = Host().run(["sh", "-c", "cat; echo $LC_ALL"])
    assert done.stdout == "C\n"


def test_a_failing_command_is_quoted():
    with pytest.raises(NodeError, match="ended with status 3: no such disk"):
        Host().run(["sh", "-c", "echo no such disk >&2; exit 3"])
    assert Host().run(["sh", "-c", "exit 3"], accept=(0, 3)).returncode == 3


def test_a_command_that_hangs_is_given_up():
    with pytest.raises(NodeError, match="did not end within 0.2 s"):
        Host().run(["sleep", "60"], timeout_seconds=0.2)


def test_a_missing_program_is_named():
    with pytest.raises(NodeError, match="no-such-program: this program is not installed"):
        Host().run(["no-such-program"])


def _hold(root, started, release):
    with Host(root).lock("scratch"):
        started.set()
        release.wait(30)


def test_two_runs_take_turns_and_a_dead_holder_holds_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    started, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), started, release))
    holder.start()
    assert started.wait(30)
    with pytest.raises(NodeError, match="another run has been working on it for 0.3 s"):
        with Host(str(tmp_path)).lock("scratch", timeout_seconds=0.3):
            pass
    holder.kill()
    holder.join()
    with Host(str(tmp_path)).lock("scratch", timeout_seconds=5):
        pass
