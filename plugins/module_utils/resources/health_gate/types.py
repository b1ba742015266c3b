# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the gate on a node, and the steps that are not those of files."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from ...core.folder_given import Folder
from ...core.managed_files import Files
from ...core.systemd.timer import Timer, TimerState
from ...health.gate.settings import REMEDY_UNIT, SECTION

PROOF = "gpu-node-health-proof.service"
UNIT = Timer(SECTION, "health", (PROOF, REMEDY_UNIT))
# The script for HealthCheckProgram= of slurm.conf.
PROGRAM = "/etc/slurm/gpu_node_health_check"
# cyclecloud-slurm 4.0.9, install.py: the agent's folder, its HealthCheckProgram=, and its hooks.
HEALTHAGENT = "/etc/healthagent"
HEALTHAGENT_PROGRAM = "health.sh"
HEALTHAGENT_HOOKS = ("/etc/slurm/prolog.d/10-health_prolog.sh", "/etc/slurm/epilog.d/10-health_epilog.sh")


@dataclasses.dataclass(frozen=True)
class State:
    """``declared``: the whole declaration. ``program`` is HealthCheckProgram= of slurm.conf.

    ``healthagent``: what CycleCloud's agent has Slurm run.
    ``left``: files with what checks found. ``drained``: the node is drained for its health. ``folders``: those that
    options name, by the option.
    """

    files: Files = Files()
    declared: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    slurmd: bool = False
    slurm_conf: Optional[str] = None
    program: Optional[str] = None
    healthagent: Tuple[str, ...] = ()
    timer: TimerState = TimerState()
    left: Tuple[str, ...] = ()
    drained: bool = False
    now: float = 0.0
    folders: Tuple[Tuple[str, Folder], ...] = ()
