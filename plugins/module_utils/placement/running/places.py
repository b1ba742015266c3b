# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where CPUs sit, as the checks need it: number of a CPU → its core, its level-3 cache, its NUMA node."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...facts.topology import Topology


@frozen
class Places:
    """Cores and level-3 caches are numbered through the machine, in the order of their first CPUs.

    ``gpu_nodes``: by UUID and by PCI address of each GPU, the NUMA nodes with CPUs that are nearest to it: its own, or
    the next ones where its own has no CPU. None where its node is not known.
    """

    cores: Mapping[int, int]
    caches: Mapping[int, int]
    nodes: Mapping[int, int]
    gpu_nodes: Mapping[str, Optional[FrozenSet[int]]]

    @classmethod
    def of(cls, topology: Topology) -> Places:
        cores = {cpu: number for number, group in enumerate(topology.cpus.sibling_groups) for cpu in group}
        # A cache that serves two NUMA nodes is listed by both.
        caches: Dict[int, int] = {}
        numbers: Dict[Tuple[Optional[int], int], int] = {}
        groups = sorted((group for node in topology.numa_nodes for group in node.l3_groups), key=lambda one: one.cpus)
        for group in groups:
            key = (group.id, -1) if group.id is not None else (None, group.cpus[0])
            number = numbers.setdefault(key, len(numbers))
            caches.update((cpu, number) for cpu in group.cpus)
        gpu_nodes: Dict[str, Optional[FrozenSet[int]]] = {}
        for gpu in topology.gpus:
            for name in (gpu.uuid, gpu.placement.pci_address):
                if name is not None:
                    gpu_nodes[name] = _near(topology, gpu.placement.numa_node)
        return cls(
            cores=cores,
            caches=caches,
            nodes={cpu: node.id for node in topology.numa_nodes for cpu in node.cpus},
            gpu_nodes=gpu_nodes,
        )

    def cores_of(self, cpus: Iterable[int]) -> FrozenSet[int]:
        return frozenset(self.cores[cpu] for cpu in cpus if cpu in self.cores)

    def caches_of(self, cpus: Iterable[int]) -> FrozenSet[int]:
        return frozenset(self.caches[cpu] for cpu in cpus if cpu in self.caches)

    def nodes_of(self, cpus: Iterable[int]) -> FrozenSet[int]:
        return frozenset(self.nodes[cpu] for cpu in cpus if cpu in self.nodes)

    def cpus_of_cores(self, cores: Iterable[int]) -> Tuple[int, ...]:
        wanted = frozenset(cores)
        return tuple(sorted(cpu for cpu, core in self.cores.items() if core in wanted))

    def gpu_node(self, uuid: Optional[str], pci_address: Optional[str]) -> Optional[FrozenSet[int]]:
        found = self.gpu_nodes.get(uuid or "")
        return self.gpu_nodes.get(pci_address or "") if found is None else found


def _near(topology: Topology, node: Optional[int]) -> Optional[FrozenSet[int]]:
    with_cpus = {one.id for one in topology.numa_nodes if one.cpus}
    if node is None or node in with_cpus:
        return None if node is None else frozenset([node])
    found = next((dict(one.distances) for one in topology.numa_nodes if one.id == node), {})
    known = {other: far for other, far in found.items() if other in with_cpus}
    return frozenset(other for other, far in known.items() if far == min(known.values())) or None
