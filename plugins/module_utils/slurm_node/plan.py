# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The next step for a node on its way out of service or back. Pure.

A node is drained first and looked at then: between a look and a drain a job could begin.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

from ..resource import Action
from . import states
from .types import Busy, Decision, Desired, Drain, Outcome, Owner, State, Undrain

_BUSY_WHY = "jobs run on it ({0})"
_DRAINED = frozenset(("DRAIN", "DRAINED", "DRAINING"))


def decide(state: State, desired: Desired, time_left: bool) -> Decision:
    """``time_left``: whether jobs may be waited for still."""
    return _out(state, desired, time_left) if desired.drained else _back(state)


def _out(state: State, desired: Desired, time_left: bool) -> Decision:
    hindrance = _hindrance(state)
    if hindrance is not None:
        return Decision(outcome=Outcome.LEFT, why=hindrance)
    owner, busy = state.owner, _busy(state)
    if owner is Owner.SOMEBODY and not desired.others:
        return Decision(outcome=Outcome.LEFT, why=_whose(state))
    ours = owner is Owner.ROLLING
    gives_up = busy and not time_left and desired.busy is Busy.LEAVE
    if gives_up and ours:
        return Decision(Undrain())
    if not gives_up and (owner is Owner.NOBODY or (ours and state.node.reason != desired.text)):
        return Decision(Drain(desired.text))
    if busy:
        return Decision() if time_left else Decision(outcome=Outcome.BUSY, why=_BUSY_WHY.format(_what(state)))
    return Decision(outcome=Outcome.READY, why="it is drained by us" if ours else _whose(state))


def _back(state: State) -> Decision:
    owner = state.owner
    if owner is Owner.ROLLING:
        return Decision(Undrain())
    if owner is Owner.NOBODY:
        return Decision(outcome=Outcome.IN_SERVICE, why="it is in service")
    return Decision(outcome=Outcome.LEFT, why=_whose(state))


def expected(state: State, action: Action) -> State:
    """The state that an action leads to; for check mode, which does nothing."""
    flags, reason = state.node.flags - _DRAINED, None
    if isinstance(action, Drain):
        flags, reason = flags | {"DRAIN"}, action.reason
    return dataclasses.replace(state, node=dataclasses.replace(state.node, flags=flags, reason=reason))


def _hindrance(state: State) -> Optional[str]:
    """Why a node is no matter for us, whoever drained it."""
    flags = states.normalised(state.node.flags)
    if states.away(flags):
        return "there is no machine, or not for long ({0})".format(_what(state))
    if states.rebooting(flags):
        return "a reboot was asked for ({0})".format(_what(state))
    if states.unheard(flags) and state.owner is Owner.NOBODY:
        return "slurmctld has never heard of it ({0})".format(_what(state))
    return None


def _busy(state: State) -> bool:
    return bool(state.jobs) or states.busy(states.normalised(state.node.flags))


def _what(state: State) -> str:
    text = " ".join(sorted(state.node.flags))
    return "{0}; job {1}".format(text, ", ".join(state.jobs)) if state.jobs else text


def _whose(state: State) -> str:
    by = "this collection" if state.owner is Owner.COLLECTION else "somebody else"
    told = "reason: {0}".format(state.node.reason) if state.node.reason else "no reason was given"
    return "{0} took it out of service ({1}; {2})".format(by, " ".join(sorted(state.node.flags)), told)
