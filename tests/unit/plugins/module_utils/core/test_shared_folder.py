# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes take turns at a folder that they share: real processes, and a table of mounts that says what is shared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import mounts, shared_folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import frozen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import Seen, look
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import options, state
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Action, NodeError, Plan, Resource
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run

MOUNTS = """20 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
21 20 0:40 / /shared rw,relatime shared:2 - nfs4 server:/export rw,vers=4.2
"""
TURN = "/shared/" + shared_folder.NAME
BEGIN = """
import sys, time
sys.path[:0] = {path!r}
from {package}.core import shared_folder
from {package}.core.host import Host

host = Host({root!r})
"""
# Adds one to a number that many add to, slowly enough to lose some of them without turns.
ADDS = """
while time.time() < {begin}:
    time.sleep(0.01)
for _ in range({times}):
    with shared_folder.turn(host, "/shared", {patience}, lambda: True):
        with open({number!r}) as stream:
            value = int(stream.read())
        time.sleep({work})
        with open({number!r}, "w") as stream:
            stream.write(str(value + 1))
"""
# Has the turn, and says so.
HOLDS = """
shared_folder.TOUCH_SECONDS = 0.1
with shared_folder.turn(host, "/shared", 0, lambda: True):
    print("mine", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def host(tmp_path):
    made = Host(str(tmp_path))
    made.write("/proc/self/mountinfo", MOUNTS)
    os.mkdir(str(tmp_path / "shared"))
    return made


@pytest.fixture
def start(host):
    """Start a process with such a code; what runs in the end is ended."""
    started = []

    def start(code, **values):
        values.update(
            path=[one for one in sys.path if one],
            package=shared_folder.__name__.rpartition(".core.")[0],
            root=host.root,
        )
        code = (BEGIN + code).format(**values)
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def turn(host, wait_seconds=0):
    return shared_folder.turn(host, "/shared", wait_seconds, lambda: True)


def test_what_lies_on_a_network_file_system(host):
    assert mounts.on_network(host, ["/opt/hpcx", "/shared/jobs/a100", "/shared"]) == ("/shared/jobs/a100", "/shared")
    os.symlink(host.path("/shared"), host.path("/jobs"))
    assert mounts.on_network(host, ["/jobs/a100"]) == ("/jobs/a100",)


@pytest.mark.parametrize(
    "workers, times, work, patience",
    [
        (4, 5, 0.005, 60),
        pytest.param(60, 1, 0.05, 12, marks=pytest.mark.soak),  # 3 s of work in a row
    ],
    ids=["few", "crowd"],
)
def test_one_at_a_time_and_each_has_its_turn(host, tmp_path, start, workers, times, work, patience):
    number = tmp_path / "number"
    number.write_text("0")
    values = dict(begin=time.time() + workers / 6, times=times, work=work, patience=patience, number=str(number))
    running = [start(ADDS, **values) for dummy in range(workers)]
    told = [one.communicate(timeout=120)[1].decode() for one in running]
    assert [text for text in told if text] == []
    assert number.read_text() == str(workers * times) and os.listdir(host.path("/shared")) == []


def test_who_waits_in_vain_is_told_whom_for(host):
    with turn(host):
        began = time.monotonic()
        reason = "/shared: other nodes have been writing to it for 0 s, now the node " + os.uname().nodename
        with pytest.raises(NodeError, match=reason), turn(host, 0.3):
            pass
        assert time.monotonic() - began < 10
        assert os.listdir(host.path("/shared")) == [shared_folder.NAME]


def test_who_has_nothing_to_write_any_more_waits_no_longer_and_ends_nobody_s_turn(host):
    asked = []
    with turn(host):
        with shared_folder.turn(host, "/shared", 60, lambda: len(asked) < 2 and not asked.append(1)):
            assert len(asked) == 2
        assert os.listdir(host.path("/shared")) == [shared_folder.NAME]


def test_a_node_that_is_at_it_keeps_its_turn_and_one_that_died_does_not(host, start, monkeypatch):
    monkeypatch.setattr(shared_folder, "STALE_SECONDS", 1.0)
    holder = start(HOLDS)
    assert holder.stdout.readline() == b"mine\n"
    with pytest.raises(NodeError, match="other nodes have been writing"), turn(host, 3):
        pass
    holder.send_signal(signal.SIGKILL)
    with turn(host, 10):
        assert " {0} ".format(os.getpid()) in host.read(TURN)
    assert os.listdir(host.path("/shared")) == []


def test_a_server_that_does_not_answer_makes_no_turn_older(host, monkeypatch):
    """Whoever has the turn could not touch it either."""
    monkeypatch.setattr(shared_folder, "STALE_SECONDS", 1.0)
    host.write(TURN, "gpu07 1 a\n")
    real = shared_folder._look
    monkeypatch.setattr(shared_folder, "_look", lambda path: time.sleep(1.5) or real(path))
    with pytest.raises(NodeError, match="now the node gpu07"), turn(host, 2):
        pass


def test_a_turn_that_came_in_the_place_of_an_untouched_one_is_left(host, monkeypatch):
    """Of two nodes that find the same turn untouched, the second must not take the first one's new turn away."""
    host.write(TURN, "gone 1 a\n")
    monkeypatch.setattr(shared_folder, "STALE_SECONDS", 0.0)
    real = shared_folder._end

    def end(path, text):  # another node is quicker, just after this one has looked
        monkeypatch.undo()
        host.write(TURN, "quick 2 b\n")
        real(path, text)

    monkeypatch.setattr(shared_folder, "_end", end)
    with pytest.raises(NodeError, match="now the node quick"), turn(host):
        pass
    assert host.read(TURN) == "quick 2 b\n" and os.listdir(host.path("/shared")) == [shared_folder.NAME]


