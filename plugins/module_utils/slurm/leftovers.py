# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the processes on a job's GPUs its epilog ends. Pure.

Ended is only what belongs to the job: its user's, and of its cgroup or its environment, or of no job at all while this
user has no other job on the node. Never root's, never another user's (a daemon of the driver is one of these two,
whatever it calls itself), never what is of another job that runs here.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Optional, Tuple

from ..core.frozen import frozen
from .jobs import Running
from .types import SLUID

# The folder of a job in the hierarchy of one controller (v1) and in the scope of slurmstepd (v2), by the number of the
# job or, from 26.05 on, its SLUID; the slice may be another (CgroupSlice, 25.11). The paths are whole, since a user
# may name cgroups below user@UID.service as he likes.
_CGROUP = re.compile(
    r"\d+:[^:]*:/slurm(?:_[^/]*)?/uid_\d+/job_(\d{1,10})(?:/.*)?"
    r"|0::(?:/[^/]+\.slice)+/(?:[^/]+_)?slurmstepd\.scope/(?:job_(\d{1,10})|(" + SLUID + r"))(?:/.*)?"
)


@frozen
class Process:
    """A process that NVML lists on a GPU. ``cgroup`` is the job by its cgroup, a number or a SLUID: the kernel's word.
    ``claim`` is the job by its environment, which is the process's own word, and only if that job is on this node and
    belongs to the same user."""

    pid: int
    start: int  # clock ticks after boot: with the pid the name of one process, which a pid alone is not
    uid: int
    command: str = ""
    cgroup: Optional[str] = None
    claim: Optional[int] = None
    gpus: Tuple[str, ...] = ()


@frozen
class Verdict:
    process: Process
    end: bool
    why: str


def cgroup_job(cgroup: str) -> Optional[str]:
    """The job that a process belongs to by the text of /proc/PID/cgroup: its number, or its SLUID."""
    for line in cgroup.split("\n"):  # not splitlines: other line ends may be part of a name
        found = _CGROUP.fullmatch(line)
        if found:
            return next(one for one in found.groups() if one)
    return None


def claimed_job(environ: Mapping[str, str]) -> Optional[int]:
    """The job that a process claims to belong to."""
    value = environ.get("SLURM_JOB_ID", "")
    return int(value) if re.fullmatch(r"[0-9]{1,10}", value) else None


def judge(process: Process, job: Running, running: Iterable[Running]) -> Verdict:
    """``running``: the other jobs on this node."""
    if process.uid == 0 or process.pid <= 1:
        return Verdict(process, False, "it is root's")
    if process.uid != job.uid:
        return Verdict(process, False, "it is another user's")
    if process.cgroup is not None and process.cgroup in (str(job.id), job.sluid):
        return Verdict(process, True, "the job left it behind")
    if process.cgroup is not None:
        return Verdict(process, False, "it is in the cgroup of job {0}".format(process.cgroup))
    if process.claim == job.id:
        return Verdict(process, True, "the job left it behind")
    if process.claim is not None:
        return Verdict(process, False, "it is of job {0}".format(process.claim))
    if any(one.uid == job.uid for one in running):
        return Verdict(process, False, "its user has another job on this node, and it may belong to that")
    return Verdict(process, True, "it belongs to no job, and its user has none here any more")
