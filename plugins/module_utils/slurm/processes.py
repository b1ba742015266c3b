# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the processes on GPUs by NVML, and end some of them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..core.host import Host
from ..facts.nvml import processes as lists
from ..facts.nvml.session import Survey, survey
from . import jobs
from .gpus import CALL_TIMEOUT_SECONDS
from .leftovers import Process, cgroup_job, claimed_job
from .proc import alive, start_time
from .running import has_cgroup

# Between SIGKILL and the end of a process that the driver has to let go of.
KILL_SECONDS = 10.0
_PAUSE_SECONDS = 0.05


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
    processes = (described(host, pid, tuple(sorted(where))) for pid, where in sorted(places.items()))
    return tuple(one for one in processes if one is not None)


def described(host: Host, pid: int, gpus: Tuple[str, ...]) -> Optional[Process]:
    """None for one that has ended meanwhile."""
    folder = "/proc/{0}".format(pid)
    start = start_time(host, pid)
    if start is None:
        return None
    # Not the owner of the folder: that is root for a process that may not be traced.
    uid = re.search(r"^Uid:\s+(\d+)", host.read(folder + "/status") or "", re.MULTILINE)
    if uid is None:
        return None
    return Process(
        pid=pid,
        start=start,
        uid=int(uid.group(1)),
        command=host.read_line(folder + "/comm") or "",
        cgroup=cgroup_job(host.read(folder + "/cgroup") or ""),
        claim=_running_here(host, claimed_job(host.read(folder + "/environ") or "")),
        gpus=gpus,
    )


def _running_here(host: Host, job_id: Optional[int]) -> Optional[int]:
    """A process may write any number into its environment, so that of no job of this node counts for nothing."""
    if job_id is None or jobs.read(host, job_id) is None and jobs.read(host, job_id, over=True) is None:
        return job_id if job_id is not None and has_cgroup(host, str(job_id)) else None
    return job_id


def end(host: Host, processes: Iterable[Process], grace_seconds: float) -> List[Process]:
    """SIGTERM, after the grace period SIGKILL; returns those that outlived both."""
    left = list(processes)
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, KILL_SECONDS)):
        for one in left:
            if alive(host, (one.pid, one.start)):
                with contextlib.suppress(OSError):
                    os.kill(one.pid, number)
        deadline = time.monotonic() + seconds
        while True:
            left = [one for one in left if alive(host, (one.pid, one.start))]
            if not left or time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_SECONDS)
        if not left:
            break
    return left
