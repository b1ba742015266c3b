# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next step for a node on its way out of service or back. Pure.

A node is drained first and looked at then: between a look and a drain a job could begin.
"""

from __future__ import annotations

from typing import Optional

from ...core.frozen import replaced
from ...core.resource import Action, NodeError
from .. import drain, states
from .reason import Ours
from .types import Busy, Decision, Desired, Drain, Outcome, Owner, State, Undrain

_BUSY_WHY = "jobs run on it ({0})"
_DRAINED = frozenset(("DRAIN", "DRAINED", "DRAINING"))
_RUN_WHY = "another run ({0}) took it out of service; if that run is gone, set gpu_node_rolling_take_over=true"
_INVALID_REMEDY = "make its line in slurm.conf, Gres= above all, and its gres.conf agree, then run it again"
ACTIVE_WHY = "it failed in a run that measures; run with gpu_node_health_level=active, or resume it by hand"
_DOWN_WHY = "slurmd does not answer, or it was set down, and not drained it may return in the middle ({0}; {1})"


def decide(state: State, desired: Desired, time_left: bool) -> Decision:
    """``time_left``: whether jobs may be waited for still."""
    return _out(state, desired, time_left) if desired.drained else _back(state, desired, time_left)


def _out(state: State, desired: Desired, time_left: bool) -> Decision:
    hindrance = _hindrance(state) or _held(state, desired)
    if hindrance is not None:
        return Decision(outcome=Outcome.LEFT, why=hindrance)
    owner, ours, busy = state.owner, state.ours, _busy(state)
    if ours is not None and ours.for_somebody and not desired.others:
        return _taken_back(state)
    gives_up = busy and not time_left
    # A drain of others, or of a node that failed, keeps new jobs away as well as ours would.
    kept = busy and (owner in (Owner.COLLECTION, Owner.SOMEBODY) or (ours is not None and ours.failed))
    # So does the drain of one that failed an active check, which ends when it has passed one.
    owes = ours is not None and ours.active
    leaves = gives_up and desired.busy is Busy.LEAVE and not owes
    if not kept and leaves and ours is not None:
        return _taken_back(state)
    text = desired.text(state.before, waits=gives_up, owes=owes)
    if not kept and not leaves and (owner is Owner.NOBODY or drain.bare(state.node.reason or "") != drain.bare(text)):
        return Decision(Drain(text))
    if busy:
        return Decision() if time_left else Decision(outcome=Outcome.BUSY, why=_BUSY_WHY.format(_what(state)))
    return Decision(outcome=Outcome.READY, why="it is drained by us")


def _back(state: State, desired: Desired, time_left: bool) -> Decision:
    """Whether slurmctld takes the node's registration comes first: 24.11 puts a reason of its own in place of ours
    (node_mgr.c).

    :raises NodeError: it does not, so that no job comes, whoever drains or resumes it.
    """
    owner = state.owner
    if drain.is_refused(state.node):
        if time_left:
            return Decision()
        reason = "slurmctld does not take what it registered with ({0}; {1})".format(_what(state), _told(state))
        raise NodeError("node " + desired.name, reason, _INVALID_REMEDY)
    if owner is Owner.ROLLING:
        other = other_run(state.ours, desired.run, desired.take_over)
        return _taken_back(state, desired.owes) if other is None else Decision(outcome=Outcome.LEFT, why=other)
    if owner is Owner.NOBODY:
        return Decision(outcome=Outcome.IN_SERVICE, why="it is in service")
    return Decision(outcome=Outcome.LEFT, why=_whose(state))


def _taken_back(state: State, owes: str = "") -> Decision:
    """Our drain ends; where another one was there before, its reason is what stays. ``owes``: else this one, by which
    the gate keeps a node that has to prove something yet."""
    before = owes or None if state.before is None else state.before
    return Decision(Undrain() if before is None else Drain(before))


def expected(state: State, action: Action) -> State:
    """The state that an action leads to; for check mode, which does nothing."""
    flags, reason = state.node.flags - _DRAINED, None
    if isinstance(action, Drain):
        flags, reason = flags | {"DRAIN"}, action.reason
    return replaced(state, node=replaced(state.node, flags=flags, reason=reason))


def _hindrance(state: State) -> Optional[str]:
    """Why a node is no matter for us, whoever drained it."""
    flags = state.node.flags
    if states.away(flags):
        return "there is no machine, or not for long ({0})".format(_what(state))
    if states.rebooting(flags):
        return "a reboot was asked for ({0})".format(_what(state))
    if states.unheard(flags) and state.owner is Owner.NOBODY:
        return "slurmctld has never heard of it ({0})".format(_what(state))
    return None


def _held(state: State, desired: Desired) -> Optional[str]:
    """Why the drain of a node is not for this run to take."""
    ours, somebody = state.ours, state.owner is Owner.SOMEBODY
    other = other_run(state.ours, desired.run, desired.take_over)
    if other is not None:
        return other
    if ours is not None and ours.active and not desired.active:
        return ACTIVE_WHY
    kept = ours is not None and (ours.failed or ours.active) and ours.for_somebody
    if (somebody or kept) and not desired.others:
        return _whose(state)
    if somebody and not state.node.flags & _DRAINED:
        return _DOWN_WHY.format(" ".join(sorted(state.node.flags)), _told(state))
    return None


def other_run(ours: Optional[Ours], run: str, take_over: bool) -> Optional[str]:
    """Why a node is left to the run that took it out of service."""
    if ours is None or not ours.run or not run or ours.run == run or take_over:
        return None
    return _RUN_WHY.format(ours.run)


def _busy(state: State) -> bool:
    return bool(state.jobs) or states.busy(state.node.flags)


def _what(state: State) -> str:
    text = " ".join(sorted(state.node.flags))
    return "{0}; job {1}".format(text, ", ".join(state.jobs)) if state.jobs else text


def _whose(state: State) -> str:
    by = "this collection" if state.owner is Owner.COLLECTION else "somebody else"
    return "{0} took it out of service ({1}; {2})".format(by, " ".join(sorted(state.node.flags)), _told(state))


def _told(state: State) -> str:
    return "reason: {0}".format(state.node.reason) if state.node.reason else "no reason was given"
