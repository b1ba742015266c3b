# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last verdicts on this machine, what it owes before it takes jobs again, and whether it is drained for that."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Optional, Set, Tuple

from ...core import processes, safe_files
from ...core.frozen import plain
from ...core.host import Host
from ...core.state_file import StateFile, document
from ..types import NO_TOOL, NOT_COVERED, Cost, Outcome, Result, Verdict

PATH = "/var/lib/gpu_node/health/history.json"
LONGEST = 100
_DAY_SECONDS = 86400.0
_ASK_SECONDS = 3600.0
_FINDING = 300
_FAULTS = 64
_WORD = 100
#: Raised if active checks are replaced: attempts to run those of an earlier release do not count.
PROOF = 2
_SELDOM = ("faults", "passed", "void", "remedy", "missing")


@dataclasses.dataclass(frozen=True)
class Fault:
    """What a node went out for: the check, its code, and the remedy as a word of :class:`..types.Remedy`."""

    check: str
    code: str
    action: str


#: Replaces the fault that a node was drained for if its record does not contain it.
LOST = Fault("gate_record", "lost", "")


@dataclasses.dataclass(frozen=True)
class Debt:
    """The validation that this machine must pass before it takes jobs again, see :mod:`.proof`.

    ``faults``: all faults that it was drained for. ``finding``: the last of them as text for users. Since the last
    failing verdict the active checks ``passed`` have passed, ``void`` did not apply, and the tools of ``missing`` were
    not installed. The proof was started ``attempts`` times, last at ``tried``.
    """

    faults: Tuple[Fault, ...] = ()
    finding: str = ""
    passed: Tuple[str, ...] = ()
    void: Tuple[str, ...] = ()
    attempts: int = 0
    tried: float = 0.0
    missing: Tuple[str, ...] = ()
    proof: int = PROOF

    def failed(self, entry: Entry) -> Debt:
        """What was proved before does not count any more."""
        faults = tuple(dict.fromkeys(self.faults + entry.faults))[:_FAULTS]
        finding = entry.finding or self.finding
        return dataclasses.replace(self, faults=faults, finding=finding, passed=(), void=(), missing=())

    def proved(self, entry: Entry) -> Debt:
        return dataclasses.replace(
            self,
            passed=_together(self.passed, entry.passed),
            void=_together(self.void, entry.void),
            missing=_together(self.missing, entry.missing),
        )


def _together(some: Tuple[str, ...], more: Tuple[str, ...]) -> Tuple[str, ...]:
    return tuple(sorted({*some, *more}))


@dataclasses.dataclass(frozen=True)
class Entry:
    """One verdict, and what it did: ``drain``, ``resume`` or "". ``finding`` is its worst, ``remedy`` the code of its
    remedy (:class:`..types.Remedy`).

    ``faults``: the faults that decided its outcome. ``passed``: its active checks that passed; ``void``: active checks
    that do not apply to this machine; ``missing``: active checks whose tool is not installed.
    """

    time: float
    level: Cost
    outcome: Outcome
    finding: str = ""
    action: str = ""
    faults: Tuple[Fault, ...] = ()
    passed: Tuple[str, ...] = ()
    void: Tuple[str, ...] = ()
    remedy: str = ""
    missing: Tuple[str, ...] = ()

    @property
    def proves(self) -> bool:
        """Whether the checks that passed count: nothing is wrong, and nothing is unknown but the checks without their
        tool, and those for which there was no time, which are still owed."""
        if self.outcome is Outcome.UNKNOWN:
            known = (one.code == NOT_COVERED or one.check in self.missing for one in self.faults)
            return bool(self.faults) and all(known)
        return self.outcome is not Outcome.FAIL and bool(self.passed or self.void)

    @classmethod
    def of(cls, verdict: Verdict) -> Entry:
        finding = remedy = ""
        faults: Dict[Fault, None] = {}
        if verdict.findings:
            worst = verdict.findings[0][1]
            finding, remedy = "{0}: {1}".format(worst.thing, worst.reason)[:_FINDING], worst.action.value
        if verdict.outcome in (Outcome.FAIL, Outcome.UNKNOWN):
            for check, one in verdict.findings:
                if one.outcome is verdict.outcome:
                    faults[Fault(check[:_WORD], one.code[:_WORD], one.action.value)] = None
        passed, void, missing = _active(verdict)
        told = tuple(faults)[:_FAULTS]
        return cls(verdict.time, verdict.level, verdict.outcome, finding, "", told, passed, void, remedy, missing)


def _active(verdict: Verdict) -> Tuple[Tuple[str, ...], Tuple[str, ...], Tuple[str, ...]]:
    """The active checks of a verdict that passed, that do not apply, and whose tool is not installed."""
    if verdict.level is not Cost.ACTIVE:
        return (), (), ()
    from ..data.returns import ACTIVE  # not wanted before a job

    clean = (Outcome.PASS, Outcome.WARN)
    # What an observed check finds counts for nothing. One that is unknown was not made, so it proves nothing either.
    unknown: Dict[str, Set[str]] = {}
    for one in verdict.observed:
        if one.finding.outcome is Outcome.UNKNOWN:
            unknown.setdefault(one.check, set()).add(one.finding.code)
    active = [one for one in verdict.results if one.id in ACTIVE]
    passed = tuple(sorted(one.id for one in active if one.outcome in clean and one.id not in unknown))
    missing = tuple(sorted(one.id for one in active if _has_no_tool(one) or unknown.get(one.id) == {NO_TOOL}))
    return passed, tuple(sorted(one for one in verdict.not_applicable if one in ACTIVE)), missing


