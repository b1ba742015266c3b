# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taint and the condition of a Kubernetes node for a verdict, as commands. Nothing here runs them. Pure.

The condition is named as those of node-problem-detector are: it is ``True`` when there is a problem.

Each command exits 0 however often it runs. ``kubectl taint NODE KEY:NoSchedule-`` does not: it is an error where the
taint is gone. So the taint is removed by two commands, which first set another effect, and only for a day from the
first healthy verdict on, however long the node was off before; then there is no command of the taint. A verdict
UNKNOWN that does not taint leaves the taint as it is.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional

from ...core.moment import moment, read
from ...core.one_line import line
from ..formats.words import cut
from ..types import Outcome, Verdict

TAINT = "trainyard.io/gpu-node-health"
CONDITION = "GpuNodeUnhealthy"
# As FIELD_MANAGER of kubernetes/kubectl.py, which the gate does not load. A test compares them.
_MANAGER = "--field-manager=trainyard-gpu-node"
_UNTAINT_SECONDS = 86400.0
_STATUS = {Outcome.PASS: "False", Outcome.WARN: "False", Outcome.FAIL: "True", Outcome.UNKNOWN: "Unknown"}
_REASONS = {
    Outcome.PASS: "ChecksPassed",
    Outcome.WARN: "ChecksPassed",
    Outcome.FAIL: "ChecksFailed",
    Outcome.UNKNOWN: "ChecksUnknown",
}


def document(verdict: Verdict, node: str, unknown_taints: bool = False, before: Any = None) -> Dict[str, Any]:
    """``commands``: argument lists for kubectl; ``condition``: the patch of the subresource ``status``;
    ``healthy_since``: the first healthy verdict since one that tainted the node. ``before``: the document of the last
    run, as it was read. Without one it is not known whether the node has the taint."""
    bad = verdict.outcome is Outcome.FAIL or (unknown_taints and verdict.outcome is Outcome.UNKNOWN)
    known: Mapping[str, Any] = before if isinstance(before, dict) and before.get("node") == node else {}
    unknown = verdict.outcome is Outcome.UNKNOWN
    since = None if bad else _read(known.get("healthy_since"))
    if not (bad or unknown) and (since is None or since > verdict.time):  # a later time is of a clock that was set back
        since = verdict.time
    removed = since is not None and not unknown and verdict.time - since < _UNTAINT_SECONDS
    status = _STATUS[verdict.outcome]
    patch = {
        "status": {
            "conditions": [
                {
                    "type": CONDITION,
                    "status": status,
                    "reason": _REASONS[verdict.outcome],
                    "message": cut(line(verdict.in_one_line()), 1000),
                    "lastHeartbeatTime": moment(verdict.time),
                    "lastTransitionTime": _since(known, status, verdict.time),
                }
            ]
        }
    }
    text = json.dumps(patch, sort_keys=True)
    commands = _taints(node, verdict.outcome.value, bad, removed)
    status_of = ["kubectl", "patch", "node", node, "--subresource=status", "--type=strategic", _MANAGER]
    return {
        "node": node,
        "tainted": bad,
        "healthy_since": None if since is None else moment(since),
        "condition": patch,
        "commands": [*commands, [*status_of, "--patch=" + text]],
    }


def _taints(node: str, value: str, bad: bool, removed: bool) -> List[List[str]]:
    taint = ["kubectl", "taint", "node", node, _MANAGER]
    if bad:
        return [[*taint, "--overwrite", "{0}={1}:NoSchedule".format(TAINT, value)]]
    if not removed:
        return []
    return [[*taint, "--overwrite", "{0}={1}:PreferNoSchedule".format(TAINT, value)], [*taint, TAINT + "-"]]


def _since(known: Mapping[str, Any], status: str, now: float) -> str:
    """When the condition got this status."""
    try:
        (condition,) = known["condition"]["status"]["conditions"]
        since = _read(condition["lastTransitionTime"]) if condition["status"] == status else None
    except (KeyError, TypeError, ValueError):
        since = None
    return moment(now if since is None or since > now else since)


def _read(text: Any) -> Optional[float]:
    found = read(text) if isinstance(text, str) else None
    return None if found is None else found.seconds
