# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the topology of what was read; no I/O."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Set, Tuple

from ...core.frozen import frozen, replaced
from ..sysfs import InfinibandDevice, NvmeController, PciFunction, normalise_pci_address, pci_key
from ..sysfs_numa import CacheGroup, Cpus, NodeReading
from .nearest import fabric, pair
from .types import CpuSummary, Gpu, GpuReading, Infiniband, NumaNode, Nvme, Package, Placement, Topology


@frozen
class Reading:
    """Everything from sysfs and /proc. ``gpus`` are the PCI functions that are GPUs, whatever NVML says."""

    cpus: Cpus
    nodes: Tuple[NodeReading, ...]
    memory_bytes: Optional[int]
    gpus: Tuple[PciFunction, ...]
    nvswitches: Tuple[str, ...]
    infiniband: Tuple[InfinibandDevice, ...]
    nvme: Tuple[NvmeController, ...]


def build(reading: Reading, gpus: Sequence[GpuReading] = (), gpus_reason: Optional[str] = None) -> Topology:
    """Join sysfs with NVML's answer by PCI address, place every device, and find its nearest partners."""
    nodes = _nodes(reading)
    found_gpus = _gpus(reading, gpus, nodes, gpus_reason)
    infiniband = [_infiniband(device, nodes) for device in reading.infiniband]
    nvme = [_nvme(controller, nodes) for controller in reading.nvme]

    distances = {(node.id, other): distance for node in nodes for other, distance in node.distances}
    placed_gpus = [(one.name, one.placement) for one in found_gpus]
    partners = fabric(infiniband, [one.placement for one in found_gpus])
    placed_infiniband = [(one.name, one.placement) for one in partners]
    placed_others = [(one.name, one.placement) for one in infiniband if one not in partners]
    placed_nvme = [(one.name, one.placement) for one in nvme]
    gpu_infiniband = pair(placed_gpus, placed_infiniband, distances)
    gpu_nvme = pair(placed_gpus, placed_nvme, distances)
    infiniband_gpu = pair(placed_infiniband, placed_gpus, distances)
    infiniband_gpu.update(pair(placed_others, placed_gpus, distances))
    infiniband_nvme = pair(placed_infiniband, placed_nvme, distances)
    infiniband_nvme.update(pair(placed_others, placed_nvme, distances))
    nvme_gpu = pair(placed_nvme, placed_gpus, distances)
    nvme_infiniband = pair(placed_nvme, placed_infiniband, distances)

    return Topology(
        cpus=_summary(reading.cpus),
        memory_bytes=reading.memory_bytes,
        packages=_packages(reading.cpus, nodes),
        numa_nodes=nodes,
        gpus=tuple(
            replaced(one, nearest_infiniband=gpu_infiniband.get(one.name), nearest_nvme=gpu_nvme.get(one.name))
            for one in found_gpus
        ),
        infiniband=tuple(
            replaced(one, nearest_gpu=infiniband_gpu.get(one.name), nearest_nvme=infiniband_nvme.get(one.name))
            for one in infiniband
        ),
        nvme=tuple(
            replaced(one, nearest_gpu=nvme_gpu.get(one.name), nearest_infiniband=nvme_infiniband.get(one.name))
            for one in nvme
        ),
        nvswitches=reading.nvswitches,
        gpus_reason=gpus_reason,
        notes=_notes(reading, nodes, found_gpus),
    )


# Processors and memory --------------------------------------------------------------------------------


def _summary(cpus: Cpus) -> CpuSummary:
    groups = tuple(sorted({place.siblings for place in cpus.places}))
    return CpuSummary(
        present=cpus.present,
        online=cpus.online,
        offline=cpus.offline,
        isolated=cpus.isolated,
        cores=len(groups),
        threads_per_core=max((len(group) for group in groups), default=1),
        sibling_groups=groups,
    )


def _nodes(reading: Reading) -> Tuple[NumaNode, ...]:
    if not reading.nodes:
        whole = NodeReading(0, reading.cpus.online, reading.memory_bytes, ())
        return (_node(whole, reading.cpus, inferred=True),)
    return tuple(_node(node, reading.cpus, inferred=False) for node in sorted(reading.nodes, key=lambda node: node.id))


def _node(node: NodeReading, cpus: Cpus, inferred: bool) -> NumaNode:
    members = tuple(sorted(set(node.cpus) & set(cpus.online)))
    kind = {
        (True, True): "cpus_and_memory",
        (True, False): "cpus_only",
        (False, True): "memory_only",
        (False, False): "empty",
    }[bool(members), bool(node.memory_bytes)]
    mine = set(members)
    groups: List[CacheGroup] = []
    for group in cpus.l3_groups:
        # With sub-NUMA clustering one cache serves CPUs of several nodes; each node lists its own share.
        inside = tuple(cpu for cpu in group.cpus if cpu in mine)
        if inside:
            groups.append(replaced(group, cpus=inside))
    packages = {place.package for place in cpus.places if place.cpu in mine}
    return NumaNode(
        id=node.id,
        kind=kind,
        cpus=members,
        memory_bytes=node.memory_bytes,
        distances=node.distances,
        packages=tuple(sorted(one for one in packages if one is not None)),
        l3_groups=tuple(groups),
        inferred=inferred,
    )


