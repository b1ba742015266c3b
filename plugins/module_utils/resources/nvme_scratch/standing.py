# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of ours stands already: whole arrays and single disks. Pure."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.resource import Refusal
from ...facts.scratch.record import Build, Record
from .classify import arrays_of, name_of, ours_on_disk, usable, uuid_of
from .options import Desired
from .types import Array, Disk, Filesystem, Member, Signature, State, array_form


@frozen
class Standing:
    """A whole array or single disk that carries ``build``. ``array`` is None while it is not assembled whole."""

    build: Build
    disks: Tuple[Disk, ...]
    array: Optional[Array] = None
    pieces: Tuple[Array, ...] = ()

    @property
    def device(self) -> Optional[str]:
        """The kernel's name of the block device with the file system, when it is there."""
        if self.build.array_uuid is None:
            return self.disks[0].name
        return self.array.name if self.array is not None else None

    @property
    def filesystem(self) -> Optional[Filesystem]:
        if self.build.array_uuid is None:
            return self.disks[0].filesystem
        return self.array.filesystem if self.array is not None else None

    @property
    def signatures(self) -> Tuple[Signature, ...]:
        if self.build.array_uuid is None:
            return self.disks[0].signatures
        return self.array.signatures if self.array is not None else ()

    @property
    def mount_points(self) -> Tuple[str, ...]:
        if self.build.array_uuid is None:
            return self.disks[0].mount_points
        return self.array.mount_points if self.array is not None else ()

    @property
    def chunk_bytes(self) -> Optional[int]:
        if self.build.array_uuid is None:
            return None
        if self.array is not None:
            return self.array.chunk_bytes
        member = self.disks[0].member
        return member.chunk_bytes if member is not None else None


def _complete(members: List[Member]) -> bool:
    """The superblocks of one array add up to all of its members, each once."""
    count = members[0].raid_devices if members else None
    if count is None or len(members) != count:
        return False
    alike = all(m.raid_devices == count and m.level == "raid0" and not m.reshaping for m in members)
    return alike and sorted(-1 if m.role is None else m.role for m in members) == list(range(count))


def whole_array(state: State, uuid: str, build: Build) -> Optional[Standing]:
    """The array with this UUID if all of it is there, assembled or not."""
    pieces = arrays_of(state, uuid)
    running = next((array for array in pieces if array.whole and array.level == "raid0" and not array.reshaping), None)
    if running is not None:
        disks = tuple(disk for disk in state.disks if disk.name in running.members)
        if len(disks) != len(running.members):
            return None
        return Standing(_of(build, disks), disks, running, tuple(p for p in pieces if p is not running))
    carriers = [disk for disk in state.disks if disk.member is not None and disk.member.array_uuid == uuid]
    if not _complete([disk.member for disk in carriers if disk.member is not None]):
        return None
    # A disk that carries anything but the superblock is not ours to assemble.
    other = any([found.uuid for found in disk.signatures] != [uuid] for disk in carriers)
    if other or any(disk.partitions or disk.read_only or disk.read_error for disk in carriers):
        return None
    return Standing(_of(build, tuple(carriers)), tuple(carriers), None, pieces)


def _of(build: Build, disks: Tuple[Disk, ...]) -> Build:
    """The build as it stands on these disks; firmware may have changed what they call themselves."""
    return replaced(build, serials=tuple(sorted(disk.serial for disk in disks)))


def ours(state: State) -> Tuple[Standing, ...]:
    """All whole things of ours, the newest build first."""
    record = state.record or Record()
    found: List[Standing] = []
    for build in reversed(record.builds):
        if build.array_uuid is not None:
            standing = whole_array(state, build.array_uuid, build)
            if standing is not None:
                found.append(standing)
        else:
            found.extend(
                Standing(_of(build, (disk,)), (disk,))
                for disk in state.disks
                if ours_on_disk(disk, record) == build and not disk.partitions and not disk.holders
            )
    return tuple(found)


def made(standing: Standing) -> str:
    """What is on it: ``complete`` (our file system), ``begun`` (its mkfs did not end), ``nothing`` (it is blank),
    ``unseen`` (it is not assembled), ``unread`` (our mark is on it, its superblock did not come), or ``unclear``."""
    if standing.device is None:
        return "unseen"
    seen = standing.filesystem
    if standing.mount_points and (seen is None or seen.uuid == standing.build.filesystem_uuid):
        return "complete"
    if seen is not None and seen.uuid == standing.build.filesystem_uuid:
        return "begun" if seen.in_progress else "complete"
    if seen is None and any(one.uuid == standing.build.filesystem_uuid for one in standing.signatures):
        return "unread"
    content = standing.array.content if standing.array is not None else None
    blank = content is not None and content.other_at is None and not standing.signatures and seen is None
    return "nothing" if blank else "unclear"


def finished(standing: Standing) -> bool:
    """Its mkfs ended: a whole file system is one, whatever the record says, and may have been written since."""
    return standing.build.finished or made(standing) == "complete"


def damaged(standing: Standing) -> bool:
    """It was finished, and is not recognised any more."""
    return standing.build.finished and made(standing) not in ("complete", "unseen", "unread")


def by_name(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> Optional[Standing]:
    """Our work without our record (the system disk was made anew): name, label and all disks have to fit."""
    record = state.record or Record()
    names = {disk.name for disk in chosen}
    for array in state.arrays:
        uuid = uuid_of(state, array)
        if uuid is None or record.array(uuid) is not None or name_of(array.array_name) != desired.array_name:
            continue
        seen = array.filesystem
        if seen is None or not usable(seen, desired.filesystem_label) or not _clean_array(array, seen):
            continue
        if array.whole and array.level == "raid0" and set(array.members) == names:
            build = Build(uuid, seen.uuid, seen.type, tuple(sorted(d.serial for d in chosen)), True)
            return Standing(build, chosen, array)
    if len(chosen) == 1:
        disk = chosen[0]
        seen = disk.filesystem
        alone = not disk.partitions and not disk.holders and not disk.read_only and len(disk.signatures) == 1
        if seen is not None and alone and usable(seen, desired.filesystem_label):
            return Standing(Build(None, seen.uuid, seen.type, (disk.serial,), True), (disk,))
    return None


def asleep(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> Optional[Refusal]:
    """A whole array of our name that is not in our record and not assembled: what it is shows once it is."""
    record = state.record or Record()
    for uuid in dict.fromkeys(disk.member.array_uuid for disk in chosen if disk.member is not None):
        members = [disk.member for disk in chosen if disk.member is not None and disk.member.array_uuid == uuid]
        named = all(name_of(member.array_name) == desired.array_name for member in members)
        if named and record.array(uuid) is None and _complete(members) and not arrays_of(state, uuid):
            return Refusal(
                "array {0} ({1})".format(desired.array_name, array_form(uuid)),
                "it bears our name, is not in our record and not assembled",
                "assemble it (mdadm --assemble --scan) and run again: with our label on its file system it is taken up "
                "with its data",
            )
    return None


def _clean_array(array: Array, seen: Filesystem) -> bool:
    alone = len(array.signatures) == 1 and array.signatures[0].uuid == seen.uuid
    return alone and not array.holders and not array.partitions and not array.swap
