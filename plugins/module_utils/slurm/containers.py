# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs and containers on this node that use enroot, or may use it in the next step of a job.

enroot and pyxis read their configuration each time: for a step, for ``enroot list`` in the epilog of pyxis, and for a
container that a later step reuses. If a path changes while a job runs, the job loses its containers, and the epilog
fails because the prolog did not create the user's directories there. So the configuration does not change while a job
runs.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, Sequence, Set, Tuple

from ..core import declaration
from ..core.host import Host
from ..core.resource import NodeError, Refusal, sentence
from ..core.system_processes import real_uid
from ..running import slurm_job
from . import jobs, proc
from .client import Slurm
from .running import ended
from .types import SECTION, SLUID, Settings

_STEP = re.compile(r"\[([0-9]{1,10})\.")
# enroot mounts this file of each container (runtime.sh). The kernel reports mounts; a name or a variable is a claim.
_LOCK = "/.lock"
# Mount namespaces to look at, and bytes of each: a user can make many.
_NAMESPACES, _BYTES = 256, 65536
_REMEDY = "run it again after they have ended, or run playbooks/rolling.yml, which drains the node first"


def users(host: Host) -> Tuple[str, ...]:
    """The jobs on this node; if there are none, the containers. A job may start a container at any time."""
    return tuple(_jobs(host)) or tuple(_containers(host))


def held(thing: str, steps: Sequence[str], found: Sequence[str]) -> Refusal:
    """Why these steps wait."""
    reason = "{0} would read the change ({1})".format(_first(found), "; ".join(steps))
    return Refusal(thing, reason, _REMEDY)


def note(one: Refusal) -> str:
    """The same for a plan that leaves everything as it is and does not fail."""
    return sentence(one.thing, "not changed yet: " + one.reason, one.remedy)


def _first(found: Sequence[str]) -> str:
    return found[0] + (" and {0} more".format(len(found) - 1) if len(found) > 1 else "")


def _jobs(host: Host) -> Iterator[str]:
    running: Dict[str, None] = {}
    for pid, words in proc.steps(host):
        job = _STEP.search(words)
        running[job.group(1) if job else "of slurmstepd {0}".format(pid)] = None
    for name in slurm_job.names(host):
        if re.fullmatch(r"job_[0-9]{1,10}|" + SLUID, name) and slurm_job.members(host, name):
            running[name[len("job_") :] if name.startswith("job_") else name] = None
    noted = [one for one in jobs.all_of(host) if str(one.id) not in running and one.sluid not in running]
    if not _all_over(host, noted):
        running.update((str(one.id), None) for one in noted)
    yield from ("job {0}".format(one) for one in running)


def _all_over(host: Host, noted: Sequence[jobs.Running]) -> bool:
    """A job that ended without an epilog leaves its note. Only slurmctld knows that it is over."""
    client = Slurm(host, "", Settings.from_section(declaration.read(host).get(SECTION)).scontrol)
    try:
        return all(ended(client.job(one.id), one.id) for one in noted)
    except NodeError:
        return False


def _containers(host: Host) -> Iterator[str]:
    seen: Set[str] = set()
    for pid in host.names("/proc"):
        namespace = _namespace(host, pid) if pid.isdigit() else ""
        if not namespace or namespace in seen or len(seen) >= _NAMESPACES:
            continue
        seen.add(namespace)
        if _is_container(host, pid):
            yield "process {0} of user {1}, which runs in a container,".format(pid, real_uid(host, pid))


def _namespace(host: Host, pid: str) -> str:
    """The mount namespace of a process, "" for the host's namespace."""
    try:
        found, own = (os.readlink(host.path("/proc/{0}/ns/mnt".format(one))) for one in (pid, "1"))
    except OSError:
        return ""
    return "" if found == own else found


def _is_container(host: Host, pid: str) -> bool:
    try:
        with open(host.path("/proc/{0}/mountinfo".format(pid)), "rb") as stream:
            lines = stream.read(_BYTES).split(b"\n")
    except OSError:
        return False
    # proc(5): the fifth field is the mount point, as the process sees it.
    return any(line.split(b" ", 5)[4:5] == [_LOCK.encode()] for line in lines)
