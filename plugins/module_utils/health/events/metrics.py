# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending events as metrics for the textfile collector of Prometheus' node exporter. Pure."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Tuple

from ...core.managed_files import MARKER
from .memory import Memory
from .types import TYPES

_PREFIX = "gpu_node_cloud_event"


def render(memory: Memory, answered: bool, drained: Optional[bool], now: float) -> str:
    """``answered``: the last time that the cloud was asked. ``drained``: for an event, by us; None: nobody knows."""
    lines = [MARKER + " Events that the cloud has announced for this node."]
    counts: Dict[Tuple[str, str], int] = {}
    for one in memory.known:
        key = (one.type, "started" if one.started else "scheduled")
        counts[key] = counts.get(key, 0) + 1
    kinds = [(kind, status) for kind in TYPES for status in ("scheduled", "started")]
    _add(lines, "s", "Events that are pending.", {_labels(*key): float(counts.get(key, 0)) for key in kinds})
    earliest: Dict[str, float] = {}
    for one in memory.known:
        if one.not_before is not None and not one.started:
            labels = '{{type="{0}"}}'.format(one.type)
            earliest[labels] = min(one.not_before, earliest.get(labels, one.not_before))
    _add(lines, "_not_before_timestamp_seconds", "When the first event of a type may start.", earliest)
    _add(lines, "s_answered", "Whether the cloud answered the last time.", {"": float(answered)})
    if drained is not None:
        _add(lines, "s_drained", "Whether this node is drained for an event.", {"": float(drained)})
    _add(lines, "s_timestamp_seconds", "When it was asked; an old one means that nobody asks.", {"": float(int(now))})
    return "\n".join(lines) + "\n"


def _labels(kind: str, status: str) -> str:
    return '{{type="{0}",status="{1}"}}'.format(kind, status)


def _add(lines: List[str], name: str, what: str, samples: Mapping[str, float]) -> None:
    if not samples:
        return
    lines.append("# HELP {0}{1} {2}".format(_PREFIX, name, what))
    lines.append("# TYPE {0}{1} gauge".format(_PREFIX, name))
    lines += ["{0}{1}{2} {3:.0f}".format(_PREFIX, name, labels, value) for labels, value in samples.items()]
