# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs run on this node, and whose: by our notes, cgroups and processes, and by slurmctld.

This is the only place that answers the question. A job without a step (salloc, or between two steps) has no process and
no cgroup here, and a node without our hooks has no note of it. Only slurmctld knows such a job, so whoever changes
something under jobs asks slurmctld. A caller that destroys something treats "not told" as "a job runs here".
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, FrozenSet, Iterable, Iterator, List, Mapping, Set, Tuple

from ..core import declaration
from ..core.frozen import replaced
from ..core.host import Host
from ..core.processes import pids, uids
from ..core.resource import NodeError
from . import job_processes, places, this_node
from . import jobs as notes
from .client import Slurm
from .commands import NoSuchNode
from .running import ended, ended_among
from .types import SECTION, SLUID, Jobs

# slurmctld answers each in milliseconds; the next run asks for the rest.
_MOST_QUESTIONS = 50
# Not empty: a person said that the cluster is gone.
_GONE: List[bool] = []
_JOB = re.compile(r"job_([0-9]{1,10})|(" + SLUID + r")")
_STEP = re.compile(r"slurmstepd: \[([0-9]{1,10})[.\]]")


def slurm_of(host: Host, declared: Mapping[str, Mapping[str, Any]]) -> Slurm:
    """The client, for the name that slurm.conf has for this node and the scontrol that was declared."""
    section = declared.get(SECTION) or {}
    return Slurm(host, this_node.here(host).node_name, str(section.get("scontrol") or "scontrol"))


@contextlib.contextmanager
def without_slurmctld() -> Iterator[None]:
    """For a person who says that the cluster is gone: within this, nobody here asks slurmctld or waits for it."""
    _GONE.append(True)
    try:
        yield
    finally:
        _GONE.pop()


def has_slurm(host: Host, slurm: Slurm) -> bool:
    """Whether jobs of Slurm can be here: its slurmd runs, or its commands exist."""
    return not _GONE and (bool(places.running(host)) or slurm.installed)


def here(host: Host) -> Jobs:
    """Without asking slurmctld, so that it can be looked at again right before something is removed."""
    noted = notes.all_of(host)
    names = {str(one.id) for one in noted}
    names |= set(_of_cgroups(host)) - {one.sluid for one in noted} | _of_steps(host)
    busy = frozenset(one.id for one in noted)
    over = frozenset(one.id for one in notes.over(host)) - busy
    return Jobs(frozenset(names), frozenset(one.uid for one in noted), True, over, processes(host))


def _of_cgroups(host: Host) -> Mapping[str, str]:
    """The name of the cgroup of each job, by the number of the job or its SLUID."""
    found = ((name, _JOB.fullmatch(name)) for name in job_processes.names(host))
    return {match.group(1) or match.group(2): name for name, match in found if match}


def unnoted(host: Host, but: notes.Running) -> FrozenSet[str]:
    """The jobs with a process in their cgroup of which there is no note, except this one. Their user is not known.
    The note is missing if /run was full when the job began."""
    known = {name for one in (*notes.all_of(host), but) for name in (str(one.id), one.sluid)}
    found = {job: name for job, name in _of_cgroups(host).items() if job not in known}
    return frozenset(
        job for job, name in found.items() if (job.isdigit() or but.sluid) and job_processes.members(host, name)
    )


def _of_steps(host: Host) -> Set[str]:
    found = ((pid, _STEP.match(words)) for pid, words in notes.steps(host))
    return {match.group(1) if match else "of process {0}".format(pid) for pid, match in found}


def look(host: Host, slurm: Slurm, asked: Iterable[int]) -> Tuple[Jobs, Tuple[str, ...]]:
    """With what slurmctld reports, and what it does not report, in sentences. ``asked``: jobs whose end is asked for.

    A note or an empty cgroup that a job left behind, because it ended without an epilog, does not count if slurmctld
    reports the end of the job.
    """
    found = here(host)
    if not has_slurm(host, slurm):
        return found, ()
    try:
        holders = slurm.holders()
    except NodeError as error:
        if _no_node(host, slurm):
            return found, ()
        return replaced(found, told=False), (str(error),)
    held = {job for job, dummy in holders}
    names = found.names - _left_behind(host, slurm, found.names - held) | held
    users = found.users | {uid for dummy, uid in holders if uid is not None}
    over = _ended(slurm, this_node.here(host).certain_name, asked, names)
    return replaced(found, names=names, users=users, ended=found.ended | over), ()


def may_answer(host: Host, slurm: Slurm) -> bool:
    """Whether jobs can start here, and slurmctld may answer a later run. Else what this node knows is all there is:
    nothing waits forever for an answer that never comes."""
    return not _GONE and bool(places.running(host)) and slurm.installed


def asked(host: Host) -> Jobs:
    """For a caller who takes something from jobs. ``told``: no later run can learn of more jobs.

    slurmctld is asked. If it does not answer and may answer a later run, any job may be here; if it never can, this
    node's own records are all there is."""
    slurm = slurm_of(host, declaration.read(host))
    found, _why = look(host, slurm, ())
    return replaced(found, told=not unknown(host, slurm, found))


def unknown(host: Host, slurm: Slurm, found: Jobs) -> bool:
    """Whether a job may be here that neither this node nor an answer of slurmctld shows: a later run learns it."""
    return not found.told and may_answer(host, slurm)


def _no_node(host: Host, slurm: Slurm) -> bool:
    """Slurm's commands exist here, slurmctld answers, and this machine is not a node of it."""
    if places.running(host):
        return False
    try:
        slurm.look()
    except NoSuchNode:
        return True
    except NodeError:
        return False
    return False


def _left_behind(host: Host, slurm: Slurm, claimed: FrozenSet[str]) -> FrozenSet[str]:
    if not claimed:
        return claimed
    cgroups = _of_cgroups(host)
    noted = [one for one in notes.running(host) if str(one.id) in claimed]
    over = {str(one.id) for one in ended_among(host, slurm, noted, _MOST_QUESTIONS)}
    alive = _of_steps(host) | {str(one.id) for one in notes.all_of(host)}
    empty = {job for job, name in cgroups.items() if job not in alive and not job_processes.members(host, name)}
    return claimed & frozenset(over | empty)


def _ended(slurm: Slurm, node: str, asked: Iterable[int], names: FrozenSet[str]) -> FrozenSet[int]:
    over: List[int] = []
    for job in sorted(one for one in set(asked) if str(one) not in names)[:_MOST_QUESTIONS]:
        try:
            if ended(slurm.job(job), job, node):
                over.append(job)
        except NodeError:
            break  # the next one would wait as long
    return frozenset(over)


def processes(host: Host) -> FrozenSet[int]:
    """Who has a process here, by any of its four user numbers."""
    return frozenset(uid for pid in pids(host) for uid in uids(host, pid))
