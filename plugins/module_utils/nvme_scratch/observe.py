# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the node. Nothing here writes: no cache, no lock, no event."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import grp
import os
import pwd
import re
import stat
from typing import Dict, List, Optional, Tuple

from .. import declaration
from ..host import Host
from ..resource import NodeError
from . import parse, record, superblock
from .desired import Desired
from .types import (
    FSTAB_PATH,
    RECORD_PATH,
    Array,
    Disk,
    Filesystem,
    Member,
    Mount,
    MountPoint,
    Record,
    Signature,
    State,
    canonical,
)

PROBE_TIMEOUT_SECONDS = 30.0


def disk_names(host: Host) -> List[str]:
    """Whole NVMe namespaces; the hidden path devices of native multipath (nvme0c0n1) are not among them."""
    return [name for name in host.names("/sys/block") if re.fullmatch(r"nvme\d+n\d+", name)]


def serial_of(host: Host, name: str) -> str:
    """The controller's serial number; further namespaces of the same controller get their number appended."""
    serial = host.read_line("/sys/block/{0}/device/serial".format(name)) or host.read_line(
        "/sys/block/{0}/wwid".format(name)
    )
    number = host.read_line("/sys/block/{0}/nsid".format(name)) or "1"
    return " ".join((serial or "").split()) + ("" if number == "1" else "_n" + number)


def _number(host: Host, path: str) -> int:
    text = (host.read_line(path) or "").split(" ")[0]
    return int(text) if text.isdigit() else 0


def _partitions(host: Host, name: str) -> Tuple[str, ...]:
    folder = "/sys/block/" + name
    return tuple(part for part in host.names(folder) if host.exists("{0}/{1}/partition".format(folder, part)))


def _holders(host: Host, name: str) -> Tuple[str, ...]:
    folders = ["/sys/block/{0}/holders".format(name)]
    folders += ["/sys/block/{0}/{1}/holders".format(name, part) for part in _partitions(host, name)]
    return tuple(sorted({holder for folder in folders for holder in host.names(folder)}))


def _transport(host: Host, name: str) -> str:
    folder = "/sys/block/{0}/device".format(name)
    # With native multipath the device is the subsystem, and its controllers are beneath it.
    paths = [folder] + ["{0}/{1}".format(folder, sub) for sub in host.names(folder) if re.fullmatch(r"nvme\d+", sub)]
    found = (host.read_line(path + "/transport") for path in paths)
    return next((text for text in found if text), "pcie")


def in_use(host: Host, path: str) -> bool:
    """Whether the kernel or a program holds the device. Opening it to read causes no event."""
    if host.root != "/":
        return False
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


def signatures(host: Host, path: str) -> Tuple[Signature, ...]:
    """All that libblkid recognises, asked of the device itself.

    :raises NodeError: when the device cannot be read.
    """
    done = host.run(["wipefs", "--no-act", "--parsable", path], PROBE_TIMEOUT_SECONDS)
    found = parse.wipefs(done.stdout)
    if found:
        return found
    # A second opinion before a disk counts as blank: status 2 is "nothing found", 8 is "more than one, ambivalent".
    done = host.run(["blkid", "--probe", "--output", "export", path], PROBE_TIMEOUT_SECONDS, accept=(0, 2, 8))
    if done.returncode == 2:
        return ()
    pairs = parse.export(done.stdout)
    kind = pairs.get("TYPE") or pairs.get("PTTYPE")
    if kind is None and done.returncode == 0:
        # Sizes of sectors alone (PTUUID and TYPE missing) are no content.
        return ()
    return (Signature(kind or "ambivalent content", canonical(pairs.get("UUID", "")) or None, pairs.get("LABEL")),)


def filesystem(host: Host, path: str) -> Optional[Filesystem]:
    try:
        with open(host.path(path), "rb", buffering=0) as stream:
            return superblock.read(stream.read(superblock.NEEDED_BYTES) or b"")
    except OSError:
        return None


