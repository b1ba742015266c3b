# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an event does to a node: the whole of the decisions, without a service, a cloud or Slurm."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.memory import Memory
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.plan import Here
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.types import Answer, Event
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.owing import Held
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

NOW = 1_800_000_000.0
HERE = Here("machine-1", "boot-1", ("vm_3",))
AGAIN = Here("machine-1", "boot-2", ("vm_3",))
OTHER = Here("machine-2", "boot-3", ("vm_3",))
DEFAULT = Settings(provider="azure")
ANNA = "anna: new memory"


def event(kind="reboot", name="e1", minutes=15.0, started=False, resources=("vm_3",)):
    when = None if started else NOW + minutes * 60
    return Event(name, kind, kind.capitalize(), started, when, tuple(resources))


class Node:
    """A node with its Slurm: what a service does with it, without the service. ``well``: whether a proof succeeds."""

    def __init__(self, here=HERE, settings=DEFAULT, **more):
        self.here, self.settings = here, dataclasses.replace(settings, **more)
        self.memory, self.flags, self.reason, self.now = Memory(), {"IDLE"}, None, NOW
        self.tells, self.actions, self.proofs, self.approved, self.well = [], [], [], [], True
        self.held = Held()

    def look(self, *events, whole=True, killed=False):
        """One round. ``killed``: Slurm was changed, and nobody came to write that down."""
        noticed = plan.notice(Answer(tuple(events), whole), self.memory, self.settings, self.here, self.now)
        self.memory = noticed.memory
        self.tells += noticed.tells
        node = SlurmNode(frozenset(self.flags), self.reason)
        found = plan.decide(noticed, node, self.settings, self.here, self.now, self.held)
        after = found.memory
        if found.action in (plan.DRAINS, plan.RENAME, plan.GATE):
            self.flags, self.reason = self.flags | {"DRAIN"}, found.reason
        elif found.action == plan.RESUME:
            assert found.down == ("DOWN" in self.flags)
            self.flags, self.reason = self.flags - {"DRAIN", "DOWN"} | ({"IDLE"} if found.down else set()), None
        elif found.action == plan.PROVE:
            self.proofs.append((found.converge, after.another))
            after = replaced(after, proved=self.here.boot) if self.well else self._failed(after)
        if found.approve:
            self.approved += found.approve
            known = [replaced(one, asked=self.now) if one.id in found.approve else one for one in after.known]
            after = replaced(after, known=tuple(known))
        if not killed:
            self.memory = after
        self.actions.append(found.action)
        self.why = found.why
        return found.action

    def _failed(self, memory):
        return replaced(memory, tries=memory.tries + 1, tried=self.now, why="GPU 3: it is lost")

    def drained(self):
        return "DRAIN" in self.flags


def test_a_node_is_drained_before_with_the_event_in_its_reason_and_comes_back_proved_after_the_reboot():
    node = Node()
    assert node.look(event()) == plan.DRAINS
    assert node.reason == "gpu_node: event: Reboot e1 at 2027-01-15T08:15:00Z"
    assert [node.look(event()), node.look(event(started=True))] == ["leave", "leave"]
    node.here = AGAIN
    assert node.look(event(started=True)) == "leave" and node.drained()
    assert [node.look(), node.look(), node.look()] == [plan.PROVE, plan.RESUME, "leave"]
    assert node.proofs == [(True, False)] and not node.drained() and node.memory.drained == ()
    assert node.tells[0].startswith("event Reboot e1 at ") and node.tells[-1] == "event reboot e1: it is over"


@pytest.mark.parametrize("kind, action", [("freeze", "leave"), ("other", "leave")])
def test_what_jobs_outlive_is_told_only(kind, action):
    node = Node()
    assert node.look(event(kind)) == action and len(node.tells) == 1
    assert node.look() == "leave" and not node.proofs


@pytest.mark.parametrize("kind", ["reboot", "redeploy", "preempt", "terminate"])
def test_what_they_do_not_drains(kind):
    assert Node().look(event(kind)) == plan.DRAINS


def test_each_type_does_what_the_site_says():
    assert Node(freeze="drain").look(event("freeze")) == plan.DRAINS
    node = Node(reboot="ignore")
    assert node.look(event()) == "leave" and node.tells == [] and node.memory.known == ()
    assert Node(reboot="tell").look(event()) == "leave"


