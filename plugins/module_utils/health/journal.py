# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened to the parts of a node, across boots: faults, their end, remedies, and what a person overruled.

A start of the machine empties the kernel log, so this is all that is known of a GPU that fell off the bus each night.
Parts go by names that last (:mod:`.parts`): a GPU that moves to another slot keeps its history. Events stand in the
order in which they were written; a clock that was wrong drops none, since what is bounded is their number
(:mod:`.journal_events`).
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, Mapping, Sequence, Tuple

from ..core import safe_files
from ..core.frozen import frozen, replaced
from ..core.host import Host
from ..core.state_file import StateFile, document
from .journal_events import CLEARED, FAULT, KINDS, MOST, OVERRULED, REMEDY, WORD, Event, Fault, bounded, merge
from .parts import NODE, Part
from .types import Finding, Outcome, Verdict

# With the events, so that others need not know of a second module.
__all__ = [
    "CLEARED",
    "FAULT",
    "FILE",
    "OVERRULED",
    "REMEDY",
    "WORD",
    "Event",
    "Journal",
    "Told",
    "bounded",
    "merged",
    "part_of",
    "read",
    "told",
    "updated",
    "write",
]

PATH = "/var/lib/gpu_node/health/journal.json"
DAMAGED = PATH + safe_files.DAMAGED
# Far above what so many events take.
MOST_BYTES = 2**22
# A fault that is told at each look moves its last time no more often, so that a sick node does not write all the time.
_SEEN_SECONDS = 3600.0
# What these remedies are for is ended by a new start of the machine, if by anything.
_STARTED_ANEW = ("reset_gpu", "reboot", "replace")
# The checks that tell a GPU which does not answer: the others that begin so were made of those that do.
_UNANSWERED, _OF_GPUS = ("gpu_lost", "gpu_count"), "gpu_"
# Remedies that end with a new start of the machine, which is then no remedy of its own.
_STARTING = ("reboot", "redeploy")


@frozen
class Journal:
    """``machine``: the one that it was written on, ``boot``: the start of it. ``shared``: parts whose history in the
    folder of the site was read in this start."""

    events: Tuple[Event, ...] = ()
    machine: str = ""
    boot: str = ""
    shared: Tuple[str, ...] = ()

    def on(self, machine: str, present: Iterable[Part]) -> Journal:
        """What of it holds on this machine. On another one (an image, a moved disk) only what parts that are here had.

        A machine whose firmware tells no identity is taken for the same.
        """
        if not machine or not self.machine or machine == self.machine:
            return replaced(self, machine=machine or self.machine)
        here = {one for one in present if one.lasts}
        return Journal(tuple(one for one in self.events if one.part in here), machine)


# What a verdict adds --------------------------------------------------------------------------------------


@frozen
class Told:
    """What a verdict says: ``faults`` with their remedies, and the ``made`` checks. Of what is ``open``, nothing is
    known that ends it: a check on a part, or on :data:`NODE` for all parts. ``warned``: neither failing nor well.
    ``silent`` GPUs were not asked by the checks of GPUs, ``here`` are the parts that could be looked at."""

    faults: Mapping[Fault, str]
    made: FrozenSet[str] = frozenset()
    open: FrozenSet[Tuple[Part, str]] = frozenset()
    warned: FrozenSet[Fault] = frozenset()
    silent: FrozenSet[Part] = frozenset()
    here: FrozenSet[Part] = frozenset()

    def ends(self, known: Event) -> bool:
        """Whether this look says that a fault is gone: it was looked for, on this part, and it is well."""
        part, check = known.part, known.check
        if check not in self.made or known.fault in self.faults or known.fault in self.warned:
            return False
        if (part, check) in self.open or (NODE, check) in self.open:
            return False
        return part in self.here and not (part in self.silent and check.startswith(_OF_GPUS))


def told(verdict: Verdict, parts: Mapping[str, Part], wanted: Sequence[str] = ()) -> Told:
    """The faults are what fails, and of the warnings those of the ``wanted`` checks, which rules are about.

    Silenced findings and those that are only observed are written down, too: they happened. Xids have bursts of their
    own.
    """
    every = list(verdict.findings) + [(one.check, one.finding) for one in verdict.silenced]
    every += [(one.check, one.finding) for one in verdict.observed]
    named = [(part_of(one.key, parts), check[:WORD], one) for check, one in every]
    lasting = [
        (part, check, one) for part, check, one in named if not _is_xid(check, one) and check != "repeat_offender"
    ]
    faults = {
        (part, check, one.code[:WORD]): one.action.value
        for part, check, one in lasting
        if one.outcome is Outcome.FAIL or (one.outcome is Outcome.WARN and check in wanted)
    }
    return Told(
        faults,
        frozenset(one.id[:WORD] for one in verdict.results),
        frozenset((part, check) for part, check, one in named if one.outcome is Outcome.UNKNOWN),
        frozenset((part, check, one.code[:WORD]) for part, check, one in lasting if one.outcome is Outcome.WARN),
        frozenset(part for part, check, one in named if check in _UNANSWERED and part.kind == "gpu"),
        frozenset((*parts.values(), NODE)),
    )


