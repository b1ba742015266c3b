# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is seen and what is wanted to the steps, or to the reason why there are none. Pure."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from ...core import declaration
from ...core.frozen import replaced
from ...core.resource import Action, Plan, Refusal
from ...core.units import size
from ...facts.scratch.record import RECORD_PATH, Record, extend
from . import absent, building, listing, mounting, remains, selection, standing
from .actions import AssembleArray, StopArray, WriteRecord
from .classify import Ours, judge, remote
from .options import REBUILD, Desired
from .standing import Standing
from .types import SECTION, Disk, Identity, Mount, State, array_form, filesystem_form


def plan(state: State, desired: Desired, identity: Identity) -> Plan:
    """The whole decision. Never raises; a refusal stops everything on this node."""
    if state.record_error is not None:
        return _refuse(
            Refusal(
                RECORD_PATH,
                "it cannot be used ({0})".format(state.record_error),
                "move it away and run again; a whole array with our name and label is then adopted",
            )
        )
    if not desired.present:
        return absent.plan(state, desired)
    found = _present(state, desired, identity)
    if not found.skipped:
        found = replaced(found, notes=(*found.notes, *selection.left_out(state, desired)))
    unknown = sorted(set(desired.overwrite_serials) - {disk.serial for disk in state.disks})
    if not unknown:
        return found
    note = "No disk of this node has a serial number of overwrite_serials: {0}.".format(", ".join(unknown))
    return replaced(found, notes=(*found.notes, note))


def _refuse(*refusals: Refusal, notes: Tuple[str, ...] = ()) -> Plan:
    return Plan(refusals=tuple(refusals), notes=notes)


def _declaration(state: State, desired: Desired) -> List[Action]:
    if not desired.declare:
        return []
    content: Dict[str, Any] = desired.section()
    # Device paths mean other disks after a reboot; serials do not.
    content["serials"] = list(selection.serials(state, desired))
    del content["devices"]
    action = declaration.plan(state.declared, SECTION, content)
    return [] if action is None else [action]


def _present(state: State, desired: Desired, identity: Identity) -> Plan:
    wrong = mounting.accounts(state, desired) + selection.refusals(state, desired)
    if wrong:
        return Plan(refusals=wrong)
    chosen = selection.select(state, desired)
    whole = standing.ours(state)
    done = [one for one in whole if standing.finished(one)]
    if len(done) > 1:
        # Several stand when a user took an older one up again; the mounted one is meant.
        done = [one for one in done if desired.mount_point in one.mount_points] or done
    if len(done) > 1:
        return _refuse(
            Refusal(
                "scratch",
                "{0} of our file systems stand whole: {1}".format(
                    len(done), "; ".join(", ".join(disk.serial for disk in one.disks) for one in done)
                ),
                "mount the one to keep at {0}, and wipe the other's disks".format(desired.mount_point),
            )
        )
    if done and not (standing.damaged(done[0]) and desired.rebuild):
        return _keep(state, desired, done[0], chosen)
    named = standing.by_name(state, desired, chosen)
    if named is not None:
        return _keep(state, desired, named, chosen)
    sleeping = standing.asleep(state, desired, chosen)
    if sleeping is not None:
        return _refuse(sleeping)
    if desired.adopt:
        adopted = _adopt_mount(state, desired, chosen)
        if adopted is not None:
            return adopted
    if nothing(state, desired):
        return _nothing(state, desired)
    moving = remains.moving(state)
    if moving:
        return _refuse(*moving)
    elsewhere = _elsewhere(state, desired, chosen)
    if elsewhere is not None:
        return _refuse(elsewhere)
    # Whole but never finished: go on where a power cut stopped us, unless something else is asked for by now.
    same = bool(whole) and {disk.name for disk in whole[0].disks} == {disk.name for disk in chosen}
    open_end = same and not whole[0].build.finished and standing.made(whole[0]) not in ("unclear", "unread")
    if open_end and not _differences(desired, whole[0], ""):
        return _keep(state, desired, whole[0], chosen)
    anew = building.build(state, desired, chosen, identity)
    # Declared last, as in _keep.
    return replaced(anew, actions=anew.actions + tuple(_declaration(state, desired))) if anew.actions else anew


def nothing(state: State, desired: Desired) -> bool:
    """Whether no disk of this node is to be managed here, or was."""
    chosen = selection.select(state, desired)
    return not chosen and not any(isinstance(judge(disk, state), Ours) for disk in state.disks)


