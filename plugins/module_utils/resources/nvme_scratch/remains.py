# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left on this node of what we built, and why it is not erased. Pure.

A mark is all that proves a disk ours, and as long as one is left, the data may come back: a disk is late, a copy was
made of another, the level was changed by hand. So the marks of a finished build are erased only when the user says so
(``rebuild``). After a deallocation there is none, and nothing has to be erased. The marks of a build that never got its
file system are erased once all of its disks are here.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Refusal
from ...facts.scratch.record import Build, Record
from .actions import EraseMark
from .classify import arrays_of, foreign_on_array, name_of
from .options import REBUILD, overwrite
from .standing import Standing, made, whole_array
from .types import Array, Disk, Member, State, array_form, filesystem_form

ERASE = "if nobody needs its data, {0}, which erases what is left of it and builds anew".format(REBUILD)


@frozen
class Remains:
    """``carriers`` bear its mark, ``arrays`` are what the kernel has made of them; ``whole``: nothing is missing."""

    build: Build
    carriers: Tuple[Disk, ...]
    arrays: Tuple[Array, ...] = ()
    whole: Optional[Standing] = None

    @property
    def thing(self) -> str:
        return thing(self.build)

    @property
    def copies(self) -> Tuple[Disk, ...]:
        """Carriers that it was not built of: of a whole one those that are not in it, as firmware may rename disks."""
        inside = {disk.name for disk in self.whole.disks} if self.whole is not None else set()
        return tuple(
            disk for disk in self.carriers if disk.serial not in self.build.serials and disk.name not in inside
        )


def thing(build: Build) -> str:
    if build.array_uuid is not None:
        return "our array {0}".format(array_form(build.array_uuid))
    return "our file system {0}".format(filesystem_form(build.filesystem_uuid))


def foreign(array: Array, record: Record) -> Optional[Refusal]:
    """Our array contains data of another owner. No remedy erases or repairs anything while these data exist."""
    found = foreign_on_array(array, record)
    if found is None:
        return None
    remedy = "move it to another device; run again when only our file system is on {0}".format(array.path)
    if array.read_error is not None:
        remedy = "look for errors of its disks in the kernel log, then run again"
    return Refusal("our {0}".format(array), found, remedy)


def _marks(one: Remains) -> Tuple[Optional[Member], ...]:
    """The superblocks of its carriers; None: libblkid recognises one that mdadm could not read."""
    uuid = one.build.array_uuid
    return tuple(
        disk.member if disk.member is not None and disk.member.array_uuid == uuid else None
        for disk in one.carriers
        if _carries(disk, uuid or "")
    )


def _may_run(one: Remains) -> bool:
    """Whether the members that are here may add up to an array that can be read. Only a RAID0 that lacks a member
    cannot; copies, spares and any other level may."""
    marks = _marks(one)
    for member in marks:
        if member is None or member.level != "raid0" or member.reshaping:
            return True
        if member.role is None or member.raid_devices is None:
            return True
    roles = {member.role for member in marks if member is not None}
    return any(member is not None and roles >= set(range(member.raid_devices or 0)) for member in marks)


def assembling(one: Remains) -> str:
    """How a user assembles it. mdadm leaves out members whose events differ by more than one, without --force."""
    events = [member.events for member in _marks(one) if member is not None and member.events is not None]
    force = bool(events) and max(events) - min(events) > 1
    if not force:
        return "assemble it (mdadm --assemble --scan)"
    stop = "".join("mdadm --stop {0} && ".format(array.path) for array in one.arrays)
    return "assemble it ({0}mdadm --assemble --force --run --uuid={1} {2} {3})".format(
        stop,
        array_form(one.build.array_uuid or ""),
        "/dev/md/" + next((name_of(m.array_name) for m in _marks(one) if m is not None and m.array_name), "scratch"),
        " ".join(disk.path for disk in one.carriers),
    )


def unseen(one: Remains) -> Optional[Refusal]:
    """An array that may be readable and whose content is unknown is not erased, neither by rebuild nor by absent."""
    if one.build.array_uuid is None or any(array.readable for array in one.arrays) or not _may_run(one):
        return None
    marks = _marks(one)
    whole = one.whole is not None or all(member is not None and member.level == "raid0" for member in marks)
    here = "all of its disks are here, and it is not assembled" if whole else "it is not assembled"
    altered = _altered(one)
    reason = here + ", so its content is unknown"
    if altered is not None:
        reason += "; {0}".format(altered)
    return Refusal(one.thing, reason, assembling(one) + " and run again")


def _carries(disk: Disk, uuid: str) -> bool:
    return any(signature.uuid == uuid for signature in disk.signatures) or (
        disk.member is not None and disk.member.array_uuid == uuid
    )


