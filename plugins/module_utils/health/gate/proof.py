# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is still owed of the proof that a node is well. Pure."""

from __future__ import annotations

import fnmatch
from typing import Sequence, Tuple

from ...core.frozen import frozen
from ..data.returns import ACTIVE, PERSON, RETURNS, Return
from .history import Debt, Fault

EVERY_SECONDS = 3600.0


@frozen
class Left:
    """``checks``: active checks that have to pass. ``person``: why nothing but a person can settle it, or ""."""

    checks: Tuple[str, ...] = ()
    person: str = ""


def row(fault: Fault) -> Return:
    name = "{0}/{1}".format(fault.check, fault.code) if fault.code else fault.check
    # A remedy that is newer than this library has the row of the first that fits by its name.
    known = {remedy.value for one in RETURNS for remedy in one.remedies}
    return next(
        one
        for one in RETURNS
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in one.by)
        and (fault.action not in known or any(remedy.value == fault.action for remedy in one.remedies))
    )


def left(debt: Debt, left_out: Sequence[str] = ()) -> Left:
    """An active check that failed must pass itself, whatever the table says. A check that does not apply is skipped; if
    none applies, the row names the alternative. ``left_out``: patterns of checks that the declaration leaves out."""
    checks, person = set(), ""
    for fault in debt.faults:
        found = row(fault)
        wanted = {*found.proof, *([fault.check] if fault.check in ACTIVE else [])}
        applying = wanted - set(debt.void)
        if found.possible:
            applying -= {one for one in applying if one in debt.missing or matches(one, left_out)}
        checks |= applying - set(debt.passed)
        if not applying and found.otherwise == PERSON:
            person = "nothing on this node can prove that {0} is well ({1})".format(found.part, _name(fault))
    return Left(tuple(one for one in ACTIVE if one in checks), person)


def matches(check: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(check, one) for one in patterns)


def _name(fault: Fault) -> str:
    return "{0}/{1}".format(fault.check, fault.code) if fault.code else fault.check


def due(debt: Debt, attempts: int, now: float) -> bool:
    """Whether a proof may be started: once an hour, and so often in all. A clock that was set back holds none up."""
    return debt.attempts < attempts and not 0 <= now - debt.tried < EVERY_SECONDS
