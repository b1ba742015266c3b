# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers of itself, for people: what it owes, its drains and resumes, the remedies that were tried, and
what happened to each part. It reads files and nothing else; the gate decides by what slurmctld says."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from ...core import declaration, machine
from ...core.frozen import frozen, plain
from ...core.host import Host
from ...core.options import of_section
from .. import attempts, journal, overrules, parts
from ..attempts import Record
from ..journal import Event
from ..parts import Part
from ..types import Silence
from . import history, proof
from .history import Debt, Entry
from .settings import SECTION, Settings, left_out

_OF_ANOTHER = "{0} was written on another machine, and does not count here"


@frozen
class Owed:
    """``checks``: active checks that have to pass. ``person``: why nothing but a person can settle it, or "".
    ``waived``: why no proof is asked for, or "". ``lapsed``: that it was not, until a date. ``unknown``: what says it
    could not be read."""

    debt: Debt = Debt()
    checks: Tuple[str, ...] = ()
    person: str = ""
    waived: str = ""
    lapsed: str = ""
    most_attempts: int = 0
    unknown: bool = False


@frozen
class Past:
    """``drained``: for its health, when slurmctld was last ``asked``; None: nobody has asked it yet. ``acts``: drains
    and resumes, oldest first. ``problems``: files that say nothing, as they could not be read; ``notes``: other ones
    that count for nothing here."""

    node: str
    drained: Optional[bool] = None
    asked: float = 0.0
    owed: Owed = Owed()
    acts: Tuple[Entry, ...] = ()
    record: Record = Record()
    events: Tuple[Event, ...] = ()
    problems: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()

    def by_part(self) -> Tuple[Tuple[Part, Tuple[Event, ...]], ...]:
        """The part that something happened to last comes last."""
        every = list(dict.fromkeys(one.part for one in reversed(self.events)))
        return tuple((part, tuple(one for one in self.events if one.part == part)) for part in reversed(every))

    def to_dict(self) -> Dict[str, Any]:
        debt = self.owed.debt
        return {
            "node": self.node,
            "drained": self.drained,
            "asked": self.asked or None,
            "owed": {
                "known": not self.owed.unknown,
                "for": debt.finding or None,
                "faults": plain(debt.faults),
                "checks": list(self.owed.checks),
                "passed": list(debt.passed),
                "not_applicable": list(debt.void),
                "no_tool": list(debt.missing),
                "person": self.owed.person or None,
                "waived": self.owed.waived or None,
                "lapsed": self.owed.lapsed or None,
                "attempts": debt.attempts,
                "most_attempts": self.owed.most_attempts,
                "tried": debt.tried or None,
            },
            "acts": [{"time": one.time, "action": one.action, "finding": one.finding or None} for one in self.acts],
            "remedies": {
                "latched": self.record.held or None,
                "released": self.record.released or None,
                "attempts": plain(self.record.attempts),
            },
            "events": plain(self.events),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def owed(debt: Debt, settings: Settings, overruled: Optional[Silence] = None, lapsed: str = "") -> Owed:
    """Pure."""
    if not debt.faults:
        return Owed(debt, most_attempts=settings.proof_attempts)
    waived = "" if settings.proof else "no proof is asked for (health_gate_proof)"
    if settings.proof and overruled is not None:
        waived = "{0} lets it back without its proof: {1}".format(overruled.owner, overruled.reason)
    left = proof.left(debt, settings.left_out)
    return Owed(debt, left.checks, left.person, waived, "" if waived else lapsed, settings.proof_attempts)


def look(host: Host, node: str, now: float) -> Past:
    """:raises NodeError: the declaration cannot be read."""
    declared = declaration.read(host)
    settings = dataclasses.replace(of_section(Settings, declared.get(SECTION)), left_out=left_out(declared))
    identity = machine.fingerprint(host)
    problems: List[str] = []
    notes: List[str] = []
    known, lost = history.load(host)
    problems += ["{0}: {1}".format(history.PATH, lost)] if lost else []
    record = attempts.read(host)
    problems += [record.unreadable] if record.unreadable else []
    book, why = journal.read(host)
    problems += ["{0}: {1}".format(journal.PATH, why)] if why else []
    for path, other in ((history.PATH, known.machine), (journal.PATH, book.machine)):
        if identity and other and other != identity:
            notes.append(_OF_ANOTHER.format(path))
    known = known.of(identity)
    book = book.on(identity, parts.look(host).values())
    section = declared.get("health", {})
    overruled, lapsed = overrules.held(section, node, now), overrules.lapsed(section, node, now)
    return Past(
        node,
        known.drained,
        known.asked,
        Owed(unknown=True) if lost else owed(known.debt, settings, overruled, lapsed),
        tuple(one for one in known.entries if one.action),
        record,
        book.events,
        tuple(problems),
        tuple(notes),
    )
