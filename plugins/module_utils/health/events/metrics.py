# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pending events as metrics for the textfile collector of Prometheus' node exporter. Pure."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from ...core.exposition import GAUGE, Exposition
from .memory import Memory
from .types import TYPES

_PREFIX = "cloud_event"


def render(memory: Memory, answered: bool, drained: Optional[bool], now: float) -> str:
    """``answered``: the last time that the cloud was asked. ``drained``: for an event, by us; None: nobody knows."""
    told = Exposition("Events that the cloud has announced for this node.")
    counts: Dict[Tuple[str, str], int] = {}
    for one in memory.known:
        key = (one.type, "started" if one.started else "scheduled")
        counts[key] = counts.get(key, 0) + 1
    kinds = [(kind, status) for kind in TYPES for status in ("scheduled", "started")]
    pending = [({"type": kind, "status": status}, float(counts.get((kind, status), 0))) for kind, status in kinds]
    told.add(_PREFIX + "s", GAUGE, "Events that are pending.", pending)
    earliest: Dict[str, float] = {}
    for one in memory.known:
        if one.not_before is not None and not one.started:
            earliest[one.type] = min(one.not_before, earliest.get(one.type, one.not_before))
    first = [({"type": kind}, float(round(when))) for kind, when in earliest.items()]
    told.add(_PREFIX + "_not_before_timestamp_seconds", GAUGE, "When the first event of a type may start.", first)
    told.add(_PREFIX + "s_answered", GAUGE, "Whether the cloud answered the last time.", [({}, float(answered))])
    if drained is not None:
        told.add(_PREFIX + "s_drained", GAUGE, "Whether this node is drained for an event.", [({}, float(drained))])
    what = "When it was asked; an old one means that nobody asks."
    told.add(_PREFIX + "s_timestamp_seconds", GAUGE, what, [({}, float(int(now)))])
    return told.text()
