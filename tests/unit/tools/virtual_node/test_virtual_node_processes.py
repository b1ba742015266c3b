# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks, and the supervisor with a stand-in for QEMU: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from virtual_machine import places
from virtual_machine.node import Node, sweep
from virtual_machine.supervisor import process_started

TOOL = str(places.TOOL)


def wait_until(condition: object, what: str) -> None:
    end = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Started:
    def __init__(self, folder: Path, owner: int) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "qemu.json").write_text(json.dumps(["sleep", "60"]))
        command = [sys.executable, "-m", "virtual_machine.supervisor", str(folder), str(owner)]
        environment = dict(os.environ, PYTHONPATH=TOOL, PYTHONDONTWRITEBYTECODE="1")
        self.supervisor = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )

    def pids(self) -> Dict[str, int]:
        path = self.folder / "pids.json"
        wait_until(lambda: path.exists() and path.read_text().endswith("}"), "the supervisor tells its processes")
        found: Dict[str, int] = json.loads(path.read_text())
        return found


@pytest.fixture
def starting() -> Iterator[List[Started]]:
    made: List[Started] = []
    yield made
    for one in made:
        one.supervisor.kill()
        one.supervisor.wait()


def test_the_lock_says_up_while_the_process_runs_and_off_after_it_was_told_to_end(
    tmp_path: Path, starting: List[Started]
) -> None:
    node = Started(tmp_path / "node", 0)
    starting.append(node)
    pids = node.pids()
    assert places.is_locked(node.folder / "running")
    os.kill(pids["supervisor"], signal.SIGTERM)
    node.supervisor.wait(20)
    assert process_started(pids["qemu"]) is None
    assert not places.is_locked(node.folder / "running")


def test_the_process_ends_when_its_owner_ends(tmp_path: Path, starting: List[Started]) -> None:
    owner = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    node = Started(tmp_path / "node", owner.pid)
    starting.append(node)
    pids = node.pids()
    owner.kill()
    owner.wait()
    wait_until(lambda: process_started(pids["qemu"]) is None, "the process ends after its owner")


def test_the_process_ends_when_its_folder_is_gone(tmp_path: Path, starting: List[Started]) -> None:
    node = Started(tmp_path / "node", 0)
    starting.append(node)
    pids = node.pids()
    node.folder.rename(tmp_path / "elsewhere")
    wait_until(lambda: process_started(pids["qemu"]) is None, "the process ends after its folder")


def test_the_process_ends_when_the_supervisor_is_killed(tmp_path: Path, starting: List[Started]) -> None:
    node = Started(tmp_path / "node", 0)
    starting.append(node)
    pids = node.pids()
    os.kill(pids["supervisor"], signal.SIGKILL)
    wait_until(lambda: process_started(pids["qemu"]) is None, "the kernel ends the process of a killed supervisor")


def test_an_owner_that_has_ended_already_starts_nothing(tmp_path: Path, starting: List[Started]) -> None:
    owner = subprocess.Popen(["true"], stdin=subprocess.DEVNULL)
    owner.wait()
    node = Started(tmp_path / "node", owner.pid)
    starting.append(node)
    assert node.supervisor.wait(20) == 1
    assert not (node.folder / "pids.json").exists()


def test_a_second_supervisor_of_the_same_node_gives_way(tmp_path: Path, starting: List[Started]) -> None:
    node = Started(tmp_path / "node", 0)
    starting.append(node)
    node.pids()
    command = [sys.executable, "-m", "virtual_machine.supervisor", str(node.folder), "0"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=TOOL), check=False)
    assert done.returncode == 1
    assert "running already" in done.stderr


def test_a_lock_lets_one_process_in_at_a_time_even_when_its_file_is_removed(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    script = (
        "import sys, time; sys.path.insert(0, {0!r})\n"
        "from pathlib import Path\nfrom virtual_machine import places\n"
        "lock, counter = Path({1!r}), Path({2!r})\n"
        "for _ in range(5):\n"
        "    with places.lock(lock, 'a test'):\n"
        "        number = int(counter.read_text()); time.sleep(0.01)\n"
        "        counter.write_text(str(number + 1)); lock.unlink()\n"
    ).format(TOOL, str(tmp_path / "lock"), str(counter))
    writers = [subprocess.Popen([sys.executable, "-B", "-c", script], stdin=subprocess.DEVNULL) for dummy in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert counter.read_text() == "20"


def test_files_of_a_node_whose_owner_is_gone_are_removed_and_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_NODE_STATE", str(tmp_path))
    ended = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    was = {"pid": ended.pid, "started": process_started(ended.pid)}
    ended.kill()
    ended.wait()
    mine = {"pid": os.getpid(), "started": process_started(os.getpid())}
    for run, owner in (("gone", was), ("here", mine), ("nobody", {})):
        (tmp_path / run / "node").mkdir(parents=True)
        (tmp_path / run / "node" / "owner.json").write_text(json.dumps(owner))
    sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "nobody"]


def test_a_crash_of_the_guests_kernel_is_read_off_its_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "nodes", lambda run: tmp_path)
    node = Node("run", "a")
    assert node.kernel_crashes() == []
    node.folder.mkdir()
    (node.folder / "console.log").write_text(
        "\x1bc\x1b[?7lBooting from ROM..\n\x1b[!p\x1b]104\x07\x1b[?7h[   15.055506] Oops: int3: 0000 [#1] PREEMPT\r\n"
        "[   15.056475] CPU: 2 UID: 0 PID: 0\r\n[   15.066412] Kernel panic - not syncing: Fatal exception\r\nDebian\n"
    )
    assert node.kernel_crashes() == ["Oops: int3: 0000 [#1] PREEMPT", "Kernel panic - not syncing: Fatal exception"]
