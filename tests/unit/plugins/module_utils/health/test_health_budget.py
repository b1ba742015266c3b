# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A budget for the active checks: the shares, the checks that it leaves out, and what a gate makes of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import child
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import budget, course, lanes, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import apart, checks, estimate
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Entry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    NOT_COVERED,
    Check,
    Cost,
    Expected,
    Finding,
    Judgement,
    Machine,
    Outcome,
    Remedy,
    Span,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.verdict import judge

# The planner -------------------------------------------------------------------------------------------

SPANS = st.tuples(st.floats(0.1, 500), st.floats(0, 2000)).map(lambda pair: Span(pair[0], sum(pair)))
LISTS = st.lists(st.one_of(st.none(), SPANS), max_size=10).map(
    lambda found: [("check_{0}".format(number), span) for number, span in enumerate(found)]
)


def planned(spans, seconds):
    try:
        return budget.plan(spans, seconds)
    except Misuse as error:
        least = min(span.least for dummy, span in spans if span is not None)
        assert seconds < least and "give at least" in error.remedy
        assert budget.plan(spans, float(error.remedy.rpartition(" ")[2])).parts  # the named number is enough
        return None


@given(LISTS, st.floats(0.1, 5000))
def test_no_plan_is_longer_than_its_budget_and_each_check_is_whole_or_left_out(spans, seconds):
    plan = planned(spans, seconds)
    if plan is None:
        return
    assert plan.seconds <= seconds + 1e-6
    assert sorted(part.check for part in plan.parts) == sorted(name for name, dummy in spans)
    for part in plan.parts:
        if part.span is not None and part.covered:
            assert part.span.least - 1e-6 <= part.seconds <= part.span.usual + 1e-6
        else:
            assert part.seconds == 0
    # One that would still fit is not left out.
    spare = seconds - sum(part.span.least for part in plan.parts if part.covered and part.span)
    assert all(part.span.least > spare - 1e-6 for part in plan.parts if not part.covered)


@given(LISTS, st.floats(0.1, 5000))
def test_a_larger_budget_never_covers_less_of_the_first_check_and_enough_covers_all(spans, seconds):
    enough = sum(span.usual for dummy, span in spans if span is not None) or 1.0
    plan = budget.plan(spans, enough + 1e-6)
    assert all(part.covered for part in plan.parts)
    assert [part.seconds for part in plan.parts if part.span] == pytest.approx(
        [span.usual for dummy, span in spans if span is not None]
    )
    first, span = next(((name, span) for name, span in spans if span is not None), ("", None))
    small, large = planned(spans, seconds), planned(spans, 2 * seconds)
    if small is not None and span is not None and span.least <= seconds:
        assert small.of(first).covered and large.of(first).covered


