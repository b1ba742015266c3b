# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of the units and of the script that Slurm runs. Pure."""

from __future__ import annotations

from ...core.managed_files import MARKER
from ...core.systemd.units import unit_text
from ...health.gate.settings import REMEDY_UNIT
from .types import PROOF, UNIT

COMMAND = "/usr/local/bin/gpunode"

PROGRAM = (
    """#!/bin/sh
"""
    + MARKER
    + """ Changes will be lost. For HealthCheckProgram= in slurm.conf.
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export PATH
umask 022
# Without its command a node is neither drained nor resumed.
[ -x """
    + COMMAND
    + """ ] || exit 0
exec """
    + COMMAND
    + """ hook health
"""
)


def service(gates: bool) -> str:
    """``gates``: this run drains and resumes too, as Slurm's HealthCheckProgram would."""
    after = (
        "nvidia-persistenced.service nvidia-fabricmanager.service gpu-node-nvme_scratch.service "
        "gpu-node-gpu_settings.service"
    )
    rest = [
        "ExecStart={0} {1}".format(COMMAND, "hook health" if gates else "health --record"),
        "# A sick node is a verdict, and no failed unit: 1 fail, 3 warnings, 4 something could not be checked.",
        "SuccessExitStatus=1 3 4",
        "TimeoutStartSec=180",
        "Nice=10",
    ]
    return UNIT.service_text("Health of this GPU node", COMMAND, rest, after)


def proof() -> str:
    """What a node owes before it takes jobs again; the gate starts it on a node that it drained and that has no job."""
    unit = ["Description=Active checks that this GPU node owes after a fault", "ConditionPathExists=" + COMMAND]
    lines = [
        "Type=oneshot",
        "# The gate counts what was cut off or could not be done; a failed unit would be a finding of its own.",
        "ExecStart=-{0} hook proof".format(COMMAND),
        "# Each check has a limit, and so have all of them together.",
        "TimeoutStartSec=infinity",
    ]
    return unit_text(PROOF, Unit=unit, Service=lines)


def remedy(seconds: int) -> str:
    """``seconds``: of the site's own command at most."""
    unit = ["Description=Remedy for a part of this GPU node that failed", "ConditionPathExists=" + COMMAND]
    lines = [
        "Type=oneshot",
        "ExecStart={0} remedy".format(COMMAND),
        "# A remedy that failed, or another one that runs, is no failed unit: 'gpunode remedy status' tells it.",
        "SuccessExitStatus=1 75",
        "# A reset with all that is stopped for it and applied again, beside the command of the site.",
        "TimeoutStartSec={0}".format(1800 + seconds),
    ]
    return unit_text(REMEDY_UNIT, Unit=unit, Service=lines)


def timer(interval_seconds: int) -> str:
    when = [
        "OnBootSec=120",
        "OnUnitInactiveSec={0}".format(interval_seconds),
        "# A thousand nodes that were started together do not check at the same moment.",
        "RandomizedDelaySec={0}".format(max(1, interval_seconds // 10)),
        "AccuracySec=5",
    ]
    return UNIT.timer_text("Health of this GPU node, again and again", when)
