# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service before a stand-in for Azure and a slurmctld that is a script: what it asks, changes, tells and keeps."""

from __future__ import annotations

import errno
import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record, safe_files, systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import follow, memory, settle
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.memory import Known, Memory, Note
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.settle import Proof
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Debt, Fault, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import commands
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.events.azure_stand_in import (
    ID,
    NAME,
    NOW,
    OTHER_ID,
    elapsed,
    event,
    http,
    unused_place,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.jobs.hooks.slurm_stand_in import Cluster

REASON = "gpu_node: event: Redeploy {0} at 2027-01-15T08:15:00Z".format(ID)
BOOTS = ("0a6a3e1c-0000-4000-8000-000000000001", "0a6a3e1c-0000-4000-8000-000000000002")
MACHINES = ("6e4ba0a2-0d1c-4c1f-9c0f-3f6f5d1b7a01", "11111111-2222-4c1f-9c0f-3f6f5d1b7a02")


class Node:
    """One node of a cluster of ten, and the service on it."""

    def __init__(self, folder, azure):
        self.root, self.azure, self.now = folder / "root", azure, NOW
        self.slurm = Cluster(folder / "slurm", ["gpu{0:02}".format(number) for number in range(10)])
        self.told, self.proofs, self.proof = [], [], Proof()
        self.declare()
        self.start()
        self.service()

    def declare(self, slurm=True, percent=20.0, **given):
        path = self.root / "etc/gpu_node/node.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        scontrol = str(self.slurm.folder / "scontrol") if slurm else "none-of-them"
        section = dict({"provider": "azure", "slurm_node": "gpu00"}, **given)
        gate = {"scontrol": scontrol, "drained_percent": percent}
        path.write_text(json.dumps({"cloud_events": section, "health_gate": gate}))

    def start(self, boot=0, machine=0):
        for path, text in (
            ("proc/sys/kernel/random/boot_id", BOOTS[boot]),
            ("sys/class/dmi/id/product_uuid", MACHINES[machine]),
        ):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text + "\n")

    def service(self, **more):
        """A new process of it."""

        def prove(host, converge, another):
            self.proofs.append((converge, another))
            return self.proof

        self.host = Host(str(self.root))
        given = {"place": self.azure.place, "prove": prove, **more}
        pause = given.pop("pause", lambda seconds: None)
        self.follower = follow.Follower(self.host, self.told.append, clock=lambda: self.now, pause=pause, **given)
        return self

    def look(self):
        self.follower._slurm_at = float("-inf")  # as a quarter of a minute later
        return self.follower.once(self.follower.settings())

    @property
    def memory(self):
        return memory.read(self.host)


@pytest.fixture
def node(tmp_path, azure, monkeypatch):
    monkeypatch.setattr(commands.Commands, "installed", property(lambda self: os.path.exists(self.program)))
    return Node(tmp_path, azure)


@pytest.mark.parametrize("owes", [True, False])
def test_a_node_that_owes_the_gate_a_proof_stays_drained_for_it(node, owes):
    node.azure.set(event("Redeploy"))
    node.look()
    fault = Fault("gpu_xid", "xid_79", "reboot")
    history.write(node.host, History(debt=Debt((fault,) if owes else (), "GPU 3: it is off the bus")))
    node.start(boot=1)
    node.azure.set()
    assert [node.look().action for dummy in range(2)] == ["prove", "gate" if owes else "resume"]
    if owes:
        assert node.slurm.node("gpu00") == ("IDLE+DRAIN", "gpu_node: health: reboot: GPU 3: it is off the bus")
        assert any(one.startswith("gate: ") and "it owes a passing" in one for one in node.told)
        assert node.look().action == "leave" and node.slurm.node("gpu00")[0] == "IDLE+DRAIN"
    else:
        assert node.slurm.node("gpu00") == ("IDLE", "")


