# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs that the PCI bus shows, with or without a driver: what tells "no GPU" from "no driver"."""

from __future__ import annotations

import os
from typing import FrozenSet, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
# PCI class 03 is "display controller": VGA (0300) and 3D (0302). NVSwitches are bridges (0680), and the audio
# function of a graphics card is class 0403.
DISPLAY = "0x03"
# Virtual machines whose GPUs are stand-ins list their PCI ids here, one VENDOR:DEVICE a line.
STAND_INS = "/etc/gpu_node/gpu_pci_ids"


def hands_over(driver: Optional[str]) -> bool:
    """Whether it holds a device for a guest: vfio-pci, its variants (nvgrace_gpu_vfio_pci), and those of Xen."""
    return driver is not None and ("vfio" in driver or driver in ("pci-stub", "pciback", "xen-pciback"))


@frozen
class PciGpu:
    """A PCI function that is a GPU. ``driver`` is the kernel driver bound to it, or None."""

    pci_address: str
    driver: Optional[str]

    @property
    def given_away(self) -> bool:
        """Whether it is bound to another driver on purpose (vfio-pci for a guest), so that NVML cannot know it."""
        return self.driver is not None and self.driver != "nvidia"


def gpus(host: Host) -> Tuple[PciGpu, ...]:
    """Every NVIDIA GPU on the PCI bus, by address."""
    stand_ins = _stand_ins(host)
    return tuple(
        PciGpu(address, driver(host, address)) for address in host.names(DEVICES) if _is_gpu(host, address, stand_ins)
    )


def _is_gpu(host: Host, address: str, stand_ins: FrozenSet[str]) -> bool:
    folder = os.path.join(DEVICES, address)
    vendor = host.read_line(os.path.join(folder, "vendor"))
    if vendor is None:
        return False
    if vendor.lower() == NVIDIA:
        return (host.read_line(os.path.join(folder, "class")) or "").startswith(DISPLAY)
    if not stand_ins:
        return False
    device = host.read_line(os.path.join(folder, "device")) or ""
    return "{0}:{1}".format(vendor.lower()[2:], device.lower()[2:]) in stand_ins


def driver(host: Host, address: str) -> Optional[str]:
    """The kernel driver that is bound to a device."""
    link = os.path.join(DEVICES, address, "driver")
    if not host.exists(link):
        return None
    return os.path.basename(host.real_path(link))


def _stand_ins(host: Host) -> FrozenSet[str]:
    lines = (host.read(STAND_INS) or "").splitlines()
    return frozenset(line.strip().lower() for line in lines if line.strip() and not line.startswith("#"))
