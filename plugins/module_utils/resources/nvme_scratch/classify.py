# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is this disk: blank, ours, or another owner's? The one place that decides it; pure.

Another owner's is the answer whenever neither of the others is proven.
"""

from __future__ import annotations

import fnmatch
from typing import Collection, Optional, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import Refusal
from ...facts.scratch.record import Build, Record
from .options import overwrite
from .types import Array, Disk, Filesystem, Signature, State, array_form, filesystem_form

# Transports that leave the machine: such a disk is never node-local.
NETWORKS = ("tcp", "rdma", "fc")
# Disks of the cloud's storage that are shown as NVMe behind PCIe, by model. Azure: src/identify_disks.c and
# udev/80-azure-disk.rules of azure-vm-utils (local ones are "Microsoft NVMe Direct Disk"); AWS: EBS volumes (local
# ones are "Amazon EC2 NVMe Instance Storage"); GCP: Persistent Disk, Hyperdisk (local ones are "nvme_card", a number);
# Alibaba: ESSDs, as lsblk shows the system disk of an instance with NVMe.
REMOTE_MODELS = (
    "MSFT NVMe Accelerator*",
    "Amazon Elastic Block Store*",
    "nvme_card-pd*",
    "Alibaba Cloud Elastic Block Storage*",
)
# Where the operating system is mounted. A disk below one of these is never scratch material.
SYSTEM_PLACES = frozenset("/ /usr /etc /var /var/log /var/lib /boot /boot/efi /efi /sysroot".split())
# A site may mount directories of our scratch here, by a bind mount.
_BIND_PLACES = frozenset("/var /var/log /var/lib".split())
PARTITION_TABLES = ("dos", "gpt", "PMBR", "sun", "sgi", "bsd", "mac", "minix", "atari")


@frozen
class Blank:
    """Nothing is built on it, nobody holds it open, and what was read of it is blank.

    ``clear``: what was read is not, but the user consents to its loss by serial; it is cleared first.
    """

    clear: bool = False


@frozen
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
        "if nobody needs what is on it, wipe it (wipefs --all {0}) and {1}, "
        "or leave this disk out of models, serials and devices".format(disk.path, overwrite(disk.serial))
    )


def _proven(disk: Disk, overwrite_serials: Collection[str]) -> Union[Blank, Refusal]:
    """The last questions: that libblkid recognises nothing is not enough to call a disk blank."""
    leave = "or leave this disk out of models, serials and devices"
    if disk.openers is None:
        return Refusal(
            str(disk),
            "it could not be found out whether a process holds it open",
            "run it as root outside of containers, {0}".format(leave),
        )
    if disk.openers:
        return Refusal(str(disk), "{0} holds it open".format(", ".join(disk.openers)), "end that use, " + leave)
    if disk.content is None:
        return Refusal(str(disk), "its content was not read", "run it again, " + leave)
    if disk.content.other_at is None:
        return Blank()
    if disk.serial in overwrite_serials:
        return Blank(clear=True)
    return Refusal(
        str(disk),
        "it holds data of an unknown kind (at byte {0}), which are not in our record".format(disk.content.other_at),
        "if nobody needs them, {0}, {1}".format(overwrite(disk.serial), leave),
    )


def remote(disk: Disk) -> Optional[Refusal]:
    """Why a disk is not this machine's own: another one may have it in use. None: it is."""
    leave = "have it replaced, or leave this disk out of models, serials and devices"
    if disk.transport in NETWORKS:
        return Refusal(
            str(disk), "it is reached over a network ({0}), so it is no local disk".format(disk.transport), leave
        )
    if any(fnmatch.fnmatchcase(disk.model, pattern) for pattern in REMOTE_MODELS):
        reason = "it is a disk of the cloud's storage ({0}), which outlives the machine".format(disk.model)
        return Refusal(str(disk), reason, "give models that fit the local disks only, or leave this disk out")
    return None


def system(disk: Disk, state: State) -> Optional[Refusal]:
    """Why a disk belongs to the operating system, whatever is between: partitions, md, LVM, LUKS, btrfs, ZFS. None: it
    does not."""
    places = {mount.mount_point for mount in state.mounts if disk.name in mount.disks} | set(disk.mount_points)
    places &= SYSTEM_PLACES - (_BIND_PLACES if _recorded(disk, state) else frozenset())
    used = sorted(places) + (["swap"] if disk.swap and (disk.partitions or disk.holders) else [])
    if not used:
        return None
    reason = "the system is on it ({0})".format(", ".join(used))
    return Refusal(str(disk), reason, "leave this disk out of models, serials and devices")


