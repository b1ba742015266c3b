# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's topology file for one machine, from what was measured there. Pure.

The grammar is that of src/graph/xml.cc and topo.cc in NCCL: ``system``, ``cpu``, ``pci`` and what hangs below. A GPU's
own node (``gpu dev rank sm``), its NVLinks and the ``net`` of a network device are left out on purpose. NCCL fills them
in for each process, and written numbers are wrong in a job or container that has only some of the GPUs.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.managed_files import MARK
from ...facts.profile.schema import LINK_SPEEDS
from ...facts.sysfs import pci_key
from .machine import Device, Link, Machine
from .read_xml import LONGEST_VALUE

_BRIDGE_CLASS = 0x060400
_WORD_BITS = 32
_MOST_WORDS = 1024 // _WORD_BITS  # CPU_SETSIZE of glibc
# A switch that nobody can see must not be narrower than the devices below it: those bound the path by themselves.
_WIDEST = Link(32.0, 16)


@frozen
class Node:
    """An element ``pci`` and those inside it."""

    address: str
    class_code: int
    link: Link
    inside: Tuple["Node", ...] = ()


def cpu_mask(cpus: Iterable[int], highest_cpu: int) -> Optional[str]:
    """``00000000,0000ffff,ff000000``: words of 32 bits, the highest first, as the kernel writes them in sysfs.

    Above 896 CPUs NCCL's parser takes no such text, for its length. There the words go without their leading zeros, and
    those above the last CPU are left out: ncclStrToCpuset (src/include/cpuset.h) counts words from the end, and up to
    32 of them. None for a set that cannot be told so either.
    """
    value = sum(1 << cpu for cpu in set(cpus))
    for form, highest in (("{0:08x}", highest_cpu), ("{0:x}", 0)):
        count = max(highest, value.bit_length() - 1, 0) // _WORD_BITS + 1
        words = [(value >> _WORD_BITS * position) & 0xFFFFFFFF for position in reversed(range(count))]
        text = ",".join(form.format(word) for word in words)
        if len(text) <= LONGEST_VALUE and count <= _MOST_WORDS:
            return text
    return None


def build_xml(machine: Machine, switches: str = "none", link_speed: str = "") -> str:
    """The file; every device must have a NUMA node (:func:`unplaced`). See :class:`Desired` for the two options."""
    speed = float(link_speed) if link_speed else None
    lines = ["<!-- {0} Changes will be lost. Measured on this machine; fits no other. -->".format(MARK)]
    lines.append('<system version="1">')
    numbers = iter(range(1 << 12))
    cpus = dict(machine.nodes)
    homes = {machine.home(one) for one in machine.devices}
    for node in [one for one in sorted(cpus) if one in homes]:
        lines.append(_cpu(machine, node, cpus[node]))
        devices = [one for one in machine.devices if machine.home(one) == node]
        for element in _inside(machine, devices, switches, speed, numbers):
            _write(lines, element, 4)
        lines.append("  </cpu>")
    lines.append("</system>")
    return "\n".join(lines) + "\n"


def unplaced(machine: Machine) -> Tuple[str, ...]:
    """Devices that cannot be put below a NUMA node."""
    known = {node for node, dummy in machine.nodes}
    return tuple(one.address for one in machine.devices if machine.home(one) not in known)


def split_nodes(machine: Machine, switches: str) -> Tuple[int, ...]:
    """NUMA nodes of which ``pair`` can say nothing: there are not as many GPUs as network devices, so one is missing
    or this is a smaller machine, and nobody knows who shares a switch with whom."""
    if switches != "pair":
        return ()
    return tuple(
        node
        for node, dummy in machine.nodes
        for gpus, nics in [_halves([one for one in _free(machine.devices) if machine.home(one) == node])]
        if gpus and nics and len(gpus) != len(nics)
    )


def reasons(machine: Machine, switches: str = "none", link_speed: str = "") -> Tuple[str, ...]:
    """What a file would tell NCCL that sysfs does not tell it. Without any, NCCL is better off without a file."""
    found: List[str] = []
    if not machine.gpus:
        return ()
    with_cpus = [node for node, cpus in machine.nodes if cpus]
    hidden = [one.address for one in machine.devices if not one.told and one.numa_node is not None]
    if hidden and len(with_cpus) > 1:
        found.append("sysfs tells no NUMA node for {0}".format(", ".join(hidden)))
    for node, _dummy in machine.nodes:
        gpus, nics = _halves([one for one in _free(machine.devices) if machine.home(one) == node])
        if gpus and nics and switches != "none" and node not in split_nodes(machine, switches):
            found.append("GPUs and network devices of NUMA node {0} share PCIe switches that are hidden".format(node))
    slow = [one.address for one in machine.devices if one.link.speed is None]
    if slow and link_speed:
        found.append("sysfs tells no link speed for {0}".format(", ".join(slow)))
    return tuple(found)


