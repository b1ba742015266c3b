# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text formats of sysfs, and small readers of PCI functions, NVMe controllers, InfiniBand devices and DMI.

Nothing here fails: what the kernel does not say is None or empty, so the caller can tell why it is missing.
Processors and memory are in :mod:`.sysfs_numa`.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional, Set, Tuple

from ..core.frozen import frozen
from ..core.host import Host

_PCI_ADDRESS = re.compile(r"^([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_SIZE = r"^([0-9]+)\s*([kKmMgGtT]?)(?:i?[bB])?\Z"
_UNIT = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
# No machine has more; a longer list is damaged text, and a range of it could fill the memory.
_HIGHEST_CPU = 65535

PCI_DEVICES = "/sys/bus/pci/devices"
SECTOR_BYTES = 512  # /sys/block/*/size counts these, whatever the block size of the disk is


# Formats ----------------------------------------------------------------------------------------------


def parse_cpulist(text: Optional[str]) -> Tuple[int, ...]:
    """The numbers of ``0-3,8,10-11`` (also ``0-10:2/4``), sorted; empty for None or text of another kind."""
    numbers: Set[int] = set()
    for part in (text or "").strip().split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+)/(\d+))?)?", part.strip())
        if not found:
            continue
        first = int(found.group(1))
        last = int(found.group(2) or first)
        if last > _HIGHEST_CPU:
            continue
        used, group = int(found.group(3) or 1), int(found.group(4) or 1)
        numbers.update(number for number in range(first, last + 1) if group and (number - first) % group < used)
    return tuple(sorted(numbers))


