# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict does to a node: tables by hand, and properties over every state that there can be."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Entry, History, lost
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.drain import DRAIN, LEAVE, RESUME
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.gate.gate_states import (
    ACTIVE,
    BOOTS,
    DOWN,
    FAIL,
    HISTORIES,
    HOOK,
    IN_SERVICE,
    LEAVING,
    LOST,
    NODES,
    NOW,
    OUR_REASON,
    OURS,
    OURS_DOWN,
    PASS,
    PASSIVE,
    PERSON,
    QUICK,
    SETTINGS,
    STATES,
    UNKNOWN,
    WARN,
    history,
)

DEFAULT = Settings()
BOOT = "boot-1"


def decided(node, known, boot=BOOT, **settings):
    return plan.decide(node, known, dataclasses.replace(DEFAULT, **settings), NOW, boot)


# By hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "node, outcomes, expected",
    [
        # In service.
        (IN_SERVICE, [PASS], LEAVE),
        (IN_SERVICE, [WARN], LEAVE),
        (IN_SERVICE, [UNKNOWN], LEAVE),
        (IN_SERVICE, [FAIL], DRAIN),
        (IN_SERVICE, [FAIL, PASS], LEAVE),
        # Drained for its health by us: three clean verdicts in a row, and no fewer.
        (OURS, [FAIL], LEAVE),
        (OURS, [FAIL, PASS, PASS], LEAVE),
        (OURS, [FAIL, PASS, PASS, PASS], RESUME),
        (OURS, [FAIL, WARN, PASS, WARN], RESUME),
        (OURS, [FAIL, PASS, UNKNOWN, PASS, PASS], LEAVE),
        (OURS, [FAIL, PASS, PASS, UNKNOWN], LEAVE),
        (OURS, [FAIL, PASS, FAIL, PASS, PASS], LEAVE),
        (OURS, [PASS, PASS, PASS], RESUME),
        (OURS, [PASS, PASS], LEAVE),
        # What looks less far proves nothing.
        (OURS, [FAIL, (PASS, QUICK), (PASS, QUICK), (PASS, QUICK)], LEAVE),
        (OURS, [(FAIL, QUICK), (PASS, QUICK), (PASS, QUICK), (PASS, QUICK)], RESUME),
        (OURS, [(FAIL, ACTIVE), PASS, PASS, PASS, PASS], LEAVE),
        (OURS, [(FAIL, ACTIVE), (PASS, ACTIVE), PASS, (PASS, ACTIVE), (PASS, ACTIVE)], RESUME),
        (OURS, [FAIL, (PASS, ACTIVE), (PASS, QUICK), PASS, PASS], RESUME),
        # Of others: whatever is found.
        (PERSON, [FAIL], LEAVE),
        (PERSON, [PASS] * 9, LEAVE),
        (HOOK, [FAIL], LEAVE),
        (HOOK, [PASS] * 9, LEAVE),
        (DOWN, [FAIL], LEAVE),
        (DOWN, [PASS] * 9, LEAVE),
        (OURS_DOWN, [PASS] * 9, LEAVE),
    ],
)
def test_what_a_history_does(node, outcomes, expected):
    assert decided(node, history(*outcomes)).action == expected


def test_the_reason_is_ours_and_says_what_is_wrong():
    decision = decided(IN_SERVICE, history(FAIL))
    assert decision.reason == OUR_REASON == "gpu_node: health: " + LOST
    drained = SlurmNode(frozenset({"IDLE", "DRAIN"}), decision.reason)
    assert drain.is_for_health(drained) and drain.is_ours(drained)


def test_the_reason_has_the_word_of_the_remedy_for_programs():
    assert drain.REMEDIES == tuple(one.value for one in Remedy)
    for word in drain.REMEDIES:
        known = history(FAIL)
        known = dataclasses.replace(known, entries=(dataclasses.replace(known.entries[0], remedy=word),))
        reason = decided(IN_SERVICE, known).reason
        assert reason == "gpu_node: health: {0}: {1}".format(word, LOST)
        assert drain.read(reason) == drain.Ours(drain.HEALTH, word, LOST)
        drained = SlurmNode(frozenset({"IDLE", "DRAIN"}), reason)
        assert drain.is_for_health(drained) and not drain.is_for_rolling(drained)
        owed = dataclasses.replace(known, drained=True, boot="boot-0")  # it was started since
        assert decided(IN_SERVICE, owed).reason == reason


@pytest.mark.parametrize(
    "reason, ours",
    [
        ("gpu_node: health: GPU 3: it is lost", ("health: ", "", "GPU 3: it is lost")),  # of an older version
        ("gpu_node: health: reboot", ("health: ", "", "reboot")),
        ("gpu_node: health: Reboot: GPU 3", ("health: ", "", "Reboot: GPU 3")),
        ("gpu_node: rolling: failed: reboot: GPU 3", ("rolling: ", "", "failed: reboot: GPU 3")),
        ("gpu_node: reboot: scratch", ("", "", "reboot: scratch")),
        ("gpu_node:health: reboot: GPU 3", None),
        (" gpu_node: health: reboot: GPU 3", None),
        ("NHC: gpu_node: health: reboot: GPU 3", None),
        ("", None),
        (None, None),
    ],
)
def test_a_reason_is_read_by_its_beginning_only(reason, ours):
    assert drain.read(reason) == (None if ours is None else drain.Ours(*ours))


