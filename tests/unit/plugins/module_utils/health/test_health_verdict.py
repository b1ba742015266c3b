# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From looks to a verdict: nothing is lost, nothing unknown becomes a pass, silences end."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import (
    Options,
    examine,
    registry,
    thresholds,
    to_dict,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.lanes import Looked
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    ORDER,
    Check,
    Cost,
    Expected,
    Finding,
    Judgement,
    Measured,
    Outcome,
    Remedy,
    Silence,
    Threshold,
    finding_name,
    worst,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.verdict import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.options import Desired

NOW = 1_800_000_000.0
EXPECTED = Expected("rack7", {}, {}, {}, {}, {}, NOW)


def finding(outcome, key="", code=""):
    return Finding(outcome, "GPU 3", "it is broken", "mend it", Remedy.LOOK, key=key, code=code)


def check(name, judged):
    return Check(name, name, Cost.PASSIVE, lambda seen, expected: judged, lambda evidence: None)


def verdict_of(judgements, silences=()):
    checks = [check("check_{0}".format(number), one) for number, one in enumerate(judgements)]
    looked = {one.id: Looked(None, None, 0.1) for one in checks}
    return judge("node1", Cost.PASSIVE, checks, looked, EXPECTED, silences)


def test_the_worst_outcome_is_that_of_the_node():
    for outcomes in itertools.product(list(Outcome), repeat=3):
        verdict = verdict_of([Judgement(findings=(finding(one),)) for one in outcomes])
        assert verdict.outcome is worst(outcomes) is max(outcomes, key=ORDER.index)
        told = [one.outcome for dummy, one in verdict.findings]
        assert told == sorted((one for one in outcomes if one is not Outcome.PASS), key=ORDER.index, reverse=True)


@pytest.mark.parametrize(
    "looked",
    [
        {},
        {"check_0": Looked(None, NodeError("GPU 3", "it hangs", "reboot"), 5.0)},
        {"check_0": Looked(None, None, 0.0)},
    ],
)
def test_what_was_not_seen_is_unknown(looked):
    def crashes(seen, expected):
        return seen.nothing

    one = Check("check_0", "All is well", Cost.PASSIVE, crashes, lambda evidence: None)
    verdict = judge("node1", Cost.PASSIVE, [one], looked, EXPECTED)
    assert verdict.outcome is Outcome.UNKNOWN
    assert len(verdict.findings) == 1 and verdict.findings[0][1].thing == "check check_0"


def test_nothing_checked_is_not_healthy():
    assert judge("node1", Cost.QUICK, [], {}, EXPECTED).outcome is Outcome.UNKNOWN
    assert verdict_of([Judgement(not_applicable="no GPU")]).outcome is Outcome.UNKNOWN


def test_what_does_not_apply_is_told_and_does_not_count():
    verdict = verdict_of([Judgement("8 GPUs"), Judgement(not_applicable="no NVSwitch")])
    assert verdict.outcome is Outcome.PASS
    assert dict(verdict.not_applicable) == {"check_1": "no NVSwitch"}


@pytest.mark.parametrize(
    ("pattern", "until", "counts"),
    [
        ("check_0/xid_79/0000:0b:00.0", NOW + 1, False),
        ("check_0/xid_79/*", NOW + 1, False),
        ("check_0/*", NOW + 1, False),
        ("check_0/xid_79/0000:0b:00.0", NOW, True),
        ("check_0/xid_79/0000:0c:00.0", NOW + 1, True),
        ("check_0/xid_48/*", NOW + 1, True),
        ("check_1/*", NOW + 1, True),
    ],
)
def test_a_silence_holds_for_its_fault_until_its_date(pattern, until, counts):
    fault = finding(Outcome.FAIL, "0000:0b:00.0", "xid_79")
    silence = Silence(pattern, until, "ops", "ticket 17")
    verdict = verdict_of([Judgement(findings=(fault,))], [silence])
    assert verdict.outcome is (Outcome.FAIL if counts else Outcome.PASS)
    assert [one.finding for one in verdict.silenced] == ([] if counts else [fault])