@given(LISTS, st.floats(0.1, 5000), st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_checks_that_keep_to_their_share_all_end_within_the_budget(spans, seconds, used):
    plan = planned(spans, seconds)
    left = seconds
    for part, share in zip(plan.parts if plan is not None else (), used):
        if part.span is None:
            continue
        turn = budget.turn(plan, part.check, left)
        assert turn is not None or not part.covered, "a check that the plan covers found no time"
        if turn is not None:
            assert part.span.least - 1e-6 <= turn.share <= turn.limit + 1e-6
            assert turn.share <= left + budget._SLACK_SECONDS
            left -= min(turn.share, max(left, 0)) * share


@pytest.mark.parametrize(
    ("seconds", "shares"),
    [
        (100, {"memory": 10, "compute": 20, "links": 30}),
        (45, {"memory": 10, "compute": 20, "links": 15}),
        (20, {"memory": 10, "compute": 5, "links": 5}),
        (12, {"memory": 5, "compute": 2, "links": 5}),
        (8, {"memory": 6, "compute": 2, "links": None}),
        (6, {"memory": 4, "compute": 2, "links": None}),
        (3.5, {"memory": None, "compute": 3.5, "links": None}),
    ],
)
def test_the_first_check_gets_the_time_that_is_left_over(seconds, shares):
    spans = [("memory", Span(4, 10)), ("compute", Span(2, 20)), ("links", Span(5, 30)), ("scratch", None)]
    plan = budget.plan(spans, seconds)
    assert {part.check: part.seconds if part.covered else None for part in plan.parts} == dict(shares, scratch=0)


def test_unused_time_goes_to_a_check_that_was_left_out_and_a_cut_takes_nothing_from_the_later_ones():
    plan = budget.plan([("a", Span(4, 4)), ("b", Span(50, 60)), ("c", Span(5, 9))], 20)
    assert [(part.check, part.covered) for part in plan.parts] == [("a", True), ("c", True), ("b", False)]
    assert budget.turn(plan, "a", 20) == budget.Turn(4, 15)
    assert budget.turn(plan, "c", 15) == budget.Turn(9, 15)
    assert budget.turn(plan, "b", 14) is None
    assert budget.turn(plan, "b", 55) == budget.Turn(55, 55)
    small = budget.plan([("a", Span(20, 20)), ("b", Span(3, 9)), ("c", Span(4, 9)), ("d", Span(9, 9))], 20)
    assert [(part.check, part.covered) for part in small.parts if part.covered] == [("a", True)]
    assert budget.turn(small, "b", 12) == budget.Turn(8, 8), "c still fits beside b, d does not"
    assert plan.remaining((), "a", 1) == pytest.approx(3 + 9) and plan.remaining(("a", "c"), "b", 3) == 0


# What the checks themselves say ------------------------------------------------------------------------

ALL_TOOLS = ("nvbandwidth", "all_reduce_perf", "ib_write_bw", "dcgmi", "fio")
MACHINES = st.builds(
    Machine,
    st.integers(0, 16),
    st.sampled_from((0, 2**20, 80 * 10**9, 288 * 10**9)),
    st.integers(0, 12),
    st.booleans(),
    st.sets(st.sampled_from(ALL_TOOLS)).map(tuple),
    st.sampled_from(({}, {"memory_test_seconds": 120}, {"dcgm_level": 3}, {"memory_test_seconds": "no number"})),
)


@given(MACHINES)
def test_each_active_check_gives_its_time_on_any_machine_below_its_limit(machine):
    for check in checks.CHECKS:
        assert check.span is not None, check.id
        with contextlib.suppress(NodeError):  # a setting that cannot be used
            check.span(machine)
        span = estimate.span_of(check, machine)
        if span is not None and machine.gpus <= 8:
            assert span.usual <= check.seconds, check.id
    if not machine.gpus:
        on_gpus = [one for one in checks.CHECKS if one.id.startswith(("gpu_", "host_", "nccl", "dcgm"))]
        assert {estimate.span_of(check, machine) for check in on_gpus} == {None}


def test_a_bug_in_an_estimate_stops_no_check():
    check = dataclasses.replace(checks.CHECKS[0], span=lambda machine: Span(3.0, 2.0))
    assert estimate.span_of(check, Machine(gpus=1)) == Span(1.0, 60.0)


@pytest.mark.parametrize("seconds", [None, 30.0])
def test_a_node_that_does_not_answer_in_time_has_each_check_within_the_budget(tmp_path, monkeypatch, seconds):
    """Its GPUs may only be slow: the first use of eight without persistence mode takes half a minute."""
    monkeypatch.setattr(estimate, "_SECONDS", 0.2)
    monkeypatch.setattr(estimate, "_look", lambda report, evidence: time.sleep(60))
    plan = estimate.plan(checks.CHECKS, Evidence(Host(str(tmp_path)), {}, {}), seconds)
    assert all(part.span is not None and part.covered for part in plan.parts)
    assert seconds is None or plan.seconds <= seconds


# The runner --------------------------------------------------------------------------------------------


def check(name, look, least, usual, seconds=60.0):
    span = None if least is None else Span(least, usual)
    judged = Judgement()
    return Check(
        name, name, Cost.ACTIVE, lambda dummy1, dummy2: judged, look, "active", seconds, span=lambda dummy: span
    )


def share(evidence):
    return evidence.seconds


def hangs(evidence):
    time.sleep(3600)


def loads_three_gpus(evidence):
    tasks = [apart.Task("GPU {0} (0000:0{0}:00.0)".format(one), naps) for one in range(3)]
    return [answer() for answer in apart.side_by_side(tasks, 20.0)]


def one_gpu_hangs(evidence):
    tasks = [
        apart.Task("GPU 0 (0000:00:00.0)", naps),
        apart.Task("GPU 1 (0000:01:00.0)", functools.partial(hangs, None)),
    ]
    return [answer() for answer in apart.side_by_side(tasks, 20.0)]


def naps():
    time.sleep(0.8)
    return "loaded"


def naps_briefly(evidence):
    time.sleep(0.03)


def unknown_of(verdict):
    return {one.id: [found.code for found in one.findings] for one in verdict.results if one.findings}


def verdict_of(evidence, chosen, seconds=None, show=None):
    looked, dummy = run.with_load(chosen, evidence, 1.0, seconds=seconds, show=show)
    return looked, judge("n", Cost.ACTIVE, chosen, looked, Expected("p", {}, {}, {}, {}, {}, time.time()))


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "look", lambda dummy: Machine(gpus=2))
    return Evidence(Host(str(tmp_path)), {}, {})


