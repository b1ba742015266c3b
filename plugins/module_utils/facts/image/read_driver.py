# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read NVIDIA's driver, its kernel modules, DKMS and the kernels of an image."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Set, Tuple

from ...core.resource import NodeError
from .. import fabric, gpu_info
from ..nvml import pci
from . import elf
from .files import Files
from .loader import Loader
from .packages import Packages
from .types import OPEN, PROPRIETARY, Dkms, Driver
from .version import numbers

PACKAGES = (r"nvidia-fabric-?manager(?:-\d+)?", "nvlsm")
# Debian names the module nvidia-current, nvidia-tesla-470 and nvidia-legacy-390xx, with or without -open.
_MODULE = re.compile(
    r"^(\S*/)?nvidia(?:-(?:current|tesla(?:-\d+)?|legacy-\w+))?(?:-open)?\.ko(?:\.[a-z]+)?:", re.MULTILINE
)
# The driver container of the GPU operator mounts its root here while it runs.
_CONTAINER = "/run/nvidia/driver/usr/bin/nvidia-smi"
_PEERMEM = re.compile(r"^(\S*/)?(?:nvidia[-_]peermem|nv_peer_mem)\.ko(?:\.[a-z]+)?:", re.MULTILINE)
_LOADED = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)")
_SUFFIX = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
_MODINFO_MAX = 1 << 20
_GPUS = "/proc/driver/nvidia/gpus"
_FIRMWARE = re.compile(r"^GPU Firmware:\s*\d+\.\d", re.MULTILINE)
_CALL_SECONDS = 2.0


def driver(files: Files, loader: Loader, packages: Packages, kernel: Optional[str]) -> Driver:
    told = files.read("/proc/driver/nvidia/version") or ""
    found = _LOADED.search(told)
    loaded = files.line("/sys/module/nvidia/version") or (found.group(1) if found is not None else "") or None
    listed = modules(files, kernel)
    module_path = _of_kernel(_MODULE, listed, kernel)
    version, license_ = _modinfo(files, module_path)
    kind = None
    if told:
        kind = OPEN if "Open Kernel Module" in told else PROPRIETARY
    elif license_:
        kind = PROPRIETARY if license_ == "NVIDIA" else OPEN
    library = None
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        path = loader.find(name)
        suffix = _SUFFIX.search(files.real(path) or "") if path is not None else None
        if suffix is not None:
            library = suffix.group(1)
            break
    known = loaded or version or library
    manager = files.programs(("/usr/bin", "/usr/sbin"), "nv-fabricmanager")
    packaged = packages.version(PACKAGES[0])
    runs, manager_program = fabric.running_program(files.host)
    present = {line.split(" ", 1)[0] for line in (files.read("/proc/modules") or "").splitlines()}
    present |= {name for name in ("nouveau", "nvidia_peermem", "nv_peer_mem") if files.exists("/sys/module/" + name)}
    return Driver(
        loaded=loaded,
        module=version,
        module_path=module_path,
        library=library,
        kind=kind,
        firmware=known is not None and _firmware(files, known, kernel, loaded is not None and kind == OPEN),
        fabric_manager=upstream(packaged),
        fabric_manager_path=manager[0] if manager else None,
        persistenced=bool(files.programs(("/usr/bin", "/usr/sbin"), "nvidia-persistenced")),
        nouveau="nouveau" in present and not _nvidia_has_the_gpus(files),
        other_manager=runs and manager_program not in files.programs(("/usr/bin", "/usr/sbin"), "nv-fabricmanager"),
        contained=files.exists(_CONTAINER),
        peermem_loaded=bool({"nvidia_peermem", "nv_peer_mem"} & present),
        peermem_installed=_PEERMEM.search(listed) is not None,
    )


def _firmware(files: Files, version: str, kernel: Optional[str], ask: bool) -> bool:
    """Whether GSP firmware is there. A GPU that runs it is proof; the files may be elsewhere, as on NixOS or with the
    driver container of the GPU operator. ``ask``: ask NVML where nothing else shows it."""
    for address in files.names(_GPUS):
        told = _FIRMWARE.search(files.read("{0}/{1}/information".format(_GPUS, address)) or "")
        if told is not None:
            return True
    # The order of the kernel: drivers/base/firmware_loader/main.c, fw_path.
    given = files.line("/sys/module/firmware_class/parameters/path")
    places = [given] if given else []
    for name in ("updates/{0}".format(kernel), "updates", str(kernel), ""):
        places.append("/lib/firmware/" + name)
    folders = ["{0}/nvidia/{1}".format(place.rstrip("/"), version) for place in places]
    if any(name.startswith("gsp") for folder in folders for name in files.names(folder)):
        return True
    return ask and _runs_firmware(files)


