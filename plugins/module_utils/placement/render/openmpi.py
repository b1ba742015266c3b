# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open MPI and HPC-X: a mapping (``ppr``) where Open MPI's own mapper comes to the same places, elsewhere the script
that binds each rank by its local number, and no binding by Open MPI.

``ppr:N:numa`` fills NUMA nodes in hwloc's order, and ``pe=M`` takes M whole cores after one another; 4.1 and 5.0 were
run on described machines. There is no rankfile: 4.1 copies a list of CPUs into an array of 64 characters (slot_list in
rmaps_rank_file.h) and aborts at a longer one, and 5.0 reads the kernel's CPU numbers as hwloc's.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ...facts.topology.types import NumaNode, Topology
from ..types import Placement
from .rendered import File, Rendered, gpu_notes, omp_threads, visible_devices
from .wrapper import path_of, script

ORDER = "numa"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    environment = omp_threads(placement) + visible_devices(placement)
    mapping = _mapping(placement, topology)
    words = mapping or ["--bind-to", "none"]
    for name, _value in environment:
        words += ["-x", name]
    files: Tuple[File, ...] = ()
    if mapping is None:
        files = (File(base + ".sh", script(placement, each_its_gpu=False), executable=True),)
        words.append(path_of(files[0]))
    return Rendered(
        launcher="openmpi",
        program="mpirun",
        count=("-np", str(len(placement.ranks))),
        arguments=tuple(words),
        environment=environment,
        files=files,
        notes=gpu_notes(placement),
    )


def _mapping(placement: Placement, topology: Topology) -> Optional[List[str]]:
    """The words of a mapping that gives exactly this placement; None when there is none."""
    nodes = _numa_nodes(topology)
    if placement.limited or nodes is None:
        return None
    ranks = placement.ranks
    per_node = sum(1 for rank in ranks if rank.home == ranks[0].home)
    if len(ranks) % per_node:  # Open MPI 5.0.11 ends at a last node with fewer (PMIX_ERR_UNPACK_INADEQUATE_SPACE)
        return None
    if placement.request.bind == "numa":
        wanted = [tuple(sorted(node.cpus)) for node in nodes for dummy in range(per_node)]
        words = ["--map-by", "ppr:{0}:numa".format(per_node), "--bind-to", "numa"]
    else:
        width = len(ranks[0].cores)
        wanted = _packed(topology, nodes, per_node, width)
        words = ["--map-by", "ppr:{0}:numa:pe={1}".format(per_node, width), "--bind-to", "core"]
    return words if wanted[: len(ranks)] == [rank.cpus for rank in ranks] else None


def _packed(topology: Topology, nodes: List[NumaNode], per_node: int, width: int) -> List[Tuple[int, ...]]:
    siblings = {cpu: group for group in topology.cpus.sibling_groups for cpu in group}
    wanted = []
    for node in nodes:
        cache = {cpu: min(group.cpus) for group in node.l3_groups for cpu in group.cpus}
        cores = sorted(
            {siblings.get(cpu, (cpu,)) for cpu in node.cpus}, key=lambda core: (cache.get(core[0], -1), core)
        )
        if len(cores) < per_node * width:
            return []
        wanted += [
            tuple(sorted(cpu for core in cores[place * width : (place + 1) * width] for cpu in core))
            for place in range(per_node)
        ]
    return wanted


def _numa_nodes(topology: Topology) -> Optional[List[NumaNode]]:
    """In hwloc's order: package by package, by the first CPU. None where some have no CPU: the mapper counts those."""
    if not all(node.cpus for node in topology.numa_nodes):
        return None
    first: Dict[int, int] = {}
    for node in topology.numa_nodes:
        for package in node.packages:
            first[package] = min(first.get(package, node.cpus[0]), node.cpus[0])
    return sorted(
        topology.numa_nodes,
        key=lambda node: (min((first[package] for package in node.packages), default=0), node.cpus[0]),
    )
