# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the RDMA devices, at what names them, and at what the libraries above them are told."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...core import declaration, managed_files, systemd
from ...core.host import Host
from ...facts import sysfs
from .options import Desired
from .types import SECTION, Device, Port, Setting, State

CLASS = "/sys/class/infiniband"
# Debian's and Ubuntu's older path is a link to the newer one, except on systems that were never merged.
_RENAME = ("/usr/lib/udev/rdma_rename", "/lib/udev/rdma_rename")
# Azure's HPC images bring it: mlx5_ibN and mlx5_anN by the order of ibdev2netdev.
_AZURE_NAME = "azure_persistent_rdma_naming.service"
# Which files a library reads itself, before what shells give to every program.
_SETTINGS = (
    ("NCCL_IB_PCI_RELAXED_ORDERING", ("/etc/nccl.conf",)),
    ("UCX_IB_PCI_RELAXED_ORDERING", ("/etc/ucx/ucx.conf",)),
)


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    files = managed_files.observe(host, desired.paths(), declared)
    if not desired.present:
        return State(devices=devices(host), files=files, declared=declared, ipoib_loaded=_ipoib(host))
    program = next((path for path in _RENAME if host.exists(path)), None)
    return State(
        devices=devices(host),
        files=files,
        declared=declared,
        rename_program=program,
        # Before rdma-core 34 it took no name.
        fixed_names=program is not None and "NAME_FIXED" in (host.read(program) or ""),
        azure_naming=systemd.is_enabled(host, _AZURE_NAME),
        ipoib_loaded=_ipoib(host),
        relaxed_ordering=tuple(_setting(host, name, own) for name, own in _SETTINGS),
    )


def devices(host: Host) -> Tuple[Device, ...]:
    """All RDMA devices in the order of their PCI addresses; soft ones last."""
    found = [_device(host, one) for one in sysfs.infiniband_devices(host)]
    return tuple(sorted(found, key=lambda one: (sysfs.pci_key(one.pci_address or ""), sysfs.natural(one.name))))


def _device(host: Host, device: sysfs.InfinibandDevice) -> Device:
    folder = "{0}/{1}".format(CLASS, device.name)
    return Device(
        name=device.name,
        pci_address=device.function.address if device.function else None,
        numa_node=device.numa_node,
        netdevs=device.netdevs,
        firmware=device.firmware,
        board_id=host.read_line(folder + "/board_id") or None,
        node_guid=device.node_guid,
        virtual_function=bool(device.function and device.function.physical_function),
        ports=tuple(_port(host, "{0}/ports/{1}".format(folder, port.number), port) for port in device.ports),
    )


def _port(host: Host, folder: str, port: sysfs.InfinibandPort) -> Port:
    gid = host.read_line(folder + "/gids/0")
    return Port(
        number=port.number,
        state=port.state,
        physical_state=port.physical_state,
        rate_gigabits_per_second=port.rate_gigabits_per_second,
        link_layer=port.link_layer,
        lid=sysfs.parse_int(host.read_line(folder + "/lid")) or None,
        gid=gid if gid and re.search("[1-9a-fA-F]", gid) else None,
    )


def _ipoib(host: Host) -> bool:
    return host.exists("/sys/module/ib_ipoib")


def _setting(host: Host, name: str, own: Tuple[str, ...]) -> Setting:
    profile = ["/etc/profile.d/" + one for one in host.names("/etc/profile.d") if one.endswith(".sh")]
    for path in [*own, "/etc/environment", *profile]:
        value = _value(host.read(path), name)
        if value is not None:
            return Setting(name, value, path)
    return Setting(name)


def _value(text: Optional[str], name: str) -> Optional[str]:
    """What the last line that sets it says."""
    pattern = r"^[ \t]*(?:export[ \t]+)?{0}[ \t]*=[ \t]*[\"']?([^\"'\s#]*)".format(re.escape(name))
    values: List[str] = re.findall(pattern, text or "", re.MULTILINE)
    return values[-1] if values else None
