# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many nodes are asked side by side, with an ssh that is a shell."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond import others

SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
echo "+ $$ $1" >>LOG
case $1 in
    gone) exit 255 ;;
    without) exit 1 ;;
    hangs) sleep 600 ;;
    *) sleep 1; echo "note of $1" ;;
esac
echo "- $$ $1" >>LOG
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    program, log = tmp_path / "ssh", tmp_path / "log"
    program.write_text(SSH.replace("LOG", str(log)))
    program.chmod(0o755)
    log.write_text("")
    monkeypatch.setenv("PATH", "{0}:{1}".format(tmp_path, os.environ["PATH"]))
    return log


def ask(nodes, seconds=60.0):
    return others.ask(Host("/"), "/x", nodes, time.monotonic() + seconds)


def test_seventy_nodes_are_asked_side_by_side_and_never_more_than_thirty_two(ssh):
    nodes = ["gpu{0}".format(number) for number in range(70)]
    before = time.monotonic()
    found = ask(nodes)
    seconds = time.monotonic() - before
    assert {node: one.text for node, one in found.items()} == {node: "note of {0}\n".format(node) for node in nodes}
    now, most = 0, 0
    for line in ssh.read_text().splitlines():
        now += 1 if line.startswith("+") else -1
        most = max(most, now)
    assert 8 < most <= 32
    assert seconds < 35  # one after another: 70 s and more; three rounds take three


def test_one_that_hangs_is_ended_and_holds_up_no_other(ssh, monkeypatch):
    monkeypatch.setattr(others, "_SSH_SECONDS", 3.0)
    found = ask(["hangs", "gone", "without", "gpu1"])
    assert found["gpu1"].text == "note of gpu1\n"
    assert found["hangs"].wrong == "ssh to it takes longer than 3 s"
    assert found["gone"].wrong == "ssh to it fails" and found["without"] == others.Answer()
    pid = next(line.split()[1] for line in ssh.read_text().splitlines() if line.endswith(" hangs"))
    assert not os.path.exists("/proc/" + pid)


def test_all_is_over_at_the_deadline_whoever_was_not_asked(ssh):
    before = time.monotonic()
    assert ask(["hangs"] * 40, 1.0) == {}
    assert time.monotonic() - before < 8
    pids = [line.split()[1] for line in ssh.read_text().splitlines()]
    assert pids and not [pid for pid in pids if os.path.exists("/proc/" + pid)]


def test_without_ssh_it_says_so(monkeypatch):
    monkeypatch.setattr(Host, "which", lambda self, program: None)
    with pytest.raises(NodeError, match="ssh is not installed"):
        ask(["gpu1"])
