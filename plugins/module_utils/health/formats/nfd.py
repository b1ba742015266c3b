# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels for Node Feature Discovery, which expire: when nobody checks this node any more, its labels go.

A file of the local source (``features.d``): one ``namespace/name=value`` a line, after the directive
``# +expiry-time`` (Node Feature Discovery, customization guide, "Input format"). The value of a label has at most 63
characters, letters, digits and ``-_.`` between letters or digits (Kubernetes, "Labels and Selectors").

Nothing in it changes while the verdict stays the same but the time of expiry, so nodes are not patched at each run.
"""

from __future__ import annotations

import re

from ...core.managed_files import MARKER
from ..types import Outcome, Verdict
from .words import moment

NAMESPACE = "trainyard.io"
# Two runs of the timer and a half (health_gate), so that one late run takes no node out.
VALID_SECONDS = 750.0
_LONGEST = 63


def render(verdict: Verdict, valid_seconds: float = VALID_SECONDS) -> str:
    entries = {
        "gpu-node-health": verdict.outcome.value,
        "gpu-node-health-level": verdict.level.value,
        "gpu-node-profile": value(verdict.profile),
        "gpu-node-health-silenced": "true" if verdict.silenced else "false",
        "gpu-node-health-observed": "true" if verdict.observed else "false",
    }
    for result in verdict.results:
        if result.outcome is not Outcome.PASS:
            entries[name("gpu-node-check-" + result.id)] = result.outcome.value
    lines = [
        MARKER + " Labels of this node for Node Feature Discovery; they expire by themselves.",
        "# +expiry-time={0}".format(moment(verdict.time + valid_seconds)),
    ]
    lines += ["{0}/{1}={2}".format(NAMESPACE, key, entries[key]) for key in sorted(entries)]
    return "\n".join(lines) + "\n"


def value(text: str) -> str:
    """The nearest legal value of a label; it may be empty."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text)[:_LONGEST].strip("_.-")


def name(text: str) -> str:
    """The nearest legal name of a label, without its namespace."""
    return value(text) or "x"
