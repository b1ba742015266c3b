# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drawing of a node shows, whatever it is drawn with: boxes, cores, devices and what belongs together. Pure."""

from __future__ import annotations

from typing import List, Optional, Sequence, Set, Tuple

from ..core.frozen import frozen
from ..facts.sysfs import format_cpulist
from ..facts.topology import Topology
from ..facts.topology.types import Gpu, Infiniband, Nearest, NumaNode, Nvme
from .output import size


@frozen
class Device:
    """``name`` is short (GPU 2, mlx5_ib2), ``detail`` the rest; ``bad``: it does not answer or its link is down."""

    name: str
    detail: str
    bad: bool = False


@frozen
class Pair:
    """A GPU and its InfiniBand device. ``near``: they sit in the same box, so a line can join them."""

    gpu: Device
    infiniband: Optional[Device]
    near: bool


@frozen
class CoreGroup:
    """Cores that share a level-3 cache, or all of a node where none is known; each core with its CPUs."""

    cores: Tuple[Tuple[int, ...], ...]

    @property
    def cpu_list(self) -> str:
        return format_cpulist(cpu for core in self.cores for cpu in core)


@frozen
class Box:
    """One NUMA node with CPUs, or what sits on none."""

    title: str
    memory: Optional[str]
    cores: str
    cache: Optional[str]
    groups: Tuple[CoreGroup, ...]
    pairs: Tuple[Pair, ...]
    infiniband: Tuple[Device, ...]
    nvme: Tuple[Device, ...]


@frozen
class Frame:
    """A socket with its NUMA nodes; ``title`` None: boxes that no socket frames."""

    title: Optional[str]
    boxes: Tuple[Box, ...]


@frozen
class Sheet:
    title: str
    facts: Tuple[str, ...]
    frames: Tuple[Frame, ...]
    notes: Tuple[str, ...]


def sheet(topology: Topology, name: Optional[str] = None) -> Sheet:
    with_cpus = [node for node in topology.numa_nodes if node.cpus]
    known = {node.id for node in with_cpus}
    homeless = _box(topology, None, known)
    frames = list(_frames(topology, with_cpus, known))
    if homeless.pairs or homeless.infiniband or homeless.nvme:
        frames.append(Frame(None, (homeless,)))
    memory_only = [node for node in topology.numa_nodes if not node.cpus and node.memory_bytes]
    notes = []
    if memory_only:
        notes.append(
            "NUMA nodes of memory only: {0} ({1}{2})".format(
                format_cpulist(node.id for node in memory_only),
                size(memory_only[0].memory_bytes),
                " each" if len({node.memory_bytes for node in memory_only}) == 1 and len(memory_only) > 1 else "",
            )
        )
    if topology.gpus_reason and topology.gpus:
        notes.append(topology.gpus_reason)
    return Sheet(name or "this node", _facts(topology), tuple(frames), tuple(notes) + topology.notes)


def _facts(topology: Topology) -> Tuple[str, ...]:
    threads = topology.cpus.threads_per_core
    cores = _count(topology.cpus.cores, "core")
    if threads > 1:
        cores += " with {0} threads".format(threads)
    facts = [_count(max(len(topology.packages), 1), "socket"), cores]
    if topology.memory_bytes:
        facts.append("{0} memory".format(size(topology.memory_bytes)))
    products = sorted({gpu.product for gpu in topology.gpus if gpu.product})
    if topology.gpus:
        facts.append(
            "{0} x {1}".format(len(topology.gpus), products[0])
            if len(products) == 1
            else _count(len(topology.gpus), "GPU")
        )
    if topology.nvswitches:
        facts.append(_count(len(topology.nvswitches), "NVSwitch", "NVSwitches"))
    return tuple(facts)


def _count(number: int, one: str, many: Optional[str] = None) -> str:
    return "{0} {1}".format(number, one if number == 1 else many or one + "s")


def _frames(topology: Topology, nodes: Sequence[NumaNode], known: Set[int]) -> List[Frame]:
    """Sockets frame their nodes where one has several; else its number stands in the title of its one node."""
    of_one = all(len(node.packages) == 1 for node in nodes)
    packages = sorted({package for node in nodes for package in node.packages})
    if of_one and len(nodes) > len(packages):
        return [
            Frame(
                "Socket {0}".format(package),
                tuple(_box(topology, node, known) for node in nodes if node.packages == (package,)),
            )
            for package in packages
        ]
    several = len(packages) > 1
    return [Frame(None, tuple(_box(topology, node, known, of_one and several) for node in nodes))]


