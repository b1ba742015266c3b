# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new scratch: what has to go for it, and the steps in their order. Pure."""

from __future__ import annotations

from typing import List, Tuple

from ...core.frozen import replaced
from ...core.resource import Action, Plan, Refusal
from ...facts.scratch.record import Build, Record, extend
from . import mounting, remains, selection, standing
from .actions import CheckDisks, ClearDisk, CreateArray, MakeFilesystem, StopArray, WriteRecord
from .classify import Blank, Ours, arrays_of, judge, name_of, uuid_of
from .options import Desired
from .types import Array, Disk, Identity, State, array_form


def build(state: State, desired: Desired, chosen: Tuple[Disk, ...], identity: Identity) -> Plan:
    record = state.record or Record()
    verdicts = [(disk, judge(disk, state, desired.overwrite_serials)) for disk in chosen]
    refusals = _given_up(state, desired, chosen)
    told = {refusal.thing for refusal in refusals}
    ours = [(disk, verdict) for disk, verdict in verdicts if isinstance(verdict, Ours)]
    names = {disk.name for disk in chosen}
    uuids = dict.fromkeys(v.build.array_uuid for dummy, v in ours if v.build.array_uuid is not None)
    pieces = tuple(array for uuid in uuids for array in arrays_of(state, uuid) if uuid)
    # Whether it can be stopped and erased matters only where it may be.
    if not refusals:
        refusals.extend(pieces_refusals(state, pieces))
        found = (remains.in_use(disk, state) for disk, dummy in ours)
        refusals.extend(refusal for refusal in found if refusal is not None)
    refusals.extend(
        verdict for dummy, verdict in verdicts if isinstance(verdict, Refusal) and verdict.thing not in told
    )
    refusals.extend(_count_refusals(state, desired, chosen))
    for array in state.arrays:
        taken = name_of(array.array_name) == desired.array_name and array not in pieces
        if taken and not set(array.members) & names:
            uuid = uuid_of(state, array)
            refusals.append(
                Refusal(
                    "array name {0}".format(desired.array_name),
                    "{0} with UUID {1} bears it already".format(array.name, array_form(uuid) if uuid else "unknown"),
                    "choose another array_name",
                )
            )
    alone = len(chosen) == 1
    build = Build(
        array_uuid=None if alone else identity.array_uuid,
        filesystem_uuid=identity.filesystem_uuid,
        filesystem=desired.filesystem,
        serials=tuple(disk.serial for disk in chosen),
    )
    mount_plan = mounting.plan(state, desired, build, None)
    refusals.extend(mount_plan.refusals)
    if refusals:
        return Plan(refusals=tuple(dict.fromkeys(refusals)), notes=mount_plan.notes)

    notes = list(mount_plan.notes)
    sizes = sorted({disk.size_bytes for disk in chosen})
    if len(sizes) > 1:
        notes.append(
            "The disks differ in size ({0} to {1} bytes): the end of the larger is striped over fewer.".format(
                sizes[0], sizes[-1]
            )
        )
    lost = dict.fromkeys(remains.thing(verdict.build) for dummy, verdict in ours if verdict.build.finished)
    if lost:
        notes.append("As rebuild says, what is left of {0} is erased.".format(", ".join(lost)))
    planned = mounting.noted(extend(state.base_record, build), mount_plan, desired)
    done = mounting.noted(extend(state.base_record, replaced(build, finished=True)), mount_plan, desired)
    steps: List[Action] = [WriteRecord(planned, "about to build on {0}".format(", ".join(build.serials)))]
    marks = tuple(remains.mark(disk, verdict.build) for disk, verdict in ours if verdict.marked)
    clear = tuple(
        ClearDisk(disk.serial, disk.name) for disk, verdict in verdicts if isinstance(verdict, Blank) and verdict.clear
    )
    if marks or clear:
        touched = {one.serial for one in marks + clear}
        blank = tuple(disk.serial for disk in chosen if disk.serial not in touched)
        steps.append(CheckDisks(marks, clear, blank, tuple(one.filesystem_uuid for one in record.builds)))
    steps.extend(StopArray(uuid_of(state, piece) or "", piece.name) for piece in pieces)
    steps.extend(marks + clear)
    if build.array_uuid is not None:
        steps.append(
            CreateArray(
                build.array_uuid,
                desired.array_name,
                desired.chunk_kib,
                build.serials,
                tuple(disk.name for disk in chosen),
                # Marks that were wiped leave a file system that was finished readable: it goes by the user's word only.
                tuple(one.filesystem_uuid for one in record.builds if desired.rebuild or not one.finished),
                _all_given_up(state, desired, chosen),
            )
        )
    steps.append(filesystem(desired, build))
    steps.append(WriteRecord(done, "the file system is made"))
    return Plan(tuple(steps) + mount_plan.actions, notes=tuple(notes))


