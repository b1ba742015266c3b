# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policies for NVSentinel: each field is one that it has, and each predicate says of a node what it should."""

from __future__ import annotations

import datetime
import json
from typing import Any, Dict, Optional

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import kubernetes
from ansible_collections.trainyard.gpu_node.tests.unit.deploy.kubernetes_objects import (
    KUBERNETES,
    node,
)
from ansible_collections.trainyard.gpu_node.tests.unit.deploy.small_cel import CelError, evaluate

tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")

FOLDER = KUBERNETES / "nvsentinel"
POLICIES = {
    one["name"]: one for one in tomllib.loads((FOLDER / "policies.toml").read_text(encoding="utf-8"))["policies"]
}
UNHEALTHY, UNCHECKED = POLICIES
# data-models/protobufs/health_event.proto
ACTIONS = {
    "NONE",
    "COMPONENT_RESET",
    "CONTACT_SUPPORT",
    "RUN_FIELDDIAG",
    "RESTART_VM",
    "RESTART_BM",
    "REPLACE_VM",
    "RUN_DCGMEUD",
    "RESTART_APP",
    "UNKNOWN",
}
NOW = datetime.datetime(2026, 11, 18, 11, 0, tzinfo=datetime.timezone.utc)


def matches(policy: str, resource: Dict[str, Any]) -> bool:
    return bool(evaluate(POLICIES[policy]["predicate"]["expression"], resource=resource, now=NOW))


def ours(status: Optional[str], quarantined: bool = False, minutes: int = 0) -> Dict[str, Any]:
    found = node(kubernetes.CONDITION, status)
    changed = NOW - datetime.timedelta(minutes=minutes)
    for one in found["status"]["conditions"]:
        one["lastTransitionTime"] = changed.strftime("%Y-%m-%dT%H:%M:%SZ")
    if quarantined:
        found["metadata"]["annotations"] = {"quarantineHealthEvent": "[{}]"}
    return found


def test_a_policy_has_the_fields_that_the_monitor_reads() -> None:
    assert len(POLICIES) == 2
    for name, one in POLICIES.items():
        assert set(one) == {"name", "enabled", "resource", "predicate", "healthEvent"} and one["enabled"] is True
        assert one["resource"] == {"group": "", "version": "v1", "kind": "Node"}
        assert set(one["predicate"]) == {"expression"}
        event = one["healthEvent"]
        assert set(event) == {"componentClass", "isFatal", "message", "recommendedAction", "errorCode"}
        assert event["recommendedAction"] in ACTIONS and isinstance(event["isFatal"], bool)
        assert isinstance(event["errorCode"], list) and len(event["message"]) < 200
        # NVSentinel sets a condition of this name, which must not be one that node-problem-detector sets.
        texts = (KUBERNETES / "node_problem_detector" / "config").glob("*.json")
        conditions = [two["type"] for text in texts for two in json.loads(text.read_text())["conditions"]]
        assert kubernetes.CONDITION in conditions and name not in conditions
    assert len({one["healthEvent"]["errorCode"][0] for one in POLICIES.values()}) == 2


@pytest.mark.parametrize(
    "status, quarantined, expected",
    [
        ("True", False, True),
        ("True", True, True),
        ("False", False, False),
        ("False", True, False),
        ("Unknown", False, False),
        # Else a sick node came back because nobody checks it any more.
        ("Unknown", True, True),
        (None, False, False),
        (None, True, False),
    ],
)
def test_a_failing_node_is_taken_out_and_comes_back_when_its_checks_pass(
    status: Optional[str], quarantined: bool, expected: bool
) -> None:
    assert matches(UNHEALTHY, ours(status, quarantined)) is expected
    assert POLICIES[UNHEALTHY]["healthEvent"]["isFatal"] is True


@pytest.mark.parametrize(
    "status, minutes, expected",
    [("Unknown", 31, True), ("Unknown", 29, False), ("True", 99, False), ("False", 99, False), (None, 99, False)],
)
def test_a_node_that_nobody_checks_is_told_after_half_an_hour(
    status: Optional[str], minutes: int, expected: bool
) -> None:
    assert matches(UNCHECKED, ours(status, minutes=minutes)) is expected
    assert POLICIES[UNCHECKED]["healthEvent"]["isFatal"] is False


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_without_conditions_or_with_others_alone_does_not_match(policy: str) -> None:
    assert matches(policy, {"metadata": {"name": "new"}, "status": {}}) is False
    assert matches(policy, node("SomethingElse", "True")) is False
    assert matches(policy, node(kubernetes.CONDITION + "Not", "Unknown")) is False


def test_the_values_for_helm_say_the_same() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
    assert set(values) == {"global", "kubernetes-object-monitor"}
    assert values["global"] == {"kubernetesObjectMonitor": {"enabled": True}}
    ours = values["kubernetes-object-monitor"]["policies"]
    for one in (*ours, *POLICIES.values()):
        one["predicate"] = " ".join(one["predicate"]["expression"].split())
    assert ours == list(POLICIES.values())


@pytest.mark.parametrize(
    "event, labels, expected",
    [
        ({}, {}, True),
        ({"isFatal": False}, {}, False),
        ({"checkName": UNCHECKED}, {}, False),
        ({"agent": "gpu-health-monitor"}, {}, False),
        ({}, {"k8saas.nvidia.com/ManagedByNVSentinel": "false"}, False),
        ({}, {"k8saas.nvidia.com/ManagedByNVSentinel": "true"}, True),
    ],
)
def test_the_rule_set_cordons_for_the_fatal_policy_alone(
    event: Dict[str, Any], labels: Dict[str, str], expected: bool
) -> None:
    (rules,) = yaml.safe_load((FOLDER / "ruleset.yaml").read_text(encoding="utf-8"))
    assert set(rules) == {"enabled", "version", "name", "match", "cordon"} and rules["cordon"] == {"shouldCordon": True}
    sent = {"agent": "kubernetes-object-monitor", "checkName": UNHEALTHY, "isFatal": True, **event}
    seen = {"metadata": {"labels": labels}}
    assert [one["kind"] for one in rules["match"]["all"]] == ["HealthEvent", "Node"]
    assert all(evaluate(one["expression"], event=sent, node=seen) for one in rules["match"]["all"]) is expected


@pytest.mark.parametrize("text", ["", "a ==", "(a", "a.size()", "a ? b : c", "a == 3", "a.exists(c c)", "a b", "has(a"])
def test_what_this_reader_does_not_know_it_does_not_guess(text: str) -> None:
    with pytest.raises(CelError):
        evaluate(text, a={"b": "c"})


def test_an_error_counts_unless_the_other_side_decides() -> None:
    assert evaluate("a.x == 'y' || true", a={}) is True and evaluate("a.x == 'y' && false", a={}) is False
    for text in ("a.x == 'y' || false", "a.x == 'y' && true", "!a.x", "a.exists(c, c.d == 'e')"):
        with pytest.raises(CelError):
            evaluate(text, a={"x": "y"} if text.startswith("!") else [{}] if "exists" in text else {})
