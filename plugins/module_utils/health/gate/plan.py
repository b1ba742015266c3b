# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict does to this node in Slurm. Pure.

Only what was drained for its health by us is resumed by us, when it has proved well (:mod:`.proof`). A node that a
person took out of service, or a hook of this collection for another reason, is left to them. How many may be drained at
a time is for :mod:`...slurm.breaker` to say.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from ...slurm import drain, states
from ...slurm.breaker import PERSON
from ...slurm.drain import DRAIN, LEAVE, RESUME
from ...slurm.types import SlurmNode
from ..types import LEVELS, Cost, Outcome
from .history import LOST, Entry, History, lost
from .settings import Settings

_DAY_SECONDS = 86400.0
_DOWN = frozenset(("DOWN", "FAIL", "FAILING"))
# Slurm takes the machine away, or believes that it has (slurm.conf(5)).
_AWAY = frozenset(("POWERED_DOWN", "POWERING_DOWN"))
CLEAN = (Outcome.PASS, Outcome.WARN)
_OURS = SlurmNode(frozenset(("IDLE", "DRAIN")), drain.PREFIX + drain.HEALTH)


@dataclasses.dataclass(frozen=True)
class Decision:
    """``action``: drain, resume or leave. ``reason`` is the text to drain with; ``why`` is for people.

    ``person``: something is wrong that nothing but a person will settle. ``prove``: the active checks to run now.
    ``down``: it is down as well by its restart, which ends with the drain. ``owes``: it waits for its proof alone.
    """

    action: str
    why: str
    reason: Optional[str] = None
    person: bool = False
    prove: Tuple[str, ...] = ()
    down: bool = False
    owes: bool = False


def decide(node: SlurmNode, history: History, settings: Settings, now: float, boot: str) -> Decision:
    """``history`` ends with the verdict that this is about."""
    if away(node):
        # A drain now would outlive the machine, and nothing of that name would be started again.
        return Decision(LEAVE, "Slurm powers it down, or has")
    finding = sick(history, settings)
    if finding is None and not drain.out_of_service(node):
        finding = owed(history, settings, now, boot)
    if finding is not None:
        return _sick(node, finding, _remedy(history, settings), settings)
    return _well(node, history, settings, now, boot)


def away(node: SlurmNode) -> bool:
    return bool(node.flags & _AWAY)


def is_down(node: SlurmNode) -> bool:
    return bool(node.flags & _DOWN)


def returning(node: SlurmNode) -> bool:
    """A start may have cost it its drain: 22.05 clears that, and sets the node down, when it takes longer than
    ResumeTimeout. Or it has not registered since."""
    if drain.is_drained(node):
        return False
    flags = states.normalised(node.flags)
    lost = "DOWN" in flags and drain.read(node.reason) is not None
    return lost or "REBOOT_ISSUED" in flags or states.unheard(flags)


def is_up(node: SlurmNode) -> bool:
    """Its slurmd has registered in this start of the machine."""
    silent = {"NOT_RESPONDING", "REBOOT_ISSUED", "POWERING_UP"} & states.normalised(node.flags)
    return not (silent or is_down(node) or away(node) or returning(node))


def restarted(node: SlurmNode, history: History, boot: str) -> bool:
    """It is down by nothing but its restart: a person who sets a node down has to give a reason, which is not ours, and
    where ReturnToService is 0 or 1 slurmctld revives none but those whose reason is "Not responding"."""
    flags = states.normalised(node.flags)
    anew = bool(boot and history.up) and boot != history.up
    other = {"FAIL", "NOT_RESPONDING", "REBOOT_ISSUED", "POWERING_UP"} & flags
    return anew and {"DOWN", "DRAIN"} <= flags and not other and drain.is_for_health(node)


def refused(node: SlurmNode, history: History) -> bool:
    """What was drained by us is so still, under the words of slurmctld for what it registered with."""
    return history.drained is True and drain.is_by_registration(node)