def _has_no_tool(one: Result) -> bool:
    return one.outcome is Outcome.UNKNOWN and {finding.code for finding in one.findings} == {NO_TOOL}


@dataclasses.dataclass(frozen=True)
class History:
    """``entries``: oldest first. ``drained``: whether slurmctld, when it was last ``asked`` (seconds since 1970), had
    this node drained for its health by us; None: nobody knows, so it has to be asked.

    ``serving``: whether jobs came here then, that is, nobody had it out of service. ``debt``: what it has to prove.
    ``machine``: the one that this was found on. ``boot``: the start of it that was drained; "": it has been away since.
    For a damaged record: the boot in which it was written; "": an earlier one.
    ``up``: the last start of it in which it was drained by us and not down. ``kept``: it is in SuspendExcNodes by us.
    """

    entries: Tuple[Entry, ...] = ()
    drained: Optional[bool] = None
    asked: float = 0.0
    machine: str = ""
    boot: str = ""
    kept: bool = False
    debt: Debt = Debt()
    serving: bool = False
    up: str = ""

    def of(self, machine: str) -> History:
        """What is known of this machine: nothing, where the record is another one's (a copied or moved disk).

        A machine whose firmware tells no identity is taken for the same: so a sick one stays out.
        """
        if machine and self.machine and machine != self.machine:
            return History(machine=machine)
        return dataclasses.replace(self, machine=machine or self.machine)

    def in_service(self, now: float) -> bool:
        """Whether slurmctld need not be asked about a healthy node. Once an hour it is, whatever is remembered."""
        return self.drained is False and self.serving and 0 <= now - self.asked < _ASK_SECONDS

    def added(self, entry: Entry) -> History:
        """Bounded: the last hundred, and of what is older the last drain and the resumes of a day."""
        entries = (*self.entries, entry)
        older, recent = entries[:-LONGEST], entries[-LONGEST:]
        drains = [one for one in older if one.action == "drain"][-1:]
        resumes = [one for one in older if one.action == "resume" and entry.time - one.time < _DAY_SECONDS]
        kept = sorted(drains + resumes[-LONGEST:], key=older.index)
        return dataclasses.replace(self, entries=(*kept, *recent))

    def acted(self, action: str, drained: Optional[bool], boot: str) -> History:
        """With what the last verdict did. Who is resumed owes nothing."""
        last = dataclasses.replace(self.entries[-1], action=action)
        entries = (*self.entries[:-1], last)
        debt = Debt() if action == "resume" else self.debt
        return dataclasses.replace(self, entries=entries, drained=drained, asked=last.time, boot=boot, debt=debt)


def read(host: Host) -> History:
    """Empty if there is no history. A damaged history only shows that the node must be validated."""
    return load(host)[0]


def taken(host: Host) -> Tuple[History, str]:
    """(the history, a sentence about a damaged file), for a caller that writes it: a damaged file is kept aside."""
    found, damage = load(host)
    if not damage:
        return found, ""
    note = FILE.recover(host)[1] or "{0}: {1}".format(PATH, damage)
    return found, note + ", and a drained node is validated before it returns"


def lost(why: str) -> History:
    """The history if the record cannot be read: nothing is known, so all components must be validated."""
    return History(debt=Debt((LOST,), finding="its record was lost: {0}".format(why)[:_FINDING]))


def load(host: Host) -> Tuple[History, str]:
    """(the history, why it could not be read)."""
    found, damage = FILE.read(host)
    started = processes.boot_time(host) or 0.0
    if damage:
        times = _times(host, PATH)
    elif found is None:
        # A record of another user is moved before it is read (core/own_directories.py).
        times = _times(host, PATH + safe_files.DAMAGED)
        if times is not None and started and times.st_ctime >= started:
            damage = "it is moved to {0}{1}".format(PATH, safe_files.DAMAGED)
    if not damage:
        return found or History(), ""
    older = times is not None and times.st_mtime < started
    return dataclasses.replace(lost(damage), boot="" if older else processes.boot_id(host)), damage


def _times(host: Host, path: str) -> Optional[os.stat_result]:
    try:
        return os.lstat(host.path(path))
    except OSError:
        return None


def _parse(content: Dict[str, Any]) -> History:
    found = document(History, content, ("machine", "boot", "kept", "debt", "serving", "up"))
    debt = found.debt
    if debt.attempts < 0:
        raise ValueError("no number of attempts")
    if content.get("debt", {}).get("proof") != PROOF:
        debt = dataclasses.replace(debt, attempts=0, proof=PROOF)
    up = found.up if "up" in content else found.boot  # an older release wrote none
    return dataclasses.replace(found, entries=found.entries[-2 * LONGEST - 1 :], debt=debt, up=up)


FILE = StateFile("history", PATH, _parse)


def write(host: Host, history: History) -> None:
    """:raises NodeError: when it cannot be written."""
    content = plain(history)
    # Most verdicts have none of these.
    content["entries"] = [
        {name: value for name, value in one.items() if value or name not in _SELDOM} for one in content["entries"]
    ]
    FILE.write(host, content)
