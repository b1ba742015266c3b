# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process on a job's GPUs was left behind by that job. Pure.

Ended is only what belongs to the job: its user's, and of its cgroup or its environment, or of no job at all while this
user has no other job on the node. Never root's, never a daemon of the driver, never what is of another job.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Iterable, Optional, Tuple

from .jobs import Running
from .types import Job

# Command names as the kernel keeps them: cut to 15 characters.
DAEMONS = ("nvidia-persiste", "nvidia-fabricma", "nv-fabricmanage", "nv-hostengine", "dcgm-exporter", "nvidia-imex")
# /slurm/uid_1000/job_42/step_0 (cgroup v1), …/slurmstepd.scope/job_42/step_0/user/task_0 (v2).
_CGROUP = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Process:
    """A process that NVML lists on a GPU. ``job`` is what its cgroup says, else its environment, or None."""

    pid: int
    start: int  # clock ticks after boot: with the pid the name of one process, which a pid alone is not
    uid: int
    command: str = ""
    job: Optional[int] = None
    gpus: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    process: Process
    end: bool
    why: str


def job_of(cgroup: str, environ: str) -> Optional[int]:
    """The job that a process belongs to, by the texts of /proc/PID/cgroup and /proc/PID/environ.

    The cgroup is the kernel's word; the environment only the process's, so it comes second.
    """
    found = _CGROUP.search(cgroup)
    if found:
        return int(found.group(1))
    for word in environ.split("\0"):
        name, separator, value = word.partition("=")
        if separator and name == "SLURM_JOB_ID" and re.fullmatch(r"[0-9]{1,10}", value):
            return int(value)
    return None


def judge(process: Process, job: Job, running: Iterable[Running]) -> Verdict:
    """``running``: the other jobs on this node."""
    others = tuple(running)
    if process.uid == 0 or process.pid <= 1:
        return Verdict(process, False, "it is root's")
    if process.command[:15] in DAEMONS:
        return Verdict(process, False, "it is a daemon of the driver")
    if process.uid != job.uid:
        return Verdict(process, False, "it is another user's")
    if process.job == job.id:
        return Verdict(process, True, "the job left it behind")
    if process.job is not None:
        return Verdict(process, False, "it is of job {0}".format(process.job))
    if any(one.uid == job.uid for one in others):
        return Verdict(process, False, "its user has another job on this node, and it may belong to that")
    return Verdict(process, True, "it belongs to no job, and its user has none here any more")
