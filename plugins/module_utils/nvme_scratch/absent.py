# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: take away what is proven ours, leave everything else. Pure."""

from __future__ import annotations

from typing import List, Tuple

from .. import declaration
from ..resource import Action, Plan, Refusal
from . import fstab
from .actions import EditFstab, EraseFilesystem, EraseMark, RemoveFolder, StopArray, Unmount, WriteRecord
from .classify import Ours, foreign_on_array, judge, name_of, ours_on_disk, uuid_of
from .desired import Desired
from .types import SECTION, Array, Disk, Record, State


def plan(state: State, desired: Desired) -> Plan:
    record = state.record or Record()
    arrays = [array for array in state.arrays if record.array(uuid_of(state, array)) is not None]
    marked = [disk for disk in state.disks if ours_on_disk(disk, record) is not None]
    refusals: List[Refusal] = []
    for array in arrays:
        foreign = foreign_on_array(array, record)
        if foreign is not None:
            refusals.append(Refusal("our {0}".format(array), foreign, "take that away first, then run again"))
    for disk in marked:
        verdict = judge(disk, state)
        if isinstance(verdict, Refusal):
            refusals.append(verdict)
    notes = _left_alone(state, desired, arrays, marked)
    if refusals:
        return Plan(refusals=tuple(refusals), notes=notes)

    steps: List[Action] = []
    forget = declaration.plan(state.declared, SECTION, None)
    if forget is not None and desired.declare:
        steps.append(forget)
    devices = {array.name for array in arrays} | {disk.name for disk in marked}
    # The last mount first, as one may stand on another.
    steps.extend(Unmount(m.mount_point, m.device) for m in reversed(state.mounts) if m.device in devices and m.device)
    known = tuple(build.filesystem_uuid for build in record.builds)
    path = record.mount_point or desired.mount_point
    if any(fstab.is_ours(line, path, known) for line in fstab.entries(state.fstab)):
        steps.append(EditFstab(None, path, known, remove_if_empty=record.created_fstab))
    for array in arrays:
        uuid = uuid_of(state, array) or ""
        for signature in array.signatures:
            steps.append(EraseFilesystem(uuid, signature.uuid or ""))
        steps.append(StopArray(uuid, array.name))
    for disk in marked:
        verdict = judge(disk, state)
        if isinstance(verdict, Ours):
            array_uuid = verdict.build.array_uuid
            steps.append(
                EraseMark(disk.serial, disk.name, array_uuid, None if array_uuid else verdict.build.filesystem_uuid)
            )
    # The deepest first. The record goes last: until then it proves what is ours.
    steps.extend(RemoveFolder(folder) for folder in sorted(record.created_folders, key=len, reverse=True))
    if state.record is not None:
        steps.append(WriteRecord(None, "nothing of ours is left"))
    return Plan(tuple(steps), notes=notes)


def _left_alone(state: State, desired: Desired, arrays: List[Array], marked: List[Disk]) -> Tuple[str, ...]:
    notes = []
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