@given(st.text(max_size=300), st.text(max_size=20) | st.sampled_from(drain.REMEDIES))
def test_a_reason_is_one_short_line_and_its_word_is_one_that_is_known(finding, word):
    reason = drain.health_reason("GPU 3: " + finding, word)
    assert len(reason) <= 200 and reason.isprintable()
    ours = drain.read(reason)
    assert (ours.kind, ours.remedy) == (drain.HEALTH, word if word in drain.REMEDIES else "")
    assert ours.words.startswith("GPU 3:")


@pytest.mark.parametrize("node", NODES)
def test_unknown_drains_only_where_that_is_wanted(node):
    assert decided(node, history(UNKNOWN)).action == LEAVE
    assert decided(node, history(UNKNOWN), unknown_drains=True).action == (DRAIN if node is IN_SERVICE else LEAVE)
    assert decided(OURS, history(*[UNKNOWN] * 9)).action == LEAVE


def test_several_failing_verdicts_in_a_row_may_be_wanted():
    for outcomes, expected in (
        ([FAIL, FAIL], LEAVE),
        ([FAIL, FAIL, FAIL], DRAIN),
        ([FAIL, FAIL, PASS, FAIL, FAIL], LEAVE),
        ([FAIL, FAIL, UNKNOWN], LEAVE),
    ):
        assert decided(IN_SERVICE, history(*outcomes), drain_after=3).action == expected


def test_a_node_that_falls_ill_again_and_again_waits_for_a_person():
    known = history(FAIL, PASS, PASS, PASS)
    resumed = tuple(Entry(NOW - hours * 3600, PASSIVE, PASS, "", "resume") for hours in (20, 10, 5))
    tired = dataclasses.replace(known, entries=resumed + known.entries)
    decision = decided(OURS, tired)
    assert (decision.action, decision.person) == (LEAVE, True) and "resumed 3 times within a day" in decision.why
    yesterday = tuple(dataclasses.replace(one, time=one.time - 86400) for one in resumed)
    assert decided(OURS, dataclasses.replace(known, entries=yesterday + known.entries)).action == RESUME


def test_what_is_switched_off_is_not_done():
    assert decided(IN_SERVICE, history(FAIL), drain=False).action == LEAVE
    assert decided(OURS, history(PASS, PASS, PASS), resume=False).action == LEAVE


# A machine that is started anew ---------------------------------------------------------------------------


def drained(*outcomes, boot=BOOT, **more):
    return dataclasses.replace(history(*outcomes), drained=True, boot=boot, **more)


def damaged(*outcomes, boot):
    return dataclasses.replace(history(*outcomes), drained=None, boot=boot, debt=lost("cut").debt)


@pytest.mark.parametrize(
    "known, expected",
    [
        # The same start of it: somebody resumed it, and it is not sick now.
        (drained(FAIL, PASS, boot="boot-2"), LEAVE),
        # Its drain was lost with its power; a start empties the kernel log, so nothing is found any more.
        (drained(FAIL, PASS), DRAIN),
        (drained(FAIL, PASS, boot=""), DRAIN),
        (drained(FAIL, PASS, PASS, UNKNOWN), DRAIN),
        (drained((FAIL, ACTIVE), PASS, PASS, PASS), DRAIN),
        # It has proved well: we would have resumed it.
        (drained(FAIL, PASS, PASS, PASS), LEAVE),
        # It was not drained, or nobody knows.
        (dataclasses.replace(drained(FAIL, PASS), drained=False), LEAVE),
        (dataclasses.replace(drained(FAIL, PASS), drained=None), LEAVE),
        # Its record was damaged in this boot, and it is in service.
        (damaged(PASS, boot="boot-2"), LEAVE),
        (dataclasses.replace(damaged(PASS, boot=""), drained=False), LEAVE),
        # A new node has no record.
        (history(PASS), LEAVE),
    ],
)
def test_a_sick_machine_stays_out_though_slurm_forgot_its_drain(known, expected):
    decision = decided(IN_SERVICE, known, boot="boot-2")
    assert decision.action == expected
    assert expected == LEAVE or decision.reason == OUR_REASON
    # What others did to it stays, and a boot that is not known proves nothing.
    for node in (PERSON, HOOK, DOWN, OURS):
        assert decided(node, known, boot="boot-2").action in (LEAVE, RESUME)
    assert decided(IN_SERVICE, known, boot="").action == LEAVE
    assert decided(IN_SERVICE, known, boot="boot-2", drain=False).action == LEAVE