def of(state: State) -> Tuple[Remains, ...]:
    """Of every build that has left something here, the newest first."""
    found = []
    for build in reversed((state.record or Record()).builds):
        arrays = arrays_of(state, build.array_uuid) if build.array_uuid is not None else ()
        held = {name for array in arrays for name in array.members}
        uuid = build.array_uuid or build.filesystem_uuid
        carriers = tuple(disk for disk in state.disks if _carries(disk, uuid) or disk.name in held)
        if carriers:
            whole = whole_array(state, uuid, build) if build.array_uuid is not None else None
            found.append(Remains(build, carriers, arrays, whole))
    return tuple(found)


def repair(filesystem: str, device: str) -> str:
    """How to find out whether a file system that is not recognised can still be read."""
    return {
        "xfs": "xfs_repair -n {0} tells whether a copy of its superblock can repair it, and without -n does so",
        "ext4": "e2fsck -n -b 32768 -B 4096 {0} tells whether a copy of its superblock can repair it",
    }.get(filesystem, "look at wipefs {0}").format(device)


_WAIT = (
    "wait until the reshape or recovery has ended (cat /proc/mdstat; mdadm --grow --continue {0} continues one "
    "that was interrupted), then run again"
)
_LOOK = "look at mdadm --detail of the array and mdadm --examine of its disks, then run again"


def _names(disks: Tuple[Disk, ...]) -> str:
    return ", ".join(str(disk) for disk in disks)


def changing(one: Remains) -> bool:
    """A reshape or a recovery moves its data: no member may be taken out, and nothing may be erased."""
    members = [disk.member for disk in one.carriers if disk.member is not None]
    return any(member.reshaping for member in members) or any(array.reshaping or array.syncing for array in one.arrays)


def moving(state: State) -> Tuple[Refusal, ...]:
    """Of arrays whose data are being moved. Alone: the remedies of other refusals end the program that moves them, or
    erase or remove a disk that has a part of them."""
    return tuple(
        unseen(one)
        or Refusal(
            one.thing,
            "a reshape has begun on it and not ended",
            _WAIT.format(next((array.path for array in one.arrays), "of the array")),
        )
        for one in of(state)
        if changing(one)
    )


def _altered(one: Remains) -> Optional[str]:
    """What somebody has changed of the array since it was built."""
    members = [disk.member for disk in one.carriers if disk.member is not None]
    if changing(one):
        return "a reshape has begun on it and not ended"
    levels = {member.level for member in members} | {array.level for array in one.arrays if array.whole}
    others = sorted(level for level in levels if level not in (None, "raid0"))
    if others:
        return "its level is {0} now, and it was built as raid0".format(", ".join(others))
    counts = {member.raid_devices for member in members} - {None, len(one.build.serials)}
    if counts:
        return "it was built of {0} disks and has {1} now".format(
            len(one.build.serials), ", ".join(str(count) for count in sorted(c for c in counts if c is not None))
        )
    return None


def unrecognised(disk: Disk, state: State) -> Optional[Refusal]:
    """A single disk with a finished file system of ours that nothing recognises any more: no mark proves it ours."""
    builds = [build for build in (state.record or Record()).builds if disk.serial in build.serials]
    if not builds or not builds[-1].finished or builds[-1].array_uuid is not None or disk.signatures:
        return None
    if disk.content is None or disk.content.other_at is None:
        return None
    return Refusal(
        str(disk),
        "{0} was on it and is not recognised any more, and its data may still be there".format(thing(builds[-1])),
        "{0}; mount it read-only and look; if nobody needs its data, {1}".format(
            repair(builds[-1].filesystem, disk.path), overwrite(disk.serial)
        ),
    )


def _doubled(disk: Disk, one: Remains) -> bool:
    """Whether another disk here has the same data."""
    others = [other for other in one.carriers if other.name != disk.name]
    if one.build.array_uuid is None:
        return bool(others)
    role = disk.member.role if disk.member is not None else None
    return role is not None and any(other.member is not None and other.member.role == role for other in others)


def copies(one: Remains, given_up: bool) -> Tuple[Refusal, ...]:
    """Not even with consent (``given_up``) is a disk erased that only looks like one of ours."""
    altered = _altered(one)
    if altered is not None:
        # Another tool that changed the array may have added this disk to it, so that only this disk contains some of
        # its data.
        return tuple(
            Refusal(
                str(disk),
                "it bears the mark of {0}, which was not built from this disk; {1}".format(one.thing, altered),
                "leave the disk where it is; {0}".format(_LOOK),
            )
            for disk in one.copies
        )
    return tuple(
        Refusal(
            str(disk),
            "it bears the mark of {0}, and is none of the disks that it was built of: a copy of one".format(one.thing),
            "take it out, or wipe it if nobody needs it (wipefs --all {0}), then run again".format(disk.path),
        )
        if given_up or _doubled(disk, one)
        else Refusal(
            str(disk),
            "it bears the mark of {0}, which was not built from this disk, and no other disk here has this part of its "
            "data: it may have replaced one, or its serial number was another".format(one.thing),
            "leave the disk where it is, and look for the others (nvme list, kernel log), then run again",
        )
        for disk in one.copies
    )