def visible_disks(host: Host, desired: Desired) -> Tuple[Disk, ...]:
    """The NVMe disks as sysfs lists them; none of them is opened."""
    targets: Dict[str, str] = {device: os.path.basename(host.real_path(device)) for device in desired.devices}
    return tuple(
        Disk(
            name=name,
            serial=serial_of(host, name),
            model=" ".join((host.read_line("/sys/block/{0}/device/model".format(name)) or "").split()),
            size_bytes=_number(host, "/sys/block/{0}/size".format(name)) * 512,
            aliases=tuple(device for device, target in targets.items() if target == name),
        )
        for name in disk_names(host)
    )


def _probed(host: Host, seen: Disk, mounts: Tuple[Mount, ...], swaps: Tuple[str, ...]) -> Disk:
    name = seen.name
    partitions = _partitions(host, name)
    own = {name} | set(partitions)
    disk = dataclasses.replace(
        seen,
        transport=_transport(host, name),
        read_only=_number(host, "/sys/block/{0}/ro".format(name)) != 0,
        partitions=partitions,
        holders=_holders(host, name),
        mount_points=tuple(mount.mount_point for mount in mounts if mount.device in own),
        swap=any(os.path.basename(path) in own for path in swaps),
        busy=in_use(host, "/dev/" + name),
    )
    if disk.size_bytes == 0:
        return disk
    try:
        found = signatures(host, disk.path)
    except NodeError as error:
        return dataclasses.replace(disk, read_error=error.reason)
    inside = filesystem(host, disk.path) if any(s.type in ("xfs", "ext4") for s in found) else None
    return dataclasses.replace(disk, signatures=found, filesystem=inside)


def array_detail(host: Host, name: str) -> Tuple[Optional[str], str]:
    """UUID and name of an array that the kernel has."""
    if host.which("mdadm") is None:
        return None, ""
    pairs = parse.export(host.run(["mdadm", "--detail", "--export", "/dev/" + name], 30.0, accept=(0, 1, 2, 4)).stdout)
    return canonical(pairs.get("MD_UUID", "")) or None, pairs.get("MD_NAME", "")


def array_names(host: Host) -> List[str]:
    return [name for name in host.names("/sys/block") if host.exists("/sys/block/{0}/md".format(name))]


def array_members(host: Host, name: str) -> Tuple[str, ...]:
    devices = (sub[4:] for sub in host.names("/sys/block/{0}/md".format(name)) if sub.startswith("dev-"))
    return tuple(device.replace("!", "/") for device in devices)


def _array(host: Host, name: str, mounts: Tuple[Mount, ...], swaps: Tuple[str, ...]) -> Array:
    folder = "/sys/block/" + name
    uuid, array_name = array_detail(host, name)
    partitions = _partitions(host, name)
    own = {name} | set(partitions)
    array = Array(
        name=name,
        uuid=uuid,
        array_name=array_name,
        level=host.read_line(folder + "/md/level"),
        raid_devices=_number(host, folder + "/md/raid_disks"),
        state=host.read_line(folder + "/md/array_state") or "unknown",
        members=array_members(host, name),
        chunk_bytes=_number(host, folder + "/md/chunk_size"),
        size_bytes=_number(host, folder + "/size") * 512,
        holders=_holders(host, name),
        partitions=partitions,
        mount_points=tuple(mount.mount_point for mount in mounts if mount.device in own),
        swap=any(os.path.basename(path) in own for path in swaps),
        busy=in_use(host, "/dev/" + name),
    )
    if not array.running:
        return array
    try:
        found = signatures(host, array.path)
    except NodeError as error:
        return dataclasses.replace(array, read_error=error.reason)
    return dataclasses.replace(array, signatures=found, filesystem=filesystem(host, array.path))


def _whole_disks(host: Host, name: str, depth: int = 0) -> List[str]:
    """The disks under a partition, an array, a logical volume."""
    folder = "/sys/class/block/" + name
    if depth > 8:
        return [name]
    if host.exists(folder + "/partition"):
        return [os.path.basename(os.path.dirname(host.real_path(folder)))]
    slaves = host.names(folder + "/slaves")
    return [disk for slave in slaves for disk in _whole_disks(host, slave, depth + 1)] or [name]


