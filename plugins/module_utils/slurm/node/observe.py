# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as slurmctld sees it, and the jobs that hold it."""

from __future__ import annotations

import os
import re
from typing import List

from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from .. import drain, places, states
from ..client import HOLDING, found_program
from .types import State

# scontrol itself gives up after MessageTimeout of slurm.conf, 10 s by default, once or twice.
TIMEOUT_SECONDS = 40.0


class Refused(NodeError):
    """slurmctld answered, and did not do it."""


class NoSuchNode(NodeError):
    """slurmctld answered, and has no node of that name."""


class Slurm:
    """The commands of Slurm on this machine."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._scontrol = found_program(host, "scontrol")

    def run(self, program: str, arguments: List[str]) -> str:
        """:raises NodeError: no such program, no answer from slurmctld, no such node.
        :raises Refused: it answers otherwise than with success."""
        if self._scontrol is None:
            raise NodeError("scontrol", "it is not on this machine", "install Slurm's commands here")
        folder = os.path.dirname(self._scontrol)
        argv = [os.path.join(folder, program) if folder else program, *arguments]
        try:
            done = self._host.run(places.command(self._host, argv), TIMEOUT_SECONDS, accept=tuple(range(256)))
        except NodeError as error:
            raise NodeError(error.thing, error.reason, "look at 'scontrol ping'") from error
        if done.returncode == 0:
            return done.stdout
        if "ontact slurm controller" in done.message or "onnection" in done.message:
            raise NodeError("slurmctld", "it does not answer: " + done.message, "look at 'scontrol ping'")
        if "not found" in done.message or "nvalid node name" in done.message:
            raise NoSuchNode(arguments[-1], "slurmctld has no such node", "give the NodeName that slurm.conf has")
        raise Refused(
            " ".join([program, *arguments]), "it was refused: " + done.message, "run it by hand as root to see more"
        )

    def look(self, name: str) -> State:
        state = self.look_at_drain(name)
        if states.busy(states.normalised(state.node.flags)):
            return state
        listed = self.run("squeue", ["-h", "--local", "-a", "-o", "%i", "-t", HOLDING, "-w", name])
        return replaced(state, jobs=tuple(listed.split()))

    def look_at_drain(self, name: str) -> State:
        """Without the jobs, which squeue would have to tell."""
        told = self.run("scontrol", ["show", "node", name])
        node = drain.parse_node(told)
        if node is None:
            raise NodeError("node " + name, "slurmctld tells no state of it", "look at 'scontrol show node'")
        host = re.search(r"\bNodeHostName=([A-Za-z0-9._-]+)", told)
        return State(node, host=host.group(1) if host else None)
