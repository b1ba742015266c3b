# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of the journal, and which are kept when there are more than it holds. Pure.

Bounded is each kind of event of a part by itself, so that a job which makes thousands of Xids pushes out nothing but
older Xids of that code. What is dropped once stays dropped: the kernel log tells it again at each look, and an event
that came and went would change the verdict from run to run.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from ..core.frozen import frozen, replaced
from .data.repeats import OF_APPLICATIONS
from .parts import Part

FAULT, CLEARED, REMEDY, OVERRULED = "fault", "cleared", "remedy", "overruled"
KINDS = (FAULT, CLEARED, REMEDY, OVERRULED)
WORD = 100
MOST_OF_A_KIND, MOST = 20, 1000
# Xids of one GPU that follow each other this closely are one burst (NVSentinel, RepeatedXIDErrorOnSameGPU).
BURST_SECONDS = 180.0
# Seconds since 1970 have a tenth of a microsecond as floats.
_ROUNDING = 1e-3
Fault = Tuple[Part, str, str]
Kind = Tuple[str, Part, str, str]


@frozen
class Event:
    """``time`` to ``last`` in seconds since 1970. ``at``: of what the kernel log tells, the seconds from the boot to
    its begin; it is the same whatever the clock says. ``unit``: the place within the part. ``count``: how often.
    ``node``: the name of the node that it happened on; an older version wrote none."""

    what: str
    part: Part
    time: float
    last: float
    boot: str = ""
    check: str = ""
    code: str = ""
    action: str = ""
    unit: str = ""
    at: float = -1.0
    count: int = 1
    node: str = ""

    @property
    def fault(self) -> Fault:
        return self.part, self.check, self.code

    @property
    def until(self) -> float:
        """In seconds from the boot."""
        return self.at + self.last - self.time


def _kind(one: Event) -> Kind:
    """Not its place within the part: a user chooses on how many a job fails."""
    return one.what, one.part, one.check, one.code


def bounded(events: Sequence[Event]) -> Tuple[Event, ...]:
    """The newest of each kind, and of all. Where all are too many, those that any user can cause go first, and of the
    kinds with the most."""
    places: Dict[Kind, List[int]] = {}
    for place, one in enumerate(events):
        places.setdefault(_kind(one), []).append(place)
    for some in places.values():
        del some[:-MOST_OF_A_KIND]
    room = MOST
    for of_applications in (False, True):
        kinds = [some for kind, some in places.items() if (kind[3] in OF_APPLICATIONS) is of_applications]
        _fit(kinds, room)
        room -= sum(map(len, kinds))
    kept = {place for some in places.values() for place in some}
    return tuple(one for place, one in enumerate(events) if place in kept)


def _fit(kinds: Sequence[List[int]], room: int) -> None:
    """Take the oldest out of the largest until there is room for all, and leave none of that room empty."""
    if sum(map(len, kinds)) <= room:
        return
    level = 0
    while sum(min(len(some), level + 1) for some in kinds) <= room:
        level += 1
    spare = room - sum(min(len(some), level) for some in kinds)
    # Those with the newest events have what is left over.
    for some in sorted(kinds, key=lambda some: -some[-1]):
        if len(some) > level:
            most = level + (1 if spare > 0 else 0)
            spare -= most - level
            del some[: len(some) - most]


def merge(events: List[Event], burst: Event) -> None:
    """Put a burst of the kernel log of this boot in its place. One that is told at each look is one, also when the log
    has lost its begin since. One that is older than all that are kept of a full kind was dropped before."""
    same = [place for place, one in enumerate(events) if one.code == burst.code and _kind(one) == _kind(burst)]
    for place in same:
        one = events[place]
        if (one.boot, one.unit) != (burst.boot, burst.unit) or one.at < 0:
            continue
        if one.at - BURST_SECONDS <= burst.until and burst.at <= one.until + BURST_SECONDS:
            at, until, count = min(one.at, burst.at), max(one.until, burst.until), max(one.count, burst.count)
            if at < one.at or until > one.until + _ROUNDING or count > one.count:
                del events[place]
                _insert(events, replaced(one, at=at, last=one.time + until - at, count=count))
            return
    full = len(same) >= MOST_OF_A_KIND or len(events) >= MOST
    if not (full and same and _newer(events[same[0]], burst)):
        _insert(events, burst)


def _insert(events: List[Event], burst: Event) -> None:
    """Before the first of its kind that ended later."""
    for place, one in enumerate(events):
        if one.code == burst.code and _kind(one) == _kind(burst) and _newer(one, burst):
            events.insert(place, burst)
            return
    events.append(burst)


def _newer(one: Event, burst: Event) -> bool:
    """By the seconds of the boot, whatever the clock says. What is of another boot was written before."""
    return one.boot == burst.boot and one.at >= 0 and moment(one) > moment(burst)


def moment(one: Event) -> Tuple[float, float, str]:
    """The order of the bursts of one boot."""
    return one.until, one.at, one.unit
