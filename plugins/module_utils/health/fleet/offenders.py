# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that fail again, also on another node than before, by the journals of nodes as their verdicts have them. Pure.

A part goes by its own name (the UUID of a GPU, a serial number, a GUID), so that what several nodes know of it is
joined. What a node says of itself goes before what others say of it. Nothing here decides about a node: a node that
lies can make a line in a report, and no more.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.one_line import line
from ..checks.gpu_common import lasted
from ..checks.repeat_offender import FAULTS, FIRST, LAST, REMEDIES
from ..data.repeats import WINDOW_SECONDS
from ..journal_events import MOST
from ..parts import Part
from .samples import number

CHECK = "repeat_offender"
# From so many faults within the window on a part is told; one that was moved from the first, on the node before.
AGAIN = 2
_FIGURES = (FAULTS, REMEDIES, FIRST, LAST)
# Of one node; an honest one has a few hundred.
_MOST_FIGURES = 2000
_WORD = 100
# Clocks that a network sets differ by less.
_SLACK_SECONDS = 300.0
_NOUNS = {"gpu": "GPU", "disk": "disk", "port": "RDMA port"}


@dataclasses.dataclass(frozen=True)
class Told:
    """What ``host`` tells of a part on the node ``where``. ``first`` and ``last`` None: it never failed there, or the
    clock of that node is wrong."""

    host: str
    part: Part
    where: str
    present: bool
    faults: int = 0
    remedies: int = 0
    first: Optional[float] = None
    last: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Place:
    """How often a part failed on one node. ``node``: a host of the run, else the name by which others know it."""

    node: str
    faults: int
    remedies: int = 0
    first: Optional[float] = None
    last: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Offender:
    """``host``: where the part is now; "": on none of the hosts of this run. ``also``: others that say they have it."""

    kind: str
    name: str
    host: str
    places: Tuple[Place, ...]
    also: Tuple[str, ...] = ()

    @property
    def faults(self) -> int:
        return sum(one.faults for one in self.places)

    @property
    def remedies(self) -> int:
        return sum(one.remedies for one in self.places)

    @property
    def before(self) -> Tuple[Place, ...]:
        """Where else it failed, the last place first. What has no name of its own was nowhere else."""
        if not Part(self.kind, self.name).lasts:
            return ()
        return tuple(one for one in self.places if one.faults and one.node != self.host)

    @property
    def last(self) -> Optional[float]:
        return max((one.last for one in self.places if one.last is not None), default=None)

    @property
    def between(self) -> Optional[float]:
        """The mean time between two faults; None: it had one, or a clock was wrong."""
        known = [one for one in self.places if one.faults]
        if self.faults < 2 or any(one.first is None or one.last is None for one in known):
            return None
        span = max(one.last or 0.0 for one in known) - min(one.first or 0.0 for one in known)
        return span / (self.faults - 1) if span > 0 else None

    def sentence(self, now: float) -> str:
        """Without the node, which is told before it."""
        thing = "this node" if self.kind == "node" else "{0} {1}".format(_NOUNS.get(self.kind, self.kind), self.name)
        words = [_times(self.faults, "fault") + " within {0}".format(lasted(WINDOW_SECONDS))]
        if self.between is not None:
            words.append("one each {0}".format(lasted(self.between)))
        if self.faults:
            last = "at an unknown time" if self.last is None else "{0} ago".format(lasted(max(0.0, now - self.last)))
            words.append("the last " + last)
        if self.remedies:
            words.append("{0} tried".format("1 remedy" if self.remedies == 1 else "{0} remedies".format(self.remedies)))
        text = "{0}: {1}".format(thing, ", ".join(words))
        where = " and ".join("{0} on {1}".format(_times(one.faults, "time"), one.node) for one in self.before[:3])
        if where and self.host:
            text += "; it failed {0} before it came to {1}".format(where, self.host)
        elif where and not self.also:
            text += "; it failed {0}, and is on none of these nodes now".format(where)
        if self.also:
            text += "; {0} say that they have it too, so nothing is joined".format(", ".join(self.also[:3]))
        return text


