# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a node by names that last: the UUID of a GPU, the serial number of a disk, the GUID of a port.

Findings name a PCI address or a device, which another part has after a repair. Read from /proc and /sys alone.
"""

from __future__ import annotations

from typing import Dict, Mapping

from ..core.frozen import frozen
from ..core.host import Host
from ..facts.nvml import pci
from ..facts.sysfs import infiniband_devices, nvme_controllers
from ..slurm.gpus import identities

_WORD = 100


@frozen
class Part:
    """``kind``: gpu, disk, port, service (of systemd) or node. A part without a name that lasts has its place,
    ``at 0000:0b:00.0``, by which it is known on one machine."""

    kind: str
    name: str

    @property
    def lasts(self) -> bool:
        """Whether it is the same part on whatever machine."""
        return self.kind in ("gpu", "disk", "port") and not self.name.startswith("at ")


NODE = Part("node", "")
SERVICE = "service"


def look(host: Host) -> Mapping[str, Part]:
    """The part of each key that a finding may have."""
    found: Dict[str, Part] = {}
    for one in pci.gpus(host):
        found[one.pci_address] = Part("gpu", "at " + one.pci_address)
    for gpu in identities(host):
        if gpu.uuid and gpu.pci_address:
            found[gpu.pci_address] = found[gpu.uuid] = Part("gpu", gpu.uuid[:_WORD])
    for disk in nvme_controllers(host):
        part = Part("disk", disk.serial[:_WORD] if disk.serial else "at " + disk.name)
        found[disk.name] = part
        if disk.serial:
            found[disk.serial] = part
    for device in infiniband_devices(host):
        base = device.function.address if device.function else device.name
        guid = device.node_guid if device.node_guid and set(device.node_guid) - set("0:") else None
        for port in device.ports:
            key = base if port.number == 1 else "{0}/{1}".format(base, port.number)
            name = "at " + base if guid is None else guid
            found[key] = Part("port", name if port.number == 1 else "{0}/{1}".format(name, port.number))
    return found
