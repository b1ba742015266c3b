# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that failed too often, by the journal of this node, though all may be well with them at this moment.

Beside that it measures how often each part failed on which node, so that a report over nodes can join what several
nodes know of a part (:mod:`..fleet.offenders`).
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

from ...core import machine
from ...core.frozen import frozen
from .. import journal, parts, repeats
from ..data.repeats import WINDOW_SECONDS
from ..evidence import Evidence
from ..silences import observe_of, observed_by
from ..types import Check, Cost, Expected, Finding, Judgement, Measured
from .gpu_common import lasted

# Parts that are not here any more are told, too: those that failed last.
_MOST_TALLIES = 64
FAULTS, REMEDIES = "part_faults", "part_remedies"
FIRST, LAST = "part_first_fault_timestamp_seconds", "part_last_fault_timestamp_seconds"
WINDOW = {"window": "{0:.0f}d".format(WINDOW_SECONDS / 86400)}


@frozen
class Seen:
    """All events; ``places``: where each part that is here is, for people. ``observe``: what the site only observes,
    which no rule counts."""

    events: Tuple[journal.Event, ...]
    places: Tuple[Tuple[parts.Part, str], ...]
    observe: Tuple[str, ...] = ()

    @property
    def counted(self) -> Tuple[journal.Event, ...]:
        return tuple(one for one in self.events if not self.observe or not self._observed(one))

    def _observed(self, one: journal.Event) -> bool:
        name = "/".join(word for word in (one.check, one.code) if word)
        return one.what == journal.FAULT and observed_by(one.check, name, self.observe) is not None


def look(evidence: Evidence) -> Seen:
    """A damaged journal is told by the run that makes it anew."""
    here = parts.look(evidence.host)
    known = journal.read(evidence.host)[0].on(machine.fingerprint(evidence.host), here.values())
    places: Dict[parts.Part, str] = {}
    for key, part in here.items():
        places.setdefault(part, key)
    for one in known.events:
        if one.part.kind == parts.SERVICE:
            places.setdefault(one.part, one.part.name)
    places[parts.NODE] = ""
    return Seen(known.events, tuple(places.items()), observe_of(evidence.settings)[0])


def judge(seen: Seen, expected: Expected) -> Judgement:
    findings: List[Finding] = []
    measured: List[Measured] = []
    counted = seen.counted
    for part, place in seen.places:
        for one in repeats.of_part(part, counted, expected.now):
            findings.append(_finding(one, place, expected.now))
        between = repeats.between_failures([one for one in seen.events if one.part == part])
        if between is not None:
            labels = {"kind": part.kind}
            measured.append(
                Measured("time_between_failures_seconds", between, part.name or "node", better="higher", labels=labels)
            )
    measured += _counted(seen, expected)
    faults = sum(1 for one in seen.events if one.what == journal.FAULT)
    return Judgement("{0} faults in the journal".format(faults), tuple(findings), tuple(measured))


def _counted(seen: Seen, expected: Expected) -> Iterable[Measured]:
    """A part that is here and can be moved is told without faults as well: another node may know of some."""
    here = [part for part, dummy in seen.places]
    by_part: Dict[parts.Part, List[journal.Event]] = {part: [] for part in here}
    for one in seen.events:
        by_part.setdefault(one.part, []).append(one)
    told: List[repeats.Tally] = []
    for part, events in by_part.items():
        found = repeats.tallies(part, events, expected.now)
        told += found or ([repeats.Tally(part, expected.node)] if part.lasts and part in here else [])
    told.sort(key=lambda one: (one.part not in here, -one.last))
    for tally in told[: max(_MOST_TALLIES, len(here))]:
        labels = {
            "kind": tally.part.kind,
            "seen_on": tally.node,
            "present": "true" if tally.part in here else "false",
        }
        figures: List[Tuple[str, float, Dict[str, str]]] = [(FAULTS, tally.faults, WINDOW)]
        figures += [(REMEDIES, tally.remedies, WINDOW)] if tally.remedies else []
        figures += [(FIRST, tally.first, {}), (LAST, tally.last, {})] if tally.faults else []
        for name, value, more in figures:
            yield Measured(name, float(value), tally.part.name or "node", labels=dict(labels, **more))


def _finding(one: repeats.Repeat, place: str, now: float) -> Finding:
    rule, part = one.rule, one.part
    if part == parts.NODE:
        thing = "this node"
    else:
        noun = {"gpu": "GPU", "disk": "disk", "port": "RDMA port"}.get(part.kind, part.kind)
        thing = noun + " " + place + (" ({0})".format(part.name) if part.lasts and part.name != place else "")
    where = " ({0})".format(one.unit) if one.unit else ""
    reason = "it has had {0} {1}{2} within {3}, the last {4} ago".format(
        one.count, rule.text, where, lasted(rule.window), lasted(max(0.0, now - one.last))
    )
    code = rule.code.format(kind=part.kind)
    return Finding(rule.outcome, thing, reason, rule.remedy, rule.action, rule.certainty, part.name, code)


CHECKS = (Check("repeat_offender", "No part fails again and again", Cost.PASSIVE, judge, look),)
