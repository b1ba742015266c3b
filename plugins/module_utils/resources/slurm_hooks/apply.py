# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on Slurm's files."""

from __future__ import annotations

from typing import Mapping

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import NodeError, Step
from ...slurm.commands import RECONFIGURE_SECONDS, Commands
from ...slurm.prepare import prepare
from .job_folders import MakeJobFolders
from .types import TOLD, Reconfigure


def make_job_folders(host: Host, dummy: MakeJobFolders, other: object = None) -> None:
    prepare(host)


def reconfigure(host: Host, action: Reconfigure, dummy: object = None) -> None:
    """:raises NodeError: slurmctld cannot be asked, or does not take its files."""
    try:
        Commands(host, host.path(action.scontrol), RECONFIGURE_SECONDS).run("scontrol", "reconfigure")
    except NodeError as error:
        remedy = "run 'scontrol reconfigure' where slurmctld answers, or set reconfigure to false"
        raise NodeError("scontrol reconfigure", error.reason, remedy) from error
    host.write(TOLD, "")


STEPS: Mapping[type, Step] = {
    **declaration.STEPS,
    **managed_files.STEPS,
    MakeJobFolders: make_job_folders,
    Reconfigure: reconfigure,
}