def test_a_check_finds_its_share_and_the_verdict_says_what_was_not_covered(evidence):
    chosen = [
        check("a", share, 1, 2),
        check("b", share, 400, 500),
        check("c", share, 1, 30),
        check("d", share, None, 0),
    ]
    looked, verdict = verdict_of(evidence, chosen, seconds=6.0)
    assert looked["a"].seen == pytest.approx(2, abs=0.1) and 3 < looked["c"].seen <= 6
    assert unknown_of(verdict) == {"b": [NOT_COVERED]} and verdict.outcome is Outcome.UNKNOWN
    (finding,) = verdict.results[1].findings
    assert "not covered by the 6 s" in str(finding) and "at least 400 s" in str(finding)


def test_a_check_that_hangs_is_cut_off_and_the_later_ones_still_have_their_turn(evidence):
    began = time.monotonic()
    looked, verdict = verdict_of(evidence, [check("a", hangs, 1, 2), check("b", share, 1, 2)], seconds=3.0)
    assert time.monotonic() - began < 3.0 + 2.0
    assert looked["b"].seen is not None
    (finding,) = verdict.results[0].findings
    assert unknown_of(verdict) == {"a": [NOT_COVERED]} and "cut off after" in str(finding)
    assert "at least" not in str(finding), "it had more than that"


def test_a_check_that_is_cut_off_names_the_gpu_that_did_not_end(evidence):
    looked, verdict = verdict_of(evidence, [check("a", one_gpu_hangs, 1, 2), check("b", share, 1, 2)], seconds=3.0)
    assert looked["b"].seen is not None
    assert "s, still at work on GPU 1 (0000:01:00.0)" in str(verdict.results[0].findings[0])


def test_a_check_that_hangs_until_its_own_limit_is_a_hang_however_large_the_budget(evidence):
    """The code not_covered would take nothing from a proof, and advise more time for a GPU that hangs."""
    began = time.monotonic()
    chosen = [check("a", hangs, 0.2, 0.4, seconds=0.5), check("b", share, 0.2, 1)]
    looked, verdict = verdict_of(evidence, chosen, seconds=20.0)
    assert time.monotonic() - began < 5.0, "the limit of a check also holds with a budget"
    assert unknown_of(verdict) == {"a": [""]} and "did not end within 0.5 s" in str(verdict.results[0].findings[0])
    assert looked["b"].seen is not None


def test_a_check_that_was_left_out_runs_after_all_that_the_budget_covers(evidence):
    ended = []
    chosen = [check("a", share, 1, 1), check("b", share, 1.6, 1.6), check("c", share, 0.9, 0.9)]
    run.with_load(chosen, evidence, 1.0, ended.append, seconds=2.0)
    assert ended == ["a", "c", "b"]


def test_a_check_with_nothing_to_measure_takes_nothing_of_the_budget(evidence, monkeypatch):
    monkeypatch.setattr(course, "_IDLE_SECONDS", 0.3)
    looked, verdict = verdict_of(evidence, [check("a", share, 1, 2), check("b", hangs, None, 0)], seconds=2.0)
    assert looked["a"].seen == pytest.approx(2, abs=0.2)
    assert unknown_of(verdict) == {"b": [NOT_COVERED]}


def test_without_a_budget_nothing_is_bounded_and_a_hang_is_a_hang(evidence):
    looked, verdict = verdict_of(evidence, [check("a", share, 1, 2), check("b", hangs, 1, 2, seconds=0.5)])
    assert looked["a"].seen is None and looked["a"].error is None
    assert unknown_of(verdict) == {"b": [""]}


