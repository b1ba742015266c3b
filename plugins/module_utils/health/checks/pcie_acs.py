# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI Access Control Services between GPUs and network devices: on bare metal they send each transfer to the processor.

Only ports of a switch that a GPU shares with another GPU or a network device matter. A virtual machine needs them, and
its host has set them.
"""

from __future__ import annotations

import struct
from typing import Dict, List, Optional, Set, Tuple, Union

from ...core.frozen import frozen
from ...core.host import Host, be_root
from ...core.resource import NodeError
from ...facts.sysfs import PCI_DEVICES, PciFunction, pci_functions
from ...facts.virtual import virtual
from ..data import pci_acs
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_NVIDIA = 0x10DE
_DISPLAY = 0x03  # linux/pci_ids.h, PCI_BASE_CLASS_DISPLAY
_REMEDY = (
    "switch ACS off in the firmware, or at each boot with 'setpci -s {0} ECAP_ACS+6.w=0000', and IOMMU to passthrough "
    "(iommu=pt)"
)


@frozen
class Port:
    """A port of a switch. ``redirects`` is what it sends to the root complex, empty for none."""

    address: str
    redirects: Tuple[str, ...]


def look(evidence: Evidence) -> Union[Tuple[Port, ...], str]:
    """A text says why there is nothing to look at."""
    host = evidence.host
    gpus = [one for one in pci_functions(host, _NVIDIA) if one.class_code >> 16 == _DISPLAY]
    if not gpus:
        return "this machine has no NVIDIA GPU on its PCI bus"
    shared = _shared(gpus, [one.function for one in evidence.infiniband if one.function is not None])
    if not shared:
        return "no GPU here shares a PCIe switch with another GPU or a network device"
    guest = virtual(host)
    if guest or guest is None:
        return "this is a virtual machine" if guest else "it is not known whether this is bare metal"
    if any(one.driver in pci_acs.OF_VIRTUAL_MACHINES for one in gpus):
        return "GPUs of this machine are given to virtual machines"
    return tuple(Port(address, _redirects(host, address)) for address in shared)


def _shared(gpus: List[PciFunction], nics: List[PciFunction]) -> Tuple[str, ...]:
    """The ports right above GPUs and network devices, below a switch that has a GPU and something else."""
    below: Dict[str, Set[str]] = {}
    paths = {one.address: one.path[1:] for one in (*gpus, *nics)}  # without the root complex
    for address, path in paths.items():
        # The first bridge is a root port; from the second on they are of switches.
        for bridge in path[1:]:
            below.setdefault(bridge, set()).add(address)
    names = {one.address for one in gpus}
    switches = {bridge for bridge, devices in below.items() if len(devices) > 1 and devices & names}
    ports: Dict[str, None] = {}
    for path in paths.values():
        for upper, lower in zip(path[1:], path[2:]):
            if upper in switches:
                ports[lower] = None
    return tuple(sorted(ports))


def _redirects(host: Host, address: str) -> Tuple[str, ...]:
    """:raises NodeError: the registers cannot be read."""
    path = "{0}/{1}/config".format(PCI_DEVICES, address)
    try:
        with open(host.path(path), "rb") as stream:
            config = stream.read(pci_acs.EXTENDED_BYTES)
    except OSError as error:
        raise NodeError(path, "it cannot be read ({0})".format(error.strerror), be_root()) from error
    if len(config) <= pci_acs.FIRST_EXTENDED:
        raise NodeError(path, "its extended registers are not shown", be_root())
    control = _control(config) or 0
    return tuple(name for bit, name in sorted(pci_acs.REDIRECTS.items()) if control & bit)


def _control(config: bytes) -> Optional[int]:
    """The control register of ACS, or None where the function has none. The list is as long as its places at most."""
    at, seen = pci_acs.FIRST_EXTENDED, set()
    while pci_acs.FIRST_EXTENDED <= at <= len(config) - 8 and at not in seen:
        seen.add(at)
        (header,) = struct.unpack_from("<I", config, at)
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == pci_acs.CAPABILITY:
            control: int = struct.unpack_from("<H", config, at + pci_acs.CONTROL)[0]
            return control
        at = header >> 20 & 0xFFC
    return None


def judge(seen: Union[Tuple[Port, ...], str], dummy: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    findings = tuple(
        Finding(
            Outcome.WARN,
            "PCIe port {0}".format(port.address),
            "access control (ACS) sends {0} between GPUs and network devices to the processor".format(
                " and ".join(port.redirects)
            ),
            _REMEDY.format(port.address),
            Remedy.CONFIGURE,
            Certainty.CERTAIN,
            port.address,
            "redirects",
        )
        for port in seen
        if port.redirects
    )
    return Judgement("{0} ports of switches".format(len(seen)), findings)


CHECKS = (Check("pcie_acs", "GPUs and network devices below a switch reach each other", Cost.PASSIVE, judge, look),)
