# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a machine that NCCL's topology files speak of, and how NCCL itself would find them in sysfs."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...facts import sysfs, topology
from ...facts.topology import Topology
from ...facts.topology.nearest import fabric
from ...facts.topology.types import Placement

GPU = "gpu"
NIC = "nic"
_CLASS = {GPU: 0x030200, NIC: 0x020700}
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s")


@frozen
class Link:
    """The best that a device and the port above it can both do; None where sysfs does not tell."""

    speed: Optional[float] = None
    width: Optional[int] = None


@frozen
class Device:
    """A GPU or a network device. ``bridges``: those that NCCL makes nodes of, the upper one first.

    ``told``: sysfs names the NUMA node, so NCCL knows it as well.
    """

    kind: str
    address: str
    class_code: int
    numa_node: Optional[int]
    told: bool
    bridges: Tuple[str, ...] = ()
    link: Link = Link()


@frozen
class Bridge:
    address: str
    class_code: int
    numa_node: Optional[int]
    link: Link = Link()


@frozen
class Processor:
    """As NCCL names it; ``family`` and ``model`` only where it looks at them."""

    arch: str
    vendor: Optional[str] = None
    family: Optional[int] = None
    model: Optional[int] = None


@frozen
class Machine:
    """``nodes``: the NUMA nodes with their online CPUs. ``highest_cpu`` decides how many words a mask has."""

    nodes: Tuple[Tuple[int, Tuple[int, ...]], ...] = ()
    devices: Tuple[Device, ...] = ()
    bridges: Tuple[Bridge, ...] = ()
    processor: Optional[Processor] = None
    highest_cpu: int = 0

    def of_kind(self, kind: str) -> Tuple[Device, ...]:
        return tuple(one for one in self.devices if one.kind == kind)

    @property
    def gpus(self) -> Tuple[Device, ...]:
        return self.of_kind(GPU)

    @property
    def nics(self) -> Tuple[Device, ...]:
        return self.of_kind(NIC)

    def home(self, device: Device) -> Optional[int]:
        """The NUMA node that a device hangs on: NCCL asks the topmost bridge, since all below it goes through that."""
        if device.bridges:
            below = [one for one in self.devices if one.bridges[:1] == device.bridges[:1]]
            top = dict((one.address, one.numa_node) for one in self.bridges).get(device.bridges[0])
            return top if top is not None else below[0].numa_node
        return device.numa_node


def observe(host: Host) -> Machine:
    """From sysfs alone. NVML is not asked: NCCL joins its topology file with the PCI bus, and what NVML adds to that
    (numbers of devices, links, compute capability) NCCL asks for itself, in each process."""
    found = topology.look(host, ask_nvml=False)
    devices = tuple(
        sorted(
            [_device(host, GPU, one.placement) for one in found.gpus if one.driver in (None, "nvidia")]
            + [_device(host, NIC, one) for one in _nics(found)],
            key=lambda one: sysfs.pci_key(one.address),
        )
    )
    names = dict.fromkeys(name for one in devices for name in one.bridges)
    return Machine(
        nodes=tuple((node.id, node.cpus) for node in found.numa_nodes),
        devices=devices,
        bridges=tuple(_bridge(host, name) for name in names),
        processor=processor(host.read("/proc/cpuinfo")),
        highest_cpu=max(found.cpus.present, default=0),
    )


def _nics(found: Topology) -> List[Placement]:
    """The devices that the traffic of jobs goes over, by the rule of the topology. NCCL finds others by itself."""
    real = [one for one in found.infiniband if one.placement.pci_address and not one.placement.virtual_function]
    chosen = fabric(real, [one.placement for one in found.gpus])
    return list({one.placement.pci_address: one.placement for one in chosen}.values())


def _device(host: Host, kind: str, placement: Placement) -> Device:
    address = placement.pci_address or ""
    function = sysfs.pci_function(host, address)
    return Device(
        kind=kind,
        address=address,
        class_code=_display(kind, function.class_code if function else 0),
        numa_node=placement.numa_node,
        told=placement.numa_source == "sysfs",
        bridges=bridges(placement.pcie_path),
        link=_link(host, address),
    )


def _display(kind: str, class_code: int) -> int:
    """NCCL takes class 03 for a GPU and 02 for a network device; a stand-in of a virtual node has another."""
    return class_code if class_code >> 16 == _CLASS[kind] >> 16 else _CLASS[kind]


def bridges(path: Sequence[str]) -> Tuple[str, ...]:
    """The bridges above a device that become nodes. A switch is two of them in sysfs, its upper and its lower port,
    and NCCL climbs two at a time until only the root port is left (ncclTopoGetXmlFromSys in src/graph/xml.cc)."""
    rest = [one for one in path if not one.startswith("pci")]
    found: List[str] = []
    while len(rest) >= 2:
        found.insert(0, rest[-2])
        del rest[-2:]
    return tuple(found)


def _bridge(host: Host, address: str) -> Bridge:
    function = sysfs.pci_function(host, address)
    code = function.class_code if function else 0
    return Bridge(address, code or 0x060400, function.numa_node if function else None, _link(host, address))


def _link(host: Host, address: str) -> Link:
    folder = "{0}/{1}".format(sysfs.PCI_DEVICES, address)
    speeds = [_speed(host.read_line(path + "/max_link_speed")) for path in (folder, folder + "/..")]
    widths = [_width(host.read_line(path + "/max_link_width")) for path in (folder, folder + "/..")]
    # What the port above says limits the device; where the device itself says nothing, nothing is known.
    return Link(
        min(one for one in speeds if one is not None) if speeds[0] is not None else None,
        min(one for one in widths if one is not None) if widths[0] is not None else None,
    )


def _speed(text: Optional[str]) -> Optional[float]:
    found = _SPEED.match(text or "")
    return float(found.group(1)) if found else None


def _width(text: Optional[str]) -> Optional[int]:
    number = sysfs.parse_int(text)
    # 0 and 255 stand for "unknown".
    return number if number is not None and 1 <= number <= 32 else None


def processor(cpuinfo: Optional[str]) -> Optional[Processor]:
    """The first processor of /proc/cpuinfo. NCCL takes the family as the sum of CPUID's parts with the extended one
    shifted by four, so AMD's 23 (15 + 8) is 143 there; the kernel adds them plainly."""
    fields: Dict[str, str] = {}
    for line in (cpuinfo or "").splitlines():
        key, dummy, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    if "CPU implementer" in fields:
        return Processor("arm64")
    vendor, family = fields.get("vendor_id"), sysfs.parse_int(fields.get("cpu family"))
    model = sysfs.parse_int(fields.get("model"))
    if not vendor or family is None or model is None:
        return None
    return Processor("x86_64", vendor, family if family < 15 else 15 + ((family - 15) << 4), model)
