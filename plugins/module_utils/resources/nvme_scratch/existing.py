# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scratch that exists: assemble, finish and mount it, or use the mount of another owner; never remake it. Pure."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Sequence, Tuple

from ...core.frozen import replaced
from ...core.resource import Action, Plan, Refusal
from ...core.units import size
from ...facts.scratch.record import extend, filesystem_form
from . import mount
from .actions import AssembleArray, MakeFilesystem, StopArray, WriteRecord
from .builds import Left, Scratch
from .create import repair
from .options import REBUILD, Desired
from .types import OURS, Mount, Node


def differences(desired: Desired, one: Scratch) -> List[Refusal]:
    """Asked for now, but built otherwise: we report it, and do not destroy data for it."""
    asked: List[Tuple[str, Any, Any]] = [("filesystem", one.build.filesystem, desired.filesystem)]
    if desired.count is not None:
        asked.append(("count", len(one.disks), desired.count))
    if one.chunk_bytes is not None:
        asked.append(("chunk_kib", one.chunk_bytes // 1024, desired.chunk_kib))
    return [
        Refusal(
            str(one),
            "{0} is {1} and {2} is asked for".format(name, has, wants),
            "ask for {0}: {1}, or run once with state: absent (its data are lost), then {2}".format(name, has, REBUILD),
        )
        for name, has, wants in asked
        if has != wants
    ]


def adopt(node: Node) -> Tuple[Optional[Plan], Tuple[Refusal, ...]]:
    """The mount of another owner that is used: on local disks only, all of them, writable. Or the refusal that says how
    to use the one that is mounted elsewhere."""
    state, desired = node.state, node.desired
    names = {one.disk.name for one in node.chosen}
    if not desired.adopt or any(one.remote for one in node.chosen):
        return None, ()

    def fits(one: Mount) -> bool:
        good = one.writable and one.whole and not one.hidden_by and bool(one.disks) and set(one.disks) == names
        return good and desired.count in (None, len(one.disks))

    for path in dict.fromkeys((desired.mount_point, *desired.adopt_mount_points)):
        found = state.mounted_at(path)
        if found is not None and fits(found):
            note = "The {0} file system at {1} stands already on {2} local disk(s) ({3}); it is used as it is.".format(
                found.filesystem, path, len(found.disks), ", ".join(found.disks)
            )
            if path != desired.mount_point:
                note += " Nothing is made at {0}.".format(desired.mount_point)
            return Plan(node.declare, notes=(note, *mount.adopted_lines(state, found))), ()
    if any(one.content == OURS for one in node.chosen):
        return None, ()
    for found in state.mounts:
        if fits(found) and found.mount_point not in desired.mount_points:
            places = json.dumps([*desired.adopt_mount_points, found.mount_point])
            reason = "its {0} file system is on exactly the {1} named local disk(s), and has another owner"
            remedy = "to use it as it is, set adopt_mount_points: {0} (role: nvme_scratch_adopt_mount_points)"
            reason, remedy = reason.format(found.filesystem, len(names)), remedy.format(places)
            return None, (Refusal(found.mount_point, reason, remedy),)
    return None, ()


def keep(node: Node, one: Scratch, left: Sequence[Left]) -> Plan:
    """Assemble, finish and mount what is missing of it."""
    desired, build = node.desired, one.build
    name = str(one)
    if one.foreign is not None:
        # Alone: the remedies of other refusals erase, repair or take out what data of another owner are on.
        return Plan(refusals=(replaced(one.foreign, thing=name),))
    refusals = [judged.remote for judged in one.disks if judged.remote is not None] + differences(desired, one)
    if node.record.filesystem(build.filesystem_uuid) and (build.array_uuid is None or not one.finished):
        # mkfs of the array writes to its members: none may carry anything but our mark.
        refusals += [judged.reason for judged in one.disks if judged.reason is not None]
    if one.content == "unread":
        reason = "it bears the mark of our file system, and its superblock could not be read"
        refusals.append(Refusal(name, reason, "look for errors of its disks in the kernel log, then run it again"))
    elif one.damaged:
        refusals.append(_damaged(one, name))
    if one.array is not None and one.array.state == "readonly":
        remedy = "run mdadm --readwrite {0}, then run it again".format(one.array.path)
        refusals.append(Refusal(name, "it is read-only", remedy))
    others, notes = _remarks(node, one, left)
    refusals += others
    # A complete one runs: what the kernel made of other disks is not in its way.
    pieces = one.pieces if one.array is None else ()
    refusals += [piece.blocked for piece in pieces if piece.blocked is not None]
    # Its mkfs did not end; the record says so already, and is never set back to that.
    filesystem = [] if one.finished else [MakeFilesystem.on(build, desired)]
    mounting = mount.plan(node, build, one.device)
    refusals += mounting.refusals
    if refusals:
        return Plan(refusals=tuple(refusals), notes=mounting.notes)

    steps: List[Action] = [StopArray(build.array_uuid or "", piece.array.name) for piece in pieces]
    if one.device is None:
        serials = tuple(judged.disk.serial for judged in one.disks)
        steps.append(AssembleArray(build.array_uuid or "", desired.array_name, serials, desired.rebuild))
    first = complete = extend(mounting.record, replaced(build, finished=True))
    if filesystem:
        first = extend(mounting.record, build)
        steps += [*filesystem, WriteRecord(complete, "the file system is made")]
    before: List[Action] = []
    if first != (node.state.base_record if node.state.machine is None else node.state.record):
        before.append(WriteRecord(first, "scratch of {0}".format(", ".join(build.serials))))
    after: List[Action] = []
    if mounting.moves:
        moved = replaced(complete, mount_point=desired.mount_point)
        after.append(WriteRecord(moved, "it is mounted where it shall be"))
    # Declared last: an option that the mount does not take must not be repeated by each boot.
    actions = (*before, *steps, *mounting.actions, *after, *node.declare)
    return Plan(actions, notes=(*mounting.notes, *notes))


def _damaged(one: Scratch, name: str) -> Refusal:
    size_bytes = one.array.size_bytes if one.array is not None else one.disks[0].disk.size_bytes
    return Refusal(
        name,
        "its file system {0} is not recognised any more, and its data may still be there".format(
            filesystem_form(one.build.filesystem_uuid)
        ),
        "{0}; mount it read-only and look; if nobody needs its data, {1}, which erases all {2} of it".format(
            repair(one.build.filesystem, "/dev/{0}".format(one.device)), REBUILD, size(size_bytes)
        ),
    )


def _remarks(node: Node, one: Scratch, left: Sequence[Left]) -> Tuple[List[Refusal], List[str]]:
    """Refusals and notes on disks that are not part of it, and on its geometry."""
    inside = {judged.disk.name for judged in one.disks}
    refusals: List[Refusal] = []
    notes: List[str] = []
    for other in left:
        if other.build.filesystem_uuid != one.build.filesystem_uuid:
            continue
        strangers = [str(judged.disk) for judged in one.disks if judged.disk.serial not in other.build.serials]
        for disk in other.carriers:
            if disk.name in inside:
                continue
            if disk.serial in other.build.serials and strangers:
                reason = "it belongs to {0}, which runs with {1} in its place".format(other.build, ", ".join(strangers))
                remedy = "find out which of them is right, take the other out or wipe it, and reboot"
                refusals.append(Refusal(str(disk), reason, remedy))
            else:
                notes.append("{0} bears a copy of the mark of {1}; it is left as it is.".format(disk, other.build))
    seen, chunk = one.filesystem, one.chunk_bytes or 0
    width = chunk * len(one.disks)
    if one.array is not None and one.chunk_bytes is not None and seen is not None:
        unit, wide = seen.stripe_unit_bytes, seen.stripe_width_bytes
        if unit is not None and (unit, wide) != (chunk, width):
            notes.append(
                "{0}: its stripe unit and width are {1} and {2}, not {3} and {4}: writes are slower.".format(
                    one, size(unit), size(wide or 0), size(chunk), size(width)
                )
            )
    inside |= {disk.name for other in left for disk in other.carriers if other.build == one.build}
    spare = [str(judged.disk) for judged in node.chosen if judged.disk.name not in inside]
    if spare:
        notes.append("Not part of {0}, which is kept as it is: {1}.".format(one, ", ".join(spare)))
    return refusals, notes
