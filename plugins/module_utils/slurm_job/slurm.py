# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls to slurmctld that a hook makes, and only when something is wrong: Slurm's own advice is to make none
in a prolog or epilog, as a thousand nodes would make them at once."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..host import Host
from ..resource import NodeError
from . import drain
from .types import SlurmNode

# slurmctld answers in milliseconds; one that does not must not hold a job.
TIMEOUT_SECONDS = 10.0
# Where scontrol is on clusters that built Slurm themselves: a hook has no search path to speak of.
_PLACES = ("/opt/slurm/bin/scontrol", "/usr/local/bin/scontrol", "/usr/local/slurm/bin/scontrol")


def found_program(host: Host, program: str) -> Optional[str]:
    """scontrol as it was declared, else in the usual places; None: it is nowhere."""
    return next((one for one in (program,) + _PLACES if host.which(one)), None)


class Slurm:
    """This node as slurmctld sees it."""

    def __init__(self, host: Host, node: str, program: str = "scontrol") -> None:
        self.host = host
        self.node = node
        self.program = program

    def _run(self, arguments: List[str]) -> str:
        program = found_program(self.host, self.program) or self.program
        return self.host.run([program] + arguments, timeout_seconds=TIMEOUT_SECONDS).stdout

    def look(self) -> SlurmNode:
        """:raises NodeError: no scontrol, no answer, or no such node."""
        found = drain.parse_node(self._run(["show", "node", self.node]))
        if found is None:
            raise NodeError(
                "node " + self.node, "slurmctld tells no state of it", "give the name that slurm.conf has with --node"
            )
        return found

    def settle(self, finding: Optional[str]) -> Tuple[drain.Decision, SlurmNode]:
        """Drain or resume this node, or leave it, by what was found on it; returns what was done.

        :raises NodeError: slurmctld cannot be asked or refuses.
        """
        node = self.look()
        decision = drain.decide(node, finding)
        if decision.action == drain.DRAIN:
            self._run(["update", "NodeName=" + self.node, "State=DRAIN", "Reason=" + (decision.reason or "")])
        elif decision.action == drain.RESUME:
            self._run(["update", "NodeName=" + self.node, "State=RESUME"])
        return decision, node
