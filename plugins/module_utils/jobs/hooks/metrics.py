# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prolog and epilog do for the metrics: tell which job has which GPU, and leave the counters to its profiler."""

from __future__ import annotations

from ...core.options import of_section
from ...metrics import jobs, owners, places, profiling
from ...metrics.settings import DCGM, SECTION, Settings
from ...slurm import jobs as notes
from ...slurm.jobs import Running
from ...slurm.types import Job
from .hook import Hook

_SECONDS = 15.0
_LOCK_SECONDS = 6.0


def begun(hook: Hook, job: Job, note: Running) -> None:
    settings = of_section(Settings, hook.section(SECTION))
    host = hook.host
    if settings.jobs:

        def tell() -> None:
            jobs.keep(host, str(job.id), places.of_job(host, job, note.gpus))

        hook.step("telling the metrics which GPUs the job has", _LOCK_SECONDS, tell)
        _report_owners(hook, settings)
    if job.says(settings.profiling):
        what = "leaving the counters of the GPUs to the job's profiler"
        hook.step(what, _SECONDS, lambda: profiling.begin(host, job.id, settings.source == DCGM))


def over(hook: Hook, note: Running) -> None:
    settings = of_section(Settings, hook.section(SECTION))
    host = hook.host
    what = "telling the metrics that the job is over"
    hook.step(what, _LOCK_SECONDS, lambda: jobs.keep(host, str(note.id), ()))
    _report_owners(hook, settings)
    if profiling.jobs(host):
        running = {one.id for one in notes.running(host)}
        what = "taking the counters of the GPUs back"
        hook.step(what, _SECONDS, lambda: profiling.end(host, note.id, running, settings.source == DCGM))


def _report_owners(hook: Hook, settings: Settings) -> None:
    path = settings.owners_textfile
    if path:
        what = "writing who has the jobs of this node"
        note = hook.step(what, _LOCK_SECONDS, lambda: owners.keep(hook.host, path))
        if note:
            hook.tell(note)
