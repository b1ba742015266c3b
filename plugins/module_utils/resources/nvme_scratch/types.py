# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of the disks, arrays, file systems and mounts of a node. All of it is immutable."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.resource import Action, Refusal
from ...core.systemd.boot_unit import BootUnitState
from ...facts.scratch.record import Build, Record, array_form, filesystem_form
from .options import Desired

FSTAB_PATH = "/etc/fstab"


PARTITION_TABLES = ("dos", "gpt", "PMBR", "sun", "sgi", "bsd", "mac", "minix", "atari")
# What a disk contains (JudgedDisk).
BLANK, UNKNOWN_DATA, OURS, REFUSED = "blank", "unknown data", "ours", "refused"


def name_of(array_name: str) -> str:
    """An md name without its home host (any:scratch is scratch)."""
    return array_name.split(":", 1)[-1]


@frozen
class Signature:
    """One thing that libblkid recognises on a device; ``uuid`` is canonical, or None."""

    type: str
    uuid: Optional[str] = None
    label: Optional[str] = None

    def __str__(self) -> str:
        if self.type in PARTITION_TABLES:
            return "a partition table ({0})".format(self.type)
        uuid = self.uuid or ""
        if self.type == "linux_raid_member":
            return "a superblock of array {0}".format(array_form(uuid) if len(uuid) == 32 else "of unknown UUID")
        words = {
            "LVM2_member": "an LVM physical volume",
            "zfs_member": "a ZFS label",
            "crypto_LUKS": "a LUKS volume",
            "swap": "swap space",
        }
        text = words.get(self.type, "{0} data".format(self.type))
        if self.label:
            text += " labelled {0!r}".format(self.label)
        if uuid:
            text += " with UUID {0}".format(filesystem_form(uuid) if len(uuid) == 32 else uuid)
        return text


@frozen
class Filesystem:
    """What the superblock of an XFS or ext4 file system says. ``in_progress``: its mkfs did not end."""

    type: str
    uuid: str
    label: str
    in_progress: bool = False
    stripe_unit_bytes: Optional[int] = None
    stripe_width_bytes: Optional[int] = None


@frozen
class Member:
    """The md superblock on a disk, from ``mdadm --examine``; a missing value is None.

    ``reshaping``: a change of level, chunk or number of disks has begun and not ended. ``events``: how often md has
    updated this superblock.
    """

    array_uuid: str
    array_name: str = ""
    level: Optional[str] = None
    raid_devices: Optional[int] = None
    role: Optional[int] = None
    chunk_bytes: Optional[int] = None
    reshaping: bool = False
    events: Optional[int] = None


@frozen
class Mount:
    """A line of /proc/self/mountinfo.

    ``device`` is the kernel's name of its block device, ``disks`` are the whole disks under that; ``whole`` is
    false for a bind mount of a folder. ``covered_by``: what is mounted on top of it, inside of it or over a folder
    above it, in words; ``hidden_by``: those of them that are not inside, so that nobody reaches it any more.
    """

    mount_point: str
    device: Optional[str]
    filesystem: str
    writable: bool
    source: str = ""
    whole: bool = True
    disks: Tuple[str, ...] = ()
    covered_by: Tuple[str, ...] = ()
    hidden_by: Tuple[str, ...] = ()
    options: Tuple[str, ...] = ()


@frozen
class Content:
    """What a bounded read of a device shows (``samples.py``). ``other_at``: where it is not blank; None: nowhere."""

    read_bytes: int
    other_at: Optional[int] = None


@frozen
class Disk:
    """An NVMe namespace. ``holders`` are block devices on top of it; ``busy``: it cannot be opened exclusively.

    ``openers``: who holds it or a partition of it open, in words; None: not known. ``content`` is None where it
    was not read, as a disk that carries a signature or is in use is not blank anyhow.
    """

    name: str
    serial: str
    model: str
    size_bytes: int
    transport: str = "pcie"
    aliases: Tuple[str, ...] = ()
    read_only: bool = False
    partitions: Tuple[str, ...] = ()
    holders: Tuple[str, ...] = ()
    mount_points: Tuple[str, ...] = ()
    swap: bool = False
    busy: bool = False
    openers: Optional[Tuple[str, ...]] = None
    signatures: Tuple[Signature, ...] = ()
    content: Optional[Content] = None
    member: Optional[Member] = None
    filesystem: Optional[Filesystem] = None
    read_error: Optional[str] = None

    @property
    def path(self) -> str:
        return "/dev/" + self.name

    def __str__(self) -> str:
        return "disk {0} ({1})".format(self.serial or "without serial number", self.name)


