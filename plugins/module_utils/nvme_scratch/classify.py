# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is this disk: blank, ours, or somebody's? The one place that decides it; pure.

Somebody's is the answer whenever neither of the others is proven.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple, Union

from ..resource import Refusal
from .types import Array, Build, Disk, Filesystem, Record, Signature, State, array_form, filesystem_form

# Transports that leave the machine: such a disk is never node-local.
NETWORKS = ("tcp", "rdma", "fc")
PARTITION_TABLES = ("dos", "gpt", "PMBR", "sun", "sgi", "bsd", "mac", "minix", "atari")


@dataclasses.dataclass(frozen=True)
class Blank:
    """Nothing is recognised on it, nothing is built on it, nobody holds it."""


@dataclasses.dataclass(frozen=True)
class Ours:
    """It carries the UUID of ``build``. ``marked``: the mark is on the disk itself (not only in the kernel's array)."""

    build: Build
    marked: bool = True


Verdict = Union[Blank, Ours, Refusal]


def uuid_of(state: State, array: Array) -> Optional[str]:
    """What the kernel says; where it does not (an array in pieces), what all its members say."""
    if array.uuid is not None:
        return array.uuid
    said = {disk.member.array_uuid if disk.member else None for disk in state.disks if disk.name in array.members}
    named = {disk.name for disk in state.disks}
    return said.pop() if len(said) == 1 and set(array.members) <= named else None


def arrays_of(state: State, uuid: str) -> Tuple[Array, ...]:
    return tuple(array for array in state.arrays if uuid_of(state, array) == uuid)


def tell(signature: Signature) -> str:
    """A finding in words."""
    if signature.type in PARTITION_TABLES:
        return "a partition table ({0})".format(signature.type)
    uuid = signature.uuid or ""
    if signature.type == "linux_raid_member":
        return "a superblock of array {0}".format(array_form(uuid) if len(uuid) == 32 else "of unknown UUID")
    words = {
        "LVM2_member": "an LVM physical volume",
        "zfs_member": "a ZFS label",
        "crypto_LUKS": "a LUKS volume",
        "swap": "swap space",
    }
    text = words.get(signature.type, "{0} data".format(signature.type))
    if signature.label:
        text += " labelled {0!r}".format(signature.label)
    if uuid:
        text += " with UUID {0}".format(filesystem_form(uuid) if len(uuid) == 32 else uuid)
    return text


def _release(disk: Disk) -> str:
    return (
        "if nobody needs what is on it, wipe it (wipefs --all {0}) and run again, "
        "or leave this disk out of models, serials and devices".format(disk.path)
    )


def _hardware(disk: Disk) -> Optional[Refusal]:
    leave = "have it replaced, or leave this disk out of models, serials and devices"
    if disk.transport in NETWORKS:
        return Refusal(
            str(disk), "it is reached over a network ({0}), so it is no local disk".format(disk.transport), leave
        )
    if disk.size_bytes <= 0:
        return Refusal(str(disk), "its size is zero", leave)
    if disk.read_only:
        return Refusal(str(disk), "it is read-only", leave)
    if disk.read_error is not None:
        return Refusal(str(disk), "it could not be read ({0})".format(disk.read_error), leave)
    if not disk.serial:
        return Refusal(str(disk), "it has no serial number, so it cannot be recognised later", leave)
    return None


def ours_on_disk(disk: Disk, record: Record) -> Optional[Build]:
    """The build whose UUID is the only thing that libblkid recognises on the disk."""
    if len(disk.signatures) != 1:
        return None
    signature = disk.signatures[0]
    if signature.type == "linux_raid_member":
        build = record.array(signature.uuid)
        # Two readers have to agree before we call it ours.
        agreed = disk.member is not None and disk.member.array_uuid == signature.uuid
        return build if agreed else None
    build = record.filesystem(signature.uuid)
    return build if build is not None and build.array_uuid is None and build.filesystem == signature.type else None


def judge(disk: Disk, state: State) -> Verdict:
    """Blank, Ours, or the reason why it must not be touched."""
    record = state.record or Record()
    broken = _hardware(disk)
    if broken is not None:
        return broken
    if disk.swap:
        return Refusal(str(disk), "it is in use as swap space", "run swapoff and wipe it, or leave this disk out")
    build = ours_on_disk(disk, record)
    if disk.mount_points and not (build is not None and build.array_uuid is None and not disk.partitions):
        return Refusal(
            str(disk),
            "it is mounted at {0}".format(", ".join(disk.mount_points)),
            "unmount it and wipe it if nobody needs its data, or leave this disk out of models, serials and devices",
        )
    if disk.partitions:
        return Refusal(
            str(disk), "it has a partition table with {0}".format(", ".join(disk.partitions)), _release(disk)
        )
    held: Optional[Build] = None
    for holder in disk.holders:
        array = next((a for a in state.arrays if a.name == holder), None)
        uuid = uuid_of(state, array) if array is not None else None
        held = record.array(uuid)
        if held is None:
            what = "array {0} ({1})".format(array_form(uuid), holder) if uuid else holder
            return Refusal(
                str(disk),
                "it is part of {0}, which is not ours".format(what),
                "take {0} apart if nobody needs it, or leave this disk out of models, serials and devices".format(
                    holder
                ),
            )
    if build is not None:
        if held is not None and held.array_uuid != build.array_uuid:
            return Refusal(str(disk), "its superblock and the running array differ", "reboot the node, then run again")
        return Ours(build)
    if disk.signatures:
        foreign = "; ".join(tell(signature) for signature in disk.signatures)
        name = ""
        if disk.member is not None and disk.member.array_name:
            name = " named {0}".format(disk.member.array_name)
        return Refusal(str(disk), "it carries {0}{1}, which is not in our record".format(foreign, name), _release(disk))
    if held is not None:
        return Ours(held, marked=False)
    if disk.busy:
        return Refusal(
            str(disk), "a program or a driver holds it open exclusively", "end that use, or leave this disk out"
        )
    return Blank()


def foreign_on_array(array: Array, record: Record) -> Optional[str]:
    """What stands on our array that is not our file system, in words; None when there is nothing such."""
    if array.holders:
        return "{0} is built on it".format(", ".join(array.holders))
    if array.partitions:
        return "it has the partitions {0}".format(", ".join(array.partitions))
    if array.swap:
        return "it is in use as swap space"
    if array.read_error is not None:
        return "it could not be read ({0})".format(array.read_error)
    for signature in array.signatures:
        if record.filesystem(signature.uuid) is None:
            return "it carries {0}, which is not in our record".format(tell(signature))
    return None


def name_of(array_name: str) -> str:
    """An md name without its home host (any:scratch is scratch)."""
    return array_name.split(":", 1)[-1]


def usable(filesystem: Optional[Filesystem], label: str) -> bool:
    """A whole file system that bears our label: what may be adopted when the record is lost."""
    return filesystem is not None and not filesystem.in_progress and filesystem.label == label
