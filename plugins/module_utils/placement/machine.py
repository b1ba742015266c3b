# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as placement sees it: the cores that may be used, NUMA node by NUMA node, and its GPUs."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple

from ..core.frozen import frozen
from ..facts.sysfs import natural
from ..facts.topology.nearest import fabric
from ..facts.topology.types import Gpu, Topology
from .types import RankGpu, Request

_FAR = 1000  # larger than any distance of the kernel (at most 254): it is not known


@frozen
class Core:
    """A physical core: its CPUs that may be used, and the number of its level-3 cache."""

    cpus: Tuple[int, ...]
    node: int
    l3: int


@frozen
class Node:
    """A NUMA node with cores that may be used, in the order of its caches."""

    id: int
    cores: Tuple[Core, ...]


@frozen
class Machine:
    """``nodes`` are those with cores to use. ``memory_nodes`` may give memory, system memory before that of devices.

    ``threads_per_core`` is what the cores that may be used have at most: a cpuset or a CPU that is offline takes a
    thread away from one of them, and some processors have cores of both kinds. ``gpus`` are those that answer;
    ``gpu_numbers`` are the numbers of all that are counted, and ``lost_gpus`` tells of each that does not answer in a
    sentence.
    """

    nodes: Tuple[Node, ...]
    distances: Dict[Tuple[int, int], int]
    memory_nodes: Tuple[int, ...]
    device_memory_nodes: Tuple[int, ...]
    threads_per_core: int
    numa: bool
    limited: bool
    gpus: Tuple[RankGpu, ...]
    gpu_numbers: Tuple[int, ...]
    lost_gpus: Tuple[str, ...]
    infiniband: Tuple[Tuple[str, Optional[int]], ...]

    @property
    def cores(self) -> Tuple[Core, ...]:
        return tuple(core for node in self.nodes for core in node.cores)

    def distance(self, one: int, other: int) -> int:
        return 0 if one == other else self.distances.get((one, other), _FAR)

    def node(self, number: Optional[int]) -> Optional[Node]:
        """The node with this number; None when it has no core to use."""
        return next((node for node in self.nodes if node.id == number), None)

    def nearest(self, number: int) -> Node:
        """The node with cores that is nearest to the node with this number."""
        return min(self.nodes, key=lambda node: (self.distance(number, node.id), node.id))


def machine(topology: Topology, request: Request) -> Machine:
    """What of the topology may be used for this request."""
    online = set(topology.cpus.online)
    allowed = online if request.allowed_cpus is None else online & set(request.allowed_cpus)
    nodes = _nodes(topology, allowed)
    answering, lost = _gpus(topology)
    counted = {gpu.index for gpu in topology.gpus if gpu.index is not None} | {gpu.index for gpu in answering}
    usable = set(request.allowed_memory_nodes) if request.allowed_memory_nodes is not None else None
    inferred = any(node.inferred for node in topology.numa_nodes)
    memory = [
        node for node in topology.numa_nodes if node.memory_bytes and not inferred and (not usable or node.id in usable)
    ]
    return Machine(
        nodes=nodes,
        distances={(node.id, other): far for node in topology.numa_nodes for other, far in node.distances},
        memory_nodes=tuple(node.id for node in memory if node.kind != "memory_only"),
        device_memory_nodes=tuple(node.id for node in memory if node.kind == "memory_only"),
        threads_per_core=max((len(core.cpus) for node in nodes for core in node.cores), default=1),
        numa=not inferred,
        limited=allowed != online,
        gpus=answering,
        gpu_numbers=tuple(sorted(counted)),
        lost_gpus=lost,
        infiniband=_infiniband(topology),
    )


def _nodes(topology: Topology, allowed: Set[int]) -> Tuple[Node, ...]:
    siblings = {cpu: group for group in topology.cpus.sibling_groups for cpu in group}
    numbers = _l3_numbers(topology)
    placed: Set[int] = set()
    nodes = []
    for node in sorted(topology.numa_nodes, key=lambda one: one.id):
        here = set(node.cpus) & allowed
        cores: List[Core] = []
        for cpu in sorted(here):
            if cpu in placed:
                continue
            cpus = tuple(sorted({one for one in siblings.get(cpu, ()) if one in here and one not in placed} | {cpu}))
            placed.update(cpus)
            cores.append(Core(cpus, node.id, numbers.get((node.id, cpu), -1)))
        if cores:
            nodes.append(Node(node.id, _by_cache(cores)))
    return tuple(nodes)


def _by_cache(cores: Sequence[Core]) -> Tuple[Core, ...]:
    """Cores of one cache beside each other, the caches in the order of their first core: hwloc's logical order."""
    first: Dict[int, int] = {}
    for core in cores:
        first.setdefault(core.l3, core.cpus[0])
    return tuple(sorted(cores, key=lambda core: (first[core.l3], core.cpus[0])))


def _l3_numbers(topology: Topology) -> Dict[Tuple[int, int], int]:
    """The number of the level-3 cache of each CPU of each node. One cache can serve several nodes (NPS4)."""
    groups: Dict[object, Tuple[int, List[Tuple[int, int]]]] = {}
    for node in topology.numa_nodes:
        for group in node.l3_groups:
            key: object = ("id", group.id) if group.id is not None else (node.id, group.cpus)
            first, members = groups.setdefault(key, (min(group.cpus, default=0), []))
            members += [(node.id, cpu) for cpu in group.cpus]
            groups[key] = (min([first, *group.cpus]), members)
    ordered = sorted(groups.values(), key=lambda one: one[0])
    return {member: number for number, (dummy, members) in enumerate(ordered) for member in members}


def _gpus(topology: Topology) -> Tuple[Tuple[RankGpu, ...], Tuple[str, ...]]:
    if any(gpu.nvml for gpu in topology.gpus):
        # What NVML does not show may belong to another job (a device cgroup), so only a fault is worth a word.
        found = sorted((gpu for gpu in topology.gpus if gpu.nvml), key=lambda gpu: gpu.index or 0)
        lost = tuple(
            "GPU {0} gets no rank: {1}".format(gpu.name, gpu.fault.rstrip("."))
            for gpu in topology.gpus
            if not gpu.nvml and gpu.fault and gpu.index is not None
        )
        numbers = [gpu.index or 0 for gpu in found]
    elif topology.gpus_reason is not None:
        found = [gpu for gpu in topology.gpus if gpu.driver in (None, "nvidia")]
        lost, numbers = (), list(range(len(found)))
    else:
        return (), tuple(
            "GPU {0} gets no rank: {1}".format(g.name, g.fault.rstrip(".")) for g in topology.gpus if g.fault
        )
    return tuple(_gpu(number, gpu) for number, gpu in zip(numbers, found)), lost


def _gpu(number: int, gpu: Gpu) -> RankGpu:
    return RankGpu(
        index=number,
        uuid=gpu.uuid,
        pci_address=gpu.placement.pci_address,
        numa_node=gpu.placement.numa_node,
        infiniband=gpu.nearest_infiniband.name if gpu.nearest_infiniband else None,
    )


def _infiniband(topology: Topology) -> Tuple[Tuple[str, Optional[int]], ...]:
    """The devices for ranks without a GPU, physical functions where there are any."""
    found = fabric(topology.infiniband, [gpu.placement for gpu in topology.gpus])
    physical = [one for one in found if not one.placement.virtual_function] or found
    return tuple((one.name, one.placement.numa_node) for one in sorted(physical, key=lambda one: natural(one.name)))