def test_a_redeploy_from_its_announcement_to_the_other_machine(node):
    node.azure.set(event("Redeploy"))
    assert node.look().action == "drain"
    assert node.slurm.node("gpu00") == ("IDLE+DRAIN", REASON) and node.slurm.drained == ["gpu00"]
    node.azure.set(event("Redeploy", "Started"))
    assert node.look().action == "leave"
    # It comes back elsewhere, with its disk, while the event is still there.
    node.start(boot=1, machine=1)
    node.service()
    assert node.look().action == "leave" and node.slurm.drained == ["gpu00"]
    node.azure.set()
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"]
    assert node.proofs == [(True, True)] and node.slurm.node("gpu00") == ("IDLE", "")
    assert any("another machine" in one for one in node.told)
    notes = [one.text for one in node.memory.notes]
    assert any("another machine" in one for one in notes) and notes[-1].startswith("resume: ")
    assert node.memory.drained == () and node.memory.known == ()


def test_a_healthy_node_asks_slurmctld_once_and_writes_nothing(node):
    for _dummy in range(5):
        node.look()
    assert len([one for one in node.slurm.calls if one.startswith("sinfo")]) == 1
    assert not node.host.exists(memory.PATH) and node.told == []
    assert len(node.azure.requests) == 5  # and the name of the machine is nobody's question


def test_the_same_document_again_drains_and_writes_nothing(node):
    node.azure.set(event("Reboot"))
    node.look()
    node.look()
    told, written = list(node.told), os.stat(node.host.path(memory.PATH)).st_mtime_ns
    node.slurm.calls  # noqa: B018
    for _dummy in range(5):
        node.look()
    assert all(one.startswith("sinfo -h --local -a -N -n gpu00 ") for one in node.slurm.calls)
    assert node.told == told and os.stat(node.host.path(memory.PATH)).st_mtime_ns == written


def test_while_something_is_pending_slurmctld_is_asked_four_times_a_minute(node):
    node.azure.set(event("Reboot"))
    node.look()
    node.slurm.calls  # noqa: B018
    for _dummy in range(20):
        node.follower.once(node.follower.settings())
    assert len(node.slurm.calls) <= 1


def test_a_machine_that_is_no_node_of_slurm_asks_rarely(node):
    node.declare(slurm_node="login1")
    pauses = []
    node.service(pause=pauses.append)
    node.follower.follow(lambda: len(pauses) == 20)
    assert len(node.slurm.calls) == 1 and len([one for one in node.told if "no node of this name" in one]) == 1


def test_a_persons_drain_is_never_touched(node):
    node.slurm.set("gpu00", "IDLE+DRAIN", "anna: new memory")
    node.azure.set(event("Redeploy"))
    assert node.look().action == "leave"
    node.azure.set()
    assert node.look().action == "leave"
    assert node.slurm.node("gpu00") == ("IDLE+DRAIN", "anna: new memory")
    assert not [one for one in node.slurm.calls if "update" in one]


def test_the_breaker_holds_and_is_told_once(node):
    for name in ("gpu01", "gpu02"):
        node.slurm.set(name, "IDLE+DRAIN", "gpu_node: health: GPU 3")
    node.azure.set(event("Redeploy"))
    for _dummy in range(5):
        assert node.look().action == "leave"
    assert node.slurm.node("gpu00")[0] == "IDLE"
    assert len([one for one in node.told if "are drained by us" in one]) == 1
    node.follower._held_at = float("-inf")
    node.slurm.set("gpu01", "IDLE")
    assert node.look().action == "drain"


def test_ten_nodes_that_are_announced_at_once_are_not_all_drained(node):
    node.azure.set(event("Redeploy"))
    assert node.look().action == "drain"
    node.slurm.set("gpu01", "IDLE+DRAIN", "gpu_node: event: Redeploy x has started", since="2020-01-01T00:00:00")
    other = Node(node.root.parent / "b", node.azure)
    other.slurm = node.slurm
    other.declare(slurm_node="gpu05")
    assert other.look().action == "leave" and node.slurm.node("gpu05")[0] == "IDLE"