def _nothing(state: State, desired: Desired) -> Plan:
    if desired.count is not None or desired.require_disks:
        return _refuse(selection.wrong_count(state, desired, desired.count or 1))
    named = ", ".join(desired.models + desired.serials + desired.devices)
    text = "No NVMe disk fits {0}".format(named) if named else "No NVMe disk is named as scratch material"
    if not state.disks:
        return _leave(state, desired, text + "; this node has none.")
    line = listing.offered(state, desired, ())
    use = " To use what is free, set {0}.".format(line) if line else ""
    return _leave(state, desired, "{0}; this node has {1}.{2}".format(text, listing.words(state, state.disks), use))


def _leave(state: State, desired: Desired, why: str) -> Plan:
    """Nothing to manage. An earlier declaration follows what is wanted now, or the next boot builds by the old one."""
    stale = tuple(_declaration(state, desired)) if SECTION in state.declared else ()
    return Plan(stale, notes=(why,)) if stale else Plan(skipped=why)


def _adopt_mount(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> Optional[Plan]:
    """A good mount that stands already: local disks only, all of them, writable."""
    names = {disk.name for disk in chosen}
    for path in dict.fromkeys((desired.mount_point,) + desired.adopt_mount_points):
        mount = mounting.mounted_at(state, path)
        if mount is None or not _good(mount, names) or any(remote(disk) is not None for disk in chosen):
            continue
        if desired.count is not None and len(mount.disks) != desired.count:
            continue
        note = "The {0} file system at {1} stands already on {2} local disk(s) ({3}); it is used as it is.".format(
            mount.filesystem, path, len(mount.disks), ", ".join(mount.disks)
        )
        if path != desired.mount_point:
            note += " Nothing is made at {0}.".format(desired.mount_point)
        notes = (note, *mounting.adopted_lines(state, mount))
        return Plan(actions=tuple(_declaration(state, desired)), notes=notes)
    return None


def _elsewhere(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> Optional[Refusal]:
    """Another tool has created a file system on exactly these disks, and mounted it at a path that is not adopted."""
    names = {disk.name for disk in chosen}
    if not desired.adopt or any(isinstance(judge(disk, state), Ours) or remote(disk) for disk in chosen):
        return None
    for mount in state.mounts:
        expected = desired.count is None or len(mount.disks) == desired.count
        if _good(mount, names) and expected and mount.mount_point not in desired.mount_points:
            places = json.dumps([*desired.adopt_mount_points, mount.mount_point])
            return Refusal(
                mount.mount_point,
                "its {0} file system is on exactly the {1} named local disk(s), and has another owner".format(
                    mount.filesystem, len(names)
                ),
                "to use it as it is, set adopt_mount_points: {0} (role: nvme_scratch_adopt_mount_points)".format(
                    places
                ),
            )
    return None


def _good(mount: Mount, names: Any) -> bool:
    return mount.writable and mount.whole and not mount.hidden_by and bool(mount.disks) and set(mount.disks) == names


def _keep(state: State, desired: Desired, one: Standing, chosen: Tuple[Disk, ...]) -> Plan:
    """It stands whole: assemble, finish, mount what is missing; never remake it."""
    build = one.build
    record = state.record or Record()
    thing = "our array {0}".format(array_form(build.array_uuid)) if build.array_uuid else "our {0}".format(one.disks[0])
    foreign = remains.foreign(one.array, extend(record, build)) if one.array is not None else None
    if foreign is not None:
        # Alone: the remedies of other refusals erase, repair or take out what data of another owner are on.
        return _refuse(replaced(foreign, thing=thing))
    refusals = [refusal for refusal in map(remote, one.disks) if refusal is not None]
    refusals += _differences(desired, one, thing)
    if record.filesystem(build.filesystem_uuid) and (build.array_uuid is None or not standing.finished(one)):
        # mkfs of the array writes to its members: none may carry anything but our mark.
        verdicts = (judge(disk, state) for disk in one.disks)
        refusals += [verdict for verdict in verdicts if isinstance(verdict, Refusal)]
    if standing.made(one) == "unread":
        reason = "it bears the mark of our file system, and its superblock could not be read"
        refusals.append(Refusal(thing, reason, "look for errors of its disks in the kernel log, then run it again"))
    elif standing.damaged(one):
        refusals.append(_damaged(one, thing))
    if one.array is not None and one.array.state == "readonly":
        refusals.append(
            Refusal(thing, "it is read-only", "run mdadm --readwrite {0}, then run it again".format(one.array.path))
        )
    strange, notes_beside = remains.beside(one, state)
    refusals.extend(strange)
    # A whole one runs: what the kernel made of other disks is not in its way.
    pieces = one.pieces if one.array is None else ()
    refusals.extend(building.pieces_refusals(state, pieces))
    mount_plan = mounting.plan(state, desired, build, one.device)
    refusals.extend(mount_plan.refusals)
    if refusals:
        return Plan(refusals=tuple(refusals), notes=mount_plan.notes)

    steps: List[Action] = []
    for piece in pieces:
        steps.append(StopArray(build.array_uuid or "", piece.name))
    if one.device is None:
        steps.append(
            AssembleArray(
                build.array_uuid or "", desired.array_name, tuple(d.serial for d in one.disks), desired.rebuild
            )
        )
    complete = mounting.noted(extend(state.base_record, replaced(build, finished=True)), mount_plan, desired)
    first = complete
    if not standing.finished(one):
        # Its mkfs did not end; the record says so already, and is never set back to that.
        first = mounting.noted(extend(state.base_record, build), mount_plan, desired)
        steps.append(building.filesystem(desired, build))
        steps.append(WriteRecord(complete, "the file system is made"))
    before: List[Action] = []
    if first != (state.base_record if state.machine is None else state.record):
        before.append(WriteRecord(first, "scratch of {0}".format(", ".join(build.serials))))
    notes = list(mount_plan.notes) + list(notes_beside) + _geometry_notes(desired, one, thing)
    inside = {member.name for member in one.disks}
    marked = {disk.name for left in remains.of(state) for disk in left.carriers if left.build == build}
    spare = [disk for disk in chosen if disk.name not in inside | marked]
    if spare:
        notes.append(
            "Not part of {0}, which is kept as it is: {1}.".format(thing, ", ".join(str(disk) for disk in spare))
        )
    after: List[Action] = []
    if mount_plan.moves:
        after.append(
            WriteRecord(replaced(complete, mount_point=desired.mount_point), "it is mounted where it shall be")
        )
    # Declared last: an option that the mount does not take must not be repeated by each boot.
    return Plan(
        tuple(before + steps + list(mount_plan.actions) + after + _declaration(state, desired)), notes=tuple(notes)
    )


def _damaged(one: Standing, thing: str) -> Refusal:
    size_bytes = one.array.size_bytes if one.array is not None else one.disks[0].size_bytes
    return Refusal(
        thing,
        "its file system {0} is not recognised any more, and its data may still be there".format(
            filesystem_form(one.build.filesystem_uuid)
        ),
        "{0}; mount it read-only and look; if nobody needs its data, {1}, which erases all {2} of it".format(
            remains.repair(one.build.filesystem, "/dev/{0}".format(one.device)), REBUILD, size(size_bytes)
        ),
    )


def _differences(desired: Desired, one: Standing, thing: str) -> List[Refusal]:
    """Asked for now, but built otherwise: we tell it, and do not destroy data for it."""
    asked: List[Tuple[str, Any, Any]] = [("filesystem", one.build.filesystem, desired.filesystem)]
    if desired.count is not None:
        asked.append(("count", len(one.disks), desired.count))
    if one.chunk_bytes is not None:
        asked.append(("chunk_kib", one.chunk_bytes // 1024, desired.chunk_kib))
    return [
        Refusal(
            thing,
            "{0} is {1} and {2} is asked for".format(name, has, wants),
            "ask for {0}: {1}, or run once with state: absent (its data are lost), then {2}".format(name, has, REBUILD),
        )
        for name, has, wants in asked
        if has != wants
    ]


def _geometry_notes(desired: Desired, one: Standing, thing: str) -> List[str]:
    seen = one.filesystem
    chunk = one.chunk_bytes
    if seen is None or chunk is None or seen.stripe_unit_bytes is None or one.array is None:
        return []
    if (seen.stripe_unit_bytes, seen.stripe_width_bytes) == (chunk, chunk * len(one.disks)):
        return []
    return [
        "{0}: its stripe unit and width are {1} and {2}, not {3} and {4}: writes are slower.".format(
            thing,
            size(seen.stripe_unit_bytes),
            size(seen.stripe_width_bytes or 0),
            size(chunk),
            size(chunk * len(one.disks)),
        )
    ]