def _runs_firmware(files: Files) -> bool:
    """A GPU that no program has opened shows its firmware to NVML alone."""
    try:
        found = gpu_info.gather(gpu_info.Options(groups=("board",), call_timeout_seconds=_CALL_SECONDS), files.host)
    except NodeError:
        return False
    return any(getattr(one.groups.get("board"), "gsp_firmware_version", None) for one in found.gpus)


def _nvidia_has_the_gpus(files: Files) -> bool:
    """A display card may belong to nouveau while NVIDIA's driver manages GPUs of other models."""
    ids: Dict[bool, Set[str]] = {True: set(), False: set()}
    for gpu in pci.gpus(files.host):
        if not pci.hands_over(gpu.driver):
            ids[gpu.driver == "nvidia"].add(_id(files, gpu.pci_address))
    return bool(ids[True]) and not ids[True] & ids[False]


def upstream(version: Optional[str]) -> Optional[str]:
    """The version of the thing in the version of its package: ``535.161.08-1`` is 535.161.08."""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return found.group(0) if found is not None else None


def modules(files: Files, kernel: Optional[str]) -> str:
    """The modules that a kernel has, a line each; empty where there are none."""
    if not kernel:
        return ""
    content = files.content("/lib/modules/{0}/modules.dep".format(kernel), 16 << 20)
    return "" if content is None else content.decode("utf-8", "replace")


def _of_kernel(pattern: re.Pattern[str], listed: str, kernel: Optional[str]) -> Optional[str]:
    found = pattern.search(listed)
    if found is None:
        return None
    path = found.group(0).rstrip(":")
    return path if path.startswith("/") else "/lib/modules/{0}/{1}".format(kernel, path)


def _modinfo(files: Files, path: Optional[str]) -> Tuple[Optional[str], str]:
    """Version and licence of a module; one that is compressed tells neither, as reading it whole takes too long."""
    real = files.real(path) if path is not None else None
    if real is None or not real.endswith(".ko"):
        return None, ""
    content = elf.section(files.host.path(real), ".modinfo", _MODINFO_MAX) or b""
    told: Dict[str, str] = {}
    for part in content.split(b"\0"):
        name, dummy, value = part.partition(b"=")
        told.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
    return told.get("version") or None, told.get("license", "")


# Kernels ----------------------------------------------------------------------------------------------


def next_kernel(files: Files, running: Optional[str]) -> Tuple[Optional[str], bool]:
    """The newest kernel that can be booted, and whether NVIDIA's module is there for it."""
    kernels = [name for name in files.names("/lib/modules") if files.exists("/boot/vmlinuz-" + name)]
    newest = max(kernels, key=_order, default=None)
    if newest is None:
        return running, True
    return newest, _MODULE.search(modules(files, newest)) is not None


def _order(kernel: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", kernel)[:6])


def dkms(files: Files, kernel: Optional[str]) -> Tuple[Dkms, ...]:
    """What DKMS is to build, each module in its newest version."""
    found: List[Dkms] = []
    listed = modules(files, kernel)
    # Those that are no part of the kernel itself.
    added: Set[str] = set(
        re.findall(
            r"^(?:\S*/)?(?:updates|extra|weak-updates)/(?:\S*/)?([\w-]+)\.ko(?:\.[a-z]+)?:", listed, re.MULTILINE
        )
    )
    for module in files.names("/var/lib/dkms"):
        folder = "/var/lib/dkms/" + module
        versions = [one for one in files.names(folder) if "source" in files.names(folder + "/" + one)]
        if not versions:
            continue
        version = max(versions, key=numbers)
        built = any(kernel in files.names(folder + "/" + one) for one in versions)
        conf = files.read("{0}/{1}/source/dkms.conf".format(folder, version)) or ""
        names = re.findall(r"^\s*BUILT_MODULE_NAME\[\d+\]=[\"']?([\w-]+)", conf, re.MULTILINE)
        found.append(Dkms(module, version, built or bool(added & set(names))))
    return tuple(found)


# Hardware that rules are about -----------------------------------------------------------------------------


def gpu_ids(files: Files) -> Tuple[str, ...]:
    """PCI ids of the GPUs that this machine keeps for itself, each once."""
    return tuple(
        sorted({_id(files, gpu.pci_address) for gpu in pci.gpus(files.host) if not pci.hands_over(gpu.driver)})
    )


def gpus_driven(files: Files) -> Tuple[str, ...]:
    """PCI IDs of the GPUs that the loaded driver has accepted: a GPU that it does not support has no directory
    there."""
    there = {gpu.pci_address for gpu in pci.gpus(files.host)}
    return tuple(sorted({_id(files, address) for address in files.names(_GPUS) if address in there}))


def _id(files: Files, address: str) -> str:
    device = files.host.read_line("{0}/{1}/device".format(pci.DEVICES, address)) or ""
    vendor = files.host.read_line("{0}/{1}/vendor".format(pci.DEVICES, address)) or ""
    return "{0}:{1}".format(vendor[2:].lower(), device[2:].lower())