def test_a_pause_of_the_same_start_is_proved_by_a_look_and_needs_no_converge():
    node = Node(freeze="drain")
    node.look(event("freeze"))
    node.look(event("freeze", started=True))
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME] and node.proofs == [(False, False)]


def test_a_reboot_without_a_reboot_is_proved_as_a_pause():
    """In rare cases it is a freeze, says Azure."""
    node = Node()
    node.look(event())
    node.look(event(started=True))
    assert node.look() == plan.PROVE and node.proofs == [(False, False)]


def test_an_event_of_another_machine_is_not_ours():
    node = Node()
    assert node.look(event(resources=["vm_4"])) == "leave" and node.tells == []
    assert node.look(event(resources=["vm_4", "VM_3"])) == plan.DRAINS
    assert Node().look(event(resources=[])) == plan.DRAINS


def test_an_event_that_is_withdrawn_before_its_time_ends_the_drain_at_once():
    node = Node()
    node.look(event())
    assert node.look() == plan.RESUME and node.proofs == [] and node.tells[-1].endswith("it was withdrawn")


@pytest.mark.parametrize(
    "change",
    [
        lambda node: setattr(node, "now", NOW + 16 * 60),
        lambda node: setattr(node, "here", AGAIN),
        lambda node: node.look(event(started=True)),
    ],
)
def test_one_that_may_have_happened_was_not_withdrawn(change):
    node = Node()
    node.look(event())
    change(node)
    assert node.look() == plan.PROVE and node.tells[-1].endswith("it is over")


def test_a_proof_that_fails_keeps_it_drained_and_is_tried_again_less_and_less_often():
    node = Node()
    node.look(event(started=True))
    node.well = False
    times = []
    for _dummy in range(3000):
        if node.look() == plan.PROVE:
            times.append(node.now - NOW)
        assert node.drained()
        node.now += 10
    assert times[:5] == [0, 60, 180, 420, 900] and max(b - a for a, b in zip(times, times[1:])) == 3600
    node.now = NOW - 86400  # the clock was set back
    node.well = True
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME]


def test_nothing_is_proved_by_another_start():
    node = Node()
    node.look(event())
    node.look(event(started=True))
    assert node.look() == plan.PROVE
    node.here = AGAIN
    assert node.look() == plan.PROVE and node.proofs == [(False, False), (True, False)]


def test_another_machine_that_comes_back_is_told_apart():
    node = Node()
    node.look(event("redeploy"))
    node.here = OTHER
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME] and node.proofs == [(True, True)]
    assert "this is another machine (machine-2) than the one" in " ".join(node.tells)
    assert "another machine" in " ".join(one.text for one in node.memory.notes) and node.memory.machine == "machine-2"


def test_an_image_of_a_drained_node_tells_nothing_of_its_clones():
    node = Node()
    node.look(event())
    clone = Node(OTHER)
    clone.memory = node.memory
    assert clone.look() == "leave" and clone.memory.drained == () and not clone.memory.another
    # Its own events are its own.
    clone.memory = node.memory
    assert clone.look(event(name="e2")) == plan.DRAINS and not clone.memory.another and clone.memory.boot == "boot-3"


def test_a_machine_that_the_firmware_does_not_name_is_taken_for_the_same():
    node = Node()
    node.look(event())
    node.here = Here("", "boot-2", ("vm_3",))
    node.look()
    assert node.proofs == [(True, False)]


# Others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [ANNA, "gpu_node: health: GPU 3", "gpu_node: scratch: gone", None])
@pytest.mark.parametrize("flags", [{"IDLE", "DRAIN"}, {"DOWN"}, {"MIXED", "DRAIN"}])
def test_a_node_that_is_out_of_service_keeps_its_reason(reason, flags):
    node = Node(approve=True)
    node.flags, node.reason = set(flags), reason
    assert [node.look(event()), node.look(event(started=True)), node.look(), node.look()] == ["leave"] * 4
    assert (node.flags, node.reason) == (flags, reason) and not node.approved and not node.proofs


def test_a_node_that_a_person_took_while_it_was_drained_by_us_is_theirs():
    node = Node()
    node.look(event())
    node.reason = ANNA
    assert [node.look(event(started=True)), node.look()] == ["leave", "leave"] and node.reason == ANNA