def given_back(node: SlurmNode, history: History, settings: Settings) -> Optional[str]:
    """Our reason for a node that was :func:`refused`; None: it is still."""
    return None if drain.is_refused(node) else reason_of(history, settings)


def reason_of(history: History, settings: Settings) -> str:
    """The reason to drain with for what this machine owes."""
    return drain.health_reason(_went_out_for(history, settings), _remedy(history, settings))


def owed(history: History, settings: Settings, now: float, boot: str) -> Optional[str]:
    """What this machine was drained for before it was started anew, unless it has proved well since.

    A drain can end without anybody's wish: with ``idle_on_node_suspend`` Slurm forgets it when it powers a node down,
    and a node that does not start in time loses it too (power_save.c, 22.05 to 26.05). A start empties the kernel log
    as well, so that nothing is found afterwards. Who resumes a node in the same start of it has looked at it.

    A record that was damaged before this boot may have contained such a drain. A missing record is that of a new node.
    """
    unknown = history.drained is None and LOST in history.debt.faults
    if not (history.drained or unknown) or not boot or history.boot == boot:
        return None
    if _well(_OURS, history, settings, now, boot).action == RESUME:
        return None
    return _went_out_for(history, settings)


def _went_out_for(history: History, settings: Settings) -> str:
    bad = [one.finding for one in history.entries if _bad(one, settings) and one.finding]
    return (bad[-1:] or [history.debt.finding])[0] or "it was drained for its health before it was started"


def charged(history: History, settings: Settings) -> History:
    """With what its last verdict adds to the debt, or proves of it."""
    last = history.entries[-1]
    if last.proves:
        return dataclasses.replace(history, debt=history.debt.proved(last))
    if _bad(last, settings):
        return dataclasses.replace(history, debt=history.debt.failed(last))
    return history


def recalled(node: SlurmNode, history: History) -> History:
    """With a pending validation for a drain by the gate that the record does not contain: the record was lost, or could
    not be written then. Earlier clean verdicts do not count."""
    if not drain.is_for_health(node) or history.drained is True or history.debt.faults:
        return history
    last = history.entries[-1]
    gap = Entry(last.time, Cost.PASSIVE, Outcome.UNKNOWN)
    debt = lost("it is drained in Slurm for its health, and the record does not contain this drain").debt
    return dataclasses.replace(history, entries=(*history.entries[:-1], gap, last), debt=debt)


def settles(node: SlurmNode, history: History) -> bool:
    """Whether nothing is owed any more: a node without a finding is in service, and whoever put it there, in this start
    of the machine, answers for it."""
    return history.entries[-1].outcome in CLEAN and not drain.out_of_service(node) and not away(node)


def _sick(node: SlurmNode, finding: str, remedy: str, settings: Settings) -> Decision:
    if drain.is_for_health(node):
        return Decision(LEAVE, "it is drained for its health already")
    if drain.out_of_service(node):
        return Decision(LEAVE, "it is out of service already, and that reason stays")
    if not settings.drain:
        return Decision(LEAVE, "draining is switched off (health_gate)")
    return Decision(DRAIN, finding, drain.health_reason(finding, remedy))


def _remedy(history: History, settings: Settings) -> str:
    """Of the last verdict that tells what is wrong."""
    bad = [one.remedy for one in history.entries if _bad(one, settings) and one.finding]
    return (bad[-1:] or [one.action for one in history.debt.faults[-1:]] or [""])[0]


