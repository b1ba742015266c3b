# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The taint and the condition of a Kubernetes node for a verdict, as commands. Nothing here runs them. Pure.

The condition is named as those of node-problem-detector are: it is ``True`` when there is a problem.
"""

from __future__ import annotations

import json
from typing import Any, Dict

from ...core.moment import moment
from ...core.one_line import line
from ..formats.words import cut
from ..types import Outcome, Verdict

TAINT = "trainyard.io/gpu-node-health"
CONDITION = "GpuNodeUnhealthy"
_STATUS = {Outcome.PASS: "False", Outcome.WARN: "False", Outcome.FAIL: "True", Outcome.UNKNOWN: "Unknown"}
_REASONS = {
    Outcome.PASS: "ChecksPassed",
    Outcome.WARN: "ChecksPassed",
    Outcome.FAIL: "ChecksFailed",
    Outcome.UNKNOWN: "ChecksUnknown",
}


def document(verdict: Verdict, node: str, unknown_taints: bool = False) -> Dict[str, Any]:
    """``commands``: argument lists for kubectl; ``condition``: the patch of the subresource ``status``."""
    bad = verdict.outcome is Outcome.FAIL or (unknown_taints and verdict.outcome is Outcome.UNKNOWN)
    taint = ["kubectl", "taint", "node", node, "--overwrite"]
    effect = "{0}={1}:NoSchedule".format(TAINT, verdict.outcome.value) if bad else "{0}:NoSchedule-".format(TAINT)
    patch = {
        "status": {
            "conditions": [
                {
                    "type": CONDITION,
                    "status": _STATUS[verdict.outcome],
                    "reason": _REASONS[verdict.outcome],
                    "message": cut(line(verdict.in_one_line()), 1000),
                    "lastHeartbeatTime": moment(verdict.time),
                }
            ]
        }
    }
    text = json.dumps(patch, sort_keys=True)
    return {
        "node": node,
        "tainted": bad,
        "condition": patch,
        "commands": [
            [*taint, effect],
            ["kubectl", "patch", "node", node, "--subresource=status", "--type=strategic", "--patch=" + text],
        ],
    }
