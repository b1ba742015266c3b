# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict does to a node: tables by hand, and properties over every state that there can be."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate.history import Entry, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health_gate.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job import drain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job.drain import DRAIN, LEAVE, RESUME
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm_job.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health_gate.gate_states import (
    ACTIVE,
    DOWN,
    FAIL,
    HISTORIES,
    HOOK,
    IN_SERVICE,
    LOST,
    NODES,
    NOW,
    OUR_REASON,
    OURS,
    OURS_DOWN,
    PARTITIONS,
    PASS,
    PASSIVE,
    PERSON,
    QUICK,
    SETTINGS,
    STATES,
    UNKNOWN,
    WARN,
    history,
    partition,
)

DEFAULT = Settings()
ROOMY = (partition(10),)


def decided(node, known, partitions=ROOMY, **settings):
    return plan.decide(node, known, partitions, dataclasses.replace(DEFAULT, **settings), NOW)


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


@pytest.mark.parametrize(
    "size, percent, limit",
    [(10, 20, 2), (10, 19.9, 1), (4, 20, 1), (1, 20, 1), (1000, 20, 200), (10, 100, 10), (10, 0, 0), (9, 50, 4)],
)
def test_the_breaker_lets_a_share_go_and_one_in_any_case(size, percent, limit):
    for drained in range(size + 1):
        decision = decided(IN_SERVICE, history(FAIL), (partition(size, drained),), drained_percent=percent)
        assert decision.action == (DRAIN if drained < limit else LEAVE)
        if drained >= limit:
            assert decision.person and "a person must decide" in decision.why and "partition gpu" in decision.why


def test_of_several_partitions_the_fullest_counts():
    assert decided(IN_SERVICE, history(FAIL), (partition(100, 1), partition(5, 1, "debug"))).action == LEAVE
    assert decided(IN_SERVICE, history(FAIL), ()).action == DRAIN


# For everything -----------------------------------------------------------------------------------------


@given(STATES, HISTORIES, PARTITIONS, SETTINGS)
def test_nothing_of_others_is_touched_and_no_more_than_the_share(node, known, partitions, settings):
    decision = plan.decide(node, known, partitions, settings, NOW)
    out = node.flags & {"DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING"}
    ours = drain.is_for_health(node)
    if decision.action == DRAIN:
        assert not out and decision.reason.startswith("gpu_node: health: ") and settings.drain
        assert all(len(one.ours) + 1 <= max(1, one.size * settings.drained_percent / 100) for one in partitions)
        last = known.entries[-1].outcome
        assert last is FAIL or (settings.unknown_drains and last is UNKNOWN)
    if decision.action == RESUME:
        assert ours and settings.resume and not node.flags & {"DOWN", "FAIL", "FAILING"}
        assert known.entries[-1].outcome in (PASS, WARN)
        assert len(known.entries) >= settings.resume_after
    if out and not ours:
        assert decision.action == LEAVE


@given(STATES, HISTORIES, PARTITIONS, SETTINGS)
def test_what_was_done_is_not_done_again(node, known, partitions, settings):
    decision = plan.decide(node, known, partitions, settings, NOW)
    after = node
    if decision.action == DRAIN:
        after = SlurmNode(node.flags | {"DRAIN"}, decision.reason.strip())
    elif decision.action == RESUME:
        after = SlurmNode(frozenset({"IDLE"}))
    if decision.action != LEAVE:
        assert plan.decide(after, known, partitions, settings, NOW).action == LEAVE


@given(HISTORIES, st.sampled_from((PASS, WARN)), SETTINGS)
def test_a_node_of_ours_comes_back_when_it_is_well_for_long_enough(known, outcome, settings):
    """Unless it came back too often within a day."""
    settings = dataclasses.replace(settings, resume=True)
    entries = tuple(one for one in known.entries if one.action != "resume")
    many = history(*[(outcome, ACTIVE)] * settings.resume_after).entries
    assert plan.decide(OURS, History(entries + many), (), settings, NOW).action == RESUME
    fewer = entries + (Entry(NOW, PASSIVE, FAIL, LOST),) + many[1:]
    assert plan.decide(OURS, History(fewer), (), settings, NOW).action == LEAVE


# The hooks of the job leave it alone ----------------------------------------------------------------------


@given(st.none() | st.text(max_size=30))
def test_the_hooks_of_a_job_do_not_resume_what_was_drained_for_its_health(finding):
    assert drain.decide(OURS, finding).action == LEAVE
