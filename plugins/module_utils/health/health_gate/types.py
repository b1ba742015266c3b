# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the gate on a node, and the steps that are not those of files."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from ...core.folder_given import Folder
from ...core.managed_files import Files
from ...core.resource import Action

FOLDER = "/etc/systemd/system"
SERVICE = "gpu-node-health.service"
TIMER = "gpu-node-health.timer"
PROOF = "gpu-node-health-proof.service"
# The script for HealthCheckProgram= of slurm.conf.
PROGRAM = "/etc/slurm/gpu_node_health_check"
# cyclecloud-slurm 4.0.9, install.py: the agent's folder, its HealthCheckProgram=, and its hooks.
HEALTHAGENT = "/etc/healthagent"
HEALTHAGENT_PROGRAM = "health.sh"
HEALTHAGENT_HOOKS = ("/etc/slurm/prolog.d/10-health_prolog.sh", "/etc/slurm/epilog.d/10-health_epilog.sh")
WANTS = FOLDER + "/timers.target.wants/" + TIMER


@dataclasses.dataclass(frozen=True)
class State:
    """``declared``: the whole declaration. ``program`` is HealthCheckProgram= of slurm.conf.

    ``running``: systemd runs here. ``active``: it has the timer started; ``stale``: it has read other texts than those
    that lie there. ``healthagent``: what CycleCloud's agent has Slurm run.
    ``left``: files with what checks found. ``drained``: the node is drained for its health. ``folders``: those that
    options name, by the option.
    """

    files: Files = Files()
    declared: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    slurmd: bool = False
    slurm_conf: Optional[str] = None
    program: Optional[str] = None
    healthagent: Tuple[str, ...] = ()
    running: bool = False
    enabled: bool = False
    active: bool = False
    stale: bool = False
    left: Tuple[str, ...] = ()
    drained: bool = False
    now: float = 0.0
    folders: Tuple[Tuple[str, Folder], ...] = ()


@dataclasses.dataclass(frozen=True)
class EnableTimer(Action):
    def describe(self) -> str:
        return "enable {0}".format(TIMER)


@dataclasses.dataclass(frozen=True)
class DisableTimer(Action):
    def describe(self) -> str:
        return "disable {0}".format(TIMER)


@dataclasses.dataclass(frozen=True)
class StartTimer(Action):
    def describe(self) -> str:
        return "start {0}".format(TIMER)


@dataclasses.dataclass(frozen=True)
class StopTimer(Action):
    def describe(self) -> str:
        return "stop {0}".format(TIMER)


@dataclasses.dataclass(frozen=True)
class ReloadSystemd(Action):
    def describe(self) -> str:
        return "have systemd read its units again"