def test_without_slurm_it_is_told_only(node):
    node.declare(slurm=False)
    node.azure.set(event("Redeploy"))
    done = node.look()
    assert done.action == "leave" and "no Slurm" in done.why and node.slurm.calls == []
    assert node.told == [
        "event Redeploy {0} at 2027-01-15T08:15:00Z (Host server is undergoing maintenance, by platform)".format(ID)
    ]
    node.azure.set()
    node.look()
    assert node.told[-1] == "event redeploy {0}: it was withdrawn".format(ID) and node.memory.known == ()


def test_an_event_for_others_is_not_ours(node):
    node.azure.set(event("Redeploy", resources=["scale_set_4"]))
    node.look()
    assert node.told == [] and node.slurm.drained == []
    # The name was asked for once.
    for _dummy in range(3):
        node.look()
    assert len([one for one in node.azure.requests if "/instance/compute" in one]) == 1
    assert node.memory.name == NAME


def test_where_the_cloud_does_not_say_the_name_the_host_name_counts(node):
    node.azure.name = ""
    node.azure.set(event("Redeploy", resources=[os.uname().nodename.split(".")[0].upper()]))
    assert node.look().action == "drain"


def test_the_host_name_counts_too_where_slurm_has_another_name_for_the_node(node, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "rack7-gpu00")
    node.azure.name = ""
    node.azure.set(event("Redeploy", resources=[os.uname().nodename.split(".")[0].upper()]))
    assert node.look().action == "drain"


def test_a_site_may_say_the_name(node):
    node.declare(machine_name="Rack-7")
    node.azure.set(event("Redeploy", resources=["rack-7"]))
    assert node.look().action == "drain" and len(node.azure.requests) == 1


# Approval -----------------------------------------------------------------------------------------------


def test_azure_is_told_to_begin_when_the_node_is_empty_and_the_site_said_so(node):
    node.declare(approve=True)
    node.slurm.set("gpu00", "MIXED")
    node.azure.set(event("Reboot"))
    assert [node.look().action, node.look().action] == ["drain", "leave"] and node.azure.approved == []
    node.slurm.set("gpu00", "IDLE+DRAIN", node.slurm.node("gpu00")[1])
    for _dummy in range(3):
        node.look()
    assert node.azure.approved == [ID] and node.memory.known[0].asked == NOW


def test_azure_is_not_told_to_begin_while_a_job_is_suspended_there(node):
    """Which leaves the node IDLE."""
    node.declare(approve=True)
    node.slurm.change(on={"gpu00": [42]})
    node.azure.set(event("Reboot"))
    for _dummy in range(3):
        node.look()
    assert node.azure.approved == [] and node.slurm.node("gpu00")[0] == "IDLE+DRAIN"
    assert len([one for one in node.told if "not told that it may start: job 42 is on it" in one]) == 1
    node.slurm.change(on={})
    node.look()
    assert node.azure.approved == [ID]


@pytest.mark.parametrize("given", [{}, {"approve": False}, {"approve": "yes"}])
def test_azure_is_told_nothing_otherwise(node, given):
    node.declare(**given)
    node.azure.set(event("Reboot"))
    for _dummy in range(3):
        node.look()
    assert node.azure.approved == [] and not [one for one in node.azure.requests if one.startswith("POST")]


def test_an_approval_that_fails_is_told_once_and_keeps_the_drain(node, monkeypatch):
    node.declare(approve=True)
    node.azure.set(event("Reboot"))
    node.look()

    def refuse(ids, place):
        raise NodeError("azure", "it answered with status 500", "ask it again")

    monkeypatch.setattr(follow.ask, "approve", refuse)
    for _dummy in range(3):
        node.look()
    assert len([one for one in node.told if "status 500" in one]) == 1 and node.memory.known[0].asked == 0


