# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as labels for Node Feature Discovery, which expire: when nobody checks this node any more, they go.

Labels of what the node has are others, in a file of their own (``metrics/labels``). The profile is named here, as it is
what the node was judged against.
"""

from __future__ import annotations

from ...metrics.labels import rules
from ..types import Outcome, Verdict

# For the interval of the timer (health_gate).
VALID_SECONDS = 300 * rules.VALID_INTERVALS


def render(verdict: Verdict, valid_seconds: float = VALID_SECONDS) -> str:
    entries = {
        "gpu-node-health": verdict.outcome.value,
        "gpu-node-health-level": verdict.level.value,
        "gpu-node-profile": rules.value(verdict.profile),
        "gpu-node-health-silenced": "true" if verdict.silenced else "false",
        "gpu-node-health-observed": "true" if verdict.observed else "false",
    }
    for result in verdict.results:
        if result.outcome is not Outcome.PASS:
            entries[name("gpu-node-check-" + result.id)] = result.outcome.value
    labels = {"{0}/{1}".format(rules.NAMESPACE, key): content for key, content in entries.items()}
    return rules.render(labels, verdict.time + valid_seconds)


def name(text: str) -> str:
    """The nearest legal name of a label, without its namespace."""
    return rules.value(text) or "x"
