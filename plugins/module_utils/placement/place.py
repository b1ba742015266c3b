# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology and a request in, a placement out; or a refusal with the numbers that would work. No I/O."""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from ..facts.topology.types import Topology
from . import advise, refuse
from .machine import Core, Machine, machine
from .strategy import Shares, share_out, threads_of
from .types import Placement, Rank, RankGpu, Request


def place(topology: Topology, request: Request) -> Placement:
    """Cores, NUMA node, caches, GPU and InfiniBand device for each rank.

    :raises Refused: when the request cannot be placed on this machine.
    """
    here = machine(topology, request)
    gpus = refuse.check(here, request)
    shares = share_out(here, request, gpus)
    if shares is None:
        raise refuse.too_few_cores(here, request, gpus)
    ranks = _ranks(here, request, shares)
    used: Set[int] = {cpu for rank in ranks for core in rank.cores for cpu in core}
    return Placement(
        request=request,
        ranks=ranks,
        warnings=advise.warnings(here, request, shares, gpus),
        numa=here.numa,
        limited=here.limited,
        idle_cpus=tuple(sorted(cpu for core in here.cores if not used & set(core.cpus) for cpu in core.cpus)),
        all_gpus=here.gpu_numbers,
    )


def _ranks(here: Machine, request: Request, shares: Shares) -> Tuple[Rank, ...]:
    partners = _infiniband(here, shares)
    found = []
    for index, ((gpu, home), cores) in enumerate(zip(shares.homes, shares.cores)):
        threads = request.threads or threads_of(cores, shares.threads_used)
        if request.bind == "numa":
            nodes = {core.node for core in cores}
            cores = tuple(core for core in here.cores if core.node in nodes)
        found.append(_rank(here, index, threads, shares.threads_used, cores, home, gpu, partners[index]))
    return tuple(found)


def _rank(
    here: Machine,
    index: int,
    threads: int,
    threads_used: int,
    cores: Tuple[Core, ...],
    home: int,
    gpu: Optional[RankGpu],
    infiniband: Optional[str],
) -> Rank:
    masks = tuple(core.cpus[:1] if threads_used == 1 else core.cpus for core in cores)
    nodes = tuple(sorted({core.node for core in cores}))
    return Rank(
        index=index,
        cpus=tuple(sorted(cpu for mask in masks for cpu in mask)),
        cores=masks,
        threads=threads,
        home=home,
        numa_nodes=nodes,
        memory_nodes=_memory(here, nodes, home),
        l3_groups=tuple(sorted({core.l3 for core in cores if core.l3 >= 0})),
        gpu=gpu,
        infiniband=gpu.infiniband if gpu else infiniband,
    )


def _memory(here: Machine, nodes: Tuple[int, ...], home: int) -> Tuple[int, ...]:
    """The nodes of the mask that have memory, or else the nearest that has some. The memory of a GPU comes last."""
    own = tuple(node for node in nodes if node in here.memory_nodes)
    others = here.memory_nodes or here.device_memory_nodes
    if own or not others:
        return own
    return (min(others, key=lambda node: (here.distance(home, node), node)),)


def _infiniband(here: Machine, shares: Shares) -> List[Optional[str]]:
    """For ranks without a GPU: the nearest devices of each NUMA node, shared out among its ranks."""
    homes = [home for dummy, home in shares.homes]
    near: Dict[int, List[str]] = {}
    for home in set(homes):
        keyed = [(1000 if node is None else here.distance(home, node), name) for name, node in here.infiniband]
        best = min((key for key, dummy in keyed), default=0)
        near[home] = [name for key, name in keyed if key == best]
    found: List[Optional[str]] = []
    for place, home in enumerate(homes):
        names = near[home]
        found.append(names[homes[:place].count(home) * len(names) // homes.count(home)] if names else None)
    return found
