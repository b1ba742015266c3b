# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: take away what is proven ours, leave everything else. Pure."""

from __future__ import annotations

from typing import Collection, List, Tuple

from ...core import declaration
from ...core.resource import Action, Plan, Refusal
from ...facts.scratch.record import Record
from . import fstab, mounting, remains
from .actions import (
    CheckDisks,
    EditFstab,
    EraseFilesystem,
    RemoveFolder,
    StopArray,
    StopAutomount,
    Unmount,
    WriteRecord,
)
from .classify import judge, name_of, ours_on_disk, uuid_of
from .options import Desired
from .remains import in_use, mark
from .types import SECTION, Array, Disk, Mount, State

_KNOW = "run it as root outside of containers, where the UUID of the firmware or /etc/machine-id can be read"


def plan(state: State, desired: Desired) -> Plan:
    if state.machine is None and state.others:
        reason = "it does not tell which machine it is, so nobody knows whether what is recorded is its own"
        return Plan(refusals=(Refusal("this node", reason, _KNOW),))
    moving = remains.moving(state)
    if moving:
        return Plan(refusals=moving)
    record = state.record or Record()
    arrays = [array for array in state.arrays if record.array(uuid_of(state, array)) is not None]
    copies = {disk.name for one in remains.of(state) for disk in one.copies}
    marked = [disk for disk in state.disks if ours_on_disk(disk, record) is not None and disk.name not in copies]
    refusals: List[Refusal] = []
    for array in arrays:
        foreign = remains.foreign(array, record)
        if foreign is not None:
            refusals.append(foreign)
    names = {name for array in arrays for name in array.members}
    # A member with a partition table, or another mark than ours: to erase the file system of the array writes to it.
    mixed = [disk for disk in state.disks if disk.name in names and (disk.signatures or disk.partitions)]
    for disk in marked + [disk for disk in mixed if disk not in marked]:
        verdict = judge(disk, state)
        if isinstance(verdict, Refusal):
            refusals.append(verdict)
        elif not disk.mount_points:
            refusals.extend(refusal for refusal in [in_use(disk, state)] if refusal is not None)
    if not refusals:
        refusals += [refusal for refusal in map(remains.unseen, remains.of(state)) if refusal is not None]
    devices = {array.name for array in arrays} | {disk.name for disk in marked}
    mounted = [mount for mount in state.mounts if mount.device in devices]
    refusals.extend(found for found in map(mounting.covered, mounted) if found is not None)
    path = record.mount_point or desired.mount_point
    places = (path, desired.mount_point)
    own_mount = next((mount for mount in reversed(mounted) if mount.mount_point in places and mount.whole), None)
    refusals.extend(_second(mount) for mount in mounted if mount is not own_mount)
    notes = _left_alone(state, desired, arrays, marked, copies)
    if refusals:
        return Plan(refusals=tuple(refusals), notes=notes)

    steps: List[Action] = []
    if own_mount is not None:
        steps.append(Unmount(own_mount.mount_point, own_mount.device or ""))
    known = tuple(build.filesystem_uuid for build in record.builds)
    own = [line for line in fstab.entries(state.fstab) if fstab.is_ours(line, path, known)]
    automounts = tuple(
        StopAutomount(line.mount_point)
        for line in own
        if "x-systemd.automount" in line.options
        and any(mount.mount_point == line.mount_point and mount.filesystem == "autofs" for mount in state.mounts)
    )
    marks = tuple(mark(disk, build) for disk, build in ((d, ours_on_disk(d, record)) for d in marked) if build)
    # Until all of it is known to be free, nothing is removed, and a check that fails mounts it again.
    uuids = tuple(dict.fromkeys(uuid_of(state, array) or "" for array in arrays))
    if marks or uuids:
        steps.append(CheckDisks(marks, filesystems=known, arrays=uuids, unmounted=own_mount))
    steps.extend(automounts)
    forget = declaration.plan(state.declared, SECTION, None)
    if forget is not None and desired.declare:
        steps.append(forget)
    if own:
        steps.append(EditFstab(None, path, known, remove_if_empty=record.created_fstab))
    for array in arrays:
        uuid = uuid_of(state, array) or ""
        build = record.array(uuid)
        if array.whole and build is not None:
            shown = [signature.uuid or "" for signature in array.signatures]
            steps.extend(EraseFilesystem(uuid, one) for one in shown or [build.filesystem_uuid])
        steps.append(StopArray(uuid, array.name))
    steps.extend(marks)
    # The deepest first. The record goes last: until then it proves what is ours.
    steps.extend(RemoveFolder(folder) for folder in sorted(record.created_folders, key=len, reverse=True))
    if state.record is not None:
        steps.append(WriteRecord(None, "nothing of ours is left"))
    return Plan(tuple(steps), notes=notes)


def _second(mount: Mount) -> Refusal:
    return Refusal(
        mount.mount_point,
        "our file system, or a directory of it, is mounted there too",
        "unmount it (umount {0}), then run again".format(mount.mount_point),
    )


def _left_alone(
    state: State, desired: Desired, arrays: List[Array], marked: List[Disk], copies: Collection[str]
) -> Tuple[str, ...]:
    notes = [
        "{0} bears a copy of our mark and is none of the disks that were built on: it is left as it is.".format(disk)
        for disk in state.disks
        if disk.name in copies
    ]
    for array in state.arrays:
        if array not in arrays and name_of(array.array_name) == desired.array_name:
            notes.append("{0} bears our name but is not in our record: it is left as it is.".format(array))
    here = {disk.serial for disk in state.disks}
    gone = sorted(
        {serial for build in (state.record or Record()).builds[-1:] for serial in build.serials if serial not in here}
    )
    if gone and marked:
        notes.append("Not here, so not erased: {0}.".format(", ".join("disk {0}".format(serial) for serial in gone)))
    return tuple(notes)
