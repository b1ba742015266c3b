# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe, plan, apply, until the plan has an outcome."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import Action, NodeError
from . import plan
from .apply import apply
from .observe import Refused, Slurm
from .types import Desired, Drain, Outcome, Owner, State, Undrain

# A job that ends is seen after at most so long; a poll costs slurmctld one request.
POLL_SECONDS = 15.0
# slurmd that was told to read its files anew has registered by then.
REGISTERS_SECONDS = 30.0
# Drain, take back: more is needed only when somebody else acts on the node at the same time.
_ACTIONS_MOST = 4


class DrainStands(NodeError):
    """It went wrong after our drain, which may be there still."""


@frozen
class Done:
    before: State
    after: State
    outcome: Outcome
    why: str
    actions: Tuple[Action, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "why": self.why,
            "owner": self.after.owner.value,
            "node_state": sorted(self.after.node.flags),
            "node_reason": self.after.node.reason,
            "jobs": list(self.after.jobs),
            "actions": [action.to_dict() for action in self.actions],
        }


def run(host: Host, desired: Desired, check_mode: bool = False, pause: Callable[[float], None] = time.sleep) -> Done:
    """Bring a node out of service, or back. In check mode nothing is done and nothing waited for.

    :raises NodeError: slurmctld does not answer or refuses, it is another machine's node, or somebody acts against us
        all the time.
    :raises DrainStands: the same, and our drain may be there.
    """
    slurm = Slurm(host)
    wait_seconds = desired.wait_seconds if desired.drained else REGISTERS_SECONDS
    deadline = time.monotonic() + (0.0 if check_mode else wait_seconds)
    before = slurm.look(desired.name)
    if desired.same_host:
        _check_host(desired.name, before.host, os.uname().nodename)
    actions: List[Action] = []
    try:
        return _until_outcome(slurm, desired, before, actions, deadline, check_mode, pause)
    except NodeError as error:
        if check_mode or not any(isinstance(action, Drain) for action in actions):
            raise
        raise _after_drain(slurm, desired, before, error) from error


def _until_outcome(
    slurm: Slurm,
    desired: Desired,
    before: State,
    actions: List[Action],
    deadline: float,
    check_mode: bool,
    pause: Callable[[float], None],
) -> Done:
    state = before
    while True:
        left = deadline - time.monotonic()
        decision = plan.decide(state, desired, left > 0)
        if decision.outcome is not None:
            return Done(before, state, decision.outcome, decision.why, tuple(actions))
        if decision.action is None:
            pause(min(POLL_SECONDS, left))
        elif len(actions) == _ACTIONS_MOST:
            raise NodeError(
                "node " + desired.name,
                "its state does not stay as it is set ({0})".format(" ".join(sorted(state.node.flags))),
                "see who else drains or resumes it",
            )
        else:
            actions.append(decision.action)
            if check_mode:
                state = plan.expected(state, decision.action)
                continue
            # A request without an answer may have been carried out; one that was refused was not.
            try:
                apply(slurm, desired.name, decision.action)
            except Refused:
                actions.pop()
                raise
        state = _look_again(slurm, desired.name, deadline, pause)


def _look_again(slurm: Slurm, name: str, deadline: float, pause: Callable[[float], None]) -> State:
    """A slurmctld that is away for a moment ends no wait of an hour."""
    while True:
        try:
            return slurm.look(name)
        except NodeError:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            pause(min(POLL_SECONDS, left))


def _after_drain(slurm: Slurm, desired: Desired, before: State, error: NodeError) -> NodeError:
    """Nothing was worked on: a node that was in service goes on, when Slurm lets it and the drain is still ours."""
    if before.owner is Owner.NOBODY and not desired.failed:
        try:
            now = slurm.look_at_drain(desired.name)
            if now.owner is Owner.NOBODY:
                return error
            if now.node.reason in (desired.text(), desired.text(waits=True)):
                apply(slurm, desired.name, Undrain())
                return error
        except NodeError:
            pass
    return DrainStands(error.thing, error.reason + " (our drain of the node may stand)", error.remedy)


def _check_host(name: str, host: Optional[str], here: str) -> None:
    here = here.split(".")[0]
    if host and host.split(".")[0].lower() != here.lower():
        raise NodeError(
            "node " + name,
            "Slurm has it on host {0}, and this is {1}".format(host, here),
            "correct slurm_node_name or the address of the host, or set gpu_node_rolling_same_host=false",
        )
