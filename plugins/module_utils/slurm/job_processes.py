# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a Slurm job on this node: from its cgroup, else from ``scontrol listpids``.

Layouts (Slurm's pages cgroups.html and cgroup_v2.html):

- version 1: ``/sys/fs/cgroup/<controller>/slurm[_<node>]/uid_<uid>/job_<id>/step_<step>/task_<n>``;
- version 2: ``/sys/fs/cgroup/system.slice/[<node>_]slurmstepd.scope/job_<id>/step_<step>/user/task_<n>``, beside
  ``step_<step>/slurm``, which holds slurmstepd itself. From 25.11 on the slice may be another (CgroupSlice), and from
  26.05 on the folder of the job has the name of its SLUID unless CgroupJobIdPaths is set (cgroup_v2.c,
  cgroup_p_step_create): then Slurm is asked.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..core.system_processes import is_daemon
from .commands import PATIENT_SECONDS, Commands, NotInstalled

CGROUPS = "/sys/fs/cgroup"
# Of version 1, those that Slurm's plugins use; one is enough.
_CONTROLLERS = ("freezer", "cpuset", "devices", "memory", "cpuacct", "cpu")
_EXTERN = "step_extern"  # what holds a job's place: a sleep, and ssh sessions that were adopted


def job_pids(host: Host, job: str) -> Tuple[int, ...]:
    """The processes of a job on this node, without slurmstepd.

    :raises NodeError: when the job has none here, or Slurm cannot be asked.
    """
    number = job.strip()
    if not re.fullmatch(r"[0-9]+", number):
        raise Misuse(
            "job {0!r}".format(job),
            "this is no Slurm job number",
            "give the number that squeue shows as JobID (for an array task: its SLURM_JOB_ID)",
        )
    folders = cgroups(host, "job_" + number)
    found = _in_cgroups(host, folders)
    if not found and not folders:
        found = _asked(host, number)
    if not found:
        raise NodeError(
            "Slurm job {0}".format(number),
            "it has no process on this node",
            "run this on a node where it runs (squeue -j {0} names them)".format(number),
        )
    return found


def cgroups(host: Host, name: str) -> List[str]:
    """The folders of a job: ``name`` is ``job_<id>``, or its SLUID."""
    return [folder for folder in ("{0}/{1}".format(place, name) for place in _places(host)) if host.exists(folder)]


def members(host: Host, name: str) -> FrozenSet[int]:
    """All processes in the cgroups of a job."""
    return frozenset(pid for folder in cgroups(host, name) for pid in _procs(host, folder))


def names(host: Host) -> Tuple[str, ...]:
    """What lies where the folders of jobs are: ``job_<id>``, SLUIDs, and what is Slurm's own."""
    return tuple(sorted({name for place in _places(host) for name in host.names(place)}))


def _places(host: Host) -> List[str]:
    places = []
    for base in (CGROUPS, CGROUPS + "/unified"):
        # A slice of its own lies at the top; below user.slice, users name cgroups as they like.
        slices = [top for top in host.names(base) if top.endswith(".slice") and top != "user.slice"]
        places += [
            "{0}/{1}/{2}".format(base, top, scope)
            for top in slices
            for scope in host.names("{0}/{1}".format(base, top))
            if scope.endswith("slurmstepd.scope")
        ]
    for controller in _CONTROLLERS:
        base = "{0}/{1}".format(CGROUPS, controller)
        for top in host.names(base):
            if top == "slurm" or top.startswith("slurm_"):
                folder = "{0}/{1}".format(base, top)
                places += ["{0}/{1}".format(folder, user) for user in host.names(folder) if user.startswith("uid_")]
    return places


def _in_cgroups(host: Host, folders: List[str]) -> Tuple[int, ...]:
    for folder in folders:
        steps: Dict[str, Set[int]] = {}
        for step in host.names(folder):
            if step.startswith("step_"):
                steps[step] = _procs(host, "{0}/{1}".format(folder, step))
        pids = set().union(*(found for step, found in steps.items() if step != _EXTERN)) or steps.get(_EXTERN, set())
        ours = {pid for pid in pids if not is_daemon(host, pid, ("slurmstepd",))}
        if ours:
            return tuple(sorted(ours))
    return ()


def _procs(host: Host, folder: str) -> Set[int]:
    """The processes of a cgroup and of those below it."""
    found = {int(word) for word in (host.read(folder + "/cgroup.procs") or "").split() if word.isdecimal()}
    for name in host.names(folder):
        below = "{0}/{1}".format(folder, name)
        if name != "slurm" and host.exists(below + "/cgroup.procs"):
            found |= _procs(host, below)
    return found


def _asked(host: Host, number: str) -> Tuple[int, ...]:
    """Slurm without cgroups (proctrack/linuxproc, pgid) can tell by itself."""
    try:
        done = Commands(host, seconds=PATIENT_SECONDS).ask("scontrol", "listpids", number)
    except NotInstalled as error:
        missing = NodeError(
            "Slurm job {0}".format(number),
            "this node has no cgroup of it, and scontrol is not installed to ask Slurm",
            "run this on a node where the job runs, or name the processes by --pid or a pattern",
        )
        raise missing from error  # pylint: disable=bad-exception-cause  # it is an exception
    return parse_listpids(done.stdout) or _refused(number, done.message)


def _refused(number: str, message: Optional[str]) -> Tuple[int, ...]:
    raise NodeError(
        "Slurm job {0}".format(number),
        "Slurm tells no process of it on this node ({0})".format(message),
        "run this on a node where it runs (squeue -j {0} names them)".format(number),
    )


def parse_listpids(text: str) -> Tuple[int, ...]:
    """The first column of ``scontrol listpids``; its head and everything else that is no number is passed over."""
    firsts = [line.split()[0] for line in text.splitlines() if line.split()]
    return tuple(sorted({int(word) for word in firsts if word.isdecimal() and int(word) > 0}))