def _box(topology: Topology, node: Optional[NumaNode], known: Set[int], socket_in_title: bool = False) -> Box:
    """``node`` None: the box of what sits on no node with CPUs."""

    def here(numa_node: Optional[int]) -> bool:
        return numa_node not in known if node is None else numa_node == node.id

    cards = {one.name: one for one in topology.infiniband}
    gpus = [one for one in topology.gpus if here(one.placement.numa_node)]
    own_cards = [one for one in topology.infiniband if here(one.placement.numa_node)]
    pairs = tuple(_pair(gpu, cards.get(_partner(gpu.nearest_infiniband)), own_cards) for gpu in gpus)
    joined = {pair.infiniband.name for pair in pairs if pair.infiniband is not None and pair.near}
    disks = tuple(_nvme(one) for one in topology.nvme if here(one.placement.numa_node))
    rest = tuple(_infiniband(one) for one in own_cards if one.name not in joined)
    if node is None:
        return Box("On no NUMA node", None, "", None, (), pairs, rest, disks)
    title = "whole machine" if node.inferred else "NUMA node {0}".format(node.id)
    if socket_in_title:
        title += ", socket {0}".format(node.packages[0])
    groups = _groups(topology, node)
    count = sum(len(group.cores) for group in groups)
    cores = "{0} ({1})".format(_count(count, "core"), format_cpulist(node.cpus))
    return Box(title, size(node.memory_bytes), cores, _cache(node), groups, pairs, rest, disks)


def _groups(topology: Topology, node: NumaNode) -> Tuple[CoreGroup, ...]:
    mine = set(node.cpus)
    cores = [tuple(cpu for cpu in core if cpu in mine) for core in topology.cpus.sibling_groups]
    cores = [core for core in cores if core]
    groups = [set(group.cpus) for group in node.l3_groups]
    found = [tuple(core for core in cores if core[0] in group) for group in groups]
    left = tuple(core for core in cores if not any(core[0] in group for group in groups))
    return tuple(CoreGroup(cores) for cores in [*found, left] if cores)


def _cache(node: NumaNode) -> Optional[str]:
    if not node.l3_groups:
        return None
    sizes = {group.size_bytes for group in node.l3_groups}
    each = size(min(one for one in sizes if one is not None)) if None not in sizes and len(sizes) == 1 else None
    each = None if each is None else each.replace(".0 ", " ")
    count = len(node.l3_groups)
    return " ".join(word for word in ("{0} x L3".format(count) if count > 1 else "L3", each) if word)


# Devices ----------------------------------------------------------------------------------------------


def _partner(nearest: Optional[Nearest]) -> str:
    return "" if nearest is None else nearest.name


def _pair(gpu: Gpu, card: Optional[Infiniband], own_cards: Sequence[Infiniband]) -> Pair:
    name = "GPU ?" if gpu.index is None else "GPU {0}".format(gpu.index)
    device = Device(name, gpu.placement.pci_address or gpu.uuid or "", gpu.fault is not None)
    # Two GPUs can have the same nearest card; the line goes to each of them.
    return Pair(device, None if card is None else _infiniband(card), card in own_cards)


def _infiniband(one: Infiniband) -> Device:
    rates = [port.rate_gigabits_per_second for port in one.ports if port.rate_gigabits_per_second]
    layer = {port.link_layer for port in one.ports}
    words = ["{0:g} Gb/s".format(max(rates)) if rates else ""]
    if layer and "InfiniBand" not in layer:
        words.append(str(min(str(name) for name in layer)))
    down = bool(one.ports) and not any(port.state == "ACTIVE" for port in one.ports)
    return Device(one.name, " ".join(word for word in words + (["DOWN"] if down else []) if word), down)


def _nvme(one: Nvme) -> Device:
    sizes = [space.size_bytes for space in one.namespaces if space.size_bytes]
    detail = (size(sum(sizes)) or "") if sizes else ""
    return Device(one.name, detail, one.state not in (None, "live"))
