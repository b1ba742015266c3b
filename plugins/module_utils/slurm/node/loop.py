# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe, plan, apply, until the plan has an outcome: what is the same for a node of each scheduler."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Tuple

from ...core.frozen import frozen
from ...core.resource import Action, NodeError
from .types import Outcome, Owner

# A job or pod that ends is seen after at most so long; a poll costs the scheduler one request.
POLL_SECONDS = 15.0
# Drain, another reason, take back: more is needed only when somebody else acts on the node at the same time.
_ACTIONS_MOST = 4


class DrainStands(NodeError):
    """It went wrong after our drain, which may be there still."""


@frozen
class Done:
    """``before``, ``after``: as the scheduler's own State."""

    before: Any
    after: Any
    outcome: Outcome
    why: str
    actions: Tuple[Action, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "why": self.why,
            "owner": self.after.owner.value,
            **self.after.told(),
            "actions": [action.to_dict() for action in self.actions],
        }


class Loop:
    """Of one node. A scheduler says how it is looked at, what is decided, and how that is done.

    ``OUT``, ``BACK``: the actions that take it out of service and back. ``DRAIN``: what the first is called.
    """

    OUT: type
    BACK: type
    DRAIN = "drain"

    def __init__(
        self, desired: Any, back_seconds: float, check_mode: bool, pause: Callable[[float], None] = time.sleep
    ) -> None:
        """``back_seconds``: how long it may take to be seen by the scheduler when it is put back."""
        self.desired, self.check_mode, self.pause = desired, check_mode, pause
        waits = desired.wait_seconds if desired.drained else back_seconds
        self.deadline = time.monotonic() + (0.0 if check_mode else waits)
        self.actions: List[Action] = []

    def look(self) -> Any:
        """:raises NodeError: the scheduler does not answer, or has no such node."""
        raise NotImplementedError

    def decide(self, state: Any, time_left: bool) -> Any:
        raise NotImplementedError

    def expected(self, state: Any, action: Action) -> Any:
        raise NotImplementedError

    def apply(self, state: Any, action: Action) -> bool:
        """False: somebody changed the node since it was looked at, so it is to be decided anew."""
        raise NotImplementedError

    def is_refused(self, error: NodeError) -> bool:
        """Nothing was done; after any other error it may have been."""
        raise NotImplementedError

    def unsteady(self, state: Any) -> NodeError:
        """Somebody acts against us all the time."""
        raise NotImplementedError

    def taken_back(self) -> bool:
        """The node is in service, or kept by somebody else: our drain of this run is gone."""
        raise NotImplementedError

    def is_away(self, error: NodeError) -> bool:
        """The scheduler may answer in a moment."""
        return True

    def ends(self) -> float:
        """When nothing is waited for any longer."""
        return self.deadline

    def poll_seconds(self, left: float) -> float:
        return min(POLL_SECONDS, max(left, 0.1))

    def whole(self) -> Done:
        """Bring the node out of service, or back. In check mode nothing is done and nothing waited for.

        :raises NodeError: the scheduler does not answer or refuses, or somebody acts against us all the time.
        :raises DrainStands: the same, and our drain may be there.
        """
        before = self.look()
        try:
            return self._until_outcome(before)
        except NodeError as error:
            if self.check_mode or not any(isinstance(action, self.OUT) for action in self.actions):
                raise
            raise self._after_drain(before, error) from error

    def _until_outcome(self, before: Any) -> Done:
        state = before
        while True:
            left = self.deadline - time.monotonic()
            decision = self.decide(state, left > 0)
            action = decision.action
            if decision.outcome is not None:
                return Done(before, state, decision.outcome, decision.why, tuple(self.actions))
            if action is not None and self.check_mode:
                self.actions.append(action)
                state = self.expected(state, action)
                continue
            if action is None:
                self.pause(self.poll_seconds(left))
            else:
                self.carry_out(state, action)
            state = self._look_again()

    def carry_out(self, state: Any, action: Action) -> None:
        if sum(isinstance(one, (self.OUT, self.BACK)) for one in self.actions) >= _ACTIONS_MOST:
            raise self.unsteady(state)
        self.actions.append(action)
        try:
            done = self.apply(state, action)
        except NodeError as error:
            if self.is_refused(error):
                self.actions.pop()
            raise
        if not done:
            self.actions.pop()

    def _look_again(self) -> Any:
        """A scheduler that is away for a moment ends no wait of an hour."""
        while True:
            try:
                return self.look()
            except NodeError as error:
                left = self.ends() - time.monotonic()
                if left <= 0 or not self.is_away(error):
                    raise
                self.pause(min(POLL_SECONDS, left))

    def _after_drain(self, before: Any, error: NodeError) -> NodeError:
        """Nothing was worked on: a node that was in service goes on, when the scheduler lets it and the drain is still
        ours."""
        if before.owner is Owner.NOBODY and not self.desired.failed:
            try:
                if self.taken_back():
                    return error
            except NodeError:
                pass
        reason = "{0} (our {1} of the node may stand)".format(error.reason, self.DRAIN)
        return DrainStands(error.thing, reason, error.remedy)