def test_a_node_that_a_person_put_back_is_not_drained_twice_but_for_a_new_event():
    node = Node()
    node.look(event())
    node.flags, node.reason = {"IDLE"}, None
    assert [node.look(event()), node.look(event(started=True))] == ["leave", "leave"]
    assert "somebody put it back" in node.why
    assert node.look(event(started=True), event("redeploy", "e2")) == plan.DRAINS


def test_a_drain_that_slurm_forgot_with_the_power_is_made_again():
    node = Node()
    node.look(event())
    node.flags, node.reason, node.here = {"IDLE"}, None, AGAIN
    assert node.look(event()) == plan.DRAINS


@pytest.mark.parametrize("flag", ["POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"])
def test_a_node_that_slurm_powers_down_is_left(flag):
    node = Node()
    node.flags = {"IDLE", flag}
    assert node.look(event()) == "leave"


def test_a_rolling_converge_in_between_changes_nothing():
    node = Node()
    node.look(event())
    before = node.reason
    node.reason = "gpu_node: rolling: being converged (run 3f2a9c1b); before: " + before
    assert [node.look(event()), node.look()] == ["leave", "leave"] and node.memory.drained == ("e1",)
    node.reason = before
    assert node.look() == plan.RESUME


# Two at once --------------------------------------------------------------------------------------------


def test_of_two_at_once_the_first_to_come_is_the_reason_then_the_worst():
    node = Node()
    node.look(event(name="e1", minutes=20), event("redeploy", "e2", minutes=10))
    assert "Redeploy e2" in node.reason
    node = Node()
    node.look(event(name="e1"), event("redeploy", "e2"))
    assert "Redeploy e2" in node.reason
    node = Node()
    node.look(event(name="e1", started=True), event("redeploy", "e2", minutes=-5))
    assert node.reason == "gpu_node: event: Reboot e1 has started"


def test_it_stays_drained_until_both_are_over():
    node = Node()
    first, second = event(minutes=10), event("redeploy", "e2", minutes=30)
    assert node.look(first, second) == plan.DRAINS and "Reboot e1" in node.reason
    node.now, node.here = NOW + 900, AGAIN
    assert node.look(second) == plan.RENAME and "Redeploy e2" in node.reason
    assert node.look(second) == "leave"
    # The second is withdrawn, and the first did happen.
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME]
    assert node.actions.count(plan.DRAINS) == 1


def test_a_pause_is_not_forgotten_when_the_second_is_withdrawn():
    node = Node(freeze="drain")
    node.look(event("freeze"), event(name="e2", minutes=30))
    node.look(event("freeze", started=True), event(name="e2", minutes=30))
    node.look(event(name="e2", minutes=30))
    assert node.look() == plan.PROVE


def test_a_new_event_while_the_node_proves_well_keeps_it_drained():
    node = Node()
    node.look(event(started=True))
    assert node.look() == plan.PROVE
    assert node.look(event("redeploy", "e2")) == plan.RENAME and node.drained()
    assert node.look() == plan.PROVE


# When ---------------------------------------------------------------------------------------------------


def test_what_is_far_away_is_told_now_and_drained_for_in_time():
    node = Node(lead_minutes=60)
    far = event(minutes=7 * 24 * 60)
    assert node.look(far) == "leave" and len(node.tells) == 1
    node.now += (7 * 24 - 1) * 3600 - 1
    assert node.look(far) == "leave"
    node.now += 2
    assert node.look(far) == plan.DRAINS


def test_without_lead_time_it_is_drained_when_it_starts():
    node = Node(lead_minutes=0)
    assert [node.look(event()), node.look(event(started=True))] == ["leave", plan.DRAINS]
    # Nobody saw what the machine was before: it may have been restarted.
    node.look()
    assert node.proofs == [(True, False)]


def test_an_event_that_is_put_off_gives_the_node_back_until_then():
    node = Node()
    node.look(event())
    assert node.look(event(minutes=3 * 24 * 60)) == plan.RESUME and "it is now at" in node.tells[-1]
    assert node.look(event(minutes=3 * 24 * 60)) == "leave"
    assert node.look(event()) == plan.DRAINS


# What is not known --------------------------------------------------------------------------------------


def test_an_answer_that_is_not_whole_ends_nothing():
    node = Node()
    node.look(event())
    assert [node.look(whole=False), node.look(whole=False)] == ["leave", "leave"] and node.drained()
    assert node.look(event(name="e2"), whole=False) == plan.RENAME
    assert node.look() == plan.RESUME


