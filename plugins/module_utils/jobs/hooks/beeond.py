# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shared scratch of a job that asks for it: started before the job, stopped after it.

What goes wrong here is told and holds no job: it starts and does not find the folder.
"""

from __future__ import annotations

from ...core.options import of_section
from ...slurm.beeond import SECTION, note, start, stop
from ...slurm.beeond.rules import STOP_SECONDS, Settings, asked, longest_seconds
from ...slurm.jobs import Running
from ...slurm.scratch import SECTION as SCRATCH
from ...slurm.types import Job
from .hook import Hook


def begun(hook: Hook, job: Job) -> None:
    section = hook.section(SECTION) or {}
    settings = of_section(Settings, section)
    if not asked(settings, job):
        return
    seconds = longest_seconds(settings)
    hook.more_time(seconds)
    what = "starting the shared scratch of the job"
    hook.step(what, seconds, lambda: start.begin(hook.host, job, section, hook.section(SCRATCH)))


def over(hook: Hook, job: Running) -> None:
    known = note.read(hook.host, job.id)
    if known is None:
        return
    one = known
    hook.more_time(STOP_SECONDS)
    hook.step("stopping the shared scratch of job {0}".format(job.id), STOP_SECONDS, lambda: stop.end(hook.host, one))
