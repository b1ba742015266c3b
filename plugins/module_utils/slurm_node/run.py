# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observe, plan, apply, until the plan has an outcome."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Callable, Dict, List, Tuple

from ..host import Host
from ..resource import Action, NodeError
from . import plan
from .apply import apply
from .observe import Slurm
from .types import Desired, Outcome, State

# A job that ends is seen after at most so long; a poll costs slurmctld one request.
POLL_SECONDS = 15.0
# Drain, take back: more is needed only when somebody else acts on the node at the same time.
_ACTIONS_MOST = 4


@dataclasses.dataclass(frozen=True)
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

    :raises NodeError: slurmctld does not answer or refuses, or somebody acts against us all the time.
    """
    slurm = Slurm(host)
    deadline = time.monotonic() + (0.0 if check_mode else desired.wait_seconds)
    before = state = slurm.look(desired.name)
    actions: List[Action] = []
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
            apply(slurm, desired.name, decision.action)
        state = slurm.look(desired.name)