def test_a_budget_below_all_checks_is_refused_before_anything_runs(evidence):
    ran = []
    with pytest.raises(Misuse, match="give at least 4"):
        run.with_load([check("a", ran.append, 3.5, 9), check("b", ran.append, 7, 9)], evidence, 1.0, seconds=2.0)
    assert not ran


def test_progress_names_the_check_and_the_gpus_that_work_at_the_moment(evidence):
    seen = []
    verdict_of(evidence, [check("a", loads_three_gpus, 1, 20), check("b", share, 1, 7)], show=seen.append)
    first, *others = seen
    assert (first.check, first.remaining_seconds, first.plan.gpus) == ("", 27, 2)
    assert ("a", "all 3 GPUs") in {(one.check, one.place) for one in others}
    assert all(19 + 7 - 2 < one.remaining_seconds <= 27 for one in others if one.check == "a")
    numbers = {(one.check, one.done) for one in others}
    assert ("a", 0) in numbers and numbers <= {("a", 0), ("b", 1)}, "the number is that of another check"


def test_progress_never_has_the_name_of_a_check_that_ended(evidence):
    seen = []
    names = "abcdefgh"
    verdict_of(evidence, [check(name, naps_briefly, 1, 1) for name in names], show=seen.append)
    assert {(one.check, one.done) for one in seen[1:]} <= set(zip(names, range(len(names))))


@pytest.mark.parametrize(
    ("things", "tasks", "text"),
    [
        (["GPU 3 (0000:0b:00.0)"], 1, "GPU 3 (0000:0b:00.0)"),
        (["GPU 3 (0000:0b:00.0)"], 8, "GPU 3 (0000:0b:00.0)"),
        (["GPU {0} (0000:0{0}:00.0)".format(one) for one in range(8)], 8, "all 8 GPUs"),
        (["GPU {0} (0000:0{0}:00.0)".format(one) for one in range(5)], 8, "5 GPUs"),
        (["GPU 0 to GPU 1", "GPU 2 to GPU 3"], 2, "GPU 0 to GPU 1 and 1 more"),
    ],
)
def test_a_progress_line_has_few_words_for_many_gpus(things, tasks, text):
    assert apart.together(things, tasks) == text


def test_a_parent_sees_the_place_that_its_child_reports():
    def task(report):
        report("call", 10.0)
        child.at("GPU 5")
        time.sleep(0.5)
        child.at("x" * 2000)
        time.sleep(0.5)
        yield 1

    one, seen = child.Child(task, 10.0, "start"), set()
    while not one.look():
        seen.add((one.label, one.place[:5]))
        time.sleep(0.02)
    one.close()
    assert {("call", "GPU 5"), ("call", "xxxxx")} <= seen


# The gate ----------------------------------------------------------------------------------------------


def entry_of(*findings, passing="gpu_memory_test"):
    def result(name, found):
        judged = Judgement(findings=found)
        return dataclasses.replace(check(name, share, 1, 1), judge=lambda dummy1, dummy2: judged)

    chosen = [result(passing, ()), result("gpu_peer_bandwidth", tuple(findings))]
    looked = {one.id: lanes.Looked("seen", None, 1.0) for one in chosen}
    return Entry.of(judge("n", Cost.ACTIVE, chosen, looked, Expected("p", {}, {}, {}, {}, {}, 1e9)))


def finding(outcome, code):
    return Finding(outcome, "GPU 1", "a reason", "a remedy", Remedy.LOOK, key="1", code=code)


def test_a_check_that_was_not_covered_proves_nothing_and_takes_nothing_from_the_others():
    entry = entry_of(finding(Outcome.UNKNOWN, NOT_COVERED))
    assert entry.proves and entry.passed == ("gpu_memory_test",) and not entry.void and not entry.missing
    for others in (
        [finding(Outcome.UNKNOWN, NOT_COVERED), finding(Outcome.UNKNOWN, "")],
        [finding(Outcome.FAIL, "low_gpu_to_gpu"), finding(Outcome.UNKNOWN, NOT_COVERED)],
    ):
        assert not entry_of(*others).proves


def test_an_unknown_verdict_without_a_known_cause_proves_nothing():
    """A record of the history may have lost it."""
    entry = entry_of(finding(Outcome.UNKNOWN, NOT_COVERED))
    assert entry.proves and not dataclasses.replace(entry, faults=()).proves
