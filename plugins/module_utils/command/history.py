# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode history``: what happened to this node and its parts, and what it owes before it takes jobs again."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import os
import time
from typing import List

from ..core.host import Host
from ..core.resource import NodeError, printable
from ..health.attempts import RELEASE, WEEK_SECONDS
from ..health.events.types import utc
from ..health.gate import past
from ..health.gate.history import Fault
from ..health.gate.past import Owed, Past
from ..health.journal import FAULT, Event
from ..health.parts import Part
from .exit_status import DONE, NOT_DONE
from .output import print_json, table, wrapped
from .remedy import node_name, told

DETAILS = """What it owes before it takes jobs again, when it was drained and resumed for
its health, which remedies were tried, and the faults of each GPU, disk, port
and service, across reboots. It reads files of this node alone and changes
nothing; 'gpunode health' looks at the node as it is now.

examples:
  gpunode history                all that this node remembers
  gpunode history --brief        one line, for many nodes side by side
  gpunode history --json         the same for programs

exit status:
  0  told, also where nothing has happened yet
  1  a file could not be read; what the others say is told all the same
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show what happened to this node and its parts, and what it owes."
    parser.epilog = DETAILS
    parser.add_argument("--brief", action="store_true", help="one line")
    what = "NodeName of this node; found by slurmd's own rules without it"
    parser.add_argument("--node", metavar="NAME", default="", help=what)


def run(host: Host, arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise NodeError("gpunode history", "only root may read it", "run it as root")
    now = time.time()
    known = past.look(host, node_name(host, arguments), now)
    if arguments.json:
        print_json(known.to_dict())
    elif arguments.brief:
        print(printable(brief(known, now)))
    else:
        print("\n".join(lines(known)))
    return NOT_DONE if known.problems else DONE


def brief(known: Past, now: float) -> str:
    """One line."""
    owed, record = known.owed, known.record
    parts = [_state(known)]
    if _owes(owed):
        parts.append(_owes(owed))
    if record.held:
        parts.append("no remedy is tried until a person releases them")
    recent = sum(1 for one in record.attempts if now - one.time < WEEK_SECONDS)
    if recent:
        parts.append("remedies tried within 7 days: {0}".format(recent))
    faults = [one for one in known.events if one.what == FAULT]
    if faults:
        last = faults[-1]
        parts.append("last fault {0} {1} of {2}".format(utc(last.last), _fault(last), _part(last.part)))
    if known.problems:
        parts.append("cannot be read: {0}".format("; ".join(known.problems)))
    return "{0}: {1}".format(known.node, "; ".join(parts))


def lines(known: Past) -> List[str]:
    """What others wrote is made printable before it is laid out: no word of it begins a line of its own."""
    found = [_said("{0}: {1}".format(known.node, _state(known)))]
    found += [_said("cannot be read: " + one) for one in known.problems]
    found += [_said("note: " + one) for one in known.notes]
    found += [_said(one) for one in _debt(known.owed)]
    if known.acts:
        found.append("drained and resumed:")
        rows = [(utc(one.time), one.action, printable(one.finding)) for one in known.acts]
        found += table(("WHEN", "WHAT", "FOR"), rows)
    record = known.record
    if record.held:
        found.append(_said("remedies: none is tried, {0}; {1}".format(record.held, RELEASE)))
    if record.attempts:
        found.append("remedies that were tried:")
        found += [_said(told(one)) for one in record.attempts]
    for part, events in known.by_part():
        found.append(printable("{0}:".format(_part(part))))
        found += table(("WHEN (UTC)", "UNTIL", "WHAT", "TIMES", "FAULT"), [_row(one, known.node) for one in events])
    if not (known.acts or record.attempts or known.events or known.problems):
        found.append("nothing has happened that it remembers")
    return found


def _said(text: str) -> str:
    return wrapped(printable(text))


def _state(known: Past) -> str:
    if known.owed.unknown:
        return "nobody knows whether it is drained for its health, or what it owes"
    if known.drained is None:
        return "slurmctld was not asked yet whether it is drained for its health"
    return "{0}drained for its health, as of {1}".format("" if known.drained else "not ", utc(known.asked))


def _debt(owed: Owed) -> List[str]:
    debt = owed.debt
    if not debt.faults:
        return [] if owed.unknown else ["it owes no proof"]
    found = [
        "it went out for: {0}".format(debt.finding or "a fault without a text"),
        "faults: {0}".format(", ".join(_of_debt(one) for one in debt.faults)),
        _owes(owed) or "it owes clean verdicts, and no active check",
    ]
    if owed.lapsed:
        found.append(owed.lapsed)
    if debt.passed:
        found.append("passed since: {0}".format(", ".join(debt.passed)))
    if debt.missing:
        found.append("not run, its tool is not installed: {0}".format(", ".join(debt.missing)))
    if debt.tried:
        found.append("the proof was tried last on {0}".format(utc(debt.tried)))
    return found


def _owes(owed: Owed) -> str:
    if owed.waived and (owed.checks or owed.person):
        return owed.waived
    if owed.person:
        return "it waits for a person: {0}".format(owed.person)
    if not owed.checks:
        return ""
    tries = "{0} of {1} attempts".format(owed.debt.attempts, owed.most_attempts)
    return "it owes a passing {0} ({1})".format(", ".join(owed.checks), tries)


def _of_debt(one: Fault) -> str:
    name = "{0}/{1}".format(one.check, one.code) if one.code else one.check
    return "{0} ({1})".format(name, one.action) if one.action else name


def _part(part: Part) -> str:
    return "{0} {1}".format(part.kind, part.name) if part.name else part.kind


def _fault(one: Event) -> str:
    return "{0}/{1}".format(one.check, one.code) if one.check and one.code else one.check or one.code


def _row(one: Event, node: str) -> List[object]:
    where = " on {0}".format(one.node) if one.node and one.node != node else ""
    until = _minute(one.last) if one.last != one.time else None
    count = one.count if one.what == FAULT else None
    return [_minute(one.time), until, one.what, count, printable(_fault(one) + where)]


def _minute(moment: float) -> str:
    return utc(moment)[:16].replace("T", " ")
