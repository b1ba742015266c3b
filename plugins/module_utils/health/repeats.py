# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules over time, held against a journal. Pure."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from .data.repeats import OF_APPLICATIONS, REPEATS, WINDOW_SECONDS, Rule
from .journal import FAULT, REMEDY, Event
from .parts import Part

# A clock that is set by a network may step back so far.
_SLACK_SECONDS = 300.0


@frozen
class Repeat:
    """A part that a rule is about: ``count`` events, the last one at ``last``."""

    rule: Rule
    part: Part
    unit: str
    count: int
    last: float


@frozen
class Tally:
    """How often a part failed on one node within :data:`.data.repeats.WINDOW_SECONDS`, and what was tried there.
    ``first`` and ``last``: when it failed; 0: it did not."""

    part: Part
    node: str
    faults: int = 0
    remedies: int = 0
    first: float = 0.0
    last: float = 0.0


def tallies(part: Part, events: Sequence[Event], now: float) -> Tuple[Tally, ...]:
    """``events`` are those of the part. One for each node that it was on, by what is known of that."""
    nodes: Dict[str, List[Event]] = {}
    for one in events:
        if one.time <= now + _SLACK_SECONDS and now - one.last <= WINDOW_SECONDS:
            nodes.setdefault(one.node, []).append(one)
    found = []
    for node, some in nodes.items():
        moments = [one.time for one in some if one.what == FAULT and one.code not in OF_APPLICATIONS]
        remedies = sum(1 for one in some if one.what == REMEDY)
        if moments or remedies:
            found.append(
                Tally(part, node, len(moments), remedies, min(moments, default=0.0), max(moments, default=0.0))
            )
    return tuple(found)


def of_part(part: Part, events: Sequence[Event], now: float) -> Tuple[Repeat, ...]:
    """``events`` are all that the journal has: those of other parts tell what the node had at the same time. What the
    clock puts into the future does not count before that time."""
    past = [one for one in events if one.time <= now + _SLACK_SECONDS]
    own = [one for one in past if one.part == part]
    found: List[Repeat] = []
    for rule in REPEATS:
        units: Dict[str, List[Event]] = {}
        for one in own:
            if _meant(rule, one) and (one.unit or not rule.by_unit):
                units.setdefault(one.unit if rule.by_unit else "", []).append(one)
        for unit, some in units.items():
            bursts = _shared(rule, part, past) if rule.together else _bursts(rule, some)
            repeat = _densest(rule, bursts, now)
            if repeat is not None:
                found.append(Repeat(rule, part, unit, *repeat))
    return tuple(found)


def _meant(rule: Rule, one: Event) -> bool:
    return (
        one.what == rule.what
        and rule.kind in ("", one.part.kind)
        and (not rule.checks or one.check in rule.checks)
        and (not rule.codes or one.code in rule.codes)
        and (not rule.actions or one.action in rule.actions)
        and one.code not in rule.without
    )


def _bursts(rule: Rule, events: Sequence[Event]) -> List[Tuple[float, float]]:
    """(begin, end) of each."""
    answer: List[Tuple[float, float]] = []
    stuck: Optional[float] = None
    for one in sorted(events, key=lambda event: event.time):
        sticks = one.code in rule.sticky
        again = sticks and stuck is not None and one.time - stuck <= rule.sticky_seconds
        if answer and (again or (rule.burst and one.time - answer[-1][1] <= rule.burst)):
            answer[-1] = (answer[-1][0], max(answer[-1][1], one.last))
        else:
            answer.append((one.time, one.last))
        stuck = one.last if sticks else stuck
    return answer


def _shared(rule: Rule, part: Part, events: Sequence[Event]) -> List[Tuple[float, float]]:
    """(begin, end) of each event of the fabric that the part had a share in, by when the parts of a node failed. How
    long they stayed so does not count: a port that is down for days would hide the failures of the others."""
    groups: List[List[Event]] = []
    for one in sorted((one for one in events if _meant(rule, one)), key=lambda event: (event.node, event.time)):
        before = groups[-1][-1] if groups else None
        if before is not None and before.node == one.node and one.time - before.time <= rule.together:
            groups[-1].append(one)
        else:
            groups.append([one])
    shares = [[one for one in group if one.part == part] for group in groups]
    return sorted((some[0].time, max(one.last for one in some)) for some in shares if some)


def _densest(rule: Rule, bursts: Sequence[Tuple[float, float]], now: float) -> Optional[Tuple[int, float]]:
    """(how many, when the last ended) of the last window that has enough of them and still counts."""
    for end in range(len(bursts), rule.count - 1, -1):
        last = bursts[end - 1]
        inside = [one for one in bursts[:end] if last[0] - one[0] <= rule.window]
        if len(inside) >= rule.count and now - last[1] <= rule.holds:
            return len(inside), last[1]
    return None


def between_failures(events: Sequence[Event]) -> Optional[float]:
    """The mean time between two faults of a part, in seconds; None: it had none, or one."""
    moments = sorted(one.time for one in events if one.what == FAULT)
    if len(moments) < 2 or moments[-1] <= moments[0]:
        return None
    return (moments[-1] - moments[0]) / (len(moments) - 1)
