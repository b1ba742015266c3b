# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that failed too often, by the journal of this node, though all may be well with them at this moment."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ...core.frozen import frozen
from .. import journal, machine, parts, repeats
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured
from .gpu_common import lasted


@frozen
class Seen:
    """The events of the parts that are here; ``places``: where each of them is, for people."""

    events: Tuple[journal.Event, ...]
    places: Tuple[Tuple[parts.Part, str], ...]


def look(evidence: Evidence) -> Seen:
    """A damaged journal is told by the run that makes it anew."""
    here = parts.look(evidence.host)
    known = journal.read(evidence.host)[0].on(machine.identity(evidence.host), here.values())
    places: Dict[parts.Part, str] = {}
    for key, part in here.items():
        places.setdefault(part, key)
    places[parts.NODE] = ""
    return Seen(tuple(one for one in known.events if one.part in places), tuple(places.items()))


def judge(seen: Seen, expected: Expected) -> Judgement:
    findings: List[Finding] = []
    measured: List[Measured] = []
    for part, place in seen.places:
        events = [one for one in seen.events if one.part == part]
        for one in repeats.of_part(part, events, expected.now):
            findings.append(_finding(one, place, expected.now))
        between = repeats.between_failures(events)
        if between is not None:
            labels = {"kind": part.kind}
            measured.append(
                Measured("time_between_failures_seconds", between, part.name or "node", better="higher", labels=labels)
            )
    faults = sum(1 for one in seen.events if one.what == journal.FAULT)
    return Judgement("{0} faults in the journal".format(faults), tuple(findings), tuple(measured))


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
