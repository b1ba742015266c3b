# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate before a slurmctld that is a script: what it asks, what it changes, and what stays when things go wrong."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate import gate, history
from ansible_collections.trainyard.gpu_node.plugins.module_utils.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resource import NodeError
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health_formats.formats_verdicts import (
    DARK,
    HEALTHY,
    LOST,
    result,
    verdict,
)

SICK, UNSEEN = verdict(result("gpu_xid", LOST)), verdict(result("nvme_smart", DARK))
REASON = "gpu_node: health: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)"
SCONTROL = """#!{python}
import datetime, fcntl, json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(folder + "/calls", "a") as stream:
        stream.write(" ".join(sys.argv[1:]) + "\\n")
    if os.path.exists(folder + "/down"):
        sys.exit("slurm_load_node error: Unable to contact slurm controller (connect failure)")
    nodes = json.load(open(folder + "/nodes.json"))
    if sys.argv[1:] == ["-a", "show", "nodes"]:
        for name, (state, reason, since) in nodes.items():
            print("NodeName={{0}} Arch=x86_64\\n   State={{1}} ThreadsPerCore=1".format(name, state))
            print("   Partitions=gpu ")
            if reason:
                print("   Reason={{0}} [root@{{1}}]".format(reason, since))
            print()
    else:
        given = dict(word.split("=", 1) for word in sys.argv[2:])
        since = datetime.datetime.now().strftime("%Y-%m-%dT%H:%M:%S")
        name = given["NodeName"]
        nodes[name] = ["IDLE", "", ""] if given["State"] == "UNDRAIN" else ["IDLE+DRAIN", given["Reason"], since]
        json.dump(nodes, open(folder + "/nodes.json", "w"))
"""


class Slurm:
    def __init__(self, folder, size):
        self.folder = folder
        (folder / "slurm").mkdir()
        (folder / "slurm/scontrol").write_text(SCONTROL.format(python=sys.executable + " -IS"))
        (folder / "slurm/scontrol").chmod(0o755)
        self.nodes = {"gpu{0:02}".format(number): ["IDLE", "", ""] for number in range(size)}

    @property
    def nodes(self):
        return json.loads((self.folder / "slurm/nodes.json").read_text())

    @nodes.setter
    def nodes(self, nodes):
        (self.folder / "slurm/nodes.json").write_text(json.dumps(nodes))

    def set(self, name, state, reason=""):
        self.nodes = dict(self.nodes, **{name: [state, reason, "2026-01-31T12:00:00"]})

    @property
    def drained(self):
        return sorted(name for name, (state, dummy, dummy2) in self.nodes.items() if "DRAIN" in state)

    @property
    def calls(self):
        path = self.folder / "slurm/calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def host(self, name, **declared):
        root = self.folder / name
        (root / "etc/gpu_node").mkdir(parents=True, exist_ok=True)
        section = dict(declared, scontrol=str(self.folder / "slurm/scontrol"))
        (root / "etc/gpu_node/node.json").write_text(json.dumps({"health_gate": section}))
        return Host(str(root))

    def gate(self, name, told=None, pause=lambda seconds: None, **declared):
        tell = (lambda text: None) if told is None else told.append
        return gate.Gate(self.host(name, **declared), name, tell, pause)


@pytest.fixture
def slurm(tmp_path):
    return Slurm(tmp_path, 10)


def test_a_sick_node_is_drained_and_comes_back_after_three_clean_verdicts(slurm):
    done = slurm.gate("gpu00").settle(SICK)
    assert done.decision.action == "drain" and done.in_service is False
    assert slurm.nodes["gpu00"][:2] == ["IDLE+DRAIN", REASON]
    actions = [slurm.gate("gpu00").settle(one).decision.action for one in (SICK, HEALTHY, UNSEEN, HEALTHY, HEALTHY)]
    assert actions == ["leave"] * 5 and slurm.drained == ["gpu00"]
    done = slurm.gate("gpu00").settle(HEALTHY)
    assert done.decision.action == "resume" and done.in_service is True and slurm.drained == []


def test_a_healthy_node_asks_slurmctld_once_an_hour(slurm):
    assert all(slurm.gate("gpu00").settle(HEALTHY).decision.action == "leave" for dummy in range(5))
    assert slurm.calls == ["-a show nodes"]
    # Somebody drained it for us from elsewhere: it is seen within the hour.
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    later = dataclasses.replace(HEALTHY, time=HEALTHY.time + 3600)
    assert slurm.gate("gpu00").settle(later).decision.action == "resume"


@pytest.mark.parametrize(
    "state, reason",
    [("IDLE+DRAIN", "anna: new memory"), ("DOWN", "Not responding"), ("IDLE+DRAIN", "gpu_node: scratch: gone")],
)
def test_a_node_that_others_took_out_of_service_is_never_touched(slurm, state, reason):
    slurm.set("gpu00", state, reason)
    for one in (SICK, HEALTHY, HEALTHY, HEALTHY, HEALTHY, SICK):
        assert slurm.gate("gpu00").settle(one).decision.action == "leave"
    assert slurm.nodes["gpu00"][:2] == [state, reason]
    assert all(call == "-a show nodes" for call in slurm.calls)


def test_a_history_that_was_lost_resumes_nothing_too_early(slurm):
    slurm.set("gpu00", "IDLE+DRAIN", REASON)
    assert [slurm.gate("gpu00").settle(HEALTHY).decision.action for dummy in range(3)] == ["leave", "leave", "resume"]


def test_the_breaker_holds_when_sixty_percent_fall_ill_at_once(slurm):
    """Six of ten, each in a thread of its own; the real pause stands between the two looks of each."""
    told, barrier = [], threading.Barrier(6)

    def fall_ill(name):
        barrier.wait()
        told.append(gate.Gate(slurm.host(name), name, lambda text: None).settle(SICK).decision)

    threads = [threading.Thread(target=fall_ill, args=("gpu{0:02}".format(number),)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(slurm.drained) == 2 and len(told) == 6
    assert sum(1 for one in told if one.action == "drain") == 2
    assert sum(1 for one in told if one.person and "a person must decide" in one.why) == 4


def test_when_slurmctld_does_not_answer_the_verdict_is_kept_and_it_is_asked_again(slurm):
    (slurm.folder / "slurm/down").touch()
    with pytest.raises(NodeError, match="Unable to contact slurm controller"):
        slurm.gate("gpu00").settle(SICK)
    known = history.read(slurm.host("gpu00"))
    assert known.entries[-1].outcome is Outcome.FAIL and known.drained is None
    (slurm.folder / "slurm/down").unlink()
    assert slurm.gate("gpu00").settle(SICK).decision.action == "drain"


def test_a_node_of_another_name_is_told(slurm):
    with pytest.raises(NodeError, match="slurmctld has no node of this name"):
        slurm.gate("other").settle(SICK)


def test_what_keeps_a_machine_alive_runs_once_and_may_fail(slurm):
    mark, told = slurm.folder / "kept", []
    slurm.gate("gpu00", told, keepalive=["tee", "-a", str(mark)]).settle(SICK)
    assert mark.exists() and told == []
    slurm.gate("gpu01", told, keepalive=["false"]).settle(SICK)
    assert len(told) == 1 and slurm.drained == ["gpu00", "gpu01"]


def test_a_node_that_may_not_be_drained_stays_in_service(slurm):
    done = slurm.gate("gpu00", drain=False).settle(SICK)
    assert (done.decision.action, done.in_service) == ("leave", True) and slurm.drained == []
