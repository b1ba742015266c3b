# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SCRATCH/jobs, which has to be root's before a user takes the name: made with the hooks, before the first job."""

from __future__ import annotations

import os
import stat
from typing import Optional

from ...core import declaration, root_folders
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import Action
from ...slurm import scratch


@frozen
class MakeJobFolders(Action):
    path: str

    def describe(self) -> str:
        return "make {0}, the folder of the jobs, root's".format(self.path)


def missing(host: Host) -> Optional[str]:
    """The path of SCRATCH/jobs where the scratch is mounted and that folder is not there, or not root's."""
    found = scratch.mounted(host, scratch.places(declaration.read(host).get(scratch.SECTION)))
    if found is None or not found.writable:
        return None
    path = "{0}/{1}".format(found.point, scratch.JOBS)
    try:
        seen = os.lstat(host.path(path))
    except OSError:
        return path
    ready = stat.S_ISDIR(seen.st_mode) and seen.st_uid in (0, os.geteuid())
    return None if ready and stat.S_IMODE(seen.st_mode) == root_folders.MODE else path