def _packages(cpus: Cpus, nodes: Sequence[NumaNode]) -> Tuple[Package, ...]:
    members: Dict[Optional[int], List[int]] = {}
    cores: Dict[Optional[int], Set[Tuple[int, ...]]] = {}
    for place in cpus.places:
        members.setdefault(place.package, []).append(place.cpu)
        cores.setdefault(place.package, set()).add(place.siblings)
    return tuple(
        Package(
            id=package,
            cpus=tuple(sorted(members[package])),
            cores=len(cores[package]),
            numa_nodes=tuple(node.id for node in nodes if set(node.cpus) & set(members[package])),
        )
        for package in sorted(members, key=lambda one: -1 if one is None else one)
    )


# Devices ----------------------------------------------------------------------------------------------


def _place(
    function: Optional[PciFunction],
    nodes: Sequence[NumaNode],
    device_node: Optional[int] = None,
    device_cpus: Tuple[int, ...] = (),
    address: Optional[str] = None,
) -> Placement:
    """``device_node`` is what another sysfs file says, ``device_cpus`` what NVML says where sysfs says nothing."""
    node, source, reason = _numa(function, nodes, device_node, device_cpus)
    return Placement(
        pci_address=function.address if function else address,
        pcie_path=function.path if function else (),
        numa_node=node,
        numa_source=source,
        numa_reason=reason,
        virtual_function=bool(function and function.physical_function),
    )


def _numa(
    function: Optional[PciFunction], nodes: Sequence[NumaNode], device_node: Optional[int], device_cpus: Tuple[int, ...]
) -> Tuple[Optional[int], Optional[str], Optional[str]]:
    """The node, where it comes from, and why there is none."""
    known = function.numa_node if function and function.numa_node is not None else device_node
    if known is not None:
        return known, "sysfs", None
    with_cpus = [node for node in nodes if node.cpus]
    if len(with_cpus) == 1:
        return with_cpus[0].id, "only_node", None
    for source, cpus in (("local_cpulist", function.local_cpus if function else ()), ("nvml", device_cpus)):
        node = _node_of(cpus, with_cpus)
        if node is not None:
            return node, source, None
    if function is None:
        return None, None, "it is no PCI device, and the kernel tells no NUMA node for it"
    return None, None, "the firmware told the kernel no NUMA node for this PCI device (numa_node is -1)"


def _node_of(cpus: Tuple[int, ...], nodes: Sequence[NumaNode]) -> Optional[int]:
    """The one node whose CPUs these are; the list of a device that is near to all names the CPUs of several."""
    near = {node.id for node in nodes if set(node.cpus) & set(cpus)}
    return near.pop() if len(near) == 1 else None


def _unreported(function: PciFunction) -> str:
    if function.driver not in (None, "nvidia"):
        return "it was given to the driver {0}, so NVML cannot know it".format(function.driver)
    return "the PCI bus has it, NVML does not report it"


def _gpus(
    reading: Reading, gpus: Sequence[GpuReading], nodes: Sequence[NumaNode], gpus_reason: Optional[str]
) -> List[Gpu]:
    functions = {one.address: one for one in reading.gpus}
    found = []
    for gpu in gpus:
        address = normalise_pci_address(gpu.pci_address)
        function = functions.pop(address, None) if address else None
        found.append(
            Gpu(
                name=address or gpu.uuid or "gpu{0}".format(gpu.index),
                nvml=gpu.fault is None,
                index=gpu.index,
                uuid=gpu.uuid,
                product=gpu.name,
                pci_id=function.pci_id if function else None,
                driver=function.driver if function else None,
                memory_bytes=gpu.memory_bytes,
                memory_numa_node=gpu.memory_numa_node,
                fault=gpu.fault,
                placement=_place(function, nodes, device_cpus=gpu.cpus, address=address),
            )
        )
    for function in functions.values():
        # A virtual function is a slice of a GPU for a guest, no GPU of this machine, unless NVML says so.
        if function.physical_function:
            continue
        found.append(
            Gpu(
                name=function.address,
                nvml=False,
                index=None,
                uuid=None,
                product=None,
                pci_id=function.pci_id,
                driver=function.driver,
                memory_bytes=None,
                memory_numa_node=None,
                fault=None if gpus_reason else _unreported(function),
                placement=_place(function, nodes),
            )
        )
    return sorted(found, key=lambda gpu: (pci_key(gpu.placement.pci_address or ""), gpu.index or 0))


def _infiniband(device: InfinibandDevice, nodes: Sequence[NumaNode]) -> Infiniband:
    return Infiniband(
        name=device.name,
        node_guid=device.node_guid,
        firmware=device.firmware,
        netdevs=device.netdevs,
        ports=device.ports,
        placement=_place(device.function, nodes, device.numa_node),
    )


def _nvme(controller: NvmeController, nodes: Sequence[NumaNode]) -> Nvme:
    return Nvme(
        name=controller.name,
        model=controller.model,
        serial=controller.serial,
        firmware=controller.firmware,
        transport=controller.transport,
        state=controller.state,
        namespaces=controller.namespaces,
        placement=_place(controller.function, nodes, controller.numa_node),
    )


def _notes(reading: Reading, nodes: Sequence[NumaNode], gpus: Sequence[Gpu]) -> Tuple[str, ...]:
    notes = []
    if nodes[0].inferred:
        notes.append("This kernel knows no NUMA nodes; node 0 stands for the whole machine.")
    if reading.cpus.offline:
        notes.append("{0} CPU(s) are offline and belong to no node here.".format(len(reading.cpus.offline)))
    notes += ["GPU {0}: {1}.".format(gpu.name, gpu.fault.rstrip(".")) for gpu in gpus if gpu.fault]
    return tuple(notes)