def _recorded(disk: Disk, state: State) -> bool:
    """Our record proves that the disk belongs to our scratch."""
    record = state.record or Record()
    held = (uuid_of(state, array) for array in state.arrays if array.name in disk.holders)
    return ours_on_disk(disk, record) is not None or any(record.array(uuid) is not None for uuid in held)


def _hardware(disk: Disk) -> Optional[Refusal]:
    leave = "have it replaced, or leave this disk out of models, serials and devices"
    elsewhere = remote(disk)
    if elsewhere is not None:
        return elsewhere
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


def judge(disk: Disk, state: State, overwrite_serials: Collection[str] = ()) -> Verdict:
    """Blank, Ours, or the reason why it must not be touched.

    ``overwrite_serials``: disks whose unrecognised content may be lost; nothing else is consented to by that.
    """
    record = state.record or Record()
    broken = _hardware(disk)
    if broken is not None:
        return broken
    of_system = system(disk, state)
    if of_system is not None:
        return of_system
    if disk.swap:
        remedy = "run swapoff if the node can do without it, or leave this disk out"
        return Refusal(str(disk), "it is in use as swap space", remedy)
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
        if held is None and uuid in {build.array_uuid for build in state.others} - {None}:
            return _of_another_machine(
                disk,
                "it is part of array {0} ({1})".format(array_form(uuid or ""), holder),
                "if nobody needs what is on it, stop it (mdadm --stop /dev/{0}) and wipe its disks (wipefs --all), or "
                "leave this disk out of models, serials and devices".format(holder),
            )
        if held is None and array is not None and (array.reshaping or array.syncing):
            return Refusal(
                str(disk),
                "it is part of array {0} of another owner, and md moves data between its disks".format(holder),
                "wait until that has ended (cat /proc/mdstat), or leave this disk out of models, serials and devices",
            )
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
        return _foreign(disk, state)
    if held is not None:
        return Ours(held, marked=False)
    if disk.busy:
        return Refusal(
            str(disk), "a program or a driver holds it open exclusively", "end that use, or leave this disk out"
        )
    return _proven(disk, overwrite_serials)


def _foreign(disk: Disk, state: State) -> Refusal:
    """It carries something that does not prove it ours."""
    record = state.record or Record()
    found = "; ".join(tell(signature) for signature in disk.signatures)
    uuids = {signature.uuid for signature in disk.signatures if signature.uuid is not None}
    if uuids & {uuid for build in record.builds for uuid in (build.array_uuid, build.filesystem_uuid)}:
        if len(disk.signatures) > 1:
            # To wipe the disk would destroy our array, too.
            return Refusal(
                str(disk),
                "it carries {0}: our mark and something else".format(found),
                "find out which of them is in use (wipefs {0} lists them with their offsets), and run again when one "
                "is left".format(disk.path),
            )
        return Refusal(
            str(disk),
            "it carries {0}, which is ours, but mdadm --examine does not say the same".format(found),
            "look at what mdadm --examine {0} says, and run it again".format(disk.path),
        )
    if uuids & {uuid for build in state.others for uuid in (build.array_uuid, build.filesystem_uuid)}:
        return _of_another_machine(
            disk,
            "it carries {0}".format(found),
            "or have the whole array of this machine assembled (mdadm --assemble --scan), which is taken up then; or, "
            "{0}".format(_release(disk)),
        )
    name = ""
    if disk.member is not None and disk.member.reshaping:
        return Refusal(
            str(disk),
            "it carries {0}, which is not in our record, and a reshape has begun on it and not ended".format(found),
            "assemble the array and wait until that has ended, or leave this disk out of models, serials and devices",
        )
    if disk.member is not None and disk.member.array_name:
        name = " named {0}".format(disk.member.array_name)
    return Refusal(str(disk), "it carries {0}{1}, which is not in our record".format(found, name), _release(disk))


def _of_another_machine(disk: Disk, what: str, remedy: str) -> Refusal:
    return Refusal(
        str(disk),
        "{0}, which another machine built: the record came here with an image, or the mainboard of this machine is a "
        "new one".format(what),
        "take the disk back to where it belongs; {0}".format(remedy),
    )


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
    others = [point for point in array.mount_points if point != record.mount_point]
    if array.broken and others and not array.signatures:
        return "a member is missing, and an unreadable file system is mounted from it at " + ", ".join(others)
    return None


def name_of(array_name: str) -> str:
    """An md name without its home host (any:scratch is scratch)."""
    return array_name.split(":", 1)[-1]


def usable(filesystem: Optional[Filesystem], label: str) -> bool:
    """A whole file system that bears our label: what may be adopted when the record is lost."""
    return filesystem is not None and not filesystem.in_progress and filesystem.label == label
