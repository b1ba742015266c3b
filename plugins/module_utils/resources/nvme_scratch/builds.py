# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge each build of our record once: what is here of it, and what lies on it. Pure.

The mark on a disk is all that proves it ours, and as long as one is left, the data may come back: a disk is late, a
copy was made of another, the level was changed by hand.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, Union

from ...core.frozen import frozen, replaced
from ...core.resource import Refusal
from ...facts.scratch.record import Build, array_form
from .types import Array, Disk, Filesystem, JudgedArray, JudgedDisk, Member, Node, name_of

_WAIT = (
    "wait until the reshape or recovery has ended (cat /proc/mdstat; mdadm --grow --continue {0} continues one "
    "that was interrupted), then run again"
)


@frozen
class Scratch:
    """All of an array or a single disk that carries ``build``. ``array`` is None while it is not assembled; ``pieces``
    are what the kernel has assembled of it besides. ``device``: the kernel's name of what its file system is on.

    ``content``: ``complete`` (our file system), ``begun`` (its mkfs did not end), ``nothing`` (it is blank), ``unseen``
    (it is not assembled), ``unread`` (it has our mark, and its superblock could not be read), or ``unclear``.
    ``finished``: its mkfs ended: a complete file system is one, whatever the record says, and may have been written
    since. ``damaged``: it was finished, and is not recognised any more.
    """

    build: Build
    disks: Tuple[JudgedDisk, ...]
    array: Optional[Array]
    pieces: Tuple[JudgedArray, ...]
    device: Optional[str]
    filesystem: Optional[Filesystem]
    mount_points: Tuple[str, ...]
    chunk_bytes: Optional[int]
    content: str
    finished: bool
    damaged: bool
    foreign: Optional[Refusal] = None

    def __str__(self) -> str:
        return str(self.build) if self.build.array_uuid else "our {0}".format(self.disks[0].disk)


@frozen
class Left:
    """What is left of a build: ``carriers`` have its mark, ``arrays`` are what the kernel has made of them.

    ``complete``: nothing is missing. ``copies``: carriers that it was not built of. ``superblocks`` of md on the
    carriers; None: libblkid recognises one that mdadm could not read. ``altered``: what somebody has changed of the
    array since it was built. ``unseen``: it may be readable, and its content is unknown, so neither
    rebuild nor absent erases it. ``moving``: a reshape or a recovery moves its data.
    """

    build: Build
    carriers: Tuple[Disk, ...]
    arrays: Tuple[JudgedArray, ...]
    complete: Optional[Scratch]
    copies: Tuple[Disk, ...]
    superblocks: Tuple[Optional[Member], ...]
    altered: Optional[str]
    unseen: Optional[Refusal] = None
    moving: Optional[Refusal] = None


def judge_builds(node: Node) -> Tuple[Tuple[Scratch, ...], Tuple[Left, ...]]:
    """All that is complete, and all that is left, of the newest build first."""
    complete: List[Scratch] = []
    left: List[Left] = []
    for build in reversed(node.record.builds):
        uuid = build.array_uuid or build.filesystem_uuid
        arrays = tuple(one for one in node.arrays if one.uuid == build.array_uuid and build.array_uuid is not None)
        found = None
        if build.array_uuid is not None:
            found = _array(node, build, arrays)
            complete += [found] if found is not None else []
        else:
            complete += [
                scratch(build, (one,))
                for one in node.disks
                if one.mark == build and not one.disk.partitions and not one.disk.holders
            ]
        held = {name for one in arrays for name in one.array.members}
        marked = [any(found.uuid == uuid for found in one.disk.signatures) for one in node.disks]
        carriers = tuple(
            one.disk
            for one, by_signature in zip(node.disks, marked)
            if by_signature
            or (one.disk.member is not None and one.disk.member.array_uuid == uuid)
            or one.disk.name in held
        )
        if carriers:
            left.append(_left(build, carriers, arrays, found))
    return tuple(complete), tuple(left)