def _given_up(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> List[Refusal]:
    """What of ours is in the way of a new build, and is not to be lost for it."""
    names = {disk.name for disk in chosen}
    record = state.record or Record()
    found = [
        refusal
        for refusal in (
            remains.unrecognised(disk, state) for disk in chosen if disk.serial not in desired.overwrite_serials
        )
        if refusal is not None
    ]
    for one in remains.of(state):
        taken = any(disk.name in names for disk in one.carriers)
        theirs = [
            refusal for refusal in (remains.foreign(array, record) for array in one.arrays) if refusal is not None
        ]
        if theirs and (taken or one.build.finished):
            found.extend(theirs)
            continue
        if taken:
            found.extend(refusal for refusal in remains.copies(one, desired.rebuild))
        if not desired.rebuild and (taken or one.build.finished):
            refusal = remains.kept(one, state)
            found.extend([refusal] if refusal is not None else [])
        elif taken:
            refusal = remains.unseen(one)
            found.extend([refusal] if refusal is not None else [])
    return found


def _all_given_up(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> bool:
    """Whether nothing that an array of these disks may show is to be kept: the user says so of all of them, or what
    shows is the rest of a mkfs of ours on just these, which did not end.

    Marks of a build alone say nothing of that: it may have ended before anybody could look at its array.
    """
    if desired.rebuild or all(disk.serial in desired.overwrite_serials for disk in chosen):
        return True
    return any(
        one.whole is not None and standing.made(one.whole) == "begun" and set(chosen) <= set(one.whole.disks)
        for one in remains.of(state)
    )


def _count_refusals(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> List[Refusal]:
    """As many disks as asked for; without a number, no fewer than the scratch was built of last.

    Disks that are late or lost for the moment may come back, and a smaller scratch would stand in their place. So
    fewer are used only when the user says how many there are to be, or that it is to be built anew of what is there.
    """
    if desired.count is not None:
        return [] if len(chosen) == desired.count else [selection.wrong_count(state, desired, desired.count)]
    builds = [one.build for one in remains.of(state)]
    builds += [build for build in (state.record or Record()).builds if build.finished][-1:]
    expected = 1 if desired.rebuild else max((len(build.serials) for build in builds), default=1)
    return [] if len(chosen) >= expected else [selection.wrong_count(state, desired, expected)]


def filesystem(desired: Desired, build: Build) -> MakeFilesystem:
    alone = build.array_uuid is None
    return MakeFilesystem(
        filesystem=build.filesystem,
        filesystem_uuid=build.filesystem_uuid,
        label=desired.filesystem_label,
        array_uuid=build.array_uuid,
        serial=build.serials[0] if alone else None,
        chunk_kib=None if alone else desired.chunk_kib,
        data_disks=len(build.serials),
        discard=desired.discard,
    )


def pieces_refusals(state: State, pieces: Tuple[Array, ...]) -> List[Refusal]:
    """Parts of ours that the kernel has assembled and that cannot be stopped."""
    record = state.record or Record()
    found = []
    for piece in pieces:
        thing = "our {0}".format(piece)
        if piece.mount_points:
            at = ", ".join(piece.mount_points)
            found.append(
                Refusal(
                    thing,
                    "it is in the way, and still mounted at {0}".format(at),
                    "unmount {0}, then run again".format(at),
                )
            )
            continue
        foreign = remains.foreign(piece, record)
        if foreign is not None:
            found.append(foreign)
        elif piece.busy:
            found.append(Refusal(thing, "a program has it open", "end that use, then run again"))
    return found