def _is_xid(check: str, finding: Finding) -> bool:
    return check == "gpu_xid" and finding.code.startswith("xid_")


def part_of(key: str, parts: Mapping[str, Part]) -> Part:
    """The part that a finding with this key is about."""
    return parts.get(key) or parts.get(key.split("/")[0]) or NODE


def updated(
    journal: Journal,
    told: Told,
    bursts: Sequence[Event],
    boot: str,
    now: float,
    node: str = "",
) -> Journal:
    """The journal after a look, with the ``bursts`` of Xids in the kernel log, on ``node``. The same object where there
    is nothing new. Pure."""
    events, node = list(journal.events), node[:WORD]
    open_ = _open(events)
    if boot and journal.boot and boot != journal.boot:
        # What the kernel log told ended with the boot that it told it in, and is not a reason for each later one.
        ended = [one for one in open_.values() if one.at < 0 or one.boot == journal.boot]
        started_by_us = {
            one.part for one in events if one.what == REMEDY and one.code in _STARTING and one.boot == journal.boot
        }
        for part in dict.fromkeys(one.part for one in ended if one.action in _STARTED_ANEW):
            if part in started_by_us:
                continue
            events.append(Event(REMEDY, part, now, now, boot, code="reboot", node=node))
    for known in open_.values():
        if known.at < 0 and told.ends(known):
            events.append(replaced(known, what=CLEARED, time=now, last=now, boot=boot, count=1, node=node))
    for fault, action in told.faults.items():
        known_ = open_.get(fault)
        if known_ is None or known_.at >= 0:
            events.append(Event(FAULT, fault[0], now, now, boot, fault[1], fault[2], action, node=node))
        elif not 0 <= now - known_.last < _SEEN_SECONDS:
            events[events.index(known_)] = replaced(known_, last=max(known_.last, now))
    for burst in bursts:
        merge(events, replaced(burst, node=node))
    kept = bounded(events)
    if kept == journal.events and boot == journal.boot:
        return journal
    return replaced(journal, events=kept, boot=boot, shared=journal.shared if boot == journal.boot else ())


def _open(events: Iterable[Event]) -> Dict[Fault, Event]:
    """The faults that have not ended, each with its last event."""
    found: Dict[Fault, Event] = {}
    for one in events:
        if one.what == FAULT:
            found[one.fault] = one
        elif one.what in (CLEARED, OVERRULED):
            found.pop(one.fault, None)
    return found


def merged(journal: Journal, others: Sequence[Event]) -> Journal:
    """With what another node wrote of a part that is here now; what both have stands once, also
    when an older version has left the node out of it. The older history first."""
    known = {replaced(one, node="") for one in journal.events}
    new = [one for one in others if replaced(one, node="") not in known]
    return replaced(journal, events=bounded(sorted(new, key=lambda one: one.time) + list(journal.events)))


# As a file ----------------------------------------------------------------------------------------------


def _parse(content: Dict[str, Any]) -> Journal:
    found = document(Journal, content)
    for one in found.events:
        words = (one.part.kind, one.part.name, one.boot, one.check, one.code, one.action, one.unit, one.node)
        if one.what not in KINDS or not 1 <= one.count <= 2**31 or max(map(len, words)) > WORD:
            raise ValueError("no event")
    if max(map(len, (found.machine, found.boot, *found.shared))) > WORD:
        raise ValueError("no word")
    events = bounded([replaced(one, last=max(one.time, one.last)) for one in found.events])
    return replaced(found, events=events, shared=found.shared[:MOST])


#: Also the form of the files in the folder of the site.
FILE = StateFile("journal", PATH, _parse, most_bytes=MOST_BYTES)


def read(host: Host) -> Tuple[Journal, str]:
    """(the journal, why it is damaged). A damaged one counts as none."""
    found, damage = FILE.read(host)
    return found or Journal(), damage


def write(host: Host, journal: Journal) -> str:
    """Returns the sentence about a damaged file that was in its place.

    :raises NodeError: when it cannot be written.
    """
    return FILE.write(host, journal)
