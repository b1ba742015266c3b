# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe, plan, apply, until the plan has an outcome."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.resource import Action, NodeError
from ...slurm.node.types import Outcome, Owner
from ..kubectl import AWAY, Kubectl, KubectlError
from . import plan
from .apply import evict, eviction, mark
from .observe import look
from .types import Cordon, Desired, Evict, Release, State

# A pod that ends is seen after at most so long.
POLL_SECONDS = 15.0
# As 'kubectl drain' tries again.
EVICT_SECONDS = 5.0
# The scheduler may bind a pod for a moment after the cordon, until it has heard of it.
SETTLE_SECONDS = 2.0
# A kubelet that was restarted has reported by then.
REPORTS_SECONDS = 60.0
# Cordon, another reason, release: more is needed only when somebody else acts on the node at the same time.
_ACTIONS_MOST = 4
_CONFLICTS_MOST = 8
# Nothing was done; after any other error it may have been.
_REFUSED = ("Forbidden", "Unauthorized", "NotFound", "Invalid", "BadRequest", "Config")


class CordonStands(NodeError):
    """It went wrong after our cordon, which may be there still."""


@frozen
class Done:
    before: State
    after: State
    outcome: Outcome
    why: str
    actions: Tuple[Action, ...] = ()

    @property
    def evicted(self) -> Tuple[str, ...]:
        return tuple(pod.label for one in self.actions if isinstance(one, Evict) for pod in one.pods)

    def to_dict(self) -> Dict[str, Any]:
        after = self.after
        flags = [("unregistered", not after.registered), ("cordoned", after.cordoned), ("ready", after.ready)]
        return {
            "outcome": self.outcome.value,
            "why": self.why,
            "owner": after.owner.value,
            "node_state": [name for name, holds in flags if holds and (after.registered or name == "unregistered")],
            "node_reason": after.annotation if after.cordoned else None,
            "pods": [pod.label for pod in after.with_gpus],
            "actions": [action.to_dict() for action in self.actions],
        }


def run(
    kubectl: Kubectl, desired: Desired, check_mode: bool = False, pause: Callable[[float], None] = time.sleep
) -> Done:
    """Bring a node out of service, or back. In check mode nothing is done and nothing waited for.

    :raises NodeError: the API does not answer or refuses, or somebody acts against us all the time.
    :raises CordonStands: the same, and our cordon may be there.
    """
    return _Run(kubectl, desired, check_mode, pause).whole()


class _Run:
    def __init__(self, kubectl: Kubectl, desired: Desired, check_mode: bool, pause: Callable[[float], None]) -> None:
        self._kubectl, self._desired, self._check, self._pause = kubectl, desired, check_mode, pause
        waits = desired.wait_seconds if desired.drained else REPORTS_SECONDS
        self._deadline = time.monotonic() + (0.0 if check_mode else waits)
        # Runs from the first eviction on.
        self._evicted_by: Optional[float] = None
        self._version = ""
        self._held: Dict[str, str] = {}
        self._actions: List[Action] = []

    def whole(self) -> Done:
        before = look(self._kubectl, self._desired.name)
        try:
            return self._until_outcome(before)
        except NodeError as error:
            if self._check or not any(isinstance(action, Cordon) for action in self._actions):
                raise
            raise self._after_cordon(before, error) from error

    def _until_outcome(self, before: State) -> Done:
        state, conflicts = before, 0
        while True:
            left = self._deadline - time.monotonic()
            evict_left = self._evicted_by is None or time.monotonic() < self._evicted_by
            decision = plan.decide(state, self._desired, left > 0, evict_left)
            action = decision.action
            if decision.outcome is not None:
                return Done(before, state, decision.outcome, decision.why, tuple(self._actions))
            if self._check and action is not None:
                self._actions.append(action)
                state = plan.expected(state, action)
                continue
            if action is None:
                self._pause(EVICT_SECONDS if self._evicted_by is not None else min(POLL_SECONDS, max(left, 0.1)))
            elif isinstance(action, Evict):
                self._evict(action)
            elif not self._mark(state, action):
                conflicts += 1
                if conflicts == _CONFLICTS_MOST:
                    raise self._unsteady("somebody else changes it all the time")
            state = self._look_again()

    def _mark(self, state: State, action: Action) -> bool:
        """False: somebody changed the node since it was looked at, so it is to be decided anew."""
        if sum(not isinstance(one, Evict) for one in self._actions) >= _ACTIONS_MOST:
            raise self._unsteady("its cordon does not stay as it is set")
        self._actions.append(action)
        try:
            mark(self._kubectl, self._desired.name, state.version, action)
        except KubectlError as error:
            if error.kind == "Conflict":
                self._actions.pop()
                return False
            if error.kind in _REFUSED:
                self._actions.pop()
            raise
        if isinstance(action, Cordon) and not state.cordoned:
            self._pause(SETTLE_SECONDS)
        return True

    def _evict(self, action: Evict) -> None:
        if self._evicted_by is None:
            self._version = eviction(self._kubectl)
            self._evicted_by = time.monotonic() + self._desired.evict_seconds
        else:
            self._pause(EVICT_SECONDS)
        done = []
        for number, pod in enumerate(action.pods):
            if number and time.monotonic() >= self._evicted_by:
                break
            refusal = evict(self._kubectl, pod, self._version)
            if refusal is None:
                self._held.pop(pod.label, None)
                done.append(replaced(pod, held=""))
            else:
                self._held[pod.label] = refusal
        if done:
            self._actions.append(Evict(tuple(done)))

    def _look_again(self) -> State:
        """An API that is away for a moment ends no wait of an hour."""
        while True:
            try:
                state = look(self._kubectl, self._desired.name)
                pods = tuple(replaced(pod, held=self._held.get(pod.label, "")) for pod in state.pods)
                return replaced(state, pods=pods)
            except KubectlError as error:
                left = (self._evicted_by or self._deadline) - time.monotonic()
                if left <= 0 or error.kind not in AWAY:
                    raise
                self._pause(min(POLL_SECONDS, left))

    def _after_cordon(self, before: State, error: NodeError) -> NodeError:
        """Nothing was worked on: a node that was in service goes on, when the API lets it and the cordon is ours."""
        if before.owner is Owner.NOBODY and not self._desired.failed:
            try:
                now = look(self._kubectl, self._desired.name)
                if now.owner is not Owner.ROLLING:
                    return error
                if now.annotation in (self._desired.text(), self._desired.text(waits=True)):
                    mark(self._kubectl, self._desired.name, now.version, Release())
                    return error
            except NodeError:
                pass
        return CordonStands(error.thing, error.reason + " (our cordon of the node may stand)", error.remedy)

    def _unsteady(self, reason: str) -> NodeError:
        return NodeError("node " + self._desired.name, reason, "see who else cordons, uncordons or changes it")