def test_a_finding_has_the_same_name_in_each_run():
    assert finding_name("gpu_xid", finding(Outcome.FAIL, "0000:0b:00.0", "xid_79")) == "gpu_xid/xid_79/0000:0b:00.0"
    assert finding_name("kernel_taint", finding(Outcome.WARN)) == "kernel_taint"


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_worse_value_is_never_a_better_outcome(value, first, second):
    low, high = sorted((first, second))
    for limit, sign in ((Threshold("higher", high, low, "x"), 1), (Threshold("lower", low, high, "x"), -1)):
        better = ORDER.index(limit.outcome(value + sign))
        assert better <= ORDER.index(limit.outcome(value))
        assert limit.outcome(limit.warn) is Outcome.PASS
        beyond = limit.limit(value)
        assert (beyond is None) == (limit.outcome(value) is Outcome.PASS)


def test_limits_of_the_node_win_over_the_profile_over_the_defaults():
    defaults = {name: Threshold("lower", 1.0, 2.0, "a page") for name in ("a", "b", "c")}
    profile = {"thresholds": {"b": {"better": "higher", "warn": 5}, "c": {"better": "lower", "fail": 6}}}
    found = thresholds.merged(defaults, profile, {"thresholds": {"c": {"better": "lower", "warn": 7}}})
    assert found["a"] == defaults["a"]
    assert found["b"] == Threshold("higher", 5, None, thresholds.PROFILE)
    assert found["c"] == Threshold("lower", 7, None, thresholds.SETTINGS)


def test_a_name_that_means_no_check_is_refused():
    with pytest.raises(NodeError, match="gpu_nonsense"):
        registry.chosen(Cost.QUICK, without=("gpu_nonsense",))
    ids = [one.id for one in registry.checks(Cost.ACTIVE)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("level", list(Cost))
def test_a_declaration_may_still_leave_out_a_check_of_an_earlier_release(tmp_path, level):
    """The node command is newer than the declaration on the node: the gate must not stop looking."""
    assert registry.chosen(level, without=("gpu_gemm",)) == registry.checks(level)
    assert set(registry.REPLACED.values()) <= {check.id for check in registry.checks(Cost.ACTIVE)}
    Desired(without=("gpu_gemm",), observe=("gpu_gemm",))
    with pytest.raises(Misuse, match="check 'gpu_gemm': this release does not have it; use gpu_compute"):
        registry.chosen(level, only=("gpu_gemm",))
    if level is Cost.QUICK:
        host = Host(str(tmp_path))
        host.write(declaration.PATH, json.dumps({"health": {"without": ["gpu_gemm"]}}))
        assert examine(host, "n1", Options(level)).results


def test_a_check_of_another_level_is_no_check_of_this_run():
    with pytest.raises(NodeError, match="^check 'memory_swap': a run of level quick does not make it; ask for"):
        registry.chosen(Cost.QUICK, only=("gpu_lost", "memory_swap"))
    (check,) = registry.chosen(Cost.QUICK, only=("gpu_lost",), without=("memory_swap",))
    assert check.id == "gpu_lost"
    assert "memory_swap" in [check.id for check in registry.chosen(Cost.ACTIVE, only=("memory_*",))]


def test_a_figure_is_a_number():
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no number"):
            Measured("temperature_celsius", value)


def test_json_has_words_for_everything():
    verdict = verdict_of([Judgement("x", (finding(Outcome.WARN),), (Measured("a_bytes", 1.0, "k", True),))])
    told = to_dict(verdict)
    assert told["schema"] == "trainyard.gpu_node/verdict/1" and told["outcome"] == "warn" and told["level"] == "passive"
    assert told["results"][0]["findings"][0]["action"] == "look"
    assert verdict.in_one_line() == "warn: GPU 3: it is broken; mend it."
