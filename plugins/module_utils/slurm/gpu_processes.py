# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the processes on GPUs by NVML, and end some of them."""

from __future__ import annotations

import signal
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..core import processes
from ..core.host import Host
from ..facts.nvml import processes as lists
from ..facts.nvml.session import Survey, survey
from . import jobs
from .gpus import CALL_TIMEOUT_SECONDS
from .leftovers import Process, cgroup_job, claimed_job

# Between SIGKILL and the end of a process that the driver has to let go of.
KILL_SECONDS = 10.0


def on_gpus(host: Host, gpus: Sequence[str]) -> Tuple[Process, ...]:
    """The processes on these GPUs (PCI addresses), each once.

    :raises NodeError: no driver, no such GPU.
    """

    found: Survey[int] = survey(lists.pids, gpus, CALL_TIMEOUT_SECONDS, host=host)
    found.require_driver()
    places: Dict[int, Set[str]] = {}
    for visit_ in found.visits:
        for pid in visit_.parts:
            places.setdefault(pid, set()).add(str(visit_.identity.index))
    running = (described(host, pid, tuple(sorted(where))) for pid, where in sorted(places.items()))
    return tuple(one for one in running if one is not None)


def described(host: Host, pid: int, gpus: Tuple[str, ...]) -> Optional[Process]:
    """None for one that has ended meanwhile."""
    start, uid = processes.start_time(host, pid), processes.real_uid(host, pid)
    if start is None or uid is None:
        return None
    return Process(
        pid=pid,
        start=start,
        uid=uid,
        command=processes.name(host, pid),
        cgroup=cgroup_job(processes.cgroup(host, pid)),
        claim=_believed(host, claimed_job(processes.environ(host, pid)), uid),
        gpus=gpus,
    )


def job_of(host: Host, pid: int) -> Optional[int]:
    """The number of the job that a process belongs to: by its cgroup, or by its environment if that is believed."""
    found, uid = cgroup_job(processes.cgroup(host, pid)), processes.real_uid(host, pid)
    if found is not None and found.isdigit():
        return int(found)
    return None if uid is None else _believed(host, claimed_job(processes.environ(host, pid)), uid)


def _believed(host: Host, job_id: Optional[int], uid: int) -> Optional[int]:
    """A process can write any number into its environment. So a job counts only if it is on this node and belongs to
    the user of the process."""
    if job_id is None:
        return None
    noted = [jobs.read(host, job_id), jobs.read(host, job_id, over=True)]
    owners = {one.uid for one in noted if one is not None} or _owners(host, job_id)
    return job_id if uid in owners else None


def _owners(host: Host, job_id: int) -> Set[int]:
    """The users in the cgroup of a job without a note of the prolog, except the root of slurmstepd."""
    from .job_processes import members  # loaded only when it is needed

    found = {processes.real_uid(host, pid) for pid in members(host, "job_{0}".format(job_id))}
    return {uid for uid in found if uid}


def end(host: Host, found: Iterable[Process], grace_seconds: float) -> List[Process]:
    """SIGTERM, after the grace period SIGKILL; returns those that outlived both."""
    left = list(found)
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, KILL_SECONDS)):
        for one in left:
            processes.send(host, (one.pid, one.start), number)
        started = processes.left_after(host, [(one.pid, one.start) for one in left], seconds)
        left = [one for one in left if (one.pid, one.start) in started]
    return left
