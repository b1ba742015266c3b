# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What active checks found fail, kept for remedies, since no passive look tells it again.

It is of one start of one machine. It counts as long as the node owes that check (:class:`.history.Debt`), nothing
was tried since, and nobody silenced it: after a remedy only a new measurement tells whether the fault is still there.
"""

from __future__ import annotations

import fnmatch
from typing import Any, Dict, Mapping, Sequence, Tuple

from ...core import machine, processes
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.state_file import StateFile, document
from ..attempts import DAY_SECONDS, Record
from ..data.returns import ACTIVE
from ..silences import observe_of, observed_by, of_node
from ..types import Finding, Outcome, Verdict, finding_name
from . import history
from .history import Debt

PATH = "/var/lib/gpu_node/health/active.json"
_MOST, _TEXT, _WORD = 64, 300, 100


@frozen
class Kept:
    """A finding of an active check, and when the run of checks began that told it."""

    check: str
    time: float
    finding: Finding


@frozen
class Active:
    machine: str = ""
    boot: str = ""
    faults: Tuple[Kept, ...] = ()


def updated(known: Active, verdict: Verdict, identity: str, boot: str) -> Active:
    """With an active verdict. A check that was made says all that is known by it; one that came to no result says
    nothing. Pure."""
    made = {one.id for one in verdict.results if one.outcome is not Outcome.UNKNOWN}
    same = (known.machine, known.boot) == (identity, boot)
    left = tuple(one for one in known.faults if same and one.check not in made)
    new = tuple(
        Kept(check, verdict.time - verdict.seconds, _bounded(one))
        for check, one in verdict.findings
        if check in ACTIVE and check in made and one.outcome is Outcome.FAIL
    )
    return Active(identity, boot, (left + new)[:_MOST])


def _bounded(one: Finding) -> Finding:
    thing, reason, remedy = (text[:_TEXT] for text in (one.thing, one.reason, one.remedy))
    return Finding(one.outcome, thing, reason, remedy, one.action, one.certainty, one.key[:_WORD], one.code[:_WORD])


def counting(
    known: Active,
    debt: Debt,
    record: Record,
    settings: Mapping[str, Any],
    node: str,
    identity: str,
    boot: str,
    now: float,
) -> Tuple[Kept, ...]:
    """What of it a remedy may be tried for now; ``settings`` are those of section ``health``. Pure."""
    if (known.machine, known.boot) != (identity, boot) or not boot:
        return ()
    # Also one that counts no more: something was done since, or somebody has looked.
    tried = max((max(one.time, one.ended or 0.0) for one in record.attempts), default=0.0)
    owed = {(one.check, one.code) for one in debt.faults if one.check not in debt.passed}
    without = settings.get("without", ())
    without = [one for one in without if isinstance(one, str)] if isinstance(without, (list, tuple)) else []
    silences = [one.finding for one in of_node(settings, node)[0] if now < one.until]
    observe = observe_of(settings)[0]
    return tuple(
        one
        for one in known.faults
        if tried < one.time <= now < one.time + DAY_SECONDS
        and (one.check, one.finding.code) in owed
        and not _matches(one.check, without)
        and not _matches(finding_name(one.check, one.finding), silences)
        and observed_by(one.check, finding_name(one.check, one.finding), observe) is None
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, one) for one in patterns)


# As a file ----------------------------------------------------------------------------------------------


def keep(host: Host, verdict: Verdict) -> str:
    """An active verdict. Returns the sentence about a damaged file.

    :raises NodeError: it cannot be written.
    """
    known = read(host)
    after = updated(known, verdict, machine.fingerprint(host), processes.boot_id(host))
    if after != known and (after.faults or known.faults):
        return FILE.write(host, after)
    return ""


def read(host: Host) -> Active:
    """Empty if there is none, or it is damaged: nothing is tried for that."""
    return FILE.read(host)[0] or Active()


def _parse(content: Dict[str, Any]) -> Active:
    found = document(Active, content)
    for one in found.faults:
        if one.check not in ACTIVE or one.finding.outcome is not Outcome.FAIL or one.finding != _bounded(one.finding):
            raise ValueError("no finding of an active check")
    return replaced(found, faults=found.faults[:_MOST])


FILE = StateFile("active", PATH, _parse)


def now_counting(host: Host, node: str, settings: Mapping[str, Any], record: Record, now: float) -> Tuple[Kept, ...]:
    """:func:`counting` on this node."""
    known = read(host)
    if not known.faults:
        return ()
    identity = machine.fingerprint(host)
    debt = history.read(host).of(identity).debt
    return counting(known, debt, record, settings, node, identity, processes.boot_id(host), now)


def findings(kept: Sequence[Kept]) -> Tuple[Tuple[str, Finding], ...]:
    return tuple((one.check, one.finding) for one in kept)