def mounts(host: Host) -> Tuple[Mount, ...]:
    found = []
    for line in parse.mountinfo(host.read("/proc/self/mountinfo") or ""):
        device = None
        if host.exists("/sys/dev/block/" + line.number):
            device = os.path.basename(host.real_path("/sys/dev/block/" + line.number))
        elif line.source.startswith("/dev/"):  # btrfs and zfs mounts have numbers of their own
            device = os.path.basename(host.real_path(line.source))
        disks = tuple(sorted(set(_whole_disks(host, device)))) if device else ()
        found.append(
            Mount(line.mount_point, device, line.filesystem, line.writable, line.source, line.root == "/", disks)
        )
    return tuple(found)


def mount_point(host: Host, path: str) -> MountPoint:
    full = host.path(path)
    missing: List[str] = []
    parent = path
    while parent != "/" and not os.path.lexists(host.path(parent)):
        missing.insert(0, parent)
        parent = os.path.dirname(parent)
    if missing:
        above = host.path(parent)
        kind = "missing" if os.path.isdir(above) else "blocked"
        if kind == "missing" and host.real_path(parent) != parent:
            kind = "symlink"
        return MountPoint(path, kind, True, tuple(missing))
    if os.path.islink(full) or host.real_path(path) != path:
        return MountPoint(path, "symlink", False)
    found = os.lstat(full)
    if not stat.S_ISDIR(found.st_mode):
        return MountPoint(path, "file" if stat.S_ISREG(found.st_mode) else "other", False)
    empty = False
    with contextlib.suppress(OSError):
        empty = not os.listdir(full)
    return MountPoint(path, "folder", empty, (), found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def _account(name: str, group: bool) -> Optional[int]:
    if name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid if group else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def read_record(host: Host) -> Tuple[Optional[Record], Optional[str]]:
    text = host.read(RECORD_PATH)
    if text is None:
        return None, "it cannot be read" if host.exists(RECORD_PATH) else None
    try:
        return record.load(text), None
    except ValueError as error:
        return None, str(error)


def examined(host: Host, paths: List[str]) -> Dict[str, Member]:
    """The md superblocks of these devices, by path."""
    if not paths or host.which("mdadm") is None:
        return {}
    done = host.run(["mdadm", "--examine"] + paths, PROBE_TIMEOUT_SECONDS, accept=(0, 1, 2, 4))
    return parse.examine(done.stdout)


def _examined(host: Host, disks: List[Disk]) -> List[Disk]:
    members = examined(host, [d.path for d in disks if any(s.type == "linux_raid_member" for s in d.signatures)])
    return [dataclasses.replace(disk, member=members.get(disk.path)) for disk in disks]


def observe(host: Host, desired: Desired) -> State:
    """Everything that the plan looks at. A disk that cannot be read says so in its ``read_error``."""
    found_mounts = mounts(host)
    found_swaps = parse.swaps(host.read("/proc/swaps") or "")
    disks = [_probed(host, disk, found_mounts, found_swaps) for disk in visible_disks(host, desired)]
    found_record, record_error = read_record(host)
    tools = ("mdadm", "mkfs." + desired.filesystem, "wipefs", "blkid", "mount", "umount")
    relevant = {desired.mount_point} | set(desired.adopt_mount_points)
    if found_record is not None and found_record.mount_point is not None:
        relevant.add(found_record.mount_point)
    names = {disk.name for disk in disks}
    return State(
        disks=tuple(_examined(host, disks)),
        arrays=tuple(_array(host, name, found_mounts, found_swaps) for name in array_names(host)),
        mounts=tuple(m for m in found_mounts if m.mount_point in relevant or names & set(m.disks)),
        mount_point=mount_point(host, desired.mount_point),
        fstab=host.read(FSTAB_PATH),
        record=found_record,
        record_error=record_error,
        declared=declaration.read(host),
        owner=_account(desired.owner, False),
        group=_account(desired.group, True),
        missing_tools=tuple(tool for tool in tools if host.which(tool) is None),
    )