def scratch(
    build: Build, disks: Tuple[JudgedDisk, ...], array: Optional[Array] = None, pieces: Tuple[JudgedArray, ...] = ()
) -> Scratch:
    """Its serials are those of today: firmware may have changed what the disks call themselves."""
    build = replaced(build, serials=tuple(sorted(one.disk.serial for one in disks)))
    device: Union[Array, Disk, None] = disks[0].disk if build.array_uuid is None else array
    if device is None:
        member = disks[0].disk.member
        chunk = member.chunk_bytes if member is not None else None
        return Scratch(build, disks, None, pieces, None, None, (), chunk, "unseen", build.finished, False)
    seen = device.filesystem
    ours = seen is not None and seen.uuid == build.filesystem_uuid
    blank = array is not None and array.content is not None and array.content.other_at is None
    if device.mount_points and (seen is None or ours):
        content = "complete"
    elif seen is not None and ours:
        content = "begun" if seen.in_progress else "complete"
    elif seen is None and any(one.uuid == build.filesystem_uuid for one in device.signatures):
        content = "unread"
    else:
        content = "nothing" if blank and not device.signatures and seen is None else "unclear"
    chunk = array.chunk_bytes if array is not None else None
    finished = build.finished or content == "complete"
    damaged = build.finished and content not in ("complete", "unread")
    places = device.mount_points
    return Scratch(build, disks, array, pieces, device.name, seen, places, chunk, content, finished, damaged)


def _array(node: Node, build: Build, pieces: Tuple[JudgedArray, ...]) -> Optional[Scratch]:
    """The array of this build if all of it is there, assembled or not."""
    for one in pieces:
        array = one.array
        if array.whole and array.level == "raid0" and not array.reshaping:
            members = tuple(judged for judged in node.disks if judged.disk.name in array.members)
            others = tuple(other for other in pieces if other is not one)
            found = scratch(build, members, array, others) if len(members) == len(array.members) else None
            return found if found is None else replaced(found, foreign=one.foreign)
    uuid = build.array_uuid
    carriers = [one for one in node.disks if one.disk.member is not None and one.disk.member.array_uuid == uuid]
    disks = tuple(one.disk for one in carriers)
    if not _all_members([disk.member for disk in disks]):
        return None
    # A disk that carries anything but the superblock is not ours to assemble.
    other = any([found.uuid for found in disk.signatures] != [uuid] for disk in disks)
    if other or any(disk.partitions or disk.read_only or disk.read_error for disk in disks):
        return None
    return scratch(build, tuple(carriers), None, pieces)


def _all_members(found: Sequence[Optional[Member]]) -> bool:
    """The superblocks of one array add up to all of its members, each once."""
    members = [member for member in found if member is not None]
    count = members[0].raid_devices if members else None
    if count is None or len(members) != count:
        return False
    alike = all(m.raid_devices == count and m.level == "raid0" and not m.reshaping for m in members)
    return alike and sorted(-1 if m.role is None else m.role for m in members) == list(range(count))


def _left(
    build: Build, carriers: Tuple[Disk, ...], arrays: Tuple[JudgedArray, ...], complete: Optional[Scratch]
) -> Left:
    # Firmware may rename disks, so a disk that is in the complete array is no copy.
    inside = {one.disk.name for one in complete.disks} if complete is not None else set()
    copies = tuple(disk for disk in carriers if disk.serial not in build.serials and disk.name not in inside)
    members = [disk.member for disk in carriers if disk.member is not None]
    changing = any(member.reshaping for member in members)
    changing = changing or any(one.array.reshaping or one.array.syncing for one in arrays)
    levels = {member.level for member in members} | {one.array.level for one in arrays if one.array.whole}
    others = sorted(level for level in levels if level not in (None, "raid0"))
    counts = {member.raid_devices for member in members} - {None, len(build.serials)}
    altered = None
    if changing:
        altered = "a reshape has begun on it and not ended"
    elif others:
        altered = "its level is {0} now, and it was built as raid0".format(", ".join(others))
    elif counts:
        altered = "it was built of {0} disks and has {1} now".format(
            len(build.serials), ", ".join(str(count) for count in sorted(c for c in counts if c is not None))
        )
    uuid = build.array_uuid or ""
    found = [(disk, disk.member is not None and disk.member.array_uuid == uuid) for disk in carriers]
    marks = tuple(
        disk.member if by_mdadm else None
        for disk, by_mdadm in found
        if by_mdadm or any(signature.uuid == uuid for signature in disk.signatures)
    )
    left = Left(build, carriers, arrays, complete, copies, marks, altered)
    # Only a RAID0 that lacks a member cannot be read; copies, spares and any other level may.
    unsure = [m for m in marks if m is None or m.level != "raid0" or m.reshaping or None in (m.role, m.raid_devices)]
    roles = {member.role for member in marks if member is not None}
    every = any(member is not None and roles >= set(range(member.raid_devices or 0)) for member in marks)
    if build.array_uuid is not None and (unsure or every) and not any(one.array.readable for one in arrays):
        raid0 = complete is not None or all(member is not None and member.level == "raid0" for member in marks)
        reason = "all of its disks are here, and it is not assembled" if raid0 else "it is not assembled"
        reason += ", so its content is unknown" + ("; " + altered if altered is not None else "")
        left = replaced(left, unseen=Refusal(str(build), reason, assembling(left) + " and run again"))
    if changing:
        wait = _WAIT.format(next((one.array.path for one in arrays), "of the array"))
        left = replaced(left, moving=left.unseen or Refusal(str(build), altered or "", wait))
    return left