@pytest.mark.parametrize("proof", [True, False])
def test_a_record_that_was_damaged_before_this_boot_requires_validation(proof):
    known = damaged(PASS, boot="")
    decision = decided(IN_SERVICE, known, boot="boot-2", proof=proof)
    assert decision.action == DRAIN and "its record was lost" in decision.reason
    for node in (PERSON, HOOK, DOWN, OURS, LEAVING):
        assert decided(node, known, boot="boot-2", proof=proof).action == LEAVE
    # The boot is unknown, or the drain is switched off.
    assert decided(IN_SERVICE, known, boot="", proof=proof).action == LEAVE
    assert decided(IN_SERVICE, known, boot="boot-2", drain=False, proof=proof).action == LEAVE


def test_a_node_that_fell_ill_too_often_is_not_let_in_by_a_reboot():
    known = drained(FAIL, PASS, PASS, PASS)
    resumed = tuple(Entry(NOW - hours * 3600, PASSIVE, PASS, "", "resume") for hours in (20, 10, 5))
    assert decided(IN_SERVICE, dataclasses.replace(known, entries=resumed + known.entries), "boot-2").action == DRAIN


def test_what_is_known_of_another_machine_is_nothing():
    known = drained(FAIL, machine="a" * 16)
    assert known.of("a" * 16) == known and known.of("") == known
    assert known.of("b" * 16) == History(machine="b" * 16)
    assert dataclasses.replace(known, machine="").of("b" * 16).entries == known.entries


@pytest.mark.parametrize("outcome", [PASS, FAIL, UNKNOWN])
def test_a_node_that_slurm_powers_down_is_left(outcome):
    """A drain now would stay when the machine is gone, and Slurm would start none of that name again."""
    assert decided(LEAVING, history(outcome)).action == LEAVE


# For everything -----------------------------------------------------------------------------------------


@given(STATES, HISTORIES, SETTINGS, BOOTS)
def test_nothing_of_others_is_touched(node, known, settings, boot):
    decision = plan.decide(node, known, settings, NOW, boot)
    out = node.flags & {"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING"}
    ours = drain.is_for_health(node)
    if decision.action == DRAIN:
        assert not out and decision.reason.startswith("gpu_node: health: ") and settings.drain
        last = known.entries[-1].outcome
        sick = last is FAIL or (settings.unknown_drains and last is UNKNOWN)
        unknown = known.drained is None and known.debt.faults
        assert sick or ((known.drained is True or unknown) and boot and boot != known.boot)
    if decision.action == RESUME:
        assert ours and settings.resume and not node.flags & {"DOWN", "FAIL", "FAILING"}
        assert known.entries[-1].outcome in (PASS, WARN)
        assert len(known.entries) >= settings.resume_after
    if out and not ours:
        assert decision.action == LEAVE


@given(STATES, HISTORIES, SETTINGS, BOOTS)
def test_what_was_done_is_not_done_again(node, known, settings, boot):
    decision = plan.decide(node, known, settings, NOW, boot)
    after = node
    if decision.action == DRAIN:
        after = SlurmNode(node.flags | {"DRAIN"}, decision.reason.strip())
    elif decision.action == RESUME:
        after = SlurmNode(frozenset({"IDLE"}))
    if decision.action != LEAVE:
        known = known.acted(decision.action, decision.action == DRAIN, boot)
        assert plan.decide(after, known, settings, NOW, boot).action == LEAVE


@given(HISTORIES, st.sampled_from((PASS, WARN)), SETTINGS)
def test_a_node_of_ours_comes_back_when_it_is_well_for_long_enough(known, outcome, settings):
    """Unless it came back too often within a day."""
    settings = dataclasses.replace(settings, resume=True)
    entries = tuple(one for one in known.entries if one.action != "resume")
    many = history(*[(outcome, ACTIVE)] * settings.resume_after).entries
    assert plan.decide(OURS, History(entries + many), settings, NOW, BOOT).action == RESUME
    fewer = entries + (Entry(NOW, PASSIVE, FAIL, LOST),) + many[1:]
    assert plan.decide(OURS, History(fewer), settings, NOW, BOOT).action == LEAVE


# The hooks of the job leave it alone ----------------------------------------------------------------------


@given(st.none() | st.text(max_size=30))
def test_the_hooks_of_a_job_do_not_resume_what_was_drained_for_its_health(finding):
    assert drain.decide(OURS, finding).action == LEAVE


@pytest.mark.parametrize("mark", ["", drain.REMEDY + "reset_gpu: ", drain.LATCHED])
def test_the_word_is_read_behind_what_a_remedy_put_before_it(mark):
    reason = drain.reason_text(drain.HEALTH + mark + "reset_gpu: GPU 3: it is lost")
    assert drain.read(reason) == drain.Ours(drain.HEALTH, "reset_gpu", "GPU 3: it is lost")
    assert drain.finding(reason) == "reset_gpu: GPU 3: it is lost"