# What goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [http(b"<html>"), http(b"", "500 Internal Server Error"), b"x", http(b"{}"), http(b"[]")]
)
def test_a_cloud_that_answers_nonsense_ends_no_event(node, raw):
    node.azure.set(event("Redeploy"))
    node.look()
    node.azure.raw = raw
    for _dummy in range(3):
        assert node.look().error
    assert node.slurm.drained == ["gpu00"] and len([one for one in node.told if "answer" in one]) == 1
    node.azure.raw = None
    assert node.look().action == "leave" and node.told[-1] == "the events can be asked for again"


def test_a_cloud_that_is_gone_ends_no_event_and_costs_nothing(node):
    node.azure.set(event("Redeploy"))
    node.look()
    node.service(place=unused_place())
    assert elapsed(node.look) < 0.5 and node.slurm.drained == ["gpu00"]


def test_where_nobody_answers_it_is_asked_less_and_less_often(node):
    pauses = []
    node.service(place=unused_place(), pause=pauses.append)
    node.follower.follow(lambda: len(pauses) == 8)
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0, 60.0] and len(node.told) == 1


def test_a_service_that_answered_is_asked_as_before(node):
    pauses = []
    node.service(pause=pauses.append)
    node.follower.follow(lambda: len(pauses) == 2)
    node.azure.raw = b"x"
    node.follower.follow(lambda: len(pauses) == 5)
    assert pauses == [5.0] * 5


def test_a_slurmctld_that_is_down_is_told_once_and_asked_again(node):
    pauses = []
    node.azure.set(event("Redeploy"))
    node.slurm.down()
    node.service(pause=lambda seconds: (pauses.append(seconds), setattr(node.follower, "_slurm_at", float("-inf"))))
    node.follower.follow(lambda: len(pauses) == 4)
    assert len([one for one in node.told if "Unable to contact" in one]) == 1
    node.slurm.down(False)
    assert node.look().action == "drain"


@pytest.mark.parametrize("text", ["{", "[]", '{"cloud_events": 7}'])
def test_a_declaration_that_cannot_be_read_is_told_once_and_ends_nothing(node, text):
    pauses = []
    node.service(pause=pauses.append)
    (node.root / "etc/gpu_node/node.json").write_text(text)
    node.follower.follow(lambda: len(pauses) == 3)
    assert len(node.told) == 1 and pauses == [60.0] * 3


def test_a_bug_of_ours_ends_nothing(node, monkeypatch):
    pauses = []
    node.service(pause=pauses.append)
    monkeypatch.setattr(follow.plan, "notice", lambda *given: 1 / 0)
    node.follower.follow(lambda: len(pauses) == 3)
    assert node.told == ["ZeroDivisionError: division by zero; report this as a bug."]


def test_one_run_at_a_time(node):
    with node.host.lock(follow.LOCK):
        node.follower_seconds = follow._LOCK_SECONDS
        follow._LOCK_SECONDS, kept = 0.0, follow._LOCK_SECONDS
        try:
            with pytest.raises(NodeError, match="another run"):
                node.look()
        finally:
            follow._LOCK_SECONDS = kept


