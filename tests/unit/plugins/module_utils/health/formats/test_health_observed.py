# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is only observed is told in every format, counts in none, and is never lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import output
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes, silences, verdict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks.silences import CHECK
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import (
    NAMES,
    azure,
    exit_status,
    nagios,
    nfd,
    npd,
    prometheus,
    render,
    text,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    Check,
    Cost,
    Expected,
    Judgement,
    Outcome,
    Silence,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.health_gate.options import Desired
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    DARK,
    FINDINGS,
    HEALTHY,
    LOST,
    NOW,
    OBSERVED,
    VERDICTS,
    WARM,
)


def judged(found, observe=(), known=()):
    """``found``: check → its findings."""
    checks = tuple(
        Check(name, name, Cost.PASSIVE, lambda seen, dummy: Judgement("seen", tuple(seen)), lambda dummy: None)
        for name in found
    )
    looked = {name: lanes.Looked(tuple(findings), None, 0.0) for name, findings in found.items()}
    expected = Expected("x", {}, {}, {}, {}, {}, NOW, "gpu01")
    return verdict.judge("gpu01", Cost.PASSIVE, checks, looked, expected, known, observe=observe)


FOUND = {"gpu_xid": [LOST], "gpu_temperature": [WARM], "nvme_smart": [DARK], "ib_ports": []}


@pytest.mark.parametrize(
    ("observe", "left", "outcome"),
    [
        ((), {"gpu_xid", "gpu_temperature", "nvme_smart"}, "fail"),
        (("*",), set(), "pass"),
        (("gpu_xid",), {"gpu_temperature", "nvme_smart"}, "unknown"),
        (("gpu_*",), {"nvme_smart"}, "unknown"),
        (("gpu_xid/xid_79/*", "nvme_smart"), {"gpu_temperature"}, "warn"),
        (("gpu_xid/xid_7",), {"gpu_xid", "gpu_temperature", "nvme_smart"}, "fail"),
        (("*", "!gpu_xid"), {"gpu_xid"}, "fail"),
        (("!gpu_xid", "*"), {"gpu_xid"}, "fail"),
        (("!gpu_xid",), {"gpu_xid", "gpu_temperature", "nvme_smart"}, "fail"),
        (("*", "!gpu_xid/xid_48"), set(), "pass"),
    ],
)
def test_what_is_observed_counts_for_nothing(observe, left, outcome):
    found = judged(FOUND, observe)
    assert {check for check, dummy in found.findings} == left
    assert {one.check for one in found.observed} == set(FOUND) - left - {"ib_ports"}
    assert found.outcome.value == outcome
    assert all(one.pattern in observe for one in found.observed)


def test_a_check_that_could_not_be_made_is_observed_too():
    broken = Check("gpu_xid", "x", Cost.PASSIVE, lambda seen, dummy: Judgement(), lambda dummy: None)
    looked = {"gpu_xid": lanes.Looked(None, NodeError("log", "it is gone", "look"), 0.0)}
    expected = Expected("x", {}, {}, {}, {}, {}, NOW)
    for observe, outcome in (((), Outcome.UNKNOWN), (("gpu_xid",), Outcome.PASS)):
        found = verdict.judge("gpu01", Cost.PASSIVE, (broken,), looked, expected, observe=observe)
        assert found.outcome is outcome and len(found.observed) == len(observe)


def test_a_silence_goes_before():
    known = (Silence("gpu_xid/*", NOW + 1, "anna", "known"),)
    found = judged(FOUND, ("*",), known)
    assert [one.check for one in found.silenced] == ["gpu_xid"]
    assert {one.check for one in found.observed} == {"gpu_temperature", "nvme_smart"}


@examples(60)
@given(
    st.dictionaries(st.sampled_from(("gpu_xid", "gpu_ecc", "ib_ports")), st.lists(FINDINGS, max_size=3)),
    st.lists(st.sampled_from(("*", "gpu_*", "gpu_xid", "!gpu_ecc", "!*", "ib_ports/*", "")), max_size=3),
)
def test_nothing_is_lost_and_nothing_that_is_enforced_is_observed(found, observe):
    made = judged(found, tuple(observe))
    every = sorted((check, str(one)) for check, findings in found.items() for one in findings)
    told = [(check, str(one)) for check, one in (*made.findings, *made.only_observed)]
    assert sorted(told) == every
    enforced = [one[1:] for one in observe if one.startswith("!")]
    assert not any(one.check in enforced or "*" in enforced for one in made.observed)
    assert sorted(map(str, judged(found).findings)) == sorted(map(str, (*made.findings, *made.only_observed)))


# Formats ------------------------------------------------------------------------------------------------


def test_people_see_a_word_and_a_colour_of_its_own():
    lines = text.lines(OBSERVED)
    assert lines[0][0] == "good" and ": pass, " in lines[0][1]
    assert [kind for kind, dummy in lines[1:]] == ["observed", "observed"]
    assert lines[1][1].startswith("  observed gpu_xid: GPU 3 (0000:0b:00.0): it has fallen off the bus (Xid 79)")
    assert lines[1][1].endswith("(observed; it would count as fail)")
    assert lines[2][1].endswith("(likely) (observed; it would count as warn)")
    assert len(set(output._CODES.values())) == len(output._CODES)


