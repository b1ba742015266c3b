# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop for a node of Slurm."""

from __future__ import annotations

import time
from typing import Callable

from ...core.host import Host
from ...core.machine import whole_name
from ...core.resource import Action, NodeError
from .. import drain, states, this_node
from ..client import Slurm
from ..commands import PATIENT_SECONDS, NoSuchNode, Refused
from . import plan
from .loop import Done, DrainStands, Loop
from .types import Decision, Desired, Drain, Owner, State, Undrain

__all__ = ["Done", "DrainStands", "run"]

# slurmd that was told to read its files anew has registered by then.
REGISTERS_SECONDS = 30.0


def run(host: Host, desired: Desired, check_mode: bool = False, pause: Callable[[float], None] = time.sleep) -> Done:
    """:raises NodeError: as Loop.whole, or it is another machine's node."""
    return _Run(host, desired, check_mode, pause).whole()


class _Run(Loop):
    OUT, BACK = Drain, Undrain

    def __init__(self, host: Host, desired: Desired, check_mode: bool, pause: Callable[[float], None]) -> None:
        super().__init__(desired, REGISTERS_SECONDS, check_mode, pause)
        self._host, self._slurm = host, Slurm(host, desired.name, seconds=PATIENT_SECONDS)

    def look(self) -> State:
        node = self._slurm.show()
        state = State(node, () if states.busy(node.flags) else self._slurm.jobs())
        if self.desired.same_host and not self.actions and not self._is_ours():
            _check_host(self.desired.name, node.host, whole_name())
        return state

    def _is_ours(self) -> bool:
        """With ``-N`` the host that Slurm has for a node need not be the name of the machine."""
        here = this_node.here(self._host)
        return here.certain and here.node_name == self.desired.name

    def decide(self, state: State, time_left: bool) -> Decision:
        return plan.decide(state, self.desired, time_left)

    def expected(self, state: State, action: Action) -> State:
        return plan.expected(state, action)

    def apply(self, state: State, action: Action) -> bool:
        if isinstance(action, Drain):
            self._slurm.update("State=DRAIN", "Reason=" + action.reason)
        else:
            # Not RESUME, which would also end a DOWN that is not ours.
            self._slurm.update("State=UNDRAIN", "Reason=" + drain.RESUMED)
        return True

    def is_refused(self, error: NodeError) -> bool:
        return isinstance(error, Refused)

    def unsteady(self, state: State) -> NodeError:
        reason = "its state does not stay as it is set ({0})".format(" ".join(sorted(state.node.flags)))
        return NodeError("node " + self.desired.name, reason, "see who else drains or resumes it")

    def taken_back(self) -> bool:
        now = State(self._slurm.show())
        if now.owner is Owner.NOBODY:
            return True
        if now.node.reason not in (self.desired.text(), self.desired.text(waits=True)):
            return False
        return self.apply(now, Undrain())


def named(host: Host, name: str, inventory_name: str) -> str:
    """The requested NodeName: ``name`` if given; this machine's NodeName if the inventory's name is one of its names,
    or not a node's name (an address, an alias); or the node with the inventory's name, which may be on another machine.

    :raises NodeError: slurmctld must be queried and does not answer.
    """
    if name:
        return name
    here = this_node.here(host)
    short = inventory_name.split(".")[0].lower()
    ours = {one.lower() for whole in (here.node_name, whole_name()) for one in (whole, whole.split(".")[0])}
    if not inventory_name or short in ours:
        return here.node_name
    other = inventory_name.split(".")[0]
    if here.certain:
        try:
            Slurm(host, other, seconds=PATIENT_SECONDS).show()
        except NoSuchNode:
            return here.node_name
    return other


def _check_host(name: str, host: str, here: str) -> None:
    here = here.split(".")[0]
    if host and host.split(".")[0].lower() != here.lower():
        raise NodeError(
            "node " + name,
            "Slurm has it on host {0}, and this is {1}".format(host, here),
            "correct slurm_node_name or the address of the host, or set gpu_node_rolling_same_host=false",
        )
