# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out one step on Slurm's files."""

from __future__ import annotations

from ...core import declaration, managed_files
from ...core.host import Host
from ...core.resource import Action
from ...slurm.prepare import prepare
from .job_folders import MakeJobFolders


def apply(host: Host, action: Action) -> None:
    if isinstance(action, declaration.Declare):
        declaration.apply(host, action)
    elif isinstance(action, MakeJobFolders):
        prepare(host)
    else:
        managed_files.apply(host, action)