def offenders(verdicts: Mapping[str, Any], now: float) -> Tuple[Offender, ...]:
    """``verdicts``: by the name of the host, as they lie in JSON. Those with most faults first."""
    told = [one for host, verdict in verdicts.items() for one in _told(host, verdict, now)]
    named = _named(verdicts)
    hosts: Dict[str, List[str]] = {}
    for one_host, name in named.items():
        hosts.setdefault(name, []).append(one_host)
    holders: Dict[Part, List[str]] = {}
    for one in told:
        if one.present and one.host not in holders.setdefault(one.part, []):
            holders[one.part].append(one.host)
    groups: Dict[Tuple[Part, str], List[Told]] = {}
    for one in told:
        # A part is on one node: where several say that they have it, each is taken by itself.
        alone = not one.part.lasts or len(holders.get(one.part, ())) > 1
        groups.setdefault((one.part, one.host if alone else ""), []).append(one)
    found = []
    for (part, teller), some in groups.items():
        here = holders.get(part, [])
        host = "".join(here) if not teller else teller if teller in here or not part.lasts else ""
        also = tuple(one for one in here if one != host) if len(here) > 1 and part.lasts else ()
        made = Offender(part.kind, part.name, host, _places(some, named, hosts), also)
        if made.faults >= AGAIN or (made.host and made.before):
            found.append(made)
    return tuple(sorted(found, key=lambda one: (-one.faults, one.host, one.kind, one.name)))


def _places(some: Sequence[Told], named: Mapping[str, str], hosts: Mapping[str, Sequence[str]]) -> Tuple[Place, ...]:
    """Of each node one: what it says itself, else the most that others say."""
    tellers = {one.host for one in some}
    by_place: Dict[str, List[Told]] = {}
    for one in some:
        by_place.setdefault(_place(one, tellers, named, hosts), []).append(one)
    places = []
    for place, told in by_place.items():
        own = [one for one in told if one.host == place]
        # Its own words are one for its name and one for what an older version wrote; those of others may be the same.
        parts = own or [max(told, key=lambda one: (one.faults, one.remedies))]
        times = [(one.first, one.last) for one in parts if one.faults]
        begins, ends = [one for one, dummy in times if one], [one for dummy, one in times if one]
        known = bool(times) and len(begins) == len(times)
        places.append(
            Place(
                place,
                min(sum(one.faults for one in parts), MOST),
                min(sum(one.remedies for one in parts), MOST),
                min(begins) if known else None,
                max(ends) if known else None,
            )
        )
    places = [one for one in places if one.faults or one.remedies]
    return tuple(sorted(places, key=lambda one: (-(one.last or 0.0), one.node)))


def _place(one: Told, tellers: Iterable[str], named: Mapping[str, str], hosts: Mapping[str, Sequence[str]]) -> str:
    """The host that ``where`` is, where one alone has this name, else the name as it was told. ``hosts``: by name."""
    if not one.where:
        # An older version has left the name out: it is of who tells it, if nobody else does.
        return one.host if set(tellers) == {one.host} else "a node whose name is not known"
    if one.where == named.get(one.host):
        return one.host
    same = hosts.get(one.where, ())
    return same[0] if len(same) == 1 else one.where


def _named(verdicts: Mapping[str, Any]) -> Dict[str, str]:
    """By host the name that it has for itself."""
    found = {}
    for host, verdict in verdicts.items():
        name = verdict.get("node") if isinstance(verdict, Mapping) else None
        found[host] = _word(name) if isinstance(name, str) else ""
    return found


def _told(host: str, verdict: Any, now: float) -> Iterable[Told]:
    rows: Dict[Tuple[Part, str, bool], Dict[str, float]] = {}
    for one in _figures(verdict):
        name, value, key, labels = (one.get(word) for word in ("name", "value", "key", "labels"))
        figure = number(value)
        if name not in _FIGURES or figure is None or not isinstance(key, str) or not isinstance(labels, Mapping):
            continue
        kind, where, present = (labels.get(word) for word in ("kind", "seen_on", "present"))
        if not isinstance(kind, str) or not isinstance(where, str) or present not in ("true", "false"):
            continue
        part = Part(_word(kind), _word(key))
        rows.setdefault((part, _word(where), present == "true"), {})[name] = figure
    for (part, where, present), row in rows.items():
        faults, remedies = _count(row.get(FAULTS)), _count(row.get(REMEDIES))
        times = [row.get(name) for name in (FIRST, LAST)]
        first, last = (one if one is not None and 0 < one <= now + _SLACK_SECONDS else None for one in times)
        if first is None or last is None or first > last:
            first = last = None
        yield Told(host, part, where, present, faults, remedies, first, last)


def _word(text: str) -> str:
    return line(text[:_WORD])


def _count(value: Optional[float]) -> int:
    """No journal has more than so many events."""
    return int(min(max(value or 0.0, 0.0), MOST))


def _figures(verdict: Any) -> List[Mapping[str, Any]]:
    results = verdict.get("results") if isinstance(verdict, Mapping) else None
    for result in results if isinstance(results, (list, tuple)) else ():
        if isinstance(result, Mapping) and result.get("id") == CHECK:
            measured = result.get("measured")
            if isinstance(measured, (list, tuple)):
                return [one for one in measured[:_MOST_FIGURES] if isinstance(one, Mapping)]
    return []


def _times(count: int, noun: str) -> str:
    return "{0} {1}{2}".format(count, noun, "" if count == 1 else "s")
