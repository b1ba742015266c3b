# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new scratch, on blank disks or after a loss: what is erased for it, and the steps in their order. Pure."""

from __future__ import annotations

from typing import List, Sequence

from ...core.frozen import replaced
from ...core.resource import Action, Plan, Refusal
from ...facts.scratch.record import Build, array_form, extend
from . import mount
from .actions import CheckDisks, ClearDisk, CreateArray, EraseMark, MakeFilesystem, StopArray, WriteRecord
from .builds import Left
from .types import OURS, UNKNOWN_DATA, Identity, Node, name_of


def create(
    node: Node, left: Sequence[Left], protected: Sequence[Refusal], count: Sequence[Refusal], identity: Identity
) -> Plan:
    """``protected``: what of ours must not be erased for it. ``count``: it is not the expected number of disks."""
    desired, overwritten = node.desired, node.desired.overwrite_serials
    disks = [one.disk for one in node.chosen]
    names = {disk.name for disk in disks}
    ours = [(one.disk, one.build, one) for one in node.chosen if one.build is not None and one.content == OURS]
    uuids = dict.fromkeys(build.array_uuid for dummy, build, one in ours if build.array_uuid)
    pieces = [array for uuid in uuids for array in node.arrays if array.uuid == uuid]
    refusals = list(protected)
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
