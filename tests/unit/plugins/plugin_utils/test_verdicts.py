# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which verdicts a controller believes, each beside an honest one that looks almost the same."""

from __future__ import annotations

import copy
import json
import random

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import verdicts
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.health_report import model, table
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.node_answer import Untrusted
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report.health_fleet import (
    HOT,
    LOST,
    UNREAD,
    fleet,
    verdict,
)

NOW = 1_790_000_100.0
HEALTHY = json.loads(json.dumps(verdict("n", random.Random(1))))
SICK = json.loads(json.dumps(verdict("n", random.Random(1), (LOST, HOT))))


def changed(content, *path_and_value):
    content = copy.deepcopy(content)
    *path, last, value = path_and_value
    place = content
    for one in path:
        place = place[one]
    place[last] = value
    return content


FIGURE = ("results", 1, "measured", 0)
HOSTILE = {
    "pass_with_failing_check": (SICK, "outcome", "pass"),
    "pass_with_failing_finding": (HEALTHY, "results", 0, "findings", SICK["results"][0]["findings"]),
    "fail_without_finding": (HEALTHY, "outcome", "fail"),
    "no_results": (HEALTHY, "results", []),
    "results_of_text": (HEALTHY, "results", "pass"),
    "two_results_of_a_check": (HEALTHY, "results", [HEALTHY["results"][0]] * 2),
    "unknown_outcome": (SICK, "outcome", "excellent"),
    "unknown_outcome_of_a_check": (HEALTHY, "results", 0, "outcome", "PASS"),
    "unknown_action": (SICK, "results", 0, "findings", 0, "action", "reflash"),
    "unknown_certainty": (SICK, "results", 0, "findings", 0, "certainty", "sure"),
    "unknown_level": (HEALTHY, "level", "none"),
    "outcome_of_another_type": (HEALTHY, "outcome", ["pass"]),
    "nan": (HEALTHY, *FIGURE, "value", float("nan")),
    "infinite": (HEALTHY, *FIGURE, "value", float("inf")),
    "huge_integer": (HEALTHY, *FIGURE, "value", 10**400),
    "huge_float": (HEALTHY, *FIGURE, "value", -1e308),
    "boolean": (HEALTHY, *FIGURE, "value", True),
    "text_as_number": (HEALTHY, *FIGURE, "value", "9" * 5000),
    "year_4821": (HEALTHY, "time", 90_000_000_000.0),
    "in_three_days": (HEALTHY, "time", NOW + 3 * 86400),
    "before_1970": (HEALTHY, "time", -1),
    "nan_as_time": (HEALTHY, "time", float("nan")),
    "no_time": (HEALTHY, "time", None),
    "huge_seconds": (HEALTHY, "seconds", 10**30),
    "silence_beyond_all_dates": (HEALTHY, "silenced", [{"finding": {"outcome": "fail"}, "silence": {"until": 1e18}}]),
    "observed_number": (HEALTHY, "observed", [7]),
    "profile_of_another_type": (HEALTHY, "profile", {"name": "x"}),
    "not_applicable_of_another_type": (HEALTHY, "not_applicable", ["gpu_xid"]),
    "megabytes": (HEALTHY, "results", 0, "seen", "A" * 5_000_000),
    "deep": (HEALTHY, "not_applicable", json.loads('{"a": ' * 100 + "1" + "}" * 100)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_impossible_verdict_gives_one_message_and_is_never_healthy(case):
    content = changed(*HOSTILE[case])
    with pytest.raises(Untrusted):
        verdicts.checked(content, NOW)
    report = model.report(dict(fleet(8), evil=content), {}, now=NOW)
    (evil,) = [node for node in report.nodes if node.host == "evil"]
    assert evil.outcome == "none" and evil.verdict == {} and len(evil.lines) == 1
    lines = [line.strip() for dummy, line in table.rows(report)]
    told = lines[lines.index("no verdict evil") + 1]
    assert told.startswith("verdict: it is not believable: ") and len(told) < 400, told
    # It is not compared with the others.
    assert not [one for one in report.samples if one.node == "evil"]


@pytest.mark.parametrize(
    "content",
    [
        HEALTHY,
        SICK,
        json.loads(json.dumps(verdict("n", random.Random(1), (UNREAD,)))),
        changed(HEALTHY, "time", NOW + 3600),  # a clock in another time zone
        changed(HEALTHY, "time", 12.5),  # a battery that is empty
        changed(HEALTHY, "level", "quick"),
        changed(HEALTHY, "made_by_a_newer_version", {"a": [1]}),
        changed(HEALTHY, *FIGURE, "value", 2**63),
        changed(HEALTHY, *FIGURE, "value", -40),
        changed(HEALTHY, "observed", [{"check": "gpu_lost", "finding": {"outcome": "fail"}, "pattern": "*"}]),
        changed(HEALTHY, "not_applicable", {"gpu_nvswitch": "there is no NVSwitch"}),
        {key: value for key, value in HEALTHY.items() if key not in ("silenced", "observed", "seconds", "level")},
    ],
    ids=lambda content: str(content["outcome"]),
)
def test_an_honest_verdict_stays_as_it_is(content):
    assert verdicts.checked(content, NOW) == content


def test_an_unknown_node_is_believed():
    nothing = dict(HEALTHY, outcome="unknown", results=[])
    assert verdicts.checked(nothing, NOW) == nothing


def answer(content, **more):
    return dict({"changed": False, "verdict": content, "outcome": content["outcome"], "findings": []}, **more)


def test_an_answer_agrees_with_its_verdict():
    verdicts.of_answer("health_check", answer(HEALTHY), {"fail_on": "unknown"}, NOW)
    verdicts.of_answer("health_check", answer(SICK), {"fail_on": "never"}, NOW)
    verdicts.of_answer("health_check", answer(SICK, failed=True), {"fail_on": "fail"}, NOW)
    verdicts.of_answer("health_check", {"failed": True, "msg": "the disk is full"}, {"fail_on": "fail"}, NOW)
    verdicts.of_answer("health_check", {"transfer_needed": True}, {"fail_on": "fail"}, NOW)
    verdicts.of_answer("node", {"health": answer(SICK)}, {"fail_on": "never"}, NOW)
    verdicts.of_answer("node", {"health": {}}, {"fail_on": "never"}, NOW)
    verdicts.of_answer("node", {"health": {"failed": True, "msg": "x"}}, {"fail_on": "never"}, NOW)
    verdicts.of_answer("gpu_info", {"verdict": "of another kind"}, {"fail_on": "never"}, NOW)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("health_check", {"outcome": "pass"}),
        ("health_check", {"skipped": True}),
        ("health_check", answer(SICK, outcome="pass")),
        ("health_check", answer(SICK)),  # although it has to fail
        ("health_check", answer(HEALTHY, findings=[{"a": 1}])),
        ("health_check", answer(HEALTHY, verdict="pass")),
        ("node", {"health": answer(SICK, outcome="pass")}),
        ("node", {"health": answer(dict(SICK, outcome="pass"))}),
    ],
)
def test_an_answer_that_contradicts_its_verdict_is_not_used(module, told):
    with pytest.raises(Untrusted):
        verdicts.of_answer(module, told, {"fail_on": "fail"}, NOW)


@pytest.mark.parametrize(
    ("level", "asked", "believed"),
    [("passive", "passive", True), ("active", "passive", True), ("passive", None, True), ("passive", "active", False)],
)
def test_a_passing_verdict_has_the_level_that_was_asked_for(level, asked, believed):
    arguments = {"fail_on": "fail", "level": asked}
    told = answer(dict(HEALTHY, level=level))
    if believed:
        verdicts.of_answer("health_check", told, arguments, NOW)
    else:
        with pytest.raises(Untrusted, match="of the level passive, and active was asked for"):
            verdicts.of_answer("health_check", told, arguments, NOW)
        verdicts.of_answer("health_check", dict(told, failed=True), arguments, NOW)
