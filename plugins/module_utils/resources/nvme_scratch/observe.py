# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the node. Nothing here writes: no cache, no lock, no event."""

from __future__ import annotations

import errno
import grp
import os
import pwd
from typing import Dict, List, Optional, Set, Tuple

from ...core import declaration, machine
from ...core.frozen import replaced
from ...core.host import Host
from ...core.mounts import swaps
from ...core.resource import NodeError
from ...facts.scratch import disks as sysfs
from ...facts.scratch import record
from ...facts.scratch.record import canonical
from . import mounted, parse, proof, superblock
from .disks import judge
from .options import Desired
from .types import FSTAB_PATH, Array, Disk, Filesystem, Member, Mount, Signature, State

PROBE_TIMEOUT_SECONDS = 30.0
# How often the node is looked at anew when a mount came in between.
LOOKS = 5


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
            serial=sysfs.serial_of(host, name),
            model=" ".join((host.read_line("/sys/block/{0}/device/model".format(name)) or "").split()),
            size_bytes=sysfs.size_bytes(host, name),
            aliases=tuple(device for device, target in targets.items() if target == name),
        )
        for name in sysfs.disk_names(host)
    )


def _probed(host: Host, seen: Disk, mounts: Tuple[Mount, ...], swaps: Tuple[str, ...]) -> Disk:
    name = seen.name
    partitions = sysfs.partitions(host, name)
    own = {name} | set(partitions)
    disk = replaced(
        seen,
        transport=sysfs.transport(host, name),
        read_only=sysfs.number(host, "/sys/block/{0}/ro".format(name)) != 0,
        partitions=partitions,
        holders=sysfs.holders(host, name),
        mount_points=tuple(mount.mount_point for mount in mounts if mount.device in own),
        swap=any(name in sysfs.disks_under(host, os.path.basename(host.real_path(path))) for path in swaps),
        busy=in_use(host, "/dev/" + name),
    )
    if disk.size_bytes == 0:
        return disk
    try:
        found = signatures(host, disk.path)
    except NodeError as error:
        return replaced(disk, read_error=error.reason)
    inside = filesystem(host, disk.path) if any(s.type in ("xfs", "ext4") for s in found) else None
    return replaced(disk, signatures=found, filesystem=inside)


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
    partitions = sysfs.partitions(host, name)
    own = {name} | set(partitions)
    array = Array(
        name=name,
        uuid=uuid,
        array_name=array_name,
        level=host.read_line(folder + "/md/level"),
        raid_devices=sysfs.number(host, folder + "/md/raid_disks"),
        state=host.read_line(folder + "/md/array_state") or "unknown",
        members=array_members(host, name),
        chunk_bytes=sysfs.number(host, folder + "/md/chunk_size"),
        size_bytes=sysfs.size_bytes(host, name),
        reshaping=host.read_line(folder + "/md/reshape_position") not in (None, "none"),
        syncing=host.read_line(folder + "/md/sync_action") in ("reshape", "recover", "resync"),
        holders=sysfs.holders(host, name),
        partitions=partitions,
        mount_points=tuple(mount.mount_point for mount in mounts if mount.device in own),
        swap=any(os.path.basename(path) in own for path in swaps),
        busy=in_use(host, "/dev/" + name),
    )
    # Another level or a missing member does not make an array unreadable, and it may hold data of another owner. During
    # a reshape a read may wait for it, and nothing is decided by what it shows.
    if array.reshaping or not (array.readable or array.broken):
        return array
    try:
        found = signatures(host, array.path)
    except NodeError as error:
        # Some blocks of a broken array cannot be read, and the array may be given up.
        return array if array.broken else replaced(array, read_error=error.reason)
    if array.broken:
        return replaced(array, signatures=found)
    content = None if found or not array.whole else proof.contents(host, {name: array.size_bytes})[name]
    if isinstance(content, str):
        return replaced(array, read_error=content)
    return replaced(array, signatures=found, content=content, filesystem=filesystem(host, array.path))


def _account(name: str, group: bool) -> Optional[int]:
    if name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid if group else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def examined(host: Host, paths: List[str]) -> Dict[str, Member]:
    """The md superblocks of these devices, by path."""
    if not paths or host.which("mdadm") is None:
        return {}
    done = host.run(["mdadm", "--examine"] + paths, PROBE_TIMEOUT_SECONDS, accept=(0, 1, 2, 4))
    return parse.examine(done.stdout)


def _examined(host: Host, disks: List[Disk]) -> List[Disk]:
    members = examined(host, [d.path for d in disks if any(s.type == "linux_raid_member" for s in d.signatures)])
    return [replaced(disk, member=members.get(disk.path)) for disk in disks]


def observe(host: Host, desired: Desired) -> State:
    """Everything that the plan looks at. A disk that cannot be read says so in its ``read_error``.

    fstab's mount may come while we look: what was seen before it and what is seen after it do not fit together. So
    one look counts only when the mounts that matter are the same before and after it.

    :raises NodeError: they never stood still.
    """
    found_record, record_error = record.read(host)
    places = {desired.mount_point} | set(desired.adopt_mount_points)
    if found_record is not None and found_record.mount_point is not None:
        places.add(found_record.mount_point)
    before = mounted.awake(host, places)
    for turn in range(LOOKS):
        before = before if turn == 0 else mounted.mounts(host)
        state = _look(host, desired, before, places)
        names = {one.disk.name for one in judge(state, desired).chosen}
        if mounted.concern(mounted.mounts(host), places, names) == mounted.concern(before, places, names):
            this_machine = machine.identity(host)
            own, others = record.of_machine(found_record, this_machine)
            return replaced(state, record=own, record_error=record_error, machine=this_machine, others=others)
    raise NodeError(
        desired.mount_point,
        "what is mounted there or on the NVMe disks changed while it was looked at, {0} times".format(LOOKS),
        "wait until that has ended, then run it again",
    )


def _look(host: Host, desired: Desired, found_mounts: Tuple[Mount, ...], places: Set[str]) -> State:
    found_swaps = tuple(one.path for one in swaps(host))
    disks = [_probed(host, disk, found_mounts, found_swaps) for disk in visible_disks(host, desired)]
    tools = ("mdadm", "mkfs." + desired.filesystem, "wipefs", "blkid", "mount", "umount")
    names = {disk.name for disk in disks}
    return State(
        disks=proof.complete(host, _examined(host, disks), [name for mount in found_mounts for name in mount.disks]),
        arrays=tuple(_array(host, name, found_mounts, found_swaps) for name in array_names(host)),
        mounts=tuple(m for m in found_mounts if m.mount_point in places or names & set(m.disks)),
        mount_point=mounted.mount_point(host, desired.mount_point, found_mounts),
        fstab=host.read_or_fail(FSTAB_PATH),
        declared=declaration.read(host),
        owner=_account(desired.owner, False),
        group=_account(desired.group, True),
        missing_tools=tuple(tool for tool in tools if host.which(tool) is None),
    )
