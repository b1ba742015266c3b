# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop for a node of Kubernetes, with evictions in it."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Optional

from ...core.frozen import replaced
from ...core.resource import Action, NodeError
from ...slurm.node.loop import Done, DrainStands, Loop
from ...slurm.node.types import Owner
from ..kubectl import AWAY, Kubectl, KubectlError
from . import plan
from .apply import evict, eviction, mark
from .observe import look
from .types import Cordon, Decision, Desired, Evict, Release, State

__all__ = ["Done", "DrainStands", "evicted", "run"]

# As 'kubectl drain' tries again.
EVICT_SECONDS = 5.0
# The scheduler may bind a pod for a moment after the cordon, until it has heard of it.
SETTLE_SECONDS = 2.0
# A kubelet that was restarted has reported by then.
REPORTS_SECONDS = 60.0
_CONFLICTS_MOST = 8
# Nothing was done; after any other error it may have been.
_REFUSED = ("Forbidden", "Unauthorized", "NotFound", "Invalid", "BadRequest", "Config")


def run(
    kubectl: Kubectl, desired: Desired, check_mode: bool = False, pause: Callable[[float], None] = time.sleep
) -> Done:
    """:raises NodeError: as Loop.whole."""
    return _Run(kubectl, desired, check_mode, pause).whole()


def evicted(done: Done) -> List[str]:
    """The pods that were evicted."""
    return [pod.label for one in done.actions if isinstance(one, Evict) for pod in one.pods]


class _Run(Loop):
    OUT, BACK = Cordon, Release
    DRAIN = "cordon"

    def __init__(self, kubectl: Kubectl, desired: Desired, check_mode: bool, pause: Callable[[float], None]) -> None:
        super().__init__(desired, REPORTS_SECONDS, check_mode, pause)
        self._kubectl = kubectl
        self._conflicts = 0
        # Runs from the first eviction on.
        self._evicted_by: Optional[float] = None
        self._version = ""
        self._held: Dict[str, str] = {}

    def look(self) -> State:
        state = look(self._kubectl, self.desired.name)
        return replaced(state, pods=tuple(replaced(pod, held=self._held.get(pod.label, "")) for pod in state.pods))

    def decide(self, state: State, time_left: bool) -> Decision:
        evict_left = self._evicted_by is None or time.monotonic() < self._evicted_by
        return plan.decide(state, self.desired, time_left, evict_left)

    def expected(self, state: State, action: Action) -> State:
        return plan.expected(state, action)

    def carry_out(self, state: State, action: Action) -> None:
        if isinstance(action, Evict):
            self._evict(action)
        else:
            super().carry_out(state, action)
            if self._conflicts == _CONFLICTS_MOST:
                raise self._acted_against("somebody else changes it all the time")

    def apply(self, state: State, action: Action) -> bool:
        try:
            mark(self._kubectl, self.desired.name, state.version, action)
        except KubectlError as error:
            if error.kind != "Conflict":
                raise
            self._conflicts += 1
            return False
        if isinstance(action, Cordon) and not state.cordoned:
            self.pause(SETTLE_SECONDS)
        return True

    def _evict(self, action: Evict) -> None:
        if self._evicted_by is None:
            self._version = eviction(self._kubectl)
            self._evicted_by = time.monotonic() + self.desired.evict_seconds
        else:
            self.pause(EVICT_SECONDS)
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
            self.actions.append(Evict(tuple(done)))

    def is_refused(self, error: NodeError) -> bool:
        return isinstance(error, KubectlError) and error.kind in _REFUSED

    def is_away(self, error: NodeError) -> bool:
        return isinstance(error, KubectlError) and error.kind in AWAY

    def ends(self) -> float:
        return self._evicted_by or self.deadline

    def poll_seconds(self, left: float) -> float:
        return super().poll_seconds(left) if self._evicted_by is None else EVICT_SECONDS

    def unsteady(self, state: State) -> NodeError:
        return self._acted_against("its cordon does not stay as it is set")

    def _acted_against(self, reason: str) -> NodeError:
        return NodeError("node " + self.desired.name, reason, "see who else cordons, uncordons or changes it")

    def taken_back(self) -> bool:
        now = self.look()
        if now.owner is not Owner.ROLLING:
            return True
        if now.annotation not in (self.desired.text(), self.desired.text(waits=True)):
            return False
        mark(self._kubectl, self.desired.name, now.version, Release())
        return True