def test_a_run_that_was_killed_after_its_drain_finds_it():
    node = Node()
    assert node.look(event(), killed=True) == plan.DRAINS
    assert node.look(event()) == "leave" and node.memory.drained == ("e1",)
    assert node.look() == plan.PROVE
    assert node.actions.count(plan.DRAINS) == 1


def test_a_person_who_puts_back_what_a_killed_run_drained_is_heeded():
    node = Node()
    node.look(event(), killed=True)
    node.look(event())
    node.flags, node.reason = {"IDLE"}, None
    assert node.look(event()) == "leave" and not node.drained()


def test_a_memory_that_is_lost_costs_a_proof():
    node = Node()
    node.look(event())
    node.memory = Memory()
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME] and node.proofs == [(True, False)]


def test_a_run_that_was_killed_after_its_resume_does_not_drain_again():
    node = Node()
    node.look(event())
    assert node.look(killed=True) == plan.RESUME
    assert node.look() == "leave" and not node.drained()


# Back ---------------------------------------------------------------------------------------------------


def over(**more):
    node = Node(**more)
    node.look(event())
    node.look(event(started=True))
    node.here = AGAIN
    return node


def test_a_restart_makes_slurmctld_call_it_down_which_ends_with_the_drain():
    """ReturnToService other than 2; our reason stays, and a person could not set it down without another."""
    node = over()
    node.flags = {"DOWN", "DRAIN"}
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME] and node.flags == {"IDLE"}


def test_it_is_not_put_back_while_it_is_down_and_was_not_restarted():
    node = Node(freeze="drain")
    node.look(event("freeze"))
    node.look(event("freeze", started=True))
    node.flags = {"DOWN", "DRAIN"}
    assert [node.look(), node.look()] == [plan.PROVE, "leave"] and "not ours to end" in node.why


def test_a_failing_node_is_left():
    node = over()
    node.flags = {"DOWN", "FAIL", "DRAIN"}
    assert [node.look(), node.look()] == [plan.PROVE, "leave"]


def test_a_slurmd_that_does_not_answer_is_waited_for():
    node = over()
    node.flags = {"IDLE", "DRAIN", "NOT_RESPONDING"}
    assert [node.look(), node.look()] == ["leave", "leave"] and not node.proofs
    node.flags = {"IDLE", "DRAIN"}
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME]


@pytest.mark.parametrize("flags", [{"ALLOCATED", "DRAIN"}, {"MIXED", "DRAIN"}, {"IDLE", "DRAIN", "COMPLETING"}])
def test_no_converge_under_a_job(flags):
    node = over()
    node.flags = set(flags)
    assert node.look() == "leave" and not node.proofs


def test_a_look_after_a_pause_does_not_wait_for_the_job_that_outlived_it():
    node = Node(freeze="drain")
    node.flags = {"MIXED"}
    node.look(event("freeze"))
    node.look(event("freeze", started=True))
    assert [node.look(), node.look()] == [plan.PROVE, plan.RESUME] and node.flags == {"MIXED"}


# Approval -----------------------------------------------------------------------------------------------


def test_an_event_is_approved_once_when_the_node_is_empty():
    node = Node(approve=True)
    node.flags = {"MIXED"}
    assert node.look(event()) == plan.DRAINS
    assert node.look(event()) == "leave" and node.approved == []
    node.flags = {"IDLE", "DRAIN", "COMPLETING"}
    node.look(event())
    assert node.approved == []
    node.flags = {"IDLE", "DRAIN"}
    for _dummy in range(5):
        node.look(event())
    assert node.approved == ["e1"]
    node.now += 61
    node.look(event())
    assert node.approved == ["e1", "e1"]
    # It may have begun by now, whatever its time says.
    assert node.look() == plan.PROVE


@pytest.mark.parametrize(
    "more, one",
    [
        ({}, event()),
        ({"approve": True}, event(resources=["vm_3", "vm_4"])),
        ({"approve": True}, event(resources=[])),
        ({"approve": True}, event(started=True)),
        ({"approve": True, "reboot": "tell"}, event()),
    ],
)
def test_nothing_else_is_approved(more, one):
    node = Node(**more)
    for _dummy in range(3):
        node.look(one)
    assert node.approved == []


