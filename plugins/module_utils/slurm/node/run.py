# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop for a node of Slurm."""

from __future__ import annotations

import os
import time
from typing import Callable, Optional

from ...core.host import Host
from ...core.resource import Action, NodeError
from . import plan
from .apply import apply
from .loop import Done, DrainStands, Loop
from .observe import Refused, Slurm
from .types import Decision, Desired, Drain, Owner, State, Undrain

__all__ = ["Done", "DrainStands", "run"]

# slurmd that was told to read its files anew has registered by then.
REGISTERS_SECONDS = 30.0


def run(host: Host, desired: Desired, check_mode: bool = False, pause: Callable[[float], None] = time.sleep) -> Done:
    """:raises NodeError: as Loop.whole, or it is another machine's node."""
    return _Run(Slurm(host), desired, check_mode, pause).whole()


class _Run(Loop):
    OUT, BACK = Drain, Undrain

    def __init__(self, slurm: Slurm, desired: Desired, check_mode: bool, pause: Callable[[float], None]) -> None:
        super().__init__(desired, REGISTERS_SECONDS, check_mode, pause)
        self._slurm = slurm

    def look(self) -> State:
        state = self._slurm.look(self.desired.name)
        if self.desired.same_host and not self.actions:
            _check_host(self.desired.name, state.host, os.uname().nodename)
        return state

    def decide(self, state: State, time_left: bool) -> Decision:
        return plan.decide(state, self.desired, time_left)

    def expected(self, state: State, action: Action) -> State:
        return plan.expected(state, action)

    def apply(self, state: State, action: Action) -> bool:
        apply(self._slurm, self.desired.name, action)
        return True

    def is_refused(self, error: NodeError) -> bool:
        return isinstance(error, Refused)

    def unsteady(self, state: State) -> NodeError:
        reason = "its state does not stay as it is set ({0})".format(" ".join(sorted(state.node.flags)))
        return NodeError("node " + self.desired.name, reason, "see who else drains or resumes it")

    def taken_back(self) -> bool:
        now = self._slurm.look_at_drain(self.desired.name)
        if now.owner is Owner.NOBODY:
            return True
        if now.node.reason not in (self.desired.text(), self.desired.text(waits=True)):
            return False
        apply(self._slurm, self.desired.name, Undrain())
        return True


def _check_host(name: str, host: Optional[str], here: str) -> None:
    here = here.split(".")[0]
    if host and host.split(".")[0].lower() != here.lower():
        raise NodeError(
            "node " + name,
            "Slurm has it on host {0}, and this is {1}".format(host, here),
            "correct slurm_node_name or the address of the host, or set gpu_node_rolling_same_host=false",
        )
