# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new scratch, on blank disks or after a loss: what must not be erased for it, and the steps in their order. Pure.

The marks of a finished build are erased only when the user says so (``rebuild``). After a deallocation there is none,
and nothing has to be erased. The marks of a build that never got its file system are erased once all of its disks are
here.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

from ...core.frozen import replaced
from ...core.resource import Action, Plan, Refusal
from ...facts.scratch.record import Build, array_form, extend
from . import mount
from .actions import CheckDisks, ClearDisk, CreateArray, EraseMark, MakeFilesystem, StopArray, WriteRecord
from .builds import Left, assembling
from .options import REBUILD, overwrite
from .types import OURS, UNKNOWN_DATA, Disk, Identity, Node, name_of

_ERASE = "if nobody needs its data, {0}, which erases what is left of it and builds anew".format(REBUILD)
_LOOK = "look at mdadm --detail of the array and mdadm --examine of its disks, then run again"


def create(node: Node, left: Sequence[Left], count: Sequence[Refusal], identity: Identity) -> Plan:
    """``count``: it is not the expected number of disks."""
    desired, overwritten = node.desired, node.desired.overwrite_serials
    disks = [one.disk for one in node.chosen]
    names = {disk.name for disk in disks}
    ours = [(one.disk, one.build, one) for one in node.chosen if one.build is not None and one.content == OURS]
    uuids = dict.fromkeys(build.array_uuid for dummy, build, one in ours if build.array_uuid)
    pieces = [array for uuid in uuids for array in node.arrays if array.uuid == uuid]
    refusals = _protected(node, left)
    protecting = {refusal.thing for refusal in refusals}
    # Whether it can be stopped and erased matters only where it may be.
    if not refusals:
        refusals += [array.blocked for array in pieces if array.blocked is not None]
        refusals += [one.in_use for dummy, build, one in ours if one.in_use is not None]
    for one in node.chosen:
        cleared = one.content == UNKNOWN_DATA and one.disk.serial in overwritten
        if one.reason is not None and not cleared and one.reason.thing not in protecting:
            refusals.append(one.reason)
    refusals += count
    for array in node.arrays:
        taken = name_of(array.array.array_name) == desired.array_name and array not in pieces
        if taken and not set(array.array.members) & names:
            uuid = array_form(array.uuid) if array.uuid else "unknown"
            reason = "{0} with UUID {1} bears it already".format(array.array.name, uuid)
            refusals.append(Refusal("array name " + desired.array_name, reason, "choose another array_name"))
    build = Build(
        array_uuid=None if len(disks) == 1 else identity.array_uuid,
        filesystem_uuid=identity.filesystem_uuid,
        filesystem=desired.filesystem,
        serials=tuple(disk.serial for disk in disks),
    )
    # Nothing that an array of these disks may show is to be kept: the user says so of all of them, or what shows is the
    # rest of a mkfs of ours on just these, which did not end. Marks of a build alone say nothing of that: it may have
    # ended before anybody could look at its array.
    begun = [one.complete for one in left if one.complete is not None and one.complete.content == "begun"]
    given_up = desired.rebuild or all(disk.serial in overwritten for disk in disks)
    given_up = given_up or any(set(node.chosen) <= set(one.disks) for one in begun)
    marks = tuple(EraseMark.of(one.disk, build) for dummy, build, one in ours if one.mark)
    clear = tuple(
        ClearDisk(one.disk.serial, one.disk.name)
        for one in node.chosen
        if one.content == UNKNOWN_DATA and one.disk.serial in overwritten
    )
    filesystem = MakeFilesystem.on(build, desired)
    mounting = mount.plan(node, build, None)
    refusals += mounting.refusals
    if refusals:
        return Plan(refusals=tuple(dict.fromkeys(refusals)), notes=mounting.notes)

    notes = list(mounting.notes)
    sizes = sorted({disk.size_bytes for disk in disks})
    if len(sizes) > 1:
        notes.append(
            "The disks differ in size ({0} to {1} bytes): the end of the larger is striped over fewer.".format(
                sizes[0], sizes[-1]
            )
        )
    lost = dict.fromkeys(str(build) for dummy, build, one in ours if build.finished)
    if lost:
        notes.append("As rebuild says, what is left of {0} is erased.".format(", ".join(lost)))
    begin = extend(mounting.record, build)
    done = extend(mounting.record, replaced(build, finished=True))
    steps: List[Action] = [WriteRecord(begin, "about to build on {0}".format(", ".join(build.serials)))]
    if marks or clear:
        touched = {step.serial for step in marks} | {step.serial for step in clear}
        blank = tuple(disk.serial for disk in disks if disk.serial not in touched)
        steps.append(CheckDisks(marks, clear, blank, node.known))
    steps += [StopArray(array.uuid or "", array.array.name) for array in pieces]
    steps += marks + clear
    if build.array_uuid is not None:
        steps.append(
            CreateArray(
                build.array_uuid,
                desired.array_name,
                desired.chunk_kib,
                build.serials,
                tuple(disk.name for disk in disks),
                # Marks that were wiped leave a file system that was finished readable: it goes by the user's word only.
                tuple(one.filesystem_uuid for one in node.record.builds if desired.rebuild or not one.finished),
                given_up,
            )
        )
    steps += [filesystem, WriteRecord(done, "the file system is made")]
    # Declared last: an option that the mount does not take must not be repeated by each boot.
    return Plan((*steps, *mounting.actions, *node.declare), notes=tuple(notes))


