# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this machine is virtual: what only bare metal has is not looked for there."""

from __future__ import annotations

import re
from typing import Optional

from ..core.host import Host
from .sysfs import dmi

# DMI names of virtual machines, each (vendor, product); from systemd, src/basic/virt.c, and our captured machines.
_NAMES = (
    (r"QEMU|KVM|VMware|VMW|innotek GmbH|Xen|Bochs|Parallels|BHYVE|OpenStack Foundation|Nutanix|Alibaba Cloud.*", r".*"),
    (r"Microsoft Corporation", r"Virtual Machine"),
    (r"Amazon EC2", r"(?!.*\.metal).*"),
    (r"Google", r"Google Compute Engine"),
    (r".*", r"KVM.*|OpenStack.*|VMware.*|VirtualBox|HVM domU|Standard PC.*"),
)
_FIRST_BYTES = 8192  # the first processor is enough; all of them take the kernel some milliseconds


def virtual(host: Host) -> Optional[bool]:
    """None: neither the firmware nor the processor tells."""
    told = dmi(host)
    vendor, product = told.get("sys_vendor", ""), told.get("product_name", "")
    if (vendor or product) and any(re.fullmatch(one, vendor) and re.fullmatch(other, product) for one, other in _NAMES):
        return True
    flags = _flags(host)
    if flags is not None and "hypervisor" in flags:  # CPUID leaf 1, ECX bit 31, which no real processor sets
        return True
    if host.exists("/sys/hypervisor/type") or host.exists("/proc/device-tree/hypervisor"):
        return True
    return False if vendor or flags is not None else None


def _flags(host: Host) -> Optional[frozenset[str]]:
    """Those of the first processor; None on machines that have no such line (Arm)."""
    try:
        with open(host.path("/proc/cpuinfo"), "rb") as stream:
            text = stream.read(_FIRST_BYTES).decode("ascii", "replace")
    except OSError:
        return None
    found = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    return None if found is None else frozenset(found.group(1).split())
