# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an event does to this node. Pure.

The node is drained before, with a reason that names the event, and comes back when all are over and it has proved well.
Only what was drained for an event by us is resumed by us, a node that somebody else took out of service keeps that
reason, and one that somebody put back into service is not drained a second time for the same events.
"""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

from ...core.frozen import frozen, replaced
from ...slurm import drain, states
from ...slurm.types import SlurmNode
from ..gate.owing import FREE, Held
from .memory import OVER, WITHDRAWN, Known, Memory
from .settings import DRAIN, IGNORE, Settings
from .types import Answer, Event

#: What a round may do in Slurm.
LEAVE, DRAINS, RENAME, PROVE, RESUME = "leave", "drain", "rename", "prove", "resume"
#: It stays drained, for the gate: its health owes a proof, whatever the cloud did.
GATE = "gate"
#: A proof that failed is tried again after this time, twice as long each time, an hour at most. A node that has just
#: been started may lack a service for a moment.
RETRY_SECONDS, RETRY_MOST_SECONDS = 60.0, 3600.0
_ASK_AGAIN_SECONDS = 60.0
_DOWN = frozenset(("DOWN", "FAIL", "FAILING"))
_AWAY = frozenset(("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"))
_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9_-]* ([A-Za-z0-9][A-Za-z0-9._:-]{0,63})(?: |\Z)")


@frozen
class Here:
    """This machine, this start of it, and the names that an event may have for it, in small letters."""

    machine: str
    boot: str
    names: Tuple[str, ...] = ()


@frozen
class Noticed:
    """What an answer told: what is remembered then, the events of this node that count, and lines for the log."""

    memory: Memory
    events: Tuple[Event, ...]
    tells: Tuple[str, ...]


@frozen
class Decision:
    """``action`` in Slurm, and ``memory`` when it has succeeded. ``reason``: to drain with. ``converge``: the node is
    to be converged before it is looked at. ``down``: it is down as well by its restart, which ends with the drain.
    ``approve``: ids of events that may start now. ``quiet``: all is as it has to be, which is no news."""

    action: str
    why: str
    memory: Memory
    reason: str = ""
    converge: bool = False
    down: bool = False
    approve: Tuple[str, ...] = ()
    quiet: bool = False


def notice(answer: Answer, before: Memory, settings: Settings, here: Here, now: float) -> Noticed:
    """An answer that is not whole ends nothing: what it lacks may be among what was passed over."""
    memory, tells = _of_machine(before, here)
    events = tuple(one for one in answer.events if _is_ours(one, here) and settings.action(one.type) != IGNORE)
    known = {one.id: one for one in memory.known}
    pending: List[Known] = []
    for event in events:
        old = known.pop(event.id, None)
        if old is None:
            tells.append("event {0}{1}".format(_told(event), _details(event)))
        elif event.started and not old.started:
            tells.append("event {0} {1}: it has started".format(event.word, event.id))
        elif event.not_before != old.not_before and not event.started:
            tells.append("event {0} {1}: it is now {2}".format(event.word, event.id, event.when))
        seen = old or Known(event.id, event.type, event.not_before, event.started, here.boot)
        started = event.started or seen.started
        # Its time is blank once it has started.
        not_before = seen.not_before if event.not_before is None else event.not_before
        pending.append(replaced(seen, type=event.type, not_before=not_before, started=started))
    for old in known.values():
        if not answer.whole:
            pending.append(old)
            continue
        end = OVER if _happened(old, here, now) or memory.another else WITHDRAWN
        tells.append("event {0} {1}: it {2}".format(old.type, old.id, "is over" if end == OVER else "was withdrawn"))
        if old.id in memory.drained and memory.over != OVER:
            memory = replaced(memory, over=end)
    if any(one.id not in {old.id for old in memory.known} for one in events):
        memory = replaced(memory, proved="")
    memory = replaced(memory, known=tuple(pending)).noted(now, tuple(tells))
    return Noticed(memory, events, tuple(tells))


def _of_machine(memory: Memory, here: Here) -> Tuple[Memory, List[str]]:
    """What was found on one machine says nothing of another. But that the node of this name was drained does: where
    Slurm has that drain, this is the machine that came back (another one, or the disk of it); where it has none, the
    disk was copied, and what lies here is dropped."""
    if not (memory.machine and here.machine and memory.machine != here.machine):
        return replaced(memory, machine=memory.machine or here.machine), []
    told = "this is another machine ({0}) than the one that these events were seen on ({1})"
    fresh = Memory(machine=here.machine, drained=memory.drained, notes=memory.notes)
    if memory.drained:
        fresh = replaced(fresh, known=memory.known, another=True, over=OVER)
    return fresh, [told.format(here.machine, memory.machine)]


def _is_ours(event: Event, here: Here) -> bool:
    """Those of a whole group of machines are shown to each of them."""
    return not event.resources or any(one.lower() in here.names for one in event.resources)


def _happened(known: Known, here: Here, now: float) -> bool:
    """Whether an event that is gone may have happened: it began, or could have, or the machine was started anew."""
    could = known.not_before is None or now >= known.not_before
    return known.started or known.asked > 0 or could or known.boot != here.boot


def wants_slurm(noticed: Noticed, settings: Settings, now: float) -> bool:
    """Whether slurmctld has to be asked: there is something to do, or something of ours to end."""
    return bool(noticed.memory.drained or _due(noticed.events, settings, now))


def _due(events: Sequence[Event], settings: Settings, now: float) -> Tuple[Event, ...]:
    """Those to be drained for, the first to come first, of several at once the worst."""
    found = [
        one
        for one in events
        if settings.action(one.type) == DRAIN
        and (one.started or one.not_before is None or one.not_before - now <= settings.lead_minutes * 60)
    ]
    return tuple(sorted(found, key=lambda one: (not one.started, one.not_before or 0.0, -one.rank, one.id)))


def decide(
    noticed: Noticed, node: SlurmNode, settings: Settings, here: Here, now: float, held: Held = FREE
) -> Decision:
    """The next step for this node as slurmctld has it. ``held``: what its health owes."""
    memory = noticed.memory
    if node.flags & _AWAY:
        # A drain now would outlive the machine, and nothing of that name would be started again.
        return Decision(LEAVE, "Slurm powers it down, or has", memory)
    due = _due(noticed.events, settings, now)
    if due:
        return _pending(due, node, memory, settings, here, now)
    if drain.is_for_event(node):
        return _after(noticed, node, here, now, held)
    if drain.is_for_rolling(node):
        return Decision(LEAVE, "it is drained for work on it, and the play that did so puts its reason back", memory)
    return Decision(LEAVE, "it is not drained for an event", memory.settled(), quiet=True)


def _pending(
    due: Tuple[Event, ...], node: SlurmNode, memory: Memory, settings: Settings, here: Here, now: float
) -> Decision:
    ids = tuple(one.id for one in due)
    first = due[0]
    reason = drain.reason_text(drain.EVENT + _told(first))
    if drain.is_for_event(node):
        if not memory.drained:  # by a run of ours that did not come to write that down
            memory = replaced(memory, boot=here.boot, struck=True)
        memory = memory.drained_for(ids)
        if named(node) not in ids:
            return Decision(RENAME, "what it was drained for first is over", memory, reason)
        approve = _approved(due, node, memory, settings, here, now)
        return Decision(LEAVE, "it is drained for this already", memory, approve=approve, quiet=True)
    if drain.out_of_service(node):
        return Decision(LEAVE, "it is out of service already, and that reason stays", memory)
    if memory.boot == here.boot and all(one in memory.drained for one in ids):
        return Decision(LEAVE, "it was drained for this, and somebody put it back into service", memory)
    struck = any(one.started for one in due)
    after = replaced(memory.settled().drained_for(ids), boot=here.boot, struck=struck)
    return Decision(DRAINS, "event {0}".format(_told(first)), after, reason)


def _approved(
    due: Tuple[Event, ...], node: SlurmNode, memory: Memory, settings: Settings, here: Here, now: float
) -> Tuple[str, ...]:
    """Events that may start now: nothing runs here any more, and they are for this machine alone. An approval counts
    for all machines of an event ("Start an event"), and the others may have jobs."""
    if not settings.approve or not idle(node):
        return ()
    asked = {one.id: one.asked for one in memory.known}
    return tuple(
        one.id
        for one in due
        if not one.started
        and one.resources
        and all(name.lower() in here.names for name in one.resources)
        and not (asked.get(one.id) and 0 <= now - asked[one.id] < _ASK_AGAIN_SECONDS)
    )


def idle(node: SlurmNode) -> bool:
    """Drained, and no job runs on it nor an epilog. A job may be suspended on it, which its state does not tell."""
    return "IDLE" in node.flags and drain.is_drained(node) and not states.busy(node.flags)


def _after(noticed: Noticed, node: SlurmNode, here: Here, now: float, held: Held) -> Decision:
    """Our drain, and nothing is pending that it is for: the node has to prove that it is as it was."""
    memory = noticed.memory
    pending = {one.id for one in memory.known}
    if any(one in pending and one not in {event.id for event in noticed.events} for one in memory.drained):
        return Decision(LEAVE, "what the cloud says of its events cannot be read", memory)
    # What became of them was not seen.
    lost = not memory.over and not any(one in pending for one in memory.drained)
    anew = memory.another or lost or memory.struck or memory.boot != here.boot
    down = bool(node.flags & _DOWN)
    if not anew and memory.over != OVER:
        # It was withdrawn, put off beyond the lead time, or the site wants no drain for it any more.
        return _resume("nothing happened to this machine", node, memory, False, held)
    if memory.proved != here.boot or not here.boot:
        if states.busy(node.flags) and anew:
            return Decision(LEAVE, "its events are over; a job is still on it", memory)
        if anew and "NOT_RESPONDING" in node.flags:
            return Decision(LEAVE, "its events are over; its slurmd does not answer yet", memory)
        wait = min(RETRY_SECONDS * 2 ** min(memory.tries - 1, 10), RETRY_MOST_SECONDS) if memory.tries else 0.0
        if 0 <= now - memory.tried < wait:
            return Decision(LEAVE, "its events are over, and it did not prove well: {0}".format(memory.why), memory)
        return Decision(PROVE, "its events are over", memory, converge=anew)
    return _resume("its events are over, and it proved well", node, memory, anew and down, held)


def _resume(why: str, node: SlurmNode, memory: Memory, anew: bool, held: Held) -> Decision:
    """slurmctld calls a node down that was restarted without its order (ReturnToService other than 2), and leaves our
    reason with it. A person who sets a node down has to give a reason (scontrol, update_node.c), which is not ours
    then: so with our reason it is down by the event, and that ends too. A slurmd that does not answer is waited for."""
    if held.why:
        return Decision(GATE, "{0}; {1}".format(why, held.why), memory.settled(), held.reason)
    down = bool(node.flags & _DOWN)
    if down and not (anew and node.flags & _DOWN == {"DOWN"}):
        return Decision(LEAVE, "it is down as well, which is not ours to end", memory)
    if "NOT_RESPONDING" in node.flags:
        return Decision(LEAVE, "its slurmd does not answer yet", memory)
    return Decision(RESUME, why, memory.settled(), down=down)


def named(node: SlurmNode) -> str:
    """The id of the event in Slurm's reason; "": there is none."""
    found = _NAMED.match((node.reason or "")[len(drain.PREFIX + drain.EVENT) :])
    return found.group(1) if found else ""


def unwell(node: SlurmNode, why: str) -> str:
    """The reason of a node that did not prove well after an event, which it still names."""
    words = (node.reason or "")[len(drain.PREFIX + drain.EVENT) :].split()[:2]
    return drain.reason_text("{0}{1} is over, not resumed: {2}".format(drain.EVENT, " ".join(words), why))


def _told(event: Event) -> str:
    return "{0} {1} {2}".format(event.word, event.id, event.when)


def _details(event: Event) -> str:
    parts = [event.description.rstrip("."), "by " + event.source.lower() if event.source else ""]
    if event.duration_seconds is not None:
        parts.append("for {0} s".format(event.duration_seconds))
    told = ", ".join(part for part in parts if part)
    return " ({0})".format(told) if told else ""
