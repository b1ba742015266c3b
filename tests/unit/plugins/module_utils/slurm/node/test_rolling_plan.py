# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a node: every combination of base state, flag, reason, job and wish."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node import plan, reason
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import (
    Busy,
    Desired,
    Drain,
    Outcome,
    Owner,
    State,
    Undrain,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

BASES = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN", "FUTURE", "ERROR")
FLAGS = (
    "",
    "DRAIN",
    "COMPLETING",
    "RESERVED",
    "MAINT",
    "NOT_RESPONDING",
    "FAIL",
    "CLOUD",
    "PLANNED",
    "INVALID_REG",
    "POWERED_DOWN",
    "POWERING_DOWN",
    "POWERING_UP",
    "POWER_DOWN",
    "REBOOT_REQUESTED",
    "REBOOT_ISSUED",
)
OURS = "gpu_node: rolling: being converged"
FAILED = "gpu_node: rolling: failed: GPU 3 is lost"
HEALTH = "gpu_node: health: GPU 3 is lost"
HOOK = "gpu_node: scratch /mnt/resource_nvme: it is not mounted"
PERSON = "anna: new memory"
# Somebody who writes about us is not us.
MIMIC = "see gpu_node: rolling: of yesterday"
RUN, OTHER = "3f2a9c1b", "0badcafe"
OURS_RUN, OURS_OTHER = OURS + " (run 3f2a9c1b)", OURS + " (run 0badcafe)"
WAITS = "gpu_node: rolling: waits for its jobs"
FAILED_ACTIVE = "gpu_node: rolling: failed: GPU 3 is slow (active)"
# Runs that took a node that failed an active check, and were cut off.
OWES, OWES_OTHER, OWES_WAITS = OURS + " (run 3f2a9c1b, active)", OURS + " (run 0badcafe, active)", WAITS + " (active)"
HELD, HELD_HEALTH = OURS_RUN + "; before: " + PERSON, OURS + "; before: " + HEALTH
FAILED_HELD = FAILED + "; before: " + PERSON
REASONS = (None, OURS, FAILED, HEALTH, HOOK, PERSON, MIMIC)
REASONS += (OURS_RUN, OURS_OTHER, WAITS, FAILED_ACTIVE, HELD, HELD_HEALTH, FAILED_HELD)
REASONS += (OWES, OWES_OTHER, OWES_WAITS, OWES + "; before: " + PERSON)
EVERY_STATE = [
    State(SlurmNode(frozenset(word for word in (base, flag, drained) if word), reason), jobs)
    for base, flag, drained, reason, jobs in itertools.product(BASES, FLAGS, ("", "DRAIN"), REASONS, ((), ("17",)))
]
EVERY_WISH = [
    Desired("gpu01", drained=drained, busy=busy, others=others, run=run)
    for drained, busy, others, run in itertools.product((True, False), Busy, (True, False), ("", RUN))
]
EVERY_WISH += [Desired("gpu01", drained=True, busy=busy, run=RUN, active=True) for busy in Busy]


def state(words, reason=None, *jobs):
    return State(SlurmNode(frozenset(words.split("+")), reason), jobs)


def settled(start, desired, time_left=False):
    """Each step carried out as Slurm would; what happened, and where it ended."""
    done, now = [], start
    for _step in range(4):
        decision = plan.decide(now, desired, time_left)
        if decision.action is None:
            return done, decision, now
        done.append(decision.action)
        now = plan.expected(now, decision.action)
    raise AssertionError("no end: {0} {1} {2}".format(start, desired, done))


def is_away(one):
    return bool(one.node.flags & {"FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"}) or bool(
        one.node.flags & {"REBOOT_REQUESTED", "REBOOT_ISSUED"}
    )


def has_jobs(one):
    return bool(one.jobs) or bool(one.node.flags & {"ALLOCATED", "MIXED", "COMPLETING"})


def served(desired):
    """Without those that are to come back while slurmctld takes no registration of theirs."""
    return [one for one in EVERY_STATE if desired.drained or "INVALID_REG" not in one.node.flags]


@pytest.mark.parametrize("desired", [one for one in EVERY_WISH if not one.drained], ids=str)
def test_a_node_whose_registration_is_refused_is_waited_for_and_then_an_error(desired):
    for start in set(EVERY_STATE) - set(served(desired)):
        assert plan.decide(start, desired, True) == plan.Decision()
        with pytest.raises(NodeError, match="slurmctld does not take what it registered with .*INVALID_REG"):
            plan.decide(start, desired, False)


def test_there_are_enough_combinations():
    assert len(EVERY_STATE) == 7 * 16 * 2 * 18 * 2


@pytest.mark.sampled(6)
@pytest.mark.parametrize("desired", EVERY_WISH, ids=str)
@pytest.mark.parametrize("time_left", [False, True])
def test_every_plan_ends_and_asks_for_nothing_more(desired, time_left):
    for start in served(desired):
        dummy, decision, now = settled(start, desired, time_left)
        assert plan.decide(now, desired, time_left) == decision
        waiting = decision.outcome is None
        assert not waiting or (time_left and desired.drained and has_jobs(now)), (start, decision)
        assert waiting or decision.why


@pytest.mark.sampled(3)
@pytest.mark.parametrize("desired", EVERY_WISH, ids=str)
def test_what_others_did_is_never_undone_nor_lost(desired):
    """Only a drain that is ours alone is taken back; the reason of another one is kept at the end of ours."""
    for start in served(desired):
        for time_left in (False, True):
            done, dummy, now = settled(start, desired, time_left)
            if start.before is not None:
                assert Undrain() not in done and now.before == start.before
            asked = desired.others and desired.drained and "DRAIN" in start.node.flags
            if start.owner is Owner.SOMEBODY and not asked:
                assert done == [] and now == start
            for action in done:
                assert isinstance(action, (Drain, Undrain))
                ours = isinstance(action, Drain) and action.reason.startswith(drain.PREFIX + drain.ROLLING)
                assert isinstance(action, Undrain) or ours or action.reason == start.before
            # Whatever is done, nothing but the drain differs.
            assert now.node.flags - {"DRAIN"} == start.node.flags - {"DRAIN"} and now.jobs == start.jobs


@pytest.mark.sampled(3)
@pytest.mark.parametrize("desired", [one for one in EVERY_WISH if one.drained], ids=str)
def test_ready_is_said_only_of_a_node_that_is_out_of_service_without_jobs(desired):
    counts = dict.fromkeys(Outcome, 0)
    for start in EVERY_STATE:
        done, decision, now = settled(start, desired)
        counts[decision.outcome] += 1
        if decision.outcome is Outcome.READY:
            assert "DRAIN" in now.node.flags and not has_jobs(now) and not is_away(now)
            owes = start.ours is not None and start.ours.active
            assert now.owner is Owner.ROLLING and now.node.reason == desired.text(start.before, owes=owes)
            assert desired.active or not owes
            assert desired.others or not now.ours.for_somebody
            assert not start.ours or start.ours.run in (None, RUN) or not desired.run
        if decision.outcome is Outcome.BUSY:
            assert has_jobs(now)
            # With "leave" no drain of ours stays on a node that goes on with its jobs, unless it failed.
            if desired.busy is Busy.LEAVE:
                assert now.owner is not Owner.ROLLING or now.ours.failed or now.ours.active
            elif start.owner is Owner.NOBODY:
                assert now.owner is Owner.ROLLING
        if decision.outcome is Outcome.LEFT:
            # What was down as well when we take our drain back stays down; a drain of before us is there again.
            down = done == [Undrain()] and now.node.flags & {"DOWN", "FAIL", "UNKNOWN"}
            assert done == [] or down or done == [Drain(start.ours.before)]
    assert counts[Outcome.IN_SERVICE] == 0 and all(counts[one] for one in (Outcome.READY, Outcome.BUSY, Outcome.LEFT))


@pytest.mark.parametrize("desired", [one for one in EVERY_WISH if one.drained], ids=str)
def test_a_node_that_failed_an_active_check_is_not_let_go_on_the_way_out(desired):
    """The word stays, whatever was cut off in between, until a run that measures has it back in service."""
    for start in EVERY_STATE:
        if start.ours is not None and start.ours.active:
            for time_left in (False, True):
                done, dummy, now = settled(start, desired, time_left)
                assert Undrain() not in done and now.ours.active


def test_who_owes_a_proof_is_left_to_the_gate_and_never_put_back():
    wish = Desired("gpu01", drained=False, owes=HEALTH)
    for start in EVERY_STATE:
        done, decision, now = settled(start, wish) if not drain.is_refused(start.node) else ([], None, start)
        if start.owner is Owner.ROLLING and not drain.is_refused(start.node):
            # What others had it drained for stays; where nobody had, it is the gate's from now on.
            assert now.node.reason == (HEALTH if start.before is None else start.before)
            assert drain.out_of_service(now.node) and decision.outcome is Outcome.LEFT
            assert not any(isinstance(one, Undrain) for one in done)
        else:
            assert done == []
    assert settled(state("IDLE+DRAIN", OURS), wish)[0] == [Drain(HEALTH)]
    # Only on the way back: who is given up before anything was done is as it was.
    taken = settled(state("MIXED+DRAIN", OURS_RUN), Desired("gpu01", run=RUN, owes=HEALTH))
    assert taken[0] == [Undrain()]


@pytest.mark.parametrize("text", ["GPU 3 is lost", OURS, PERSON, "gpu_node: event: Redeploy e1"])
def test_what_a_node_owes_is_a_reason_of_the_gate(text):
    with pytest.raises(NodeError, match="it is no reason of the health gate"):
        Desired("gpu01", drained=False, owes=text)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("desired", [one for one in EVERY_WISH if not one.drained], ids=str)
def test_back_in_service_comes_what_we_drained_and_nothing_else(desired):
    for start in served(desired):
        done, decision, now = settled(start, desired)
        ours = start.ours
        foreign = ours is None or (desired.run and ours.run not in (None, desired.run))
        assert done == ([] if foreign else [Undrain()] if ours.before is None else [Drain(ours.before)])
        assert decision.outcome is (Outcome.LEFT if drain.out_of_service(now.node) else Outcome.IN_SERVICE)


FAILS = {"reason": "failed: GPU 3 is lost", "busy": Busy.DRAIN}


@pytest.mark.parametrize(
    "start, wish, steps, outcome",
    [
        (state("IDLE"), {}, [Drain(OURS)], Outcome.READY),
        (state("IDLE+RESERVED"), {}, [Drain(OURS)], Outcome.READY),
        (state("MIXED"), {}, [], Outcome.BUSY),
        (state("IDLE", None, "17"), {}, [], Outcome.BUSY),  # a suspended job
        (state("MIXED+DRAIN", OURS), {}, [Undrain()], Outcome.BUSY),  # a job began before our drain
        (state("MIXED"), {"busy": Busy.DRAIN}, [Drain(OURS)], Outcome.BUSY),
        (state("MIXED+DRAIN", OURS), {"busy": Busy.DRAIN}, [], Outcome.BUSY),
        (state("IDLE+DRAIN", OURS), {}, [], Outcome.READY),  # of a run that was cut off
        (state("IDLE+DRAIN", FAILED), {}, [Drain(OURS)], Outcome.READY),
        (state("IDLE+DRAIN", OURS), {"reason": "failed: GPU 3 is lost"}, [Drain(FAILED)], Outcome.READY),
        (state("IDLE+DRAIN", HEALTH), {}, [Drain(OURS + "; before: " + HEALTH)], Outcome.READY),
        (state("IDLE+DRAIN", HEALTH), {"drained": False}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", HELD_HEALTH), {"drained": False}, [Drain(HEALTH)], Outcome.LEFT),
        (state("MIXED+DRAIN", HELD_HEALTH), {}, [Drain(HEALTH)], Outcome.BUSY),
        (state("IDLE+DRAIN", PERSON), {}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", PERSON), {"others": True, "run": RUN}, [Drain(HELD)], Outcome.READY),
        (state("MIXED+DRAIN", PERSON), {"others": True, "busy": Busy.DRAIN}, [], Outcome.BUSY),
        (state("IDLE+DRAIN", HELD), {"drained": False, "run": RUN}, [Drain(PERSON)], Outcome.LEFT),
        (state("IDLE+DRAIN", HELD), {"run": OTHER, "take_over": True}, [Drain(PERSON)], Outcome.LEFT),
        # It fails: only what somebody said of it is kept.
        (state("IDLE+DRAIN", HELD), {**FAILS, "others": True}, [Drain(FAILED_HELD)], Outcome.READY),
        (state("IDLE+DRAIN", HELD_HEALTH), FAILS, [Drain(FAILED)], Outcome.READY),
        (state("IDLE+DRAIN", FAILED_HELD), {}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", FAILED_HELD), {"others": True, "run": RUN}, [Drain(HELD)], Outcome.READY),
        (state("MIXED+DRAIN", FAILED), {}, [], Outcome.BUSY),
        # Two runs.
        (state("IDLE"), {"run": RUN}, [Drain(OURS_RUN)], Outcome.READY),
        (state("IDLE+DRAIN", OURS_RUN), {"run": RUN}, [], Outcome.READY),
        (state("IDLE+DRAIN", OURS_OTHER), {"run": RUN}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", OURS_OTHER), {"run": RUN, "drained": False}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", OURS_OTHER), {"run": RUN, "take_over": True}, [Drain(OURS_RUN)], Outcome.READY),
        (state("IDLE+DRAIN", OURS), {"run": RUN}, [Drain(OURS_RUN)], Outcome.READY),
        (state("IDLE+DRAIN", FAILED), {"run": RUN}, [Drain(OURS_RUN)], Outcome.READY),
        (state("IDLE+DRAIN", OURS_RUN), {**FAILS, "run": RUN}, [Drain(FAILED)], Outcome.READY),
        # Who waits for jobs is of no run.
        (state("MIXED"), {"busy": Busy.DRAIN, "run": RUN}, [Drain(WAITS)], Outcome.BUSY),
        (state("MIXED+DRAIN", OURS_RUN), {"busy": Busy.DRAIN, "run": RUN}, [Drain(WAITS)], Outcome.BUSY),
        (state("MIXED+DRAIN", WAITS), {"busy": Busy.DRAIN, "run": RUN}, [], Outcome.BUSY),
        (state("IDLE+DRAIN", WAITS), {"run": RUN}, [Drain(OURS_RUN)], Outcome.READY),
        # What failed when it was measured comes back when it was measured.
        (state("IDLE+DRAIN", FAILED_ACTIVE), {}, [], Outcome.LEFT),
        (state("IDLE+DRAIN", FAILED_ACTIVE), {"active": True, "run": RUN}, [Drain(OWES)], Outcome.READY),
        (state("IDLE+DRAIN", OWES), {"active": True, "run": RUN, "drained": False}, [Undrain()], Outcome.IN_SERVICE),
        (state("IDLE+DRAIN", OWES_OTHER), {"run": RUN, "take_over": True}, [], Outcome.LEFT),
        (
            state("IDLE+DRAIN", OWES_OTHER),
            {"run": RUN, "take_over": True, "active": True},
            [Drain(OWES)],
            Outcome.READY,
        ),
        (state("MIXED+DRAIN", OWES), {"active": True, "run": RUN}, [Drain(OWES_WAITS)], Outcome.BUSY),
        (state("IDLE+DRAIN", OWES_WAITS), {"run": RUN}, [], Outcome.LEFT),
        (
            state("IDLE+DRAIN", OWES),
            {**FAILS, "run": RUN, "active": True},
            [Drain(FAILED + " (active)")],
            Outcome.READY,
        ),
        (
            state("IDLE+DRAIN", OURS),
            {"active": True, "reason": "failed: GPU 3 is slow"},
            [Drain(FAILED_ACTIVE)],
            Outcome.READY,
        ),
        # It could return by itself.
        (state("DOWN", "Not responding"), {"others": True}, [], Outcome.LEFT),
        (state("DOWN+DRAIN", PERSON), {"others": True, "run": RUN}, [Drain(HELD)], Outcome.READY),
        (state("IDLE+DRAIN", None), {}, [], Outcome.LEFT),
        (state("DOWN", "Not responding"), {}, [], Outcome.LEFT),
        (state("IDLE+CLOUD+POWERED_DOWN"), {}, [], Outcome.LEFT),
        (state("UNKNOWN"), {}, [], Outcome.LEFT),
        (state("IDLE+REBOOT_REQUESTED"), {}, [], Outcome.LEFT),
    ],
)
def test_the_cases_that_people_meet(start, wish, steps, outcome):
    done, decision, dummy = settled(start, Desired("gpu01", **wish))
    assert (done, decision.outcome) == (steps, outcome)


def test_while_there_is_time_a_busy_node_is_drained_and_waited_for():
    done, decision, now = settled(state("MIXED"), Desired("gpu01", wait_seconds=60), time_left=True)
    assert done == [Drain(OURS)] and decision.outcome is None and decision.action is None
    ended = State(SlurmNode(now.node.flags - {"MIXED"} | {"IDLE"}, now.node.reason))
    assert plan.decide(ended, Desired("gpu01"), True).outcome is Outcome.READY


@pytest.mark.parametrize(
    "start, wish, told",
    [
        (state("IDLE+DRAIN", OURS_OTHER), {"run": RUN}, r"another run \(0badcafe\) .* gpu_node_rolling_take_over=true"),
        (state("IDLE+DRAIN", FAILED_ACTIVE), {}, "gpu_node_health_level=active"),
        (state("IDLE+DRAIN", OWES_OTHER), {"run": RUN, "take_over": True}, "gpu_node_health_level=active"),
        (state("DOWN", "bad DIMM"), {"others": True}, r"slurmd does not answer.*\(DOWN; reason: bad DIMM\)"),
    ],
)
def test_who_is_left_is_told_what_to_do(start, wish, told):
    assert re.search(told, plan.decide(start, Desired("gpu01", **wish), False).why)


ADDED = (
    "Not responding",
    "reboot issued",
    "reboot timed out",
    "reboot complete",
    "ResumeTimeout reached",
    "Low RealMemory",
)


@pytest.mark.parametrize("added", ADDED)
def test_what_slurm_puts_behind_a_reason_hides_none_of_its_marks(added):
    behind = " : " + added
    assert reason.read(FAILED_ACTIVE + behind).active and reason.read(FAILED_ACTIVE + behind).failed
    assert reason.read(OURS + " (run 3f2a9c1b)" + behind).run == RUN
    both = reason.read(OWES + behind + " : Not responding")
    assert both.run == RUN and both.active
    if added != ADDED[-1]:
        assert reason.read(OWES + "; before: " + PERSON + behind).before == PERSON
        assert drain.read(HEALTH + behind + behind) == drain.read(HEALTH)
        assert drain.finding(HEALTH + behind) == drain.finding(HEALTH)
        node = SlurmNode(frozenset(("IDLE", "DRAIN")), drain.reason_text("x") + behind)
        assert drain.decide(node, "x").action == drain.LEAVE


WORDS = st.text(alphabet="ab :;()[]\"'", min_size=1, max_size=250).filter(lambda words: set(words) & set("ab"))


@given(
    st.one_of(
        WORDS,
        WORDS.map("failed: {0}; before: x".format),
        WORDS.map("failed: {0} (active)".format),
        WORDS.map("{0} (run deadbeef)".format),
        WORDS.map("failed: {0} (active) : Not responding".format),
        WORDS.map("a (run deadbeef) : {0}".format),
    ),
    st.sampled_from((None, RUN)),
    st.booleans(),
    st.sampled_from((None, PERSON, HEALTH, "a; before: b (run 0badcafe)")),
)
def test_what_is_written_is_read_again(words, run, active, before):
    text = reason.written(words, run, active, before)
    found = reason.read(text)
    failed = words.startswith("failed: ")
    assert text.startswith(drain.PREFIX + drain.ROLLING) and found.failed == failed
    assert found.before == (None if failed and before == HEALTH else before)
    assert found.active == active and found.run == (None if failed else run)


def test_the_hooks_leave_our_drain_alone():
    node = SlurmNode(frozenset(("IDLE", "DRAIN")), OURS)
    assert drain.decide(node, None).action == drain.LEAVE
    assert drain.decide(SlurmNode(node.flags, HOOK), None).action == drain.RESUME


@pytest.mark.parametrize(
    "wish, told",
    [
        ({"name": "gpu[01-99]"}, "not the name of one node"),
        ({"name": "gpu01,gpu02"}, "not the name of one node"),
        ({"name": "ALL "}, "not the name of one node"),
        ({"name": ""}, "not the name of one node"),
        ({"name": "gpu01", "reason": " "}, "empty"),
        ({"name": "gpu01", "reason": "[']"}, "empty"),
        ({"name": "gpu01", "run": "mine"}, "not 8 hexadecimal digits"),
        ({"name": "gpu01", "wait_seconds": -1}, "between 0 and a week"),
        ({"name": "gpu01", "wait_seconds": float("nan")}, "between 0 and a week"),
    ],
)
def test_wrong_wishes(wish, told):
    with pytest.raises(NodeError, match=told):
        Desired(**wish)


def test_what_slurmctld_adds_behind_our_reason_does_not_drain_the_node_again():
    desired = Desired(name="n1", run=RUN, drained=True)
    flags = frozenset(("IDLE", "DRAIN"))
    state = State(SlurmNode(flags=flags, reason=desired.text() + " : Not responding"))
    assert plan.decide(state, desired, True).action is None
