# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of a lease, and the steps that are its own."""

from __future__ import annotations

from typing import Any, Mapping

from ...core.frozen import frozen
from ...core.lease import MEMORY, SECTION, Memory
from ...core.managed_files import Files
from ...core.resource import Action
from ...core.systemd.timer import Timer, TimerState

UNIT = Timer(SECTION)


@frozen
class State:
    """``declared``: section node_lease of the declaration. ``machine``: its identity, "" where it has none. ``motd``:
    our file for logins is there. ``remembered``: a file of the memory is there. ``missing``: the program of the end
    that is not on this node."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    timer: TimerState = TimerState()
    now: float = 0.0
    machine: str = ""
    memory: Memory = Memory()
    remembered: bool = False
    motd: bool = False
    missing: str = ""


@frozen
class Remember(Action):
    """That this machine has seen the lease in force."""

    until: float

    def describe(self) -> str:
        return "note in {0} that this machine runs under the lease".format(MEMORY)


@frozen
class EndReservation(Action):
    name: str

    def describe(self) -> str:
        return "delete the reservation {0} of Slurm".format(self.name)


@frozen
class Forget(Action):
    def describe(self) -> str:
        return "remove {0}".format(MEMORY)
