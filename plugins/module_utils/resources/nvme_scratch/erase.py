# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why what is left of our builds is not erased for a new one. Pure.

The marks of a finished build are erased only when the user says so (``rebuild``). After a deallocation there is none,
and nothing has to be erased. The marks of a build that never got its file system are erased once all of its disks are
here.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

from ...core.resource import Refusal
from .builds import Left, assembling
from .options import REBUILD, overwrite
from .types import Disk, Node

_ERASE = "if nobody needs its data, {0}, which erases what is left of it and builds anew".format(REBUILD)
_LOOK = "look at mdadm --detail of the array and mdadm --examine of its disks, then run again"


def protected(node: Node, left: Sequence[Left]) -> List[Refusal]:
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
