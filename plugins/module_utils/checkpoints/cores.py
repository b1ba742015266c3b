# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the cores of this node and at who runs on them: where azcopy may run beside a job."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional, Tuple

from ..core import processes
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..facts import topology
from ..placement import observe, spare
from ..placement.running.observe import cpus_allowed
from ..slurm.job_processes import job_pids


@frozen
class Cores:
    """``total``: of the node; ``cpus``: what azcopy may run on, ``spare`` cores of it. ``how`` in a few words."""

    total: int
    spare: int
    cpus: Optional[Tuple[int, ...]] = None
    how: str = ""


def look(host: Host, environment: Mapping[str, str], given: Optional[Tuple[int, ...]] = None) -> Cores:
    """``given``: the CPUs that a person named."""
    found = topology.look(host, ask_nvml=False)
    allowed = observe.allowed(host).cpus
    total = max(1, found.cpus.cores)
    if given is not None:
        known = set(found.cpus.online if allowed is None else allowed)
        if not known & set(given):
            thing = "CPUs {0}".format(",".join(map(str, given)))
            raise NodeError(thing, "this process may use none of them", "choose among those of 'gpunode topo'")
        cpus = tuple(sorted(known & set(given)))
        return Cores(total, len(cpus), cpus, "as given")
    job = environment.get("SLURM_JOB_ID", "")
    if not job:
        return Cores(total, total, None, "all, as this is in no job of Slurm")
    masks, unbound = _ranks(host, job, allowed if allowed is not None else found.cpus.online)
    if not masks and not unbound:
        return Cores(total, total, None, "all, as the job has no other process here")
    chosen = spare.spare(found, masks or [found.cpus.online], allowed)
    if chosen.shared:
        how = "the last core of each NUMA node, as the ranks may run on every core"
    else:
        how = "cores that no rank is bound to"
    return Cores(total, chosen.cores, chosen.cpus, how)


def _ranks(host: Host, job: str, allowed: Tuple[int, ...]) -> Tuple[List[Tuple[int, ...]], bool]:
    """The CPUs of each process of the job that is bound to a part of them, and whether there are others."""
    try:
        pids = job_pids(host, job)
    except NodeError:
        return [], False
    own = set(processes.ancestors(host, os.getpid()))
    masks, unbound = [], False
    for pid in pids:
        mask = () if pid in own else cpus_allowed(host, pid, pid)
        if mask and set(mask) < set(allowed):
            masks.append(mask)
        unbound = unbound or bool(mask and not set(mask) < set(allowed))
    return masks, unbound
