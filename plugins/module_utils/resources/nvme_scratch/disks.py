# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge each disk and each array once: whose it is, what lies on it, who uses it, and why it must not be touched. Pure.

This is the only place that decides it. A disk is another owner's whenever nothing else is proven.
"""

from __future__ import annotations

import fnmatch
from typing import Any, Dict, Optional, Sequence, Tuple

from ...core import declaration
from ...core.resource import Action, Refusal
from ...facts.scratch.record import Build, Record, array_form
from .options import SECTION, Desired, overwrite
from .types import BLANK, OURS, REFUSED, UNKNOWN_DATA, Array, Disk, JudgedArray, JudgedDisk, Node, State

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
_LEAVE = "leave this disk out of models, serials and devices"


def judge(state: State, desired: Desired) -> Node:
    record = state.record or Record()
    arrays = tuple(_judge_array(array, state, record) for array in state.arrays)
    disks = tuple(_judge_disk(disk, state, desired, record, arrays) for disk in state.disks)
    chosen = tuple(sorted((one for one in disks if one.chosen), key=lambda one: (one.disk.serial, one.disk.name)))
    nothing = not chosen and not any(one.content == OURS for one in disks)
    declare: Optional[Action] = None
    if desired.present and desired.declare:
        content: Dict[str, Any] = desired.section()
        # Device paths mean other disks after a reboot; serials do not.
        named = [disk.serial for disk in state.disks if set(disk.aliases) & set(desired.devices)]
        content["serials"] = sorted(set(desired.serials) | set(named))
        del content["devices"]
        declare = declaration.plan(state.declared, SECTION, content)
    return Node(state, desired, record, arrays, disks, chosen, nothing, () if declare is None else (declare,))


def _judge_array(array: Array, state: State, record: Record) -> JudgedArray:
    uuid = array.uuid
    if uuid is None and set(array.members) <= {disk.name for disk in state.disks}:
        said = {disk.member.array_uuid if disk.member else None for disk in state.disks if disk.name in array.members}
        uuid = said.pop() if len(said) == 1 else None
    thing = "our {0}".format(array)
    unknown = [one for one in array.signatures if record.filesystem(one.uuid) is None]
    elsewhere = [point for point in array.mount_points if point != record.mount_point]
    reason = None
    if array.holders:
        reason = "{0} is built on it".format(", ".join(array.holders))
    elif array.partitions:
        reason = "it has the partitions {0}".format(", ".join(array.partitions))
    elif array.swap:
        reason = "it is in use as swap space"
    elif array.read_error is not None:
        reason = "it could not be read ({0})".format(array.read_error)
    elif unknown:
        reason = "it carries {0}, which is not in our record".format(unknown[0])
    elif array.broken and elsewhere and not array.signatures:
        reason = "a member is missing, and an unreadable file system is mounted from it at " + ", ".join(elsewhere)
    # No remedy erases or repairs anything while data of another owner exist.
    remedy = "move it to another device; run again when only our file system is on {0}".format(array.path)
    if array.read_error is not None:
        remedy = "look for errors of its disks in the kernel log, then run again"
    foreign = None if reason is None else Refusal(thing, reason, remedy)
    blocked = foreign
    if array.mount_points:
        at = ", ".join(array.mount_points)
        blocked = Refusal(
            thing, "it is in the way, and still mounted at {0}".format(at), "unmount {0}, then run again".format(at)
        )
    elif foreign is None and array.busy:
        blocked = Refusal(thing, "a program has it open", "end that use, then run again")
    return JudgedArray(array, uuid, record.array(uuid), foreign, blocked)


def _judge_disk(
    disk: Disk, state: State, desired: Desired, record: Record, arrays: Sequence[JudgedArray]
) -> JudgedDisk:
    # Of each block device on top of it, the array that it is; None: it is another device.
    holders = [(name, next((one for one in arrays if one.array.name == name), None)) for name in disk.holders]
    holding = any(one.build for one in arrays if one.array.name in disk.holders)
    mark, system, remote = _whose(disk, state, record, holding)
    chosen = (desired.matches_model(disk.model) and system is None) or disk.serial in desired.serials
    chosen = chosen or bool(set(disk.aliases) & set(desired.devices))
    held = holders[-1][1].build if holders and holders[-1][1] is not None else None
    reason = remote or _hardware_or_use(disk, state, mark, holders, system)
    if reason is None and mark is not None and held is not None and held.array_uuid != mark.array_uuid:
        remedy = "reboot the node, then run again"
        reason = Refusal(str(disk), "its superblock and the running array differ", remedy)
    build = (mark or held) if reason is None and (mark is not None or not disk.signatures) else None
    if reason is None and mark is None and disk.signatures:
        reason = _foreign(disk, state, record)
    content = OURS if build is not None else REFUSED
    if reason is None and build is None:
        content, reason = _content(disk)
    return JudgedDisk(disk, chosen, mark, build, content, reason, remote, system, _in_use(disk, state))


def _whose(
    disk: Disk, state: State, record: Record, holding: bool
) -> Tuple[Optional[Build], Optional[Refusal], Optional[Refusal]]:
    """The build whose UUID is the only thing that libblkid recognises on it; why it belongs to the operating system,
    whatever is between (partitions, md, LVM, LUKS, btrfs, ZFS); why another machine may have it in use.

    ``holding``: an array of ours is on top of it.
    """
    signature = disk.signatures[0] if len(disk.signatures) == 1 else None
    mark = None
    if signature is not None and signature.type == "linux_raid_member":
        # Two readers have to agree before we call it ours.
        agreed = disk.member is not None and disk.member.array_uuid == signature.uuid
        mark = record.array(signature.uuid) if agreed else None
    elif signature is not None:
        build = record.filesystem(signature.uuid)
        alone = build is not None and build.array_uuid is None and build.filesystem == signature.type
        mark = build if alone else None
    places = {mount.mount_point for mount in state.mounts if disk.name in mount.disks} | set(disk.mount_points)
    places &= SYSTEM_PLACES - (_BIND_PLACES if mark or holding else frozenset())
    used = sorted(places) + (["swap"] if disk.swap and (disk.partitions or disk.holders) else [])
    system, remote = None, None
    if used:
        system = Refusal(str(disk), "the system is on it ({0})".format(", ".join(used)), _LEAVE)
    if disk.transport in NETWORKS:
        reason = "it is reached over a network ({0}), so it is no local disk".format(disk.transport)
        remote = Refusal(str(disk), reason, "have it replaced, or " + _LEAVE)
    elif any(fnmatch.fnmatchcase(disk.model, pattern) for pattern in REMOTE_MODELS):
        reason = "it is a disk of the cloud's storage ({0}), which outlives the machine".format(disk.model)
        remote = Refusal(str(disk), reason, "give models that fit the local disks only, or leave this disk out")
    return mark, system, remote


def _hardware_or_use(
    disk: Disk,
    state: State,
    mark: Optional[Build],
    holders: Sequence[Tuple[str, Optional[JudgedArray]]],
    system: Optional[Refusal],
) -> Optional[Refusal]:
    """It cannot be used, or something that is not ours uses it: the system, swap, a mount, partitions, a device on top
    of it."""
    replace = "have it replaced, or " + _LEAVE
    if disk.size_bytes <= 0:
        return Refusal(str(disk), "its size is zero", replace)
    if disk.read_only:
        return Refusal(str(disk), "it is read-only", replace)
    if disk.read_error is not None:
        return Refusal(str(disk), "it could not be read ({0})".format(disk.read_error), replace)
    if not disk.serial:
        return Refusal(str(disk), "it has no serial number, so it cannot be recognised later", replace)
    if system is not None:
        return system
    if disk.swap:
        remedy = "run swapoff if the node can do without it, or leave this disk out"
        return Refusal(str(disk), "it is in use as swap space", remedy)
    if disk.mount_points and not (mark is not None and mark.array_uuid is None and not disk.partitions):
        remedy = "unmount it and wipe it if nobody needs its data, or " + _LEAVE
        return Refusal(str(disk), "it is mounted at {0}".format(", ".join(disk.mount_points)), remedy)
    if disk.partitions:
        reason = "it has a partition table with {0}".format(", ".join(disk.partitions))
        return Refusal(str(disk), reason, _release(disk))
    for holder, found in holders:
        if found is not None and found.build is not None:
            continue
        uuid = found.uuid if found is not None else None
        if uuid in {build.array_uuid for build in state.others} - {None}:
            return _of_another_machine(
                disk,
                "it is part of array {0} ({1})".format(array_form(uuid or ""), holder),
                "if nobody needs what is on it, stop it (mdadm --stop /dev/{0}) and wipe its disks (wipefs --all), or "
                "{1}".format(holder, _LEAVE),
            )
        if found is not None and (found.array.reshaping or found.array.syncing):
            return Refusal(
                str(disk),
                "it is part of array {0} of another owner, and md moves data between its disks".format(holder),
                "wait until that has ended (cat /proc/mdstat), or " + _LEAVE,
            )
        what = "array {0} ({1})".format(array_form(uuid), holder) if uuid else holder
        remedy = "take {0} apart if nobody needs it, or {1}".format(holder, _LEAVE)
        return Refusal(str(disk), "it is part of {0}, which is not ours".format(what), remedy)
    return None


def _content(disk: Disk) -> Tuple[str, Optional[Refusal]]:
    """The last questions: that libblkid recognises nothing is not enough to call a disk blank."""
    content = REFUSED
    if disk.busy:
        reason, remedy = "a program or a driver holds it open exclusively", "end that use, or leave this disk out"
    elif disk.openers is None:
        reason = "it could not be found out whether a process holds it open"
        remedy = "run it as root outside of containers, or " + _LEAVE
    elif disk.openers:
        reason, remedy = "{0} holds it open".format(", ".join(disk.openers)), "end that use, or " + _LEAVE
    elif disk.content is None:
        reason, remedy = "its content was not read", "run it again, or " + _LEAVE
    elif disk.content.other_at is None:
        return BLANK, None
    else:
        content = UNKNOWN_DATA
        reason = "it holds data of an unknown kind (at byte {0}), which are not in our record"
        reason = reason.format(disk.content.other_at)
        remedy = "if nobody needs them, {0}, or {1}".format(overwrite(disk.serial), _LEAVE)
    return content, Refusal(str(disk), reason, remedy)


def _in_use(disk: Disk, state: State) -> Optional[Refusal]:
    """Somebody has a disk of ours mounted or open, so that it cannot be erased.

    Of one beneath a mount that was not asked; it is once that is unmounted (``CheckDisks``).
    """
    again = "end that use, then run it again"
    if disk.mount_points:
        at = ", ".join(disk.mount_points)
        return Refusal(str(disk), "it is mounted at {0}".format(at), "unmount {0}, then run again".format(at))
    if any(disk.name in mount.disks for mount in state.mounts):
        return None
    if disk.openers is None:
        reason = "it could not be found out whether a process holds it open"
        return Refusal(str(disk), reason, "run it as root outside of containers")
    if disk.openers:
        return Refusal(str(disk), "{0} holds it open".format(", ".join(disk.openers)), again)
    if disk.busy and not disk.holders:
        return Refusal(str(disk), "a program or a driver holds it open exclusively", again)
    return None


def _foreign(disk: Disk, state: State, record: Record) -> Refusal:
    """It carries something that does not prove it ours."""
    found = "; ".join(str(signature) for signature in disk.signatures)
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


def _release(disk: Disk) -> str:
    return (
        "if nobody needs what is on it, wipe it (wipefs --all {0}) and {1}, "
        "or leave this disk out of models, serials and devices".format(disk.path, overwrite(disk.serial))
    )
