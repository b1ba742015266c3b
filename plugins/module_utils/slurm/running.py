# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a job that was noted still runs here, where its note stands in the way of another job's epilog.

A job without an epilog leaves a note: slurmd was down when it ended. A process in the cgroup of a job tells at no cost
that it runs. Without one nothing is known (salloc without a step, the other nodes of a batch job, clusters without
cgroups, a cgroup that a killed slurmd left behind), so slurmctld is asked then, for one job, and only if the note is
old.
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterable, List, Tuple

from ..core.host import Host
from ..core.resource import NodeError
from . import hosts, jobs, this_node
from .client import Slurm
from .jobs import Running

# Between the start of a job and its first step; and between two questions about the same job.
OLD_SECONDS = 600.0
# At most so many questions in one epilog; the next one asks on.
MOST_QUESTIONS = 3
# job_state_string() in slurm_protocol_defs.c, 22.05 to 26.05: those that end a job.
_FINAL = frozenset("BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split())
# A requeued job is COMPLETING until each of its nodes has finished, and PENDING afterwards.
_NOWHERE = _FINAL | {"PENDING"}
_UNKNOWN_JOB = "Invalid job id specified"  # slurm_errno.c


def in_the_way(over: Tuple[Running, ...], running: Tuple[Running, ...]) -> Tuple[Running, ...]:
    """Those of the running jobs for which something of these that are over has to stay. Pure."""
    gpus = {gpu for one in over for gpu in one.gpus}
    users = {one.uid for one in over}
    return tuple(one for one in running if one.uid in users or gpus & set(one.gpus))


def ended(answer: str, job_id: int, node: str = "") -> bool:
    """Whether slurmctld reports that this job is over on this node. Pure.

    ``answer`` is that of ``scontrol show job ID``, which for an array may have other tasks, too. ``node``: the NodeName
    of this node; "": it is not certain, so a job that runs anywhere may run here.
    """
    if "JobId=" not in answer:  # else the words may be in the job's name
        return _UNKNOWN_JOB in answer
    for block in re.split(r"\n\s*\n", answer):
        if re.match(r"\s*JobId={0}\b".format(job_id), block):
            # A user can write lines like these into the name of the job, so all of them must agree.
            states = re.findall(r"^\s*JobState=([A-Z_]+)", block, re.MULTILINE)
            nodes = re.findall(r"^\s*NodeList=(?!\(null\))(\S+)", block, re.MULTILINE)
            elsewhere = bool(node and nodes) and not any(hosts.holds(one, node) for one in nodes)
            return bool(states) and (elsewhere or all(one in _NOWHERE for one in states))
    return False


def find_ended(host: Host, slurm: Slurm, over: Tuple[Running, ...]) -> List[Running]:
    """The noted jobs that stand in the way and do not run any more."""
    return ended_among(host, slurm, in_the_way(over, jobs.running(host)), MOST_QUESTIONS)


def ended_among(host: Host, slurm: Slurm, noted: Iterable[Running], most: int) -> List[Running]:
    """The noted jobs that are over by the word of slurmctld, which is asked for old notes without a process."""
    found: List[Running] = []
    questions = 0
    for one in noted:
        path = host.path(jobs.path(one.id))
        if _age_seconds(path) < OLD_SECONDS or any(
            _has_process(host, name) for name in (str(one.id), one.sluid) if name
        ):
            continue
        questions += 1
        if questions > most:
            break
        try:
            answer = slurm.job(one.id)
        except NodeError:
            break  # slurmctld does not answer: whoever was noted runs
        if ended(answer, one.id, this_node.here(host).certain_name):
            found.append(one)
        else:
            os.utime(path)
    return found


def _age_seconds(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def has_cgroup(host: Host, job: str) -> bool:
    """``job``: its number or its SLUID."""
    from .job_processes import cgroups  # loaded only where it is wanted

    return bool(cgroups(host, _cgroup(job)))


def _has_process(host: Host, job: str) -> bool:
    from .job_processes import members  # loaded only where it is wanted

    return bool(members(host, _cgroup(job)))


def _cgroup(job: str) -> str:
    return "job_" + job if job.isdigit() else job
