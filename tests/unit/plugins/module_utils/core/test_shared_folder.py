# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes take turns at a folder that they share: real processes, and a table of mounts that says what is shared."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import shared_folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import options, state
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Action, NodeError, Plan, Resource
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run

MOUNTS = """20 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
21 20 0:40 / /shared rw,relatime shared:2 - nfs4 server:/export rw,vers=4.2
"""
# Adds one to a number that many add to, slowly enough to lose some of them without turns.
WORKER = """
import sys, time
sys.path[:0] = {path!r}
from {package}.core import shared_folder
from {package}.core.host import Host

host = Host({root!r})
for _ in range(5):
    with shared_folder.turn(host, "/shared", 60, lambda: True):
        with open({number!r}) as stream:
            value = int(stream.read())
        time.sleep(0.005)
        with open({number!r}, "w") as stream:
            stream.write(str(value + 1))
"""


@pytest.fixture
def host(tmp_path):
    made = Host(str(tmp_path))
    made.write("/proc/self/mountinfo", MOUNTS)
    os.mkdir(str(tmp_path / "shared"))
    return made


def test_what_lies_on_a_network_file_system(host):
    assert shared_folder.on_network(host, ["/opt/hpcx"]) is None
    assert shared_folder.on_network(host, ["/opt/hpcx", "/shared/jobs/a100"]) == "/shared"
    os.makedirs(host.path("/shared/jobs"))
    assert shared_folder.on_network(host, ["/shared/jobs/a100"]) == "/shared/jobs"
    os.symlink(host.path("/shared"), host.path("/jobs"))
    assert shared_folder.on_network(host, ["/jobs"]) == "/jobs"


def test_one_at_a_time(host, tmp_path):
    number = tmp_path / "number"
    number.write_text("0")
    package = shared_folder.__name__.rpartition(".core.")[0]
    path = [one for one in sys.path if one]
    code = WORKER.format(path=path, package=package, root=host.root, number=str(number))
    workers = [subprocess.Popen([sys.executable, "-c", code]) for dummy in range(4)]
    assert [worker.wait(120) for worker in workers] == [0] * 4
    assert number.read_text() == "20" and os.listdir(host.path("/shared")) == []


def test_who_waits_in_vain_is_told_whom_for(host):
    with shared_folder.turn(host, "/shared", 1, lambda: True):
        began = time.monotonic()
        with pytest.raises(NodeError, match="/shared: the node {0} has been writing".format(os.uname().nodename)):
            with shared_folder.turn(host, "/shared", 0.3, lambda: True):
                pass
        assert time.monotonic() - began < 10
        assert os.listdir(host.path("/shared")) == [shared_folder.NAME]


def test_who_has_nothing_to_write_any_more_waits_no_longer_and_ends_nobody_s_turn(host):
    asked = []
    with shared_folder.turn(host, "/shared", 1, lambda: True):
        with shared_folder.turn(host, "/shared", 60, lambda: len(asked) < 2 and not asked.append(1)):
            assert len(asked) == 2
        assert os.listdir(host.path("/shared")) == [shared_folder.NAME]


@pytest.mark.parametrize(
    "age, taken", [(shared_folder.STALE_SECONDS - 60, False), (shared_folder.STALE_SECONDS + 60, True)]
)
def test_the_turn_of_a_node_that_died_ends_with_its_age(host, age, taken):
    path = host.path("/shared/" + shared_folder.NAME)
    host.write("/shared/" + shared_folder.NAME, "gpu07 1\n")
    then = time.time() - age
    os.utime(path, (then, then))
    if taken:
        with shared_folder.turn(host, "/shared", 0.3, lambda: True):
            assert os.uname().nodename in host.read("/shared/" + shared_folder.NAME)
        assert os.listdir(host.path("/shared")) == []
        return
    with pytest.raises(NodeError, match="the node gpu07 has been writing"):
        with shared_folder.turn(host, "/shared", 0.3, lambda: True):
            pass


def test_a_turn_that_came_in_the_place_of_a_stale_one_is_left(host, monkeypatch):
    """Of two nodes that find the same turn stale, the second must not take the first one's new turn away."""
    path = host.path("/shared/" + shared_folder.NAME)
    host.write("/shared/" + shared_folder.NAME, "gone 1 a\n")

    def old(name):  # another node is quicker, just after this one has looked
        monkeypatch.undo()
        host.write("/shared/" + shared_folder.NAME, "quick 2 b\n")
        return shared_folder.STALE_SECONDS + 1

    monkeypatch.setattr(shared_folder, "_age", old)
    with pytest.raises(NodeError, match="the node quick has been writing"), turn(host):
        pass
    with open(path) as stream:
        assert stream.read() == "quick 2 b\n"
    assert os.listdir(os.path.dirname(path)) == [shared_folder.NAME]


def test_who_took_too_long_ends_nobody_else_s_turn(host):
    path = host.path("/shared/" + shared_folder.NAME)
    with turn(host):
        host.write("/shared/" + shared_folder.NAME, "next 2 b\n")
    with open(path) as stream:
        assert stream.read() == "next 2 b\n"


def turn(host):
    return shared_folder.turn(host, "/shared", 0, lambda: True)


def test_a_folder_that_cannot_be_written_is_a_sentence(host):
    os.rmdir(host.path("/shared"))
    with pytest.raises(NodeError, match="/shared: nothing can be written there"):
        with shared_folder.turn(host, "/shared", 1, lambda: True):
            pass


@options
class Wanted:
    present: bool = state("Whether it is there.")


class Write(Action):
    def describe(self):
        return "write"


def test_a_resource_writes_in_its_turn_and_who_comes_after_it_has_nothing_to_do(host):
    seen = []

    def step(at, action, desired):
        seen.append(os.listdir(host.path("/shared")))
        at.write("/shared/it", "x")

    resource = Resource(
        "thing",
        Wanted,
        lambda at, desired: at.read("/shared/it"),
        lambda text, desired: Plan(() if text else (Write(),)),
        {Write: step},
        lambda *dummy: {},
        lambda *dummy: "",
        "thing",
        shared=lambda desired: ("/shared",),
    )
    assert run(host, resource, Wanted()).changed and seen == [[shared_folder.NAME]]
    assert not run(host, resource, Wanted()).changed and len(seen) == 1
    # Nobody waits for a turn in check mode, and nothing is written.
    host.remove("/shared/it")
    with shared_folder.turn(host, "/shared", 1, lambda: True):
        assert run(host, resource, Wanted(), check_mode=True).changed