# All of it ----------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("event"), st.sampled_from(["e1", "e2", "e3"]), st.sampled_from(["freeze", "reboot", "redeploy"])
        ),
        st.tuples(st.sampled_from(["start", "end"]), st.sampled_from(["e1", "e2", "e3"])),
        st.tuples(
            st.sampled_from(["boot", "machine", "anna", "undrain", "lost", "killed", "sick", "well", "half", "back"])
        ),
        st.tuples(st.just("time"), st.integers(-7200, 7200)),
    ),
    max_size=40,
)


@given(STEPS, st.booleans(), st.sampled_from(["drain", "tell"]))
@examples(400)
def test_whatever_happens(steps, approve, freeze):
    """Random clouds, restarts, kills and persons. What has to hold holds after each look, and in the end the node is
    back, unless a person has it."""
    node = Node(approve=approve, freeze=freeze)
    pending, drains, boots = {}, set(), 1
    for step in [*steps, ("well",), ("settle",)]:
        word, killed, whole = step[0], False, True
        if word == "event":
            pending.setdefault(step[1], event(step[2], step[1], minutes=15))
        elif word == "start" and step[1] in pending:
            pending[step[1]] = replaced(pending[step[1]], started=True, not_before=None)
        elif word == "end":
            pending.pop(step[1], None)
        elif word in ("boot", "machine"):
            boots += 1
            name = node.here.machine if word == "boot" else "machine-{0}".format(boots)
            node.here = Here(name, "boot-{0}".format(boots), ("vm_3",))
        elif word == "anna":
            node.flags, node.reason = {"IDLE", "DRAIN"}, ANNA
        elif word == "undrain":
            node.flags, node.reason = {"IDLE"}, None
        elif word == "lost":
            node.memory, drains = Memory(), set()
        elif word in ("sick", "well"):
            node.well = word == "well"
        elif word == "time":
            node.now += step[1]
        elif word == "settle":
            pending = {}
        killed, whole = word == "killed", word != "half"
        shown = [one for number, one in enumerate(pending.values()) if whole or number]
        for dummy in range(1 if word != "settle" else 4):
            before, was = node.reason, node.memory
            proofs = len(node.proofs)
            action = node.look(*shown, whole=whole, killed=killed)
            if before == ANNA:
                assert action == "leave" and node.reason == ANNA
            if action == plan.DRAINS:
                key = (frozenset(node.memory.drained) if not killed else None, node.here.boot)
                assert killed or key not in drains or not before
                fresh = {one for one in pending if one not in was.drained} or was.boot != node.here.boot
                assert fresh and (before or "") == ""
            if action == plan.RESUME:
                due = [one for one in shown if node.settings.action(one.type) == "drain"]
                assert not any(one.started or one.not_before - node.now <= 86400 for one in due)
                if was.boot != node.here.boot:
                    assert was.proved == node.here.boot and any(converged for converged, dummy in node.proofs)
            if action == plan.PROVE:
                assert len(node.proofs) == proofs + 1 and before.startswith("gpu_node: event: ")
            if word == "settle":
                node.now += 3601
    assert len(node.memory.known) == 0 and len(node.memory.notes) <= 50
    assert node.reason in (None, ANNA) and node.drained() == (node.reason == ANNA)


OWED = Held("it owes a passing gpu_compute", "gpu_node: health: reboot: GPU 3: it is lost")


@pytest.mark.parametrize("end", ["over", "withdrawn"])
@pytest.mark.parametrize("flags", [{"IDLE"}, {"IDLE", "DOWN"}])
def test_a_node_whose_health_owes_a_proof_is_left_to_the_gate_and_never_resumed(end, flags):
    node = Node()
    node.look(event())
    node.held = OWED
    if end == "over":
        node.look(event(started=True))
        node.here = AGAIN
        node.flags = flags | {"DRAIN"}
        assert node.look() == plan.PROVE
    assert node.look() == plan.GATE
    assert "DRAIN" in node.flags and node.reason == OWED.reason and OWED.why in node.why
    assert node.memory.drained == ()
    # From now on it is the gate's.
    assert node.look() == plan.LEAVE and node.reason == OWED.reason
    assert plan.RESUME not in node.actions


def test_what_its_health_owes_ends_no_drain_before_its_events_are_over():
    node = Node()
    node.look(event())
    node.held = OWED
    assert node.look(event()) == plan.LEAVE and node.reason.startswith("gpu_node: event: ")