def _well(node: SlurmNode, history: History, settings: Settings, now: float, boot: str) -> Decision:
    if not drain.is_for_health(node):
        if drain.out_of_service(node):
            return Decision(LEAVE, "it was not drained for its health")
        return Decision(LEAVE, "it is in service")
    if not settings.resume:
        return Decision(LEAVE, "resuming is switched off (health_gate)", person=True)
    if is_down(node) and not restarted(node, history, boot):
        return Decision(LEAVE, "it is down as well, which is not ours to end", person=True)
    clean = clean_verdicts(history, settings)
    few = "{0} of {1} clean verdicts in a row".format(clean, settings.resume_after)
    if clean == 0:
        return Decision(LEAVE, few)
    # A resume in the future counts too: a clock that was set back does not allow more resumes.
    resumes = sum(1 for one in history.entries if one.action == RESUME and now - one.time < _DAY_SECONDS)
    if resumes >= settings.resumes_a_day and clean >= settings.resume_after:
        text = "it was resumed {0} times within a day and fell ill again; {1}"
        return Decision(LEAVE, text.format(resumes, PERSON), person=True)
    if settings.proof and history.debt.faults:
        owing = _owing(node, history, settings, now)
        if owing is not None:
            return owing
    if clean < settings.resume_after:
        return Decision(LEAVE, few)
    return Decision(RESUME, "{0} clean verdicts in a row".format(clean), down=is_down(node))


def _owing(node: SlurmNode, history: History, settings: Settings, now: float) -> Optional[Decision]:
    """What is owed beside clean verdicts; None: nothing. The proof begins with the first clean verdict."""
    from . import proof  # not wanted before a job

    left = proof.left(history.debt, settings.left_out)
    if left.person:
        return Decision(LEAVE, "{0}; {1}".format(left.person, PERSON), person=True, owes=True)
    if not left.checks:
        return None
    owes = "it owes a passing {0}".format(", ".join(left.checks))
    debt = history.debt
    if proof.due(debt, settings.proof_attempts, now) and not states.busy(node.flags):
        return Decision(LEAVE, owes, prove=left.checks, owes=True)
    if debt.attempts >= settings.proof_attempts:
        text = "{0}, and {1} attempts did not bring it{2}; {3}"
        last = _last_attempt(history)
        return Decision(LEAVE, text.format(owes, debt.attempts, last, PERSON), person=True, owes=True)
    return Decision(
        LEAVE, "{0}; {1} of {2} attempts were made".format(owes, debt.attempts, settings.proof_attempts), owes=True
    )


def _last_attempt(history: History) -> str:
    """What the last active verdict says, if it did not pass."""
    last = next((one for one in reversed(history.entries) if one.level is Cost.ACTIVE), None)
    return " (the last: {0})".format(last.finding) if last is not None and last.outcome not in CLEAN else ""


def sick(history: History, settings: Settings) -> Optional[str]:
    """What is wrong, when the last ``drain_after`` verdicts all say that something is."""
    last = history.entries[-settings.drain_after :]
    if len(last) < settings.drain_after or not all(_bad(one, settings) for one in last):
        return None
    return last[-1].finding or "its verdict is {0}".format(last[-1].outcome.value)


def _bad(entry: Entry, settings: Settings) -> bool:
    return entry.outcome is Outcome.FAIL or (settings.unknown_drains and entry.outcome is Outcome.UNKNOWN)


def clean_verdicts(history: History, settings: Settings) -> int:
    """How many verdicts in a row say that what was wrong is gone. A warning is clean, ``unknown`` is not.

    A verdict that looked less far than the one that failed proves nothing: it is passed over. What an active check
    found is disproved by the same check, see :mod:`.proof`; here passive ones count then.
    """
    bad = [one for one in history.entries if _bad(one, settings)]
    level = bad[-1].level if bad else Cost.PASSIVE
    enough = _reaching(Cost.PASSIVE if level is Cost.ACTIVE and history.debt.faults else level)
    count = 0
    for one in reversed(history.entries):
        if one.outcome not in CLEAN:
            break
        if one.level in enough:
            count += 1
    return count


def _reaching(level: Cost) -> Tuple[Cost, ...]:
    """The levels that look at least as far."""
    return tuple(one for one in Cost if level in LEVELS[one])