def format_cpulist(numbers: Iterable[int]) -> str:
    """``0-3,8`` of the numbers 0, 1, 2, 3, 8."""
    ranges: List[List[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else "{0}-{1}".format(first, last) for first, last in ranges)


def parse_cpumask(text: Optional[str]) -> Tuple[int, ...]:
    """The numbers of ``000000ff,fff00000``: 32-bit words in hexadecimal, the highest first."""
    words = (text or "").strip().split(",")
    if not all(re.fullmatch(r"[0-9a-fA-F]{1,8}", word) for word in words):
        return ()
    value = int("".join(word.rjust(8, "0") for word in words), 16)
    return tuple(number for number in range(value.bit_length()) if value >> number & 1)


def parse_size(text: Optional[str]) -> Optional[int]:
    """Bytes of ``32768K``, ``131594100 kB`` or ``512``; None for anything else."""
    found = re.match(_SIZE, (text or "").strip())
    return int(found.group(1)) * _UNIT[found.group(2).lower()] if found else None


def parse_int(text: Optional[str]) -> Optional[int]:
    try:
        return int((text or "").strip(), 0)
    except ValueError:
        return None


def pci_key(address: str) -> Tuple[int, int, int, int]:
    """What to sort and compare PCI addresses by, however many digits their domain is written with."""
    found = _PCI_ADDRESS.match(address.strip())
    if not found:
        return (1 << 32, 0, 0, 0)
    domain, bus, device, function = (int(part, 16) for part in found.groups())
    return (domain, bus, device, function)


def normalise_pci_address(text: Optional[str]) -> Optional[str]:
    """``0001:00:00.0`` as sysfs writes it: lower case, at least four digits of domain (NVML writes eight; the
    domains of Intel VMD need five). None when it is no full PCI address."""
    if text is None or not _PCI_ADDRESS.match(text.strip()):
        return None
    domain, bus, device, function = pci_key(text)
    return "{0:04x}:{1:02x}:{2:02x}.{3:x}".format(domain, bus, device, function)


# PCI --------------------------------------------------------------------------------------------------


@frozen
class PciFunction:
    """One function. ``path`` leads from the root complex (``pci0000:00``) over the bridges to it, without itself."""

    address: str
    vendor: int
    device: int
    class_code: int
    numa_node: Optional[int]
    local_cpus: Tuple[int, ...]
    path: Tuple[str, ...]
    driver: Optional[str]
    physical_function: Optional[str]

    @property
    def pci_id(self) -> str:
        return "{0:04x}:{1:04x}".format(self.vendor, self.device)


def numa_node(host: Host, path: str) -> Optional[int]:
    """The content of a ``numa_node`` file; None where the kernel says -1 (it does not know) or nothing."""
    number = parse_int(host.read_line(path))
    return number if number is not None and number >= 0 else None


def pci_path(real_path: str) -> Tuple[str, ...]:
    """Root complex and PCI addresses among the folders of a device's real path in /sys/devices."""
    parts = []
    for part in real_path.split("/"):
        address = normalise_pci_address(part)
        if address is not None:
            parts.append(address)
        elif re.fullmatch(r"pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}", part):
            parts.append(part.lower())
    return tuple(parts)


def pci_function(host: Host, name: str) -> Optional[PciFunction]:
    """The function that sysfs knows by ``name``; None when there is none."""
    address = normalise_pci_address(name)
    folder = "{0}/{1}".format(PCI_DEVICES, name)
    if address is None or not host.exists(folder):
        return None
    path = pci_path(host.real_path(folder))
    # A copied tree may hold folders where sysfs has links; then the path is not known.
    path = path[:-1] if path and path[-1] == address else ()
    physical = folder + "/physfn"
    return PciFunction(
        address=address,
        vendor=parse_int(host.read_line(folder + "/vendor")) or 0,
        device=parse_int(host.read_line(folder + "/device")) or 0,
        class_code=parse_int(host.read_line(folder + "/class")) or 0,
        numa_node=numa_node(host, folder + "/numa_node"),
        local_cpus=parse_cpulist(host.read_line(folder + "/local_cpulist")),
        path=path,
        driver=_link_name(host, folder + "/driver"),
        physical_function=normalise_pci_address(_link_name(host, physical)),
    )


def pci_functions(host: Host, vendor: Optional[int] = None) -> Tuple[PciFunction, ...]:
    """All functions in the order of their addresses, or those of one vendor."""
    found = []
    for name in host.names(PCI_DEVICES):
        if vendor is not None and parse_int(host.read_line("{0}/{1}/vendor".format(PCI_DEVICES, name))) != vendor:
            continue
        function = pci_function(host, name)
        if function is not None:
            found.append(function)
    return tuple(sorted(found, key=lambda one: pci_key(one.address)))


def _link_name(host: Host, path: str) -> Optional[str]:
    return host.real_path(path).rsplit("/", 1)[-1] if host.exists(path) else None


def _device_function(host: Host, path: str) -> Optional[PciFunction]:
    """The PCI function that a class device's ``device`` link leads to, over a virtual device if need be."""
    if not host.exists(path):
        return None
    addresses = [part for part in host.real_path(path).split("/") if normalise_pci_address(part)]
    return pci_function(host, addresses[-1]) if addresses else None


# NVMe -------------------------------------------------------------------------------------------------


@frozen
class NvmeNamespace:
    """``name`` is the block device (``nvme0n1``), also where multi-path hides the path device ``nvme0c1n1``."""

    name: str
    size_bytes: Optional[int]
    logical_block_bytes: Optional[int]
    identifier: Optional[str]


@frozen
class NvmeController:
    """``function`` is None where there is no PCI function behind it (loop, TCP, RDMA)."""

    name: str
    model: Optional[str]
    serial: Optional[str]
    firmware: Optional[str]
    transport: Optional[str]
    state: Optional[str]
    numa_node: Optional[int]
    function: Optional[PciFunction]
    namespaces: Tuple[NvmeNamespace, ...]


def nvme_controllers(host: Host) -> Tuple[NvmeController, ...]:
    """All NVMe controllers, by their number."""
    folder = "/sys/class/nvme"
    names = [name for name in host.names(folder) if re.fullmatch(r"nvme\d+", name)]
    return tuple(_nvme(host, "{0}/{1}".format(folder, name), name) for name in sorted(names, key=natural))


def _nvme(host: Host, folder: str, name: str) -> NvmeController:
    transport = host.read_line(folder + "/transport")
    # Only a PCIe controller is where its device is: a fabrics controller hangs below a virtual device.
    function = _device_function(host, folder + "/device") if transport in (None, "", "pcie") else None
    namespaces = [_namespace(host, folder, entry) for entry in host.names(folder)]
    return NvmeController(
        name=name,
        model=_text(host, folder + "/model"),
        serial=_text(host, folder + "/serial"),
        firmware=_text(host, folder + "/firmware_rev"),
        transport=transport or ("pcie" if function else None),
        state=_text(host, folder + "/state"),
        numa_node=function.numa_node if function else numa_node(host, folder + "/numa_node"),
        function=function,
        namespaces=tuple(sorted((one for one in namespaces if one), key=lambda one: natural(one.name))),
    )


def _namespace(host: Host, folder: str, entry: str) -> Optional[NvmeNamespace]:
    found = re.fullmatch(r"nvme(\d+)(?:c\d+)?n(\d+)", entry)
    if not found:
        return None
    name = "nvme{0}n{1}".format(*found.groups())
    block = "/sys/class/block/" + name
    path = block if host.exists(block) else "{0}/{1}".format(folder, entry)
    sectors = parse_int(host.read_line(path + "/size"))
    return NvmeNamespace(
        name=name,
        size_bytes=None if sectors is None else sectors * SECTOR_BYTES,
        logical_block_bytes=parse_int(host.read_line(path + "/queue/logical_block_size")),
        identifier=_text(host, path + "/wwid"),
    )


# InfiniBand -------------------------------------------------------------------------------------------


@frozen
class InfinibandPort:
    """``state`` and ``physical_state`` are the kernel's words (ACTIVE, LinkUp) without their numbers."""

    number: int
    state: Optional[str]
    physical_state: Optional[str]
    rate_gigabits_per_second: Optional[float]
    link_layer: Optional[str]


@frozen
class InfinibandDevice:
    """An RDMA device. Soft ones (rxe, siw) have no PCI function."""

    name: str
    node_guid: Optional[str]
    firmware: Optional[str]
    netdevs: Tuple[str, ...]
    numa_node: Optional[int]
    function: Optional[PciFunction]
    ports: Tuple[InfinibandPort, ...]


def infiniband_devices(host: Host) -> Tuple[InfinibandDevice, ...]:
    folder = "/sys/class/infiniband"
    names = sorted(host.names(folder), key=natural)
    return tuple(_infiniband(host, "{0}/{1}".format(folder, name), name) for name in names)


def _infiniband(host: Host, folder: str, name: str) -> InfinibandDevice:
    function = _device_function(host, folder + "/device")
    netdevs = host.names(folder + "/device/net")
    parent = _text(host, folder + "/parent")  # of a soft device: the network interface under it
    ports = [int(port) for port in host.names(folder + "/ports") if port.isdigit()]
    return InfinibandDevice(
        name=name,
        node_guid=_text(host, folder + "/node_guid"),
        firmware=_text(host, folder + "/fw_ver"),
        netdevs=tuple(sorted(netdevs or ([parent] if parent else []), key=natural)),
        numa_node=function.numa_node if function else numa_node(host, folder + "/device/numa_node"),
        function=function,
        ports=tuple(_port(host, "{0}/ports/{1}".format(folder, number), number) for number in sorted(ports)),
    )


def _port(host: Host, folder: str, number: int) -> InfinibandPort:
    rate = re.match(r"^([0-9.]+)\s*Gb/sec", host.read_line(folder + "/rate") or "")
    return InfinibandPort(
        number=number,
        state=_state(host.read_line(folder + "/state")),
        physical_state=_state(host.read_line(folder + "/phys_state")),
        rate_gigabits_per_second=_float(rate.group(1)) if rate else None,
        link_layer=_text(host, folder + "/link_layer"),
    )


def _state(text: Optional[str]) -> Optional[str]:
    """``4: ACTIVE`` → ``ACTIVE``."""
    return text.split(":", 1)[-1].strip() or None if text else None


def _float(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


# DMI --------------------------------------------------------------------------------------------------

DMI_FIELDS = (
    "sys_vendor",
    "product_name",
    "product_family",
    "board_vendor",
    "board_name",
    "chassis_asset_tag",
    "chassis_vendor",
)


def dmi(host: Host) -> Dict[str, str]:
    """What the firmware says that this machine is; fields it does not fill are left out."""
    found = ((field, _text(host, "/sys/class/dmi/id/" + field)) for field in DMI_FIELDS)
    return {field: text for field, text in found if text}


def _text(host: Host, path: str) -> Optional[str]:
    return host.read_line(path) or None


def natural(name: str) -> Tuple[Tuple[int, str], ...]:
    """Sort key that puts nvme2 before nvme10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)