class Killed(BaseException):
    pass


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_the_drain(node, monkeypatch, when):
    node.azure.set(event("Redeploy"))
    drains = follow.Slurm.drain

    def killed(*given):
        if when == "after":
            drains(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(follow.Slurm, "drain", killed)
        with pytest.raises(Killed):
            node.look()
    node.service()
    assert node.look().action == ("drain" if when == "before" else "leave") and node.slurm.drained == ["gpu00"]
    assert node.memory.drained == (ID,)
    node.azure.set()
    while node.look().action != "resume":
        pass
    assert node.slurm.drained == []


def test_killed_around_the_resume(node, monkeypatch):
    node.azure.set(event("Redeploy"))
    node.look()
    node.azure.set()
    undrain = follow.Slurm.undrain

    def killed(self, kind):
        undrain(self, kind)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(follow.Slurm, "undrain", killed)
        with pytest.raises(Killed):
            node.look()
    node.service()
    assert node.look().action == "leave" and node.slurm.drained == [] and node.memory.drained == ()


@pytest.mark.parametrize(
    "damage", [lambda text: "", lambda text: text[:50], lambda text: "[]", lambda text: "{}" * 10**6]
)
def test_a_memory_that_is_damaged_costs_a_proof(node, damage):
    node.azure.set(event("Redeploy"))
    node.look()
    path = node.root / memory.PATH[1:]
    path.write_text(damage(path.read_text()))
    damaged = path.read_bytes()
    node.service()
    told = len(node.told)
    assert node.look().action == "leave" and node.slurm.drained == ["gpu00"]
    sentences = [one for one in node.told[told:] if memory.PATH in one]
    assert len(sentences) == 1 and "moved to " + memory.DAMAGED in sentences[0]
    assert sentences[0] in [one.text for one in node.memory.notes]
    assert (node.root / memory.DAMAGED[1:]).read_bytes() == damaged[: 1 << 20]
    node.azure.set()
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"]


def test_a_damaged_memory_of_a_node_in_service_drains_nothing(node):
    node.host.write(memory.PATH, "{")
    assert node.look().action == "leave" and node.slurm.drained == []
    assert node.host.exists(memory.DAMAGED) and len([one for one in node.told if memory.PATH in one]) == 1


def test_a_drain_of_a_node_whose_disk_is_new_ends_after_a_proof(node):
    node.slurm.set("gpu00", "IDLE+DRAIN", REASON)
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"] and node.proofs == [(True, False)]


def test_a_full_disk_keeps_the_drain_and_is_told(node, monkeypatch):
    node.azure.set(event("Redeploy"))
    monkeypatch.setattr(safe_files, "replaced_in", _full)
    pauses = []
    node.service(pause=pauses.append)
    node.follower.follow(lambda: len(pauses) == 3)
    assert len([one for one in node.told if "No space" in one]) == 1


def _full(*dummy, **more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_node_that_is_not_well_stays_drained_and_says_why(node):
    node.azure.set(event("Redeploy", "Started"))
    node.look()
    node.azure.set()
    node.proof = Proof("GPU 3 (0000:0b:00.0): it is lost")
    assert node.look().action == "prove"
    state, reason = node.slurm.node("gpu00")
    assert "DRAIN" in state
    assert reason == "gpu_node: event: Redeploy {0} is over, not resumed: GPU 3 (0000:0b:00.0): it is lost".format(ID)
    assert node.look().action == "leave"
    node.proof, node.now = Proof(), NOW + 61
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"]


def test_a_person_who_takes_the_node_during_the_proof_keeps_it(node):
    node.azure.set(event("Redeploy", "Started"))
    node.look()
    node.azure.set()

    def prove(host, converge, another):
        node.slurm.set("gpu00", "IDLE+DRAIN", "anna: mine")
        return Proof("GPU 3: it is lost")

    node.service(prove=prove)
    node.look()
    assert node.slurm.node("gpu00") == ("IDLE+DRAIN", "anna: mine")


def test_a_restart_that_slurmctld_calls_down_ends_with_the_drain(node):
    node.azure.set(event("Reboot"))
    node.look()
    node.start(boot=1)
    node.slurm.set("gpu00", "DOWN+DRAIN", node.slurm.node("gpu00")[1])
    node.azure.set()
    node.service()
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"]
    assert node.slurm.node("gpu00") == ("IDLE", "")
    assert [one for one in node.slurm.calls if "State=RESUME" in one]


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN+DRAIN"])
def test_a_reason_that_slurm_keeps_is_ours_no_more(node, state):
    node.slurm.change(keeps_reasons=True)
    node.azure.set(event("Reboot"))
    node.look()
    node.start(boot=1)
    node.slurm.set("gpu00", state, node.slurm.node("gpu00")[1])
    node.azure.set()
    node.service()
    assert [node.look().action for dummy in range(2)] == ["prove", "resume"]
    assert node.slurm.node("gpu00") == ("IDLE", "resumed by gpu-node")


def test_who_takes_the_node_just_before_its_drain_ends_keeps_it(node, monkeypatch):
    node.azure.set(event("Redeploy"))
    node.look()
    node.azure.set()  # withdrawn
    decide = follow.plan.decide

    def taken(*given):
        node.slurm.set("gpu00", "IDLE+DRAIN", "anna: mine")
        return decide(*given)

    monkeypatch.setattr(follow.plan, "decide", taken)
    assert node.look().action == "leave" and node.slurm.node("gpu00") == ("IDLE+DRAIN", "anna: mine")


# Metrics ------------------------------------------------------------------------------------------------


def test_metrics(node, tmp_path):
    (node.root / "metrics").mkdir()
    node.declare(textfile="/metrics/events.prom")
    node.azure.set(event("Redeploy"), event("Freeze", "Started", name=OTHER_ID))
    node.look()
    text = (node.root / "metrics/events.prom").read_text()
    assert text.startswith("# Managed by trainyard.gpu_node.")
    for line in (
        'gpu_node_cloud_events{type="redeploy",status="scheduled"} 1',
        'gpu_node_cloud_events{type="freeze",status="started"} 1',
        'gpu_node_cloud_events{type="reboot",status="scheduled"} 0',
        'gpu_node_cloud_event_not_before_timestamp_seconds{type="redeploy"} 1800000900',
        "gpu_node_cloud_events_answered 1",
        "gpu_node_cloud_events_drained 1",
        "gpu_node_cloud_events_timestamp_seconds 1800000000",
    ):
        assert line in text.splitlines()
    written = os.stat(str(node.root / "metrics/events.prom")).st_mtime_ns
    node.look()
    assert os.stat(str(node.root / "metrics/events.prom")).st_mtime_ns == written
    node.azure.raw = b"x"
    node.look()
    assert "gpu_node_cloud_events_answered 0" in (node.root / "metrics/events.prom").read_text()


def test_metrics_where_something_of_others_lies(node):
    (node.root / "metrics").mkdir()
    (node.root / "metrics/events.prom").write_text("x 1\n")
    node.declare(textfile="/metrics/events.prom")
    node.look()
    node.look()
    assert len([one for one in node.told if "is not ours" in one]) == 1


# Memory and settings ------------------------------------------------------------------------------------

WORDS = st.text(max_size=10)
TIMES = st.floats(allow_nan=False, allow_infinity=False)
MEMORIES = st.builds(
    Memory,
    machine=WORDS,
    name=WORDS,
    known=st.lists(
        st.builds(Known, WORDS, st.sampled_from(["reboot", "other"]), st.none() | TIMES, st.booleans(), WORDS, TIMES),
        max_size=5,
    ).map(tuple),
    drained=st.lists(WORDS, max_size=5).map(tuple),
    boot=WORDS,
    struck=st.booleans(),
    over=st.sampled_from(["", "over", "withdrawn"]),
    another=st.booleans(),
    proved=WORDS,
    tries=st.integers(0, 99),
    tried=TIMES,
    why=WORDS,
    notes=st.lists(st.builds(Note, TIMES, WORDS), max_size=5).map(tuple),
)


@given(MEMORIES)
def test_a_memory_comes_back_as_it_was_written(tmp_path_factory, known):
    host = Host(str(tmp_path_factory.mktemp("node")))
    memory.write(host, known)
    assert memory.read(host) == known
    assert stat.S_IMODE(os.stat(host.path(memory.PATH)).st_mode) == 0o644


@given(
    st.recursive(
        st.none() | st.integers() | WORDS | st.booleans(),
        lambda one: (
            st.lists(one)
            | st.dictionaries(
                st.sampled_from(["known", "notes", "drained", "tries", "tried", "id", "type", "time", "text"]), one
            )
        ),
        max_leaves=12,
    )
)
def test_no_file_makes_the_service_fail(tmp_path_factory, content):
    host = Host(str(tmp_path_factory.mktemp("node")))
    host.write(memory.PATH, json.dumps(content))
    assert isinstance(memory.read(host), Memory)


def test_a_memory_is_bounded():
    known = Memory()
    for number in range(1000):
        known = known.noted(NOW, ("x" * 1000,)).drained_for(("e{0}".format(number),))
    assert len(known.notes) == 50 and len(known.drained) == 64 and max(len(one.text) for one in known.notes) == 300


# What has to be proved ----------------------------------------------------------------------------------


class Commands(Host):
    """``answers``: status and output of what is run, by its first argument."""

    def __init__(self, root, **answers):
        super().__init__(str(root))
        self.answers, self.ran = answers, []

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        assert argv[0] == "/opt/gpu_node/gpunode.pyz"
        self.ran.append(argv[1])
        status, output = self.answers[argv[1]]
        if status not in accept:
            raise NodeError(" ".join(argv), "ended with status {0}".format(status), "run it by hand")
        return Completed(tuple(argv), status, output, "")


def verdict(outcome):
    findings = [
        {"outcome": "warn", "thing": "x", "reason": "y"},
        {"outcome": outcome, "thing": "GPU 3", "reason": "it is lost"},
    ]
    return json.dumps({"outcome": outcome, "results": [{"findings": []}, {"findings": findings}]})


@pytest.mark.parametrize(
    "status, outcome, why",
    [(0, "pass", ""), (3, "warn", ""), (1, "fail", "GPU 3: it is lost"), (4, "unknown", "GPU 3: it is lost")],
)
def test_a_pause_is_proved_by_the_passive_checks_alone(tmp_path, status, outcome, why):
    host = Commands(tmp_path, health=(status, verdict(outcome)))
    assert settle.prove(host, False, False) == Proof(why) and host.ran == ["health"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "7"])
def test_a_verdict_that_cannot_be_read_proves_nothing(tmp_path, text):
    assert not settle.prove(Commands(tmp_path, health=(0, text)), False, False).well


def test_a_restart_is_converged_first(tmp_path):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/declaration.json").write_text("{}")
    host = Commands(tmp_path, converge=(0, "ready\n"), health=(0, verdict("pass")))
    assert settle.prove(host, True, False).well and host.ran == ["converge", "health"]
    for status, why in ((1, "converge: not ready: x"), (75, "another converge of this node runs")):
        host = Commands(tmp_path, converge=(status, "changed: nothing\nnot ready: x\n"))
        assert settle.prove(host, True, True) == Proof(why) and host.ran == ["converge"]
    assert not settle.prove(Commands(tmp_path, converge=(2, "")), True, False).well


def test_a_node_without_a_declaration_has_nothing_to_converge(tmp_path):
    host = Commands(tmp_path, health=(0, verdict("pass")))
    assert settle.prove(host, True, False).well and host.ran == ["health"]


@pytest.mark.parametrize(
    "status, boot, ran",
    [
        ("ready", BOOTS[0], ["health"]),
        ("ready", BOOTS[1], ["converge", "health"]),
        ("not_ready", BOOTS[0], ["converge", "health"]),
    ],
)
def test_a_boot_that_has_converged_itself_is_not_converged_again(tmp_path, status, boot, ran):
    host = Commands(tmp_path, converge=(0, ""), health=(0, verdict("pass")))
    for path, text in (
        ("/etc/gpu_node/declaration.json", "{}"),
        ("/proc/sys/kernel/random/boot_id", BOOTS[0]),
    ):
        os.makedirs(os.path.dirname(host.path(path)), exist_ok=True)
        with open(host.path(path), "w", encoding="utf-8") as stream:
            stream.write(text)
    systemd.enable(host, converge_record.UNIT)
    converge_record.write(host, converge_record.Record(status, "", 1.0, 2.0, boot, "1"))
    assert settle.prove(host, True, False).well and host.ran == ran