def _protected(node: Node, left: Sequence[Left]) -> List[Refusal]:
    """What of ours is in the way of a new build, and must not be lost for it."""
    names = {one.disk.name for one in node.chosen}
    overwritten = node.desired.overwrite_serials
    unknown = [
        one.disk for one in node.chosen if one.disk.content is not None and one.disk.content.other_at is not None
    ]
    lost = [_unrecognised(disk, node) for disk in unknown if disk.serial not in overwritten]
    found = [refusal for refusal in lost if refusal is not None]
    for one in left:
        taken = any(disk.name in names for disk in one.carriers)
        foreign = [array.foreign for array in one.arrays if array.foreign is not None]
        if foreign and (taken or one.build.finished):
            found += foreign
            continue
        if taken and one.copies:
            found += _copies(one, node.desired.rebuild)
        refusal = None
        if not node.desired.rebuild and (taken or one.build.finished):
            refusal = _kept(one, node)
        elif taken:
            refusal = one.unseen
        found += [refusal] if refusal is not None else []
    return found


def repair(filesystem: str, device: str) -> str:
    """How to find out whether a file system that is not recognised can still be read."""
    return {
        "xfs": "xfs_repair -n {0} tells whether a copy of its superblock can repair it, and without -n does so",
        "ext4": "e2fsck -n -b 32768 -B 4096 {0} tells whether a copy of its superblock can repair it",
    }.get(filesystem, "look at wipefs {0}").format(device)


def _unrecognised(disk: Disk, node: Node) -> Optional[Refusal]:
    """A single disk with a finished file system of ours that nothing recognises any more: no mark proves it ours."""
    build = next((build for build in reversed(node.record.builds) if disk.serial in build.serials), None)
    if build is None or not build.finished or build.array_uuid is not None or disk.signatures:
        return None
    return Refusal(
        str(disk),
        "{0} was on it and is not recognised any more, and its data may still be there".format(build),
        "{0}; mount it read-only and look; if nobody needs its data, {1}".format(
            repair(build.filesystem, disk.path), overwrite(disk.serial)
        ),
    )


def _copies(one: Left, given_up: bool) -> List[Refusal]:
    """Not even with consent (``given_up``) is a disk erased that only looks like one of ours."""
    found = []
    for disk in one.copies:
        if one.altered is not None:
            # Another tool that changed the array may have added this disk to it, so that only this disk contains some
            # of its data.
            reason = "it bears the mark of {0}, which was not built from this disk; {1}"
            remedy = "leave the disk where it is; {0}".format(_LOOK)
        elif given_up or _doubled(disk, one):
            reason = "it bears the mark of {0}, and is none of the disks that it was built of: a copy of one"
            remedy = "take it out, or wipe it if nobody needs it (wipefs --all {0}), then run again".format(disk.path)
        else:
            reason = (
                "it bears the mark of {0}, which was not built from this disk, and no other disk here has this part of "
                "its data: it may have replaced one, or its serial number was another"
            )
            remedy = "leave the disk where it is, and look for the others (nvme list, kernel log), then run again"
        found.append(Refusal(str(disk), reason.format(one.build, one.altered), remedy))
    return found


def _doubled(disk: Disk, one: Left) -> bool:
    """Whether another disk here has the same data."""
    others = [other for other in one.carriers if other.name != disk.name]
    if one.build.array_uuid is None:
        return bool(others)
    role = disk.member.role if disk.member is not None else None
    return role is not None and any(other.member is not None and other.member.role == role for other in others)


def _kept(one: Left, node: Node) -> Optional[Refusal]:
    """Why its marks are not erased without the user's word; None: nothing can be lost with them."""
    build, disks = one.build, node.state.disks
    bearing = {disk.serial for disk in one.carriers}
    missing = [serial for serial in build.serials if serial not in {disk.serial for disk in disks}]
    bare = [disk for disk in disks if disk.serial in build.serials and disk.serial not in bearing]
    if one.altered is not None:
        remedy = "save its data and have it as it was, or, " + _ERASE
        return one.unseen or Refusal(str(one.build), one.altered, remedy)
    here = len([serial for serial in build.serials if serial in bearing])
    left = "{0} of its {1} disks are here".format(here, len(build.serials))
    if missing:
        left = "{0}, and {1} is not: ".format(left, ", ".join("disk {0}".format(serial) for serial in missing))
        if not build.finished:
            return Refusal(
                str(one.build),
                left + "its build was never finished, so no file system is known to be on it",
                "look for it (nvme list, kernel log) and run again; if it was replaced, {0}, which erases what is left "
                "of that build and builds anew".format(REBUILD),
            )
        remedy = "look for it (nvme list, kernel log) and run again; {0}".format(_ERASE)
        return Refusal(str(one.build), left + "it may only be late, and bring the data back", remedy)
    if build.finished:
        if bare:
            left += ", and its mark has gone from {0}".format(", ".join(str(disk) for disk in bare))
        elif one.complete is None:
            left += ", and they make no whole array"
        remedy = "look at mdadm --examine of its disks; {0}".format(_ERASE)
        return Refusal(str(one.build), left, one.unseen.remedy if one.unseen is not None else remedy)
    if build.array_uuid is None and any(disk.filesystem is None for disk in one.carriers):
        reason = "its superblock could not be read, so nobody knows whether it is complete"
        return Refusal(str(one.build), reason, "run it again; " + _ERASE)
    if one.complete is None:
        return one.unseen
    if one.complete.content in ("nothing", "begun"):
        return None
    if one.complete.content == "unseen":
        reason = "all of its disks are here, and it is not assembled, so its content is unknown"
        return Refusal(str(one.build), reason, assembling(one) + " and run again")
    return Refusal(
        str(one.build),
        "there is something on it that is no file system of ours, although its own was never finished",
        "look at it (wipefs /dev/{0}, blkid), or, {1}".format(one.complete.device, _ERASE),
    )
