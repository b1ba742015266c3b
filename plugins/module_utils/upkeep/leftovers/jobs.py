# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs are on this node, and whose: by our record, cgroups, processes, and Slurm where it is there."""

from __future__ import annotations

import re
from typing import Any, FrozenSet, Iterable, List, Mapping, Set, Tuple

from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...running import slurm_job
from ...slurm import jobs as notes
from ...slurm import places, proc
from ...slurm.client import Slurm, found_program
from ...slurm.running import ended
from ...slurm.types import SECTION, SLUID
from .types import Jobs

# slurmctld answers each in milliseconds; the next run asks on.
_MOST_QUESTIONS = 50
_JOB = re.compile(r"job_([0-9]{1,10})|(" + SLUID + r")")


def slurm_of(host: Host, declared: Mapping[str, Mapping[str, Any]]) -> Slurm:
    """The client, for the name that slurm.conf has for this node and the scontrol that was declared."""
    section = declared.get(SECTION) or {}
    return Slurm(host, places.here(host).node_name, str(section.get("scontrol") or "scontrol"))


def has_slurm(host: Host, slurm: Slurm) -> bool:
    """Whether jobs of Slurm can be here: its slurmd runs, or its commands are there."""
    return bool(places.running(host)) or found_program(host, slurm.program) is not None


def here(host: Host) -> Jobs:
    """Without asking slurmctld, so that it can be looked again right before something is removed."""
    noted = notes.all_of(host)
    names: Set[str] = {str(one.id) for one in noted}
    known = {one.sluid for one in noted}
    for name in slurm_job.names(host):
        found = _JOB.fullmatch(name)
        if found and name not in known:
            names.add(found.group(1) or found.group(2))
    for _pid, words in proc.steps(host):
        found = re.match(r"slurmstepd: \[([0-9]{1,10})\.", words)
        names.add(found.group(1) if found else "of slurmstepd")
    busy = frozenset(one.id for one in noted)
    over = frozenset(one.id for one in notes.over(host)) - busy
    return Jobs(frozenset(names), frozenset(one.uid for one in noted), True, over, processes(host))


def look(host: Host, slurm: Slurm, asked: Iterable[int]) -> Tuple[Jobs, Tuple[str, ...]]:
    """With what slurmctld tells; ``asked``: jobs of which is to be known whether they are over. And what it does not
    tell, in sentences."""
    found = here(host)
    if not has_slurm(host, slurm):
        return found, ()
    try:
        holders = slurm.holders()
    except NodeError as error:
        return replaced(found, told=False), (str(error),)
    names = found.names | {job for job, dummy in holders}
    users = found.users | {uid for dummy, uid in holders}
    return replaced(found, names=names, users=users, ended=found.ended | _ended(slurm, asked, names)), ()


def _ended(slurm: Slurm, asked: Iterable[int], names: FrozenSet[str]) -> FrozenSet[int]:
    over: List[int] = []
    for job in sorted(one for one in set(asked) if str(one) not in names)[:_MOST_QUESTIONS]:
        try:
            if ended(slurm.job(job), job):
                over.append(job)
        except NodeError:
            break  # the next one would wait as long
    return frozenset(over)


def processes(host: Host) -> FrozenSet[int]:
    """Who has a process here, by any of its four user numbers."""
    found: Set[int] = set()
    for pid in host.names("/proc"):
        if pid.isdigit():
            line = re.search(r"^Uid:((?:\s+\d+)+)", host.read("/proc/{0}/status".format(pid)) or "", re.MULTILINE)
            found.update(int(one) for one in line.group(1).split()) if line else None
    return frozenset(found)
