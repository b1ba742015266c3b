# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Undo: take away what is proven ours, leave everything else. Pure."""

from __future__ import annotations

from typing import Collection, List, Sequence, Tuple

from ...core import declaration
from ...core.resource import Action, Plan, Refusal
from . import fstab, mount
from .actions import (
    CheckDisks,
    EditFstab,
    EraseFilesystem,
    EraseMark,
    RemoveFolder,
    StopArray,
    StopAutomount,
    Unmount,
    WriteRecord,
)
from .builds import Left
from .options import SECTION
from .types import JudgedArray, JudgedDisk, Node, name_of

_KNOW = "run it as root outside of containers, where the UUID of the firmware or /etc/machine-id can be read"


def plan(node: Node, left: Sequence[Left]) -> Plan:
    state, desired, record = node.state, node.desired, node.record
    if state.machine is None and state.others:
        reason = "it does not tell which machine it is, so nobody knows whether what is recorded is its own"
        return Plan(refusals=(Refusal("this node", reason, _KNOW),))
    moving = tuple(one.moving for one in left if one.moving is not None)
    if moving:
        return Plan(refusals=moving)
    arrays = [one for one in node.arrays if one.build is not None]
    copies = {disk.name for one in left for disk in one.copies}
    marked = [one for one in node.disks if one.mark is not None and one.disk.name not in copies]
    refusals = [one.foreign for one in arrays if one.foreign is not None]
    names = {name for one in arrays for name in one.array.members}
    # A member with a partition table, or another mark than ours: to erase the file system of the array writes to it.
    mixed = [one for one in node.disks if one.disk.name in names and (one.disk.signatures or one.disk.partitions)]
    for judged in marked + [one for one in mixed if one not in marked]:
        if judged.reason is not None:
            refusals.append(judged.reason)
        elif judged.in_use is not None and not judged.disk.mount_points:
            refusals.append(judged.in_use)
    if not refusals:
        refusals += [one.unseen for one in left if one.unseen is not None]
    devices = {one.array.name for one in arrays} | {one.disk.name for one in marked}
    mounted = [found for found in state.mounts if found.device in devices]
    path = record.mount_point or desired.mount_point
    places = (path, desired.mount_point)
    own_mount = next((found for found in reversed(mounted) if found.mount_point in places and found.whole), None)
    notes = _left_alone(node, arrays, marked, copies)
    refusals += [over for over in map(mount.covered, mounted) if over is not None]
    refusals += [mount.second(found) for found in mounted if found is not own_mount]
    if refusals:
        return Plan(refusals=tuple(refusals), notes=notes)

    steps: List[Action] = []
    if own_mount is not None:
        steps.append(Unmount(own_mount.mount_point, own_mount.device or ""))
    own = [line for line in fstab.entries(state.fstab, path, node.known) if line.ours]
    automounts = tuple(
        StopAutomount(line.mount_point)
        for line in own
        if "x-systemd.automount" in line.options
        and any(found.mount_point == line.mount_point and found.filesystem == "autofs" for found in state.mounts)
    )
    marks = tuple(EraseMark.of(one.disk, one.mark) for one in marked if one.mark is not None)
    # Until all of it is known to be free, nothing is removed, and a check that fails mounts it again.
    uuids = tuple(dict.fromkeys(one.uuid or "" for one in arrays))
    if marks or uuids:
        steps.append(CheckDisks(marks, filesystems=node.known, arrays=uuids, unmounted=own_mount))
    steps.extend(automounts)
    forget = declaration.plan(state.declared, SECTION, None)
    if forget is not None and desired.declare:
        steps.append(forget)
    if own:
        steps.append(EditFstab(None, path, node.known, remove_if_empty=record.created_fstab))
    for one in arrays:
        uuid = one.uuid or ""
        if one.array.whole and one.build is not None:
            shown = [signature.uuid or "" for signature in one.array.signatures]
            steps.extend(EraseFilesystem(uuid, name) for name in shown or [one.build.filesystem_uuid])
        steps.append(StopArray(uuid, one.array.name))
    steps.extend(marks)
    # The deepest first. The record goes last: until then it proves what is ours.
    steps.extend(RemoveFolder(folder) for folder in sorted(record.created_folders, key=len, reverse=True))
    if state.record is not None:
        steps.append(WriteRecord(None, "nothing of ours is left"))
    return Plan(tuple(steps), notes=notes)


def _left_alone(
    node: Node, arrays: Sequence[JudgedArray], marked: Sequence[JudgedDisk], copies: Collection[str]
) -> Tuple[str, ...]:
    notes = [
        "{0} bears a copy of our mark and is none of the disks that were built on: it is left as it is.".format(
            one.disk
        )
        for one in node.disks
        if one.disk.name in copies
    ]
    for one in node.arrays:
        if one not in arrays and name_of(one.array.array_name) == node.desired.array_name:
            notes.append("{0} bears our name but is not in our record: it is left as it is.".format(one.array))
    here = {one.disk.serial for one in node.disks}
    gone = sorted({serial for build in node.record.builds[-1:] for serial in build.serials if serial not in here})
    if gone and marked:
        notes.append("Not here, so not erased: {0}.".format(", ".join("disk {0}".format(serial) for serial in gone)))
    return tuple(notes)
