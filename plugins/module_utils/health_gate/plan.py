# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict does to this node in Slurm. Pure.

Only what was drained for its health by us is resumed by us. A node that a person took out of service, or a hook of
this collection for another reason, is left to them.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Sequence, Tuple

from ..health.types import LEVELS, Cost, Outcome
from ..slurm_job import drain
from ..slurm_job.drain import DRAIN, LEAVE, RESUME
from ..slurm_job.types import SlurmNode
from .cluster import Partition
from .history import Entry, History
from .settings import Settings

_DAY_SECONDS = 86400.0
_DOWN = frozenset(("DOWN", "FAIL", "FAILING"))
_PERSON = "a person must decide: look at 'sinfo -R', then drain or resume nodes by scontrol"


@dataclasses.dataclass(frozen=True)
class Decision:
    """``action``: drain, resume or leave. ``reason`` is the text to drain with; ``why`` is for people.

    ``person``: something is wrong that nothing but a person will settle.
    """

    action: str
    why: str
    reason: Optional[str] = None
    person: bool = False


def decide(
    node: SlurmNode, history: History, partitions: Sequence[Partition], settings: Settings, now: float
) -> Decision:
    """``history`` ends with the verdict that this is about."""
    finding = sick(history, settings)
    if finding is not None:
        return _sick(node, finding, partitions, settings)
    return _well(node, history, settings, now)


def _sick(node: SlurmNode, finding: str, partitions: Sequence[Partition], settings: Settings) -> Decision:
    if drain.is_for_health(node):
        return Decision(LEAVE, "it is drained for its health already")
    if drain.out_of_service(node):
        return Decision(LEAVE, "it is out of service already, and that reason stays")
    if not settings.drain:
        return Decision(LEAVE, "draining is switched off (health_gate)")
    full = next((one for one in partitions if len(one.ours) + 1 > most(one, settings)), None)
    if full is not None:
        return _breaker(full, settings, finding)
    return Decision(DRAIN, finding, drain.reason_text(drain.HEALTH + finding))


def _breaker(partition: Partition, settings: Settings, finding: str) -> Decision:
    text = "{0} of {1} nodes of partition {2} are drained by us, and {3:g} % may be ({4} at most); {5} ({6})"
    limit = most(partition, settings)
    ours = len(partition.ours)
    why = text.format(ours, partition.size, partition.name, settings.drained_percent, limit, _PERSON, finding)
    return Decision(LEAVE, why, person=True)


def _well(node: SlurmNode, history: History, settings: Settings, now: float) -> Decision:
    if not drain.is_for_health(node):
        if drain.out_of_service(node):
            return Decision(LEAVE, "it was not drained for its health")
        return Decision(LEAVE, "it is in service")
    if not settings.resume:
        return Decision(LEAVE, "resuming is switched off (health_gate)", person=True)
    if node.flags & _DOWN:
        return Decision(LEAVE, "it is down as well, which is not ours to end", person=True)
    clean = clean_verdicts(history, settings)
    if clean < settings.resume_after:
        return Decision(LEAVE, "{0} of {1} clean verdicts in a row".format(clean, settings.resume_after))
    resumes = sum(1 for one in history.entries if one.action == RESUME and 0 <= now - one.time < _DAY_SECONDS)
    if resumes >= settings.resumes_a_day:
        text = "it was resumed {0} times within a day and fell ill again; {1}"
        return Decision(LEAVE, text.format(resumes, _PERSON), person=True)
    return Decision(RESUME, "{0} clean verdicts in a row".format(clean))


def most(partition: Partition, settings: Settings) -> int:
    """How many nodes of a partition may be drained by us at a time: one in any case, but for 0 %."""
    if settings.drained_percent <= 0:
        return 0
    return max(1, int(partition.size * settings.drained_percent / 100.0))


def taken_back(name: str, partitions: Sequence[Partition], settings: Settings) -> Optional[Decision]:
    """Whether this node, which we have just drained, has to be given back; None: it stays drained.

    Many nodes may fall ill at once, each drained before it saw the others. So each looks again a moment later, and
    those that were not among the first, by the time of slurmctld and then by name, withdraw.
    """
    for one in partitions:
        if name in one.ours and one.ours.index(name) >= most(one, settings):
            return dataclasses.replace(_breaker(one, settings, "drained at the same time as others"), action=RESUME)
    return None


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

    A verdict that looked less far than the one that failed proves nothing: it is passed over.
    """
    bad = [one for one in history.entries if _bad(one, settings)]
    enough = _reaching(bad[-1].level if bad else Cost.PASSIVE)
    count = 0
    for one in reversed(history.entries):
        if one.outcome not in (Outcome.PASS, Outcome.WARN):
            break
        if one.level in enough:
            count += 1
    return count


def _reaching(level: Cost) -> Tuple[Cost, ...]:
    """The levels that look at least as far."""
    return tuple(one for one in Cost if level in LEVELS[one])
