# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of a machine's topology: immutable, typed, and as plain data for results by :func:`to_dict`."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...core.frozen import frozen, plain
from ..sysfs import InfinibandPort, NvmeNamespace, format_cpulist
from ..sysfs_numa import CacheGroup


@frozen
class GpuReading:
    """What topology needs of NVML's answer about one GPU. ``fault`` is a sentence about one that did not answer.

    ``cpus`` is NVML's CPU affinity. ``memory_numa_node`` is nvmlDeviceGetNumaNodeId: the node that the GPU's own
    memory forms on coherent machines (GB200), never the node that the GPU is near to.
    """

    index: int
    uuid: Optional[str]
    name: Optional[str]
    pci_address: Optional[str]
    memory_bytes: Optional[int] = None
    cpus: Tuple[int, ...] = ()
    memory_numa_node: Optional[int] = None
    fault: Optional[str] = None


@frozen
class NumaNode:
    """``kind``: ``cpus_and_memory``, ``cpus_only``, ``memory_only`` or ``empty``.

    ``inferred`` is true for the one node that stands for the whole machine where the kernel has no NUMA.
    """

    id: int
    kind: str
    cpus: Tuple[int, ...]
    memory_bytes: Optional[int]
    distances: Tuple[Tuple[int, int], ...]
    packages: Tuple[int, ...]
    l3_groups: Tuple[CacheGroup, ...]
    inferred: bool


@frozen
class Package:
    """A socket. ``cores`` counts physical cores with a CPU that is online."""

    id: Optional[int]
    cpus: Tuple[int, ...]
    cores: int
    numa_nodes: Tuple[int, ...]


@frozen
class Placement:
    """Where a device sits. ``numa_source`` tells where the node comes from: ``sysfs``, ``local_cpulist``, ``nvml``
    or ``only_node``; ``numa_reason`` tells why there is none. ``pcie_path``: the root complex (``pci0000:00``) and the
    bridges above the device, without itself."""

    pci_address: Optional[str]
    pcie_path: Tuple[str, ...]
    numa_node: Optional[int]
    numa_source: Optional[str]
    numa_reason: Optional[str]
    virtual_function: bool = False


@frozen
class Nearest:
    """The partners of one kind that are nearest to a device.

    ``name`` is the one that the device is paired with, so that equal partners are shared out evenly; ``equally_near``
    are all that are as near. ``relation``: ``pcie`` (a common bridge), ``root_complex``, ``numa_node``,
    ``other_numa_node``, or ``unknown`` (one of the two has no known NUMA node). ``distance`` is the kernel's
    distance between the two NUMA nodes.
    """

    name: str
    equally_near: Tuple[str, ...]
    relation: str
    distance: Optional[int]


@frozen
class Gpu:
    """``nvml`` is false for a GPU that NVML does not report or that does not answer; ``fault`` tells what is wrong.

    ``name`` is its PCI address, or its UUID where NVML told no address.
    """

    name: str
    nvml: bool
    index: Optional[int]
    uuid: Optional[str]
    product: Optional[str]
    pci_id: Optional[str]
    driver: Optional[str]
    memory_bytes: Optional[int]
    memory_numa_node: Optional[int]
    fault: Optional[str]
    placement: Placement
    nearest_infiniband: Optional[Nearest] = None
    nearest_nvme: Optional[Nearest] = None


@frozen
class Infiniband:
    name: str
    node_guid: Optional[str]
    firmware: Optional[str]
    netdevs: Tuple[str, ...]
    ports: Tuple[InfinibandPort, ...]
    placement: Placement
    nearest_gpu: Optional[Nearest] = None
    nearest_nvme: Optional[Nearest] = None


@frozen
class Nvme:
    name: str
    model: Optional[str]
    serial: Optional[str]
    firmware: Optional[str]
    transport: Optional[str]
    state: Optional[str]
    namespaces: Tuple[NvmeNamespace, ...]
    placement: Placement
    nearest_gpu: Optional[Nearest] = None
    nearest_infiniband: Optional[Nearest] = None


@frozen
class CpuSummary:
    """``threads_per_core`` is the largest number of online CPUs that one core has (2 with SMT)."""

    present: Tuple[int, ...]
    online: Tuple[int, ...]
    offline: Tuple[int, ...]
    isolated: Tuple[int, ...]
    cores: int
    threads_per_core: int
    sibling_groups: Tuple[Tuple[int, ...], ...]


@frozen
class Topology:
    """``gpus_reason`` tells why NVML's side of the GPUs is missing, or is None."""

    cpus: CpuSummary
    memory_bytes: Optional[int]
    packages: Tuple[Package, ...]
    numa_nodes: Tuple[NumaNode, ...]
    gpus: Tuple[Gpu, ...]
    infiniband: Tuple[Infiniband, ...]
    nvme: Tuple[Nvme, ...]
    nvswitches: Tuple[str, ...]
    gpus_reason: Optional[str]
    notes: Tuple[str, ...]

    def gpu_numa(self) -> Tuple[Optional[int], ...]:
        """The NUMA node of each GPU in NVML's order, or by PCI address where NVML does not number all of them.

        On real machines the two orders are the same.
        """
        numbered = [(gpu.index, gpu) for gpu in self.gpus if gpu.index is not None]
        if len(numbered) == len(self.gpus):
            return tuple(gpu.placement.numa_node for dummy, gpu in sorted(numbered, key=lambda one: one[0]))
        return tuple(gpu.placement.numa_node for gpu in self.gpus)


def to_dict(topology: Topology) -> Dict[str, Any]:
    """As plain data. Lists of CPUs come twice: as numbers, and as the text that taskset and numactl take."""
    content = plain(topology)
    content["cpus"]["online_list"] = format_cpulist(topology.cpus.online)
    for row, node in zip(content["numa_nodes"], topology.numa_nodes):
        row["cpu_list"] = format_cpulist(node.cpus)
        row["distances"] = {str(other): distance for other, distance in node.distances}
    for name in ("gpus", "infiniband", "nvme"):
        for row in content[name]:
            row.update(row.pop("placement"))
    content["gpu_numa"] = list(topology.gpu_numa())
    result: Dict[str, Any] = content
    return result