def test_who_took_too_long_ends_nobody_else_s_turn(host):
    with turn(host):
        host.write(TURN, "next 2 b\n")
    assert host.read(TURN) == "next 2 b\n"


def plant_link(path, secret):
    os.symlink(secret, path)


def plant_pipe(path, dummy):
    os.mkfifo(path)


def plant_folder(path, dummy):
    os.mkdir(path)


@pytest.mark.parametrize("plant", [plant_link, plant_pipe, plant_folder])
def test_what_was_planted_in_the_place_of_a_turn_is_not_followed_and_holds_nobody_up(
    host, tmp_path, plant, monkeypatch
):
    secret = tmp_path / "shadow"
    secret.write_text("root:hash:1\n")
    # Names that are known before: of whoever waits, and of whoever takes a turn away.
    for name in ("", ".now.{0}.{1}", ".{0}.{1}"):
        plant(host.path(TURN) + name.format(os.uname().nodename, os.getpid()), str(secret))
    with pytest.raises(NodeError, match="now another node; run it again") as raised, turn(host):
        pass
    assert "hash" not in str(raised.value)
    monkeypatch.setattr(shared_folder, "STALE_SECONDS", 0.3)
    with turn(host, 10):
        assert host.read(TURN).startswith(os.uname().nodename)
    assert secret.read_text() == "root:hash:1\n" and not os.path.lexists(host.path(TURN))


def test_a_folder_that_every_user_may_write_to_is_refused(host):
    os.chmod(host.path("/shared"), 0o1777)
    with pytest.raises(NodeError, match="/shared: every user may write to it.*chmod o-w /shared"), turn(host):
        pass
    assert os.listdir(host.path("/shared")) == []


def test_who_makes_the_folder_and_who_finds_it_take_turns_in_the_same_one(host):
    with shared_folder.turn(host, "/shared/hpcx", 0, lambda: True):
        assert os.listdir(host.path("/shared/hpcx")) == [shared_folder.NAME]
        with pytest.raises(NodeError, match="/shared/hpcx: other nodes"):
            with shared_folder.turn(host, "/shared/hpcx", 0, lambda: True):
                pass


@pytest.mark.parametrize("folder", ["/shared/a_file", "/shared/a_file/hpcx"])
def test_a_folder_that_cannot_be_written_is_a_sentence(host, folder):
    host.write("/shared/a_file", "x")
    with pytest.raises(NodeError, match=folder + ": nothing can be written there"):
        with shared_folder.turn(host, folder, 1, lambda: True):
            pass


@options
class Wanted:
    present: bool = state("Whether it is there.")


@frozen
class Write(Action):
    path: str

    def describe(self):
        return "write " + self.path


class Writes:
    """A resource that writes these files; ``looks`` is how often the node was looked at."""

    def __init__(self, *paths):
        self.paths, self.looks, self.turns = paths, 0, []

    def observe(self, host, desired):
        self.looks += 1
        return tuple(path for path in self.paths if host.read(path) is None)

    def step(self, host, action, desired):
        self.turns.append(os.path.exists(host.path(TURN)))
        host.write(action.path, "x")

    @property
    def resource(self):
        return Resource(
            "thing",
            Wanted,
            self.observe,
            lambda missing, desired: Plan(tuple(Write(path) for path in missing)),
            {Write: self.step},
            lambda *dummy: {},
            lambda *dummy: "",
            "thing",
            shared=lambda desired: ("/etc/local", "/shared"),
            lock_seconds=2.5,
        )


def test_a_resource_writes_in_its_turn_and_who_comes_after_it_has_nothing_to_do(host):
    writes = Writes("/shared/it")
    assert run(host, writes.resource, Wanted()).changed and writes.turns == [True]
    assert not run(host, writes.resource, Wanted()).changed and writes.turns == [True]
    # Nobody waits for a turn in check mode, and nothing is written.
    host.remove("/shared/it")
    with turn(host):
        assert run(host, writes.resource, Wanted(), check_mode=True).changed


def test_what_a_node_does_to_itself_waits_for_no_other(host):
    """Files that are shared are in place, and others have their turn: so each new node of a cluster begins."""
    host.write("/shared/it", "x")
    writes = Writes("/etc/local/own", "/shared/it")
    with turn(host):
        began = time.monotonic()
        assert run(host, writes.resource, Wanted()).changed and time.monotonic() - began < 2
    assert writes.turns == [True]  # of the other one


def test_who_waits_looks_at_the_node_again_only_when_something_came(host, start):
    writes = Writes("/shared/it", "/etc/local/own")
    with turn(host), pytest.raises(NodeError, match="other nodes have been writing to it for 2 s"):
        run(host, writes.resource, Wanted())
    assert writes.looks == 2 and writes.turns == []  # the second, as something may have come during the first
    code = "with shared_folder.turn(host, '/shared', 0, lambda: True):\n print('mine', flush=True)\n time.sleep(1)\n"
    other = start(code + " host.write('/shared/it', 'x')\n time.sleep(1000)")
    assert other.stdout.readline() == b"mine\n"
    writes.looks = 0
    assert run(host, writes.resource, Wanted()).changed
    # Three in all until nothing is needed there; then those before and after what it does to itself.
    assert writes.looks == 5 and writes.turns == [True] and look(host, "/shared/it") != Seen()
