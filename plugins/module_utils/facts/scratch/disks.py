# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVMe disks of this machine by sysfs. No device is opened."""

from __future__ import annotations

import os
import re
from typing import List, Tuple

from ...core.host import Host


def disk_names(host: Host) -> List[str]:
    """Whole NVMe namespaces; the hidden path devices of native multipath (nvme0c0n1) are not among them."""
    return [name for name in host.names("/sys/block") if re.fullmatch(r"nvme\d+n\d+", name)]


def serial_of(host: Host, name: str) -> str:
    """The controller's serial number; further namespaces of the same controller get their number appended."""
    # No wwid instead: the kernel makes one of model and serial number where it has nothing better.
    serial = host.read_line("/sys/block/{0}/device/serial".format(name))
    if not serial:
        return ""
    number = host.read_line("/sys/block/{0}/nsid".format(name)) or "1"
    return " ".join(serial.split()) + ("" if number == "1" else "_n" + number)


def number(host: Host, path: str) -> int:
    text = (host.read_line(path) or "").split(" ")[0]
    return int(text) if text.isdigit() else 0


def size_bytes(host: Host, name: str) -> int:
    return number(host, "/sys/block/{0}/size".format(name)) * 512


def partitions(host: Host, name: str) -> Tuple[str, ...]:
    folder = "/sys/block/" + name
    return tuple(part for part in host.names(folder) if host.exists("{0}/{1}/partition".format(folder, part)))


def holders(host: Host, name: str) -> Tuple[str, ...]:
    """The block devices on top of it or of its partitions."""
    folders = ["/sys/block/{0}/holders".format(name)]
    folders += ["/sys/block/{0}/{1}/holders".format(name, part) for part in partitions(host, name)]
    return tuple(sorted({holder for folder in folders for holder in host.names(folder)}))


def transport(host: Host, name: str) -> str:
    folder = "/sys/block/{0}/device".format(name)
    # With native multipath the device is the subsystem, and its controllers are beneath it.
    paths = [folder] + ["{0}/{1}".format(folder, sub) for sub in host.names(folder) if re.fullmatch(r"nvme\d+", sub)]
    found = (host.read_line(path + "/transport") for path in paths)
    return next((text for text in found if text), "pcie")


def disks_under(host: Host, name: str, depth: int = 0) -> List[str]:
    """The disks under a partition, an array, a logical volume."""
    folder = "/sys/class/block/" + name
    if depth > 8:
        return [name]
    if host.exists(folder + "/partition"):
        return [os.path.basename(os.path.dirname(host.real_path(folder)))]
    slaves = host.names(folder + "/slaves")
    return [disk for slave in slaves for disk in disks_under(host, slave, depth + 1)] or [name]