def test_metrics_tell_it_apart():
    metrics = prometheus.render(OBSERVED)
    assert 'gpu_node_health_outcome{outcome="pass"} 1' in metrics
    assert 'gpu_node_health_findings_observed{outcome="fail"} 1' in metrics
    assert 'gpu_node_health_findings{outcome="fail"} 0' in metrics
    (line,) = [one for one in metrics.splitlines() if 'code="xid_79"' in one]
    assert 'silenced="false"' in line and 'observed="true"' in line
    assert 'observed="true"' not in prometheus.render(HEALTHY)


def test_nagios_is_ok_and_says_what_was_observed():
    told = nagios.render(OBSERVED)
    assert told.startswith("GPU_NODE OK - pass: 3 checks, 2 findings observed | ")
    assert "\nobserved: gpu_xid: GPU 3" in told and " observed=2" in told


def test_the_problem_detector_says_the_worst_and_is_at_ease():
    assert npd.render(OBSERVED).startswith("observed: GPU 3 (0000:0b:00.0): it has fallen off")
    assert npd.exit_status(OBSERVED) == 0


def test_azure_is_told_nothing_and_why():
    document = azure.document(OBSERVED, "/subscriptions/1/x")
    assert document["body"] is None
    assert document["reason"].startswith("gpu_xid/xid_79/0000:0b:00.0 is for Azure to repair, but observed only")
    assert "observed" not in azure.document(HEALTHY)["reason"]


def test_a_label_says_that_something_is_observed():
    assert "trainyard.io/gpu-node-health-observed=true\n" in nfd.render(OBSERVED)
    assert "trainyard.io/gpu-node-health-observed=false\n" in nfd.render(HEALTHY)
    assert "gpu-node-check-" not in nfd.render(OBSERVED)


@pytest.mark.parametrize("name", NAMES)
def test_no_exit_status_goes_by_it(name):
    assert exit_status(name, OBSERVED) == 0


@settings(max_examples=25)
@given(VERDICTS, st.sampled_from(NAMES))
def test_what_is_observed_changes_no_exit_status(one, name):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced

    assert exit_status(name, one) == exit_status(name, replaced(one, observed=()))
    assert render(name, one).encode("utf-8", "strict")


def test_as_json_it_has_the_entry_that_says_so():
    (worst,) = [one for one in json.loads(render("json", OBSERVED))["observed"] if one["check"] == "gpu_xid"]
    assert worst["pattern"] == "*" and worst["finding"]["outcome"] == "fail"


# The option ---------------------------------------------------------------------------------------------


def test_what_is_declared_is_what_is_observed():
    wanted = ("*", "!gpu_lost", "gpu_xid/xid_94/*")
    section = Desired(observe=wanted).health_section()
    assert silences.observe_of(section) == (wanted, ())
    assert "observe" not in Desired().health_section()


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("gpu_xids", "gpu_xid"),
        ("!ib_port", "ib_ports"),
        ("gpu_xd/xid_79/*", "gpu_xid"),
        ("gpux_*", "'gpunode health --active --list' has them"),
    ],
)
def test_a_check_that_there_is_not_is_refused_with_near_names(pattern, near):
    with pytest.raises(Misuse) as refused:
        Desired(observe=(pattern,))
    assert "there is none of this name" in str(refused.value) and near in str(refused.value)


def silence(finding):
    return silences.parse({"finding": finding, "until": "2026-12-31", "owner": "anna", "reason": "x"})


def test_a_silence_of_a_check_that_there_is_not_is_refused_with_a_near_name():
    with pytest.raises(Misuse) as refused:
        Desired(silences=(silence("gpu_lost/*"), silence("gpu_fabrik/*")))
    assert "check 'gpu_fabrik': there is none of this name; did you mean 'gpu_fabric'" in str(refused.value)


@pytest.mark.parametrize(
    "finding", ["gpu_xid", "gpu_*", "gpu_xid/xid_63/*", "gpu_x*/xid_63", "gpu*xid_63*", "ib_ports"]
)
def test_a_silence_of_a_check_that_there_is_is_taken(finding):
    assert Desired(silences=(silence(finding),)).silences


@pytest.mark.parametrize("wanted", [("!gpu_lost",), ("!gpu_*", "!ib_ports")])
def test_a_list_that_would_observe_nothing_is_refused_and_told(wanted):
    with pytest.raises(NodeError) as refused:
        Desired(observe=wanted)
    told = (
        "option observe: all of its entries begin with '!', so no check is observed; add '*' to observe all but these"
    )
    assert str(refused.value).startswith(told)
    Desired(observe=("*", *wanted))
    found, problems = silences.observe_of({"observe": list(wanted)})
    assert found == wanted and "so no check is observed" in problems[0]
    assert silences.observe_of({"observe": ["*", *wanted]})[1] == ()


@pytest.mark.parametrize(
    ("given", "read"),
    [(None, ()), ("*", ()), (7, ()), ({"a": 1}, ()), (["ib_*", 7, "", None], ("ib_*",)), ([], ())],
)
def test_what_cannot_be_read_observes_nothing_and_is_told(given, read):
    found, problems = silences.observe_of({"observe": given})
    assert found == read
    assert bool(problems) == (given != [])
    expected = Expected("x", {}, {}, {}, {}, {"observe": given}, NOW)
    assert {one.code for one in CHECK.judge(None, expected).findings} == ({"cannot_be_read"} if problems else set())
