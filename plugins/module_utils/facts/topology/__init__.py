# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hangs on which NUMA node: processors, memory, GPUs, InfiniBand ports and NVMe disks.

Front ends use :func:`look` and :func:`to_dict`; :func:`observe` and :func:`build` take NVML's answer as an argument.
"""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from ...core.host import Host
from .. import sysfs, sysfs_numa
from ..nvml import pci
from ..nvml.session import CALL_TIMEOUT_SECONDS
from . import gpus
from .build import Reading, build
from .types import GpuReading, Topology, to_dict

NVIDIA = 0x10DE
NVSWITCH_CLASS = 0x0680  # PCI class "other bridge"

__all__ = ["GpuReading", "Reading", "Topology", "build", "look", "observe", "read", "to_dict"]


def read(host: Host, gpu_addresses: Sequence[str] = ()) -> Reading:
    """Everything that topology needs from sysfs and /proc. ``gpu_addresses``: where NVML says that GPUs are."""
    nvidia = sysfs.pci_functions(host, vendor=NVIDIA)
    return Reading(
        cpus=sysfs_numa.cpus(host),
        nodes=sysfs_numa.nodes(host),
        memory_bytes=sysfs_numa.memory_bytes(host),
        gpus=_functions(host, tuple(gpu.pci_address for gpu in pci.gpus(host)) + tuple(gpu_addresses)),
        nvswitches=tuple(one.address for one in nvidia if one.class_code >> 8 == NVSWITCH_CLASS),
        infiniband=sysfs.infiniband_devices(host),
        nvme=sysfs.nvme_controllers(host),
    )


def observe(host: Host, readings: Sequence[GpuReading] = (), gpus_reason: Optional[str] = None) -> Topology:
    """The topology of this machine; ``readings`` is NVML's answer, ``gpus_reason`` why there is none."""
    return build(read(host, [gpu.pci_address for gpu in readings if gpu.pci_address]), readings, gpus_reason)


def look(host: Host, ask_nvml: bool = True, call_timeout: float = CALL_TIMEOUT_SECONDS) -> Topology:
    """The topology of this machine, NVML asked or not. A machine without driver or GPU is an answer, not an error."""
    if not ask_nvml:
        return observe(host, (), gpus.NOT_ASKED)
    present = sysfs.parse_cpulist(host.read_line(sysfs_numa.CPUS + "/present"))
    found, reason = gpus.read(host, (max(present) if present else 0) + 1, call_timeout)
    return observe(host, found, reason)


def _functions(host: Host, addresses: Sequence[str]) -> Tuple[sysfs.PciFunction, ...]:
    unique = {sysfs.normalise_pci_address(address) for address in addresses}
    found = [sysfs.pci_function(host, address) for address in unique if address is not None]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: sysfs.pci_key(one.address)))