@frozen
class Array:
    """An md array that the kernel has now, whole or not. ``content`` is read if no signature is found on a whole one.

    ``syncing``: md is copying data between its members (reshape, recovery, resync).
    """

    name: str
    uuid: Optional[str]
    array_name: str
    level: Optional[str]
    raid_devices: int
    state: str
    members: Tuple[str, ...]
    chunk_bytes: int = 0
    size_bytes: int = 0
    reshaping: bool = False
    syncing: bool = False
    holders: Tuple[str, ...] = ()
    partitions: Tuple[str, ...] = ()
    mount_points: Tuple[str, ...] = ()
    swap: bool = False
    busy: bool = False
    signatures: Tuple[Signature, ...] = ()
    content: Optional[Content] = None
    filesystem: Optional[Filesystem] = None
    read_error: Optional[str] = None

    @property
    def path(self) -> str:
        return "/dev/" + self.name

    @property
    def readable(self) -> bool:
        """Data can be read, with or without every member (Documentation/admin-guide/md.rst, array_state)."""
        return self.state in ("clean", "active", "active-idle", "write-pending", "read-auto", "readonly")

    @property
    def broken(self) -> bool:
        """A member of a running RAID0 or linear array has gone. The kernel does not stop it, and what is mounted from
        it stays mounted (drivers/md/md.c, array_state)."""
        return self.state == "broken"

    @property
    def whole(self) -> bool:
        """Every member is there and data can be read."""
        return self.readable and len(self.members) == self.raid_devices

    def __str__(self) -> str:
        return "array {0} ({1})".format(self.array_name or "without name", self.name)


@frozen
class MountPoint:
    """``kind``: missing, folder, file, symlink, other, blocked (a parent is not a folder), or failed (it cannot even be
    looked at, as the kernel has shut down the file system there)."""

    path: str
    kind: str
    empty: bool = True
    missing_folders: Tuple[str, ...] = ()
    owner: int = 0
    group: int = 0
    mode: int = 0


@frozen
class Identity:
    """The UUIDs that a build started now would get."""

    array_uuid: str
    filesystem_uuid: str


@frozen
class State:
    """The node as far as the scratch is concerned. ``declared`` is the whole declaration of the node.

    ``fstab`` and ``record`` are None when there is no such file; ``record_error`` says why a record that is
    there cannot be used. ``machine`` is this machine; ``others`` are builds that another machine recorded, as a node
    has them that was made from an image of another one. ``owner`` and ``group`` are the numbers of the wanted names,
    None when unknown here.
    """

    disks: Tuple[Disk, ...] = ()
    arrays: Tuple[Array, ...] = ()
    mounts: Tuple[Mount, ...] = ()
    mount_point: Optional[MountPoint] = None
    fstab: Optional[str] = None
    record: Optional[Record] = None
    record_error: Optional[str] = None
    machine: Optional[str] = None
    others: Tuple[Build, ...] = ()
    declared: Mapping[str, Any] = {}
    owner: Optional[int] = 0
    group: Optional[int] = 0
    missing_tools: Tuple[str, ...] = ()

    def mounted_at(self, path: Optional[str]) -> Optional[Mount]:
        """The topmost mount there. An automount alone is none: it waits for one, or could not get it."""
        found = next((mount for mount in reversed(self.mounts) if mount.mount_point == path), None)
        return None if found is not None and found.filesystem == "autofs" else found

    @property
    def base_record(self) -> Record:
        """What the next record adds to. One who does not know its machine leaves what was found, with the name on it:
        it proves nothing to this run, and the machine that it names may be this one."""
        found = self.record or Record()
        if self.machine is None:
            return replaced(found, builds=self.others + found.builds)
        return replaced(found, machine=self.machine)


@frozen
class Found:
    """The node as this resource sees it: the scratch, and the unit that makes it again at each boot.

    ``jobs``: the jobs of Slurm here, in words; asked for only where the scratch is to be taken away.
    """

    scratch: State
    unit: BootUnitState
    identity: Identity
    jobs: Tuple[str, ...] = ()


@frozen
class JudgedArray:
    """``uuid``: what the kernel says, or else all its members. ``build``: ours, with this UUID. ``foreign``: it holds
    data of another owner. ``blocked``: it cannot be stopped."""

    array: Array
    uuid: Optional[str]
    build: Optional[Build]
    foreign: Optional[Refusal]
    blocked: Optional[Refusal]


@frozen
class JudgedDisk:
    """``chosen``: it is scratch material, by the options. ``mark``: the build whose UUID is all that libblkid finds on
    it. ``content``: BLANK, UNKNOWN_DATA (nothing is recognised, and it is not blank), OURS or REFUSED; ``reason``: why
    it must not be touched; unknown data may be, if the user consents to their loss by serial. ``build``: ours, by its
    mark or by its array.

    ``remote``: another machine may use it. ``system``: the operating system is on it. ``in_use``: if it is ours, it
    cannot be erased now.
    """

    disk: Disk
    chosen: bool
    mark: Optional[Build]
    build: Optional[Build]
    content: str
    reason: Optional[Refusal]
    remote: Optional[Refusal]
    system: Optional[Refusal]
    in_use: Optional[Refusal]


@frozen
class Node:
    """The judged node. ``chosen`` is ordered by serial, so that kernel names do not matter. ``nothing``: no disk is to
    be managed here, or was. ``declare``: the step that declares what is desired, where it is not declared yet."""

    state: State
    desired: Desired
    record: Record
    arrays: Tuple[JudgedArray, ...]
    disks: Tuple[JudgedDisk, ...]
    chosen: Tuple[JudgedDisk, ...]
    nothing: bool
    declare: Tuple[Action, ...]

    @property
    def known(self) -> Tuple[str, ...]:
        """The UUIDs of all our file systems."""
        return tuple(build.filesystem_uuid for build in self.record.builds)
