# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Once a boot, before the first job: the folders of jobs and of the users' containers, as they were declared."""

from __future__ import annotations

from ..core import declaration, processes
from ..core.host import Host
from ..core.options import of_section
from . import jobs, scratch, user_folders
from .types import SECTION, Settings

# In /run, so once a boot.
PREPARED = "/run/gpu_node/jobs_prepared"


def prepare(host: Host) -> None:
    """Before the first job of a boot: the folder of all jobs is root's, and what jobs of earlier boots left goes.

    :raises NodeError: the scratch is not there, or cannot be written to.
    """
    declared = declaration.read(host)
    section = declared.get(SECTION)
    if section is not None:
        busy = jobs.all_of(host)
        # Where the kernel does not tell, nothing is older.
        start = processes.boot_time(host) or 0.0
        if of_section(Settings, section).job_folder:
            scratch.sweep(host, declared.get(scratch.SECTION), start, frozenset(one.id for one in busy))
        templates = user_folders.templates(declared.get(user_folders.SECTION))
        if templates:
            from . import folder_work  # loaded only where containers are declared

            folder_work.sweep(host, templates, start, frozenset(one.uid for one in busy))
    host.write(PREPARED, "")
