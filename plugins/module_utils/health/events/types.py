# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An event of a cloud, in one form for all clouds."""

from __future__ import annotations

import time
from typing import Any, Dict, Optional, Tuple

from ...core.frozen import frozen

#: What may be announced, the worst last (Microsoft Learn, "Azure Metadata Service: Scheduled Events for Linux VMs",
#: api-version 2020-07-01): a pause of some seconds; a reboot; a move to another host, with the loss of local disks; the
#: end of a spot machine; the deletion of the machine. ``OTHER`` is what no word is known for.
OTHER = "other"
TYPES = (OTHER, "freeze", "reboot", "redeploy", "preempt", "terminate")


@frozen
class Event:
    """``started``: it may happen any moment, or does. ``not_before``: it does not start earlier, in seconds since 1970.

    ``resources``: the machines that it is for, by the cloud's names for them; empty: this one. ``word``: the type as
    the cloud writes it.
    """

    id: str
    type: str
    word: str
    started: bool = False
    not_before: Optional[float] = None
    resources: Tuple[str, ...] = ()
    description: str = ""
    source: str = ""
    duration_seconds: Optional[int] = None

    @property
    def rank(self) -> int:
        return TYPES.index(self.type)

    @property
    def when(self) -> str:
        if self.started:
            return "has started"
        return "at " + utc(self.not_before) if self.not_before is not None else "at any time"

    def to_dict(self) -> Dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "status": "started" if self.started else "scheduled",
            "not_before": None if self.not_before is None else utc(self.not_before),
            "resources": list(self.resources),
            "description": self.description,
            "source": self.source,
            "duration_seconds": self.duration_seconds,
        }


@frozen
class Answer:
    """All events that are pending. ``whole``: nothing of it was passed over, so an event that is not there is over.
    ``notes``: what was passed over, and why."""

    events: Tuple[Event, ...] = ()
    whole: bool = True
    notes: Tuple[str, ...] = ()
    incarnation: Optional[int] = None


def utc(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):
        return "an unknown time"