def assembling(one: Left) -> str:
    """How a user assembles it. mdadm leaves out members whose events differ by more than one, without --force."""
    members = [member for member in one.superblocks if member is not None]
    events = [member.events for member in members if member.events is not None]
    if not events or max(events) - min(events) <= 1:
        return "assemble it (mdadm --assemble --scan)"
    return "assemble it ({0}mdadm --assemble --force --run --uuid={1} {2} {3})".format(
        "".join("mdadm --stop {0} && ".format(found.array.path) for found in one.arrays),
        array_form(one.build.array_uuid or ""),
        "/dev/md/" + next((name_of(member.array_name) for member in members if member.array_name), "scratch"),
        " ".join(disk.path for disk in one.carriers),
    )


def without_record(node: Node) -> Union[Scratch, Refusal, None]:
    """Our work without our record (the system disk was made anew): name, label and all disks have to fit."""
    record, desired, chosen = node.record, node.desired, tuple(one.disk for one in node.chosen)
    for one in node.arrays:
        array, seen = one.array, one.array.filesystem
        unknown = one.uuid is not None and one.build is None and name_of(array.array_name) == desired.array_name
        if not unknown or seen is None or seen.in_progress or seen.label != desired.filesystem_label:
            continue
        alone = len(array.signatures) == 1 and array.signatures[0].uuid == seen.uuid
        clean = alone and not array.holders and not array.partitions and not array.swap
        if clean and array.whole and array.level == "raid0" and set(array.members) == {disk.name for disk in chosen}:
            build = Build(one.uuid, seen.uuid, seen.type, tuple(sorted(disk.serial for disk in chosen)), True)
            # That it is not in our record is no reason here.
            foreign = one.foreign if array.read_error is not None else None
            return replaced(scratch(build, node.chosen, array), foreign=foreign)
    if len(chosen) == 1:
        disk, seen = chosen[0], chosen[0].filesystem
        alone = not disk.partitions and not disk.holders and not disk.read_only and len(disk.signatures) == 1
        if alone and seen is not None and not seen.in_progress and seen.label == desired.filesystem_label:
            return scratch(Build(None, seen.uuid, seen.type, (disk.serial,), True), node.chosen)
    for uuid in dict.fromkeys(disk.member.array_uuid for disk in chosen if disk.member is not None):
        members = [disk.member for disk in chosen if disk.member is not None and disk.member.array_uuid == uuid]
        named = all(name_of(member.array_name) == desired.array_name for member in members)
        running = any(one.uuid == uuid for one in node.arrays)
        if named and record.array(uuid) is None and _all_members(members) and not running:
            return Refusal(
                "array {0} ({1})".format(desired.array_name, array_form(uuid)),
                "it bears our name, is not in our record and not assembled",
                "assemble it (mdadm --assemble --scan) and run again: with our label on its file system it is taken up "
                "with its data",
            )
    return None
