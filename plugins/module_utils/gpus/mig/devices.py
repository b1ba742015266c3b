# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device files of MIG instances.

Who may open /dev/nvidiaN and the capabilities of a GPU instance and of a compute instance has that instance (NVIDIA's
MIG user guide, "Device Nodes and Capabilities"). The driver names the capabilities in /proc; their files in /dev are
made by nvidia-modprobe, or by the first CUDA program of root, and are gone after a boot. slurmd ends when one that
gres.conf names is missing, so here they are made as nvidia-modprobe makes them (nvidia_cap_mknod).
"""

from __future__ import annotations

import os
import re
import stat
from typing import Dict, Iterable, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host, be_root
from ...core.resource import NodeError
from .types import Gpu

_FOLDER = "/proc/driver/nvidia/capabilities"
_FILES = "/dev/nvidia-caps"
_DRIVER = "look for NVRM lines in the kernel log"


@frozen
class Capability:
    """What the driver tells of one: the minor number and the mode of its device file, and whether to touch that."""

    minor: int
    mode: int = 0o444
    modify: bool = True

    @property
    def file(self) -> str:
        return "{0}/nvidia-cap{1}".format(_FILES, self.minor)


# By the ids of a GPU instance and of a compute instance in it; None: the GPU instance itself.
Capabilities = Dict[Tuple[int, Optional[int]], Capability]


def of_gpu(host: Host, gpu_minor: int) -> Capabilities:
    """What there is for the instances of /dev/nvidiaN; nothing on a machine whose driver has no MIG."""
    found: Capabilities = {}
    top = "{0}/gpu{1}/mig".format(_FOLDER, gpu_minor)
    for gi in _numbers(host, top, "gi"):
        folder = "{0}/gi{1}".format(top, gi)
        own = parse(host.read(folder + "/access"))
        if own is not None:
            found[gi, None] = own
        for ci in _numbers(host, folder, "ci"):
            inner = parse(host.read("{0}/ci{1}/access".format(folder, ci)))
            if inner is not None:
                found[gi, ci] = inner
    return found


def parse(text: Optional[str]) -> Optional[Capability]:
    """One file ``access`` of the driver. Pure."""
    told = dict(re.findall(r"^(\w+): ([0-9]{1,9})$", text or "", re.MULTILINE))
    if "DeviceFileMinor" not in told:
        return None
    return Capability(
        int(told["DeviceFileMinor"]), int(told.get("DeviceFileMode", 0o444)), told.get("DeviceFileModify", "1") != "0"
    )


def missing(host: Host, gpu_minor: int) -> Tuple[str, ...]:
    """The device files of this GPU's instances that are not there, or are not what they should be."""
    capabilities = of_gpu(host, gpu_minor)
    major = _major(host) if capabilities else None
    return tuple(one.file for one in capabilities.values() if one.modify and not _right(host, one, major))


def make(host: Host, gpu_minor: int) -> None:
    """Make those that are missing.

    :raises NodeError: one cannot be made, or the driver does not tell how.
    """
    files = missing(host, gpu_minor)
    if not files:
        return
    major = _major(host)
    if major is None:
        raise NodeError("/proc/devices", "it has no nvidia-caps, to which the files of MIG instances belong", _DRIVER)
    try:
        os.makedirs(host.path(_FILES), 0o755, exist_ok=True)
        for one in of_gpu(host, gpu_minor).values():
            if one.file in files:
                _make(host, one, os.makedev(major, one.minor))
    except OSError as error:
        reason = "the device files of MIG instances cannot be made ({0})".format(error.strerror or error)
        raise NodeError(_FILES, reason, be_root()) from error


def _make(host: Host, one: Capability, device: int) -> None:
    """It gets its name when all is right with it: whoever waits for it must not find it half made."""
    path, new = host.path(one.file), host.path(one.file + ".new")
    if os.path.lexists(new):
        os.unlink(new)
    os.mknod(new, stat.S_IFCHR | 0o600, device)
    os.chown(new, 0, 0)
    os.chmod(new, one.mode)
    os.rename(new, path)
    # Container runtimes look a device up by its numbers.
    link = host.path("/dev/char/{0}:{1}".format(os.major(device), one.minor))
    if not os.path.lexists(link) and os.path.isdir(os.path.dirname(link)):
        os.symlink("../" + one.file[len("/dev/") :], link)


def _right(host: Host, one: Capability, major: Optional[int]) -> bool:
    try:
        seen = os.lstat(host.path(one.file))
    except OSError:
        return False
    mine = stat.S_ISCHR(seen.st_mode) and stat.S_IMODE(seen.st_mode) == one.mode
    return mine and major is not None and seen.st_rdev == os.makedev(major, one.minor)


def _major(host: Host) -> Optional[int]:
    found = re.search(r"^\s*([0-9]+) nvidia-caps$", host.read("/proc/devices") or "", re.MULTILINE)
    return int(found.group(1)) if found else None


def _numbers(host: Host, folder: str, prefix: str) -> Tuple[int, ...]:
    names = [re.fullmatch(prefix + "([0-9]{1,4})", name) for name in host.names(folder)]
    return tuple(sorted(int(found.group(1)) for found in names if found))


@frozen
class InstanceFiles:
    """A MIG instance that a job can have: a compute instance. ``name``: ``3g.20gb``, or ``1c.3g.20gb`` of several.

    ``files``: the device files of the capabilities of its GPU instance and of itself.
    """

    name: str
    files: Tuple[str, str]


def instances_of(host: Host, gpu: Gpu) -> Optional[Tuple[InstanceFiles, ...]]:
    """Those of a GPU as mig_layout saw it; None: MIG is off, or a device file is not known."""
    if not gpu.mode or gpu.minor is None:
        return None
    return instances(tuple(named(gpu)), of_gpu(host, gpu.minor))


def instances(
    mig: Optional[Tuple[Tuple[int, int, str], ...]], files: Capabilities
) -> Optional[Tuple[InstanceFiles, ...]]:
    """In the order of /dev/nvidia-caps; None: MIG is off, or a device file is not known."""
    found = []
    for gi, ci, name in mig or ():
        if (gi, None) not in files or (gi, ci) not in files:
            return None
        outer, own = files[gi, None], files[gi, ci]
        found.append((own.minor, InstanceFiles(name, (outer.file, own.file))))
    return None if mig is None else tuple(instance for dummy, instance in sorted(found, key=lambda each: each[0]))


def named(gpu: Gpu) -> Iterable[Tuple[int, int, str]]:
    """Each compute instance with the name that people know it by: one that is its whole GPU instance has that name."""
    for instance in gpu.instances:
        profile = instance.placed.profile
        for compute in instance.compute:
            whole = compute.slices == profile.compute_slices
            yield instance.id, compute.id, profile.name if whole else "{0}c.{1}".format(compute.slices, profile.name)
