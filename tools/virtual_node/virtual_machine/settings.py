# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of one virtual node: names, defaults, meaning, and the check of what a user gives."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from .progress import VirtualNodeError

SUITES = ("bookworm", "trixie")
MIB = 1024 * 1024
_UNITS = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB}
_SIZE = re.compile(r"^(\d+)\s*([KMGT]?)(i?B)?\Z", re.IGNORECASE)
_NAME = re.compile(r"^[a-z][a-z0-9-]{0,40}\Z")
_MODEL = re.compile(r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}\Z")


def _setting(default: Any, meaning: str) -> Any:
    return dataclasses.field(default=default, metadata={"meaning": meaning})


@dataclasses.dataclass(frozen=True)
class Settings:
    suite: str = _setting("bookworm", "Debian suite of the guest: bookworm or trixie")
    cpus: int = _setting(4, "virtual CPUs, spread over the NUMA nodes (2 to 32)")
    numa_nodes: int = _setting(4, "NUMA nodes (1 to 8)")
    memory: int = _setting(4096 * MIB, "memory, spread over the NUMA nodes (at least 512M and 128M a NUMA node)")
    nvme_count: int = _setting(8, "local NVMe disks, serials TYSCRATCH0 … (0 to 16)")
    nvme_size: int = _setting(1024 * MIB, "size of each local NVMe disk (32M to 16T; sparse on the host)")
    nvme_model: str = _setting("", "model string of the local disks; empty: QEMU's own, `QEMU NVMe Ctrl`")
    remote_nvme: str = _setting("", "model string of one more NVMe disk, serial TYREMOTE0; empty: no such disk")
    gpus: int = _setting(8, "PCI stand-ins for GPUs (0 to 16)")
    machine: str = _setting("nd96asr_v4", "machine description of the NVML simulator; `none` leaves it out")
    initramfs: str = _setting(
        "quick", "`quick`, or `debian`: Debian's own, which assembles arrays before the root disk is mounted"
    )
    root_size: int = _setting(4096 * MIB, "size of the root disk (2G to 64G; sparse on the host)")
    lan: str = _setting(
        "", "address of a second interface on a network that the nodes of a run share, as 192.168.77.1/24; empty: none"
    )

    @classmethod
    def meanings(cls) -> Dict[str, str]:
        return {field.name: field.metadata["meaning"] for field in dataclasses.fields(cls)}

    def to_dict(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def serials(self) -> Sequence[str]:
        return ["TYSCRATCH{0}".format(number) for number in range(self.nvme_count)]


def parse_size(text: str) -> int:
    match = _SIZE.match(text.strip())
    if not match:
        raise VirtualNodeError("size '{0}': not a size; write a number with K, M, G or T, as in 512M.".format(text))
    return int(match.group(1)) * _UNITS[match.group(2).upper()]


def check_name(name: str) -> str:
    if not _NAME.match(name):
        raise VirtualNodeError(
            "name '{0}': not usable as a host name; use a letter, then letters, digits and hyphens.".format(name)
        )
    return name


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise VirtualNodeError("setting {0}: '{1}' is not a whole number; give one.".format(name, text)) from None


def _between(name: str, value: int, low: int, high: int, shown: str) -> None:
    if not low <= value <= high:
        raise VirtualNodeError("setting {0}: {1} is out of range; give {2}.".format(name, value, shown))


def parse_settings(given: Sequence[str], machines: Path, base: Settings = Settings()) -> Settings:
    """Settings from ``key=value`` words, each checked. ``machines`` holds the simulator's machine descriptions."""
    meanings = Settings.meanings()
    changes: Dict[str, Any] = {}
    for word in given:
        name, separator, text = word.partition("=")
        if not separator or name not in meanings:
            raise VirtualNodeError(
                "setting '{0}': unknown; the settings are {1}.".format(word, ", ".join(sorted(meanings)))
            )
        if name in ("memory", "nvme_size", "root_size"):
            changes[name] = parse_size(text)
        elif name in ("cpus", "numa_nodes", "nvme_count", "gpus"):
            changes[name] = _whole_number(name, text)
        else:
            changes[name] = text.strip()
    settings = dataclasses.replace(base, **changes)
    check_settings(settings, machines)
    return settings


def _is_lan_address(text: str) -> bool:
    """A host of a private IPv4 network, other than the one that the first interface is in."""
    try:
        found = ipaddress.IPv4Interface(text)
    except ValueError:
        return False
    hosts = found.network.num_addresses > 2 and found.ip not in (found.network[0], found.network[-1])
    return hosts and found.is_private and not found.network.overlaps(ipaddress.IPv4Network("10.0.2.0/24"))


def check_settings(settings: Settings, machines: Path) -> None:
    if settings.suite not in SUITES:
        raise VirtualNodeError("setting suite: '{0}' is unknown; give {1}.".format(settings.suite, " or ".join(SUITES)))
    # For one CPU QEMU before 8.0 emulates no memory barriers, and commands to the NVMe disks get lost.
    _between("cpus", settings.cpus, 2, 32, "2 to 32")
    _between("numa_nodes", settings.numa_nodes, 1, 8, "1 to 8")
    least = max(512, 128 * settings.numa_nodes)
    _between("memory", settings.memory // MIB, least, 1024 * 1024, "{0}M or more".format(least))
    _between("nvme_count", settings.nvme_count, 0, 16, "0 to 16")
    _between("nvme_size", settings.nvme_size // MIB, 32, 16 * 1024 * 1024, "32M to 16T")
    _between("gpus", settings.gpus, 0, 16, "0 to 16")
    _between("root_size", settings.root_size // MIB, 2048, 65536, "2G to 64G")
    if settings.initramfs not in ("quick", "debian"):
        raise VirtualNodeError("setting initramfs: '{0}' is unknown; give quick or debian.".format(settings.initramfs))
    for name in ("nvme_model", "remote_nvme"):
        model = getattr(settings, name)
        if model and not _MODEL.match(model):
            raise VirtualNodeError(
                "setting {0}: '{1}' is not a model string; use up to 40 letters, digits, spaces, '.', '_', '-'.".format(
                    name, model
                )
            )
    if settings.lan and not _is_lan_address(settings.lan):
        raise VirtualNodeError(
            "setting lan: '{0}' is no private address with its network; write it as in 192.168.77.1/24.".format(
                settings.lan
            )
        )
    if settings.machine != "none" and machines.is_dir():
        known = sorted(path.stem for path in machines.glob("*.conf"))
        if known and settings.machine not in known:
            raise VirtualNodeError(
                "setting machine: '{0}' is unknown; give none or {1}.".format(settings.machine, ", ".join(known))
            )