def kept(one: Remains, state: State) -> Optional[Refusal]:
    """Why its marks are not erased without the user's word; None: nothing can be lost with them."""
    build = one.build
    here = {disk.serial for disk in state.disks}
    bearing = {disk.serial for disk in one.carriers}
    missing = [serial for serial in build.serials if serial not in here]
    bare = [disk for disk in state.disks if disk.serial in build.serials and disk.serial not in bearing]
    altered = _altered(one)
    left = "{0} of its {1} disks are here".format(
        len([serial for serial in build.serials if serial in bearing]), len(build.serials)
    )
    strange = unseen(one) if altered is not None else None
    if strange is not None:
        return strange
    if altered is not None:
        return Refusal(one.thing, altered, "save its data and have it as it was, or, " + ERASE)
    if missing:
        gone = ", ".join("disk {0}".format(serial) for serial in missing)
        if not build.finished:
            return Refusal(
                one.thing,
                "{0}, and {1} is not: its build was never finished, so no file system is known to be on it".format(
                    left, gone
                ),
                "look for it (nvme list, kernel log) and run again; if it was replaced, {0}, which erases what is left "
                "of that build and builds anew".format(REBUILD),
            )
        return Refusal(
            one.thing,
            "{0}, and {1} is not: it may only be late, and bring the data back".format(left, gone),
            "look for it (nvme list, kernel log) and run again; {0}".format(ERASE),
        )
    if build.finished:
        reason = left
        if bare:
            reason += ", and its mark has gone from {0}".format(_names(tuple(bare)))
        elif one.whole is None:
            reason += ", and they make no whole array"
        strange = unseen(one)
        if strange is not None:
            return Refusal(one.thing, reason, strange.remedy)
        return Refusal(one.thing, reason, "look at mdadm --examine of its disks; {0}".format(ERASE))
    if build.array_uuid is None and any(disk.filesystem is None for disk in one.carriers):
        return Refusal(
            one.thing,
            "its superblock could not be read, so nobody knows whether it is complete",
            "run it again; " + ERASE,
        )
    if one.whole is None:
        return unseen(one)
    content = made(one.whole)
    if content in ("nothing", "begun"):
        return None
    if content == "unseen":
        return Refusal(
            one.thing,
            "all of its disks are here, and it is not assembled, so its content is unknown",
            assembling(one) + " and run again",
        )
    return Refusal(
        one.thing,
        "there is something on it that is no file system of ours, although its own was never finished",
        "look at it (wipefs /dev/{0}, blkid), or, {1}".format(one.whole.device, ERASE),
    )


def beside(one: Standing, state: State) -> Tuple[Tuple[Refusal, ...], Tuple[str, ...]]:
    """Refusals and notes on disks that bear the mark of what stands whole, and are not part of it."""
    inside = {disk.name for disk in one.disks}
    refusals: List[Refusal] = []
    notes: List[str] = []
    for left in of(state):
        if left.build.filesystem_uuid != one.build.filesystem_uuid:
            continue
        strangers = [disk for disk in one.disks if disk.serial not in left.build.serials]
        for disk in left.carriers:
            if disk.name in inside:
                continue
            if disk.serial in left.build.serials and strangers:
                refusals.append(
                    Refusal(
                        str(disk),
                        "it belongs to {0}, which runs with {1} in its place".format(
                            left.thing, _names(tuple(strangers))
                        ),
                        "find out which of them is right, take the other out or wipe it, and reboot",
                    )
                )
            else:
                notes.append("{0} bears a copy of the mark of {1}; it is left as it is.".format(disk, left.thing))
    return tuple(refusals), tuple(notes)


def mark(disk: Disk, build: Build) -> EraseMark:
    alone = build.array_uuid is None
    return EraseMark(disk.serial, disk.name, build.array_uuid, build.filesystem_uuid if alone else None)


def in_use(disk: Disk, state: State) -> Optional[Refusal]:
    """A disk of ours that is to be erased, while somebody has it mounted or open.

    Of one beneath a mount that was not asked; it is once that is unmounted (:class:`CheckDisks`).
    """
    if disk.mount_points:
        at = ", ".join(disk.mount_points)
        return Refusal(str(disk), "it is mounted at {0}".format(at), "unmount {0}, then run again".format(at))
    if any(disk.name in mount.disks for mount in state.mounts):
        return None
    if disk.openers is None:
        return Refusal(
            str(disk),
            "it could not be found out whether a process holds it open",
            "run it as root outside of containers",
        )
    if disk.openers:
        return Refusal(
            str(disk), "{0} holds it open".format(", ".join(disk.openers)), "end that use, then run it again"
        )
    if disk.busy and not disk.holders:
        return Refusal(str(disk), "a program or a driver holds it open exclusively", "end that use, then run it again")
    return None