def _cpu(machine: Machine, node: int, cpus: Sequence[int]) -> str:
    words = [("numaid", str(node))]
    affinity = cpu_mask(cpus, machine.highest_cpu)
    if affinity is not None:  # NCCL reads it from sysfs where the file has none
        words.append(("affinity", affinity))
    if machine.processor is not None:
        words.append(("arch", machine.processor.arch))
        if machine.processor.vendor is not None:
            words.append(("vendor", machine.processor.vendor))
            words.append(("familyid", str(machine.processor.family)))
            words.append(("modelid", str(machine.processor.model)))
    return "  <cpu {0}>".format(" ".join('{0}="{1}"'.format(*word) for word in words))


def _free(devices: Iterable[Device]) -> List[Device]:
    """Devices whose switches sysfs does not show, so that something can be said about them."""
    return [one for one in devices if not one.bridges]


def _halves(devices: Iterable[Device]) -> Tuple[List[Device], List[Device]]:
    every = sorted(devices, key=lambda one: pci_key(one.address))
    return [one for one in every if one.kind == "gpu"], [one for one in every if one.kind == "nic"]


def _inside(
    machine: Machine, devices: List[Device], switches: str, speed: Optional[float], numbers: Iterable[int]
) -> List[Node]:
    """The elements below one NUMA node, those of real bridges nested as they are."""
    free = _free(devices)
    gpus, nics = _halves(free)
    groups: List[List[Device]] = []
    if gpus and nics and switches == "numa_node":
        groups = [free]
    elif gpus and len(gpus) == len(nics) and switches == "pair":
        groups = [[gpu, nic] for gpu, nic in zip(gpus, nics)]
    grouped = {one.address for group in groups for one in group}
    elements = [_switch(next(iter(numbers)), group, speed) for group in groups]
    elements += [_leaf(one, speed) for one in free if one.address not in grouped]
    return elements + _nested(machine, [one for one in devices if one.bridges], 0, speed)


def _switch(number: int, group: List[Device], speed: Optional[float]) -> Node:
    """An address that no machine has, as in the files that Azure ships: NCCL finds nothing there to contradict."""
    address = "ffff:{0:02x}:{1:02x}.0".format(0xFF - number // 31, number % 31 + 1)
    leaves = tuple(_leaf(one, speed) for one in sorted(group, key=lambda one: pci_key(one.address)))
    known = [leaf.link.speed for leaf in leaves if leaf.link.speed is not None]
    return Node(address, _BRIDGE_CLASS, Link(max(known), 16) if len(known) == len(leaves) else _WIDEST, leaves)


def _leaf(device: Device, speed: Optional[float]) -> Node:
    link = device.link
    if link.speed is None and speed is not None:
        link = Link(speed, link.width or 16)
    return Node(device.address, device.class_code, link)


def _nested(machine: Machine, devices: List[Device], depth: int, speed: Optional[float]) -> List[Node]:
    bridges = {one.address: one for one in machine.bridges}
    below: Dict[str, List[Device]] = {}
    for one in devices:
        if len(one.bridges) > depth:
            below.setdefault(one.bridges[depth], []).append(one)
    elements = [_leaf(one, speed) for one in devices if len(one.bridges) == depth]
    for address, some in below.items():
        bridge = bridges[address]
        inside = tuple(_nested(machine, some, depth + 1, speed))
        elements.append(Node(address, bridge.class_code, bridge.link, inside))
    return sorted(elements, key=lambda one: pci_key(one.address))


def speed_text(speed: float) -> Optional[str]:
    """As NCCL spells it; None for one that it does not know, since it would count that as the third generation."""
    known = {float(one): one for one in LINK_SPEEDS}
    return "{0} GT/s PCIe".format(known[speed]) if speed in known else None


def _write(lines: List[str], element: Node, indent: int) -> None:
    words = [("busid", element.address), ("class", "0x{0:06x}".format(element.class_code))]
    speed = None if element.link.speed is None else speed_text(element.link.speed)
    if speed is not None:
        words.append(("link_speed", speed))
    if element.link.width is not None:
        words.append(("link_width", str(element.link.width)))
    text = "{0}<pci {1}".format(" " * indent, " ".join('{0}="{1}"'.format(*word) for word in words))
    if not element.inside:
        lines.append(text + "/>")
        return
    lines.append(text + ">")
    for one in element.inside:
        _write(lines, one, indent + 2)
    lines.append("{0}</pci>".format(" " * indent))
