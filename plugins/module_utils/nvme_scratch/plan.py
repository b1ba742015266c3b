# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is seen and what is wanted to the steps, or to the reason why there are none. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from .. import declaration
from ..resource import Action, Plan, Refusal
from . import absent, mounting, selection, standing
from .actions import AssembleArray, CreateArray, EraseMark, MakeFilesystem, StopArray, WriteRecord
from .classify import Ours, arrays_of, foreign_on_array, judge, name_of, uuid_of
from .desired import Desired
from .record import extend
from .standing import Standing
from .types import RECORD_PATH, SECTION, Array, Build, Disk, Identity, Mount, Record, State, array_form


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
    if desired.state == "absent":
        return absent.plan(state, desired)
    return _present(state, desired, identity)


def _refuse(*refusals: Refusal, notes: Tuple[str, ...] = ()) -> Plan:
    return Plan(refusals=tuple(refusals), notes=notes)


def _declaration(state: State, desired: Desired) -> List[Action]:
    if not desired.declare:
        return []
    content: Dict[str, Any] = desired.to_dict()
    # Device paths mean other disks after a reboot; serials do not.
    content["serials"] = list(selection.serials(state, desired))
    for name in ("state", "declare", "devices"):
        del content[name]
    action = declaration.plan(state.declared, SECTION, content)
    return [] if action is None else [action]


def _present(state: State, desired: Desired, identity: Identity) -> Plan:
    accounts = [
        Refusal("{0} {1}".format(what, name), "this node does not know it", "create it first, or name another")
        for what, name, number in (("owner", desired.owner, state.owner), ("group", desired.group, state.group))
        if number is None
    ]
    wrong = tuple(accounts) + selection.refusals(state, desired)
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
    if done:
        return _keep(state, desired, done[0], chosen)
    named = standing.by_name(state, desired, chosen)
    if named is not None:
        return _keep(state, desired, named, chosen)
    if desired.adopt:
        adopted = _adopt_mount(state, desired, chosen)
        if adopted is not None:
            return adopted
    if not chosen and not _marked(state):
        return _nothing(state, desired)
    # Whole but never finished: go on where a power cut stopped us, unless something else is asked for by now.
    same = bool(whole) and {disk.name for disk in whole[0].disks} == {disk.name for disk in chosen}
    if same and not _differences(desired, whole[0], ""):
        return _keep(state, desired, whole[0], chosen)
    return _build(state, desired, chosen, identity)


def _marked(state: State) -> List[Disk]:
    return [disk for disk in state.disks if isinstance(judge(disk, state), Ours)]


def _nothing(state: State, desired: Desired) -> Plan:
    criteria = ", ".join(desired.models + desired.serials + desired.devices)
    if desired.count is not None or desired.require_disks:
        return _refuse(selection.wrong_count((), desired.count or 1))
    others = ", ".join("{0} ({1})".format(disk.model, disk.name) for disk in state.disks)
    found = "its NVMe disks are {0}".format(others) if others else "it has no NVMe disk"
    return Plan(skipped="No NVMe disk of this node fits {0}; {1}.".format(criteria, found))


def _adopt_mount(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> Optional[Plan]:
    """A good mount that stands already: local disks only, all of them, writable."""
    names = {disk.name for disk in chosen}
    for path in dict.fromkeys((desired.mount_point,) + desired.adopt_mount_points):
        mount = mounting.mounted_at(state, path)
        if mount is None or not _good(mount, names):
            continue
        if desired.count is not None and len(mount.disks) != desired.count:
            continue
        note = "The {0} file system at {1} stands already on {2} local disk(s) ({3}); it is used as it is.".format(
            mount.filesystem, path, len(mount.disks), ", ".join(mount.disks)
        )
        if path != desired.mount_point:
            note += " Nothing is made at {0}.".format(desired.mount_point)
        return Plan(actions=tuple(_declaration(state, desired)), notes=(note,))
    return None


def _good(mount: Mount, names: Any) -> bool:
    return mount.writable and mount.whole and bool(mount.disks) and set(mount.disks) == names


def _keep(state: State, desired: Desired, one: Standing, chosen: Tuple[Disk, ...]) -> Plan:
    """It stands whole: assemble, finish, mount what is missing; never remake it."""
    build = one.build
    record = state.record or Record()
    thing = "our array {0}".format(array_form(build.array_uuid)) if build.array_uuid else "our {0}".format(one.disks[0])
    refusals = list(_differences(desired, one, thing))
    if build.array_uuid is None:
        verdict = judge(one.disks[0], state) if record.filesystem(build.filesystem_uuid) else None
        if isinstance(verdict, Refusal):
            refusals.append(verdict)
    foreign = foreign_on_array(one.array, extend(record, build)) if one.array is not None else None
    if foreign is not None and one.array is not None:
        refusals.append(Refusal(thing, foreign, _wipe_array(one.array)))
    present = {signature.uuid for signature in one.signatures}
    stale = bool(present) and build.filesystem_uuid not in present
    if stale and standing.finished(one) and foreign is None:
        refusals.append(
            Refusal(thing, "it carries another file system of ours than the recorded one", "wipe it and run again")
        )
    refusals.extend(_pieces_refusals(state, one.pieces))
    mount_plan = mounting.plan(state, desired, build, one.device)
    refusals.extend(mount_plan.refusals)
    if refusals:
        return Plan(refusals=tuple(refusals), notes=mount_plan.notes)

    steps: List[Action] = []
    for piece in one.pieces:
        steps.append(StopArray(build.array_uuid or "", piece.name))
    if one.device is None:
        steps.append(AssembleArray(build.array_uuid or "", desired.array_name, tuple(d.serial for d in one.disks)))
    # Blank where a file system should be: its signature was wiped, so there is nothing to lose.
    remake = not standing.finished(one) or (one.device is not None and not present)
    complete = dataclasses.replace(build, finished=True)
    if remake:
        started = dataclasses.replace(build, finished=False)
        steps.append(_filesystem(desired, build, record))
        steps.append(
            WriteRecord(mounting.noted(extend(record, complete), mount_plan, desired), "the file system is made")
        )
        first = mounting.noted(extend(record, started), mount_plan, desired)
    else:
        first = mounting.noted(extend(record, complete), mount_plan, desired)
    before: List[Action] = []
    if first != record:
        before.append(WriteRecord(first, "scratch of {0}".format(", ".join(build.serials))))
    notes = list(mount_plan.notes) + _geometry_notes(desired, one, thing)
    spare = [disk for disk in chosen if disk.name not in {member.name for member in one.disks}]
    if spare:
        notes.append(
            "Not part of {0}, which is kept as it is: {1}.".format(thing, ", ".join(str(disk) for disk in spare))
        )
    return Plan(tuple(_declaration(state, desired) + before + steps + list(mount_plan.actions)), notes=tuple(notes))


def _wipe_array(array: Array) -> str:
    return "if nobody needs that, unmount it, wipe it (wipefs --all {0}) and run again".format(array.path)


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
            "ask for {0}: {1}, or run once with state: absent (its data are lost) and build it anew".format(name, has),
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
        "{0}: its stripe unit and width are {1} and {2} bytes, not {3} and {4}: writes are slower.".format(
            thing, seen.stripe_unit_bytes, seen.stripe_width_bytes, chunk, chunk * len(one.disks)
        )
    ]


def _pieces_refusals(state: State, pieces: Tuple[Array, ...]) -> List[Refusal]:
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
                    "it is not whole, and still mounted at {0}".format(at),
                    "unmount {0}, then run again".format(at),
                )
            )
            continue
        foreign = foreign_on_array(piece, record)
        if foreign is not None:
            found.append(Refusal(thing, foreign, "take that away, then run again"))
    return found


def _filesystem(desired: Desired, build: Build, record: Record) -> MakeFilesystem:
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
        may_overwrite=tuple(b.filesystem_uuid for b in record.builds if b != build) + (build.filesystem_uuid,),
    )


def _build(state: State, desired: Desired, chosen: Tuple[Disk, ...], identity: Identity) -> Plan:
    record = state.record or Record()
    verdicts = [(disk, judge(disk, state)) for disk in chosen]
    refusals = [verdict for dummy, verdict in verdicts if isinstance(verdict, Refusal)]
    refusals.extend(_count_refusals(state, desired, chosen))
    ours = [(disk, verdict) for disk, verdict in verdicts if isinstance(verdict, Ours)]
    names = {disk.name for disk in chosen}
    uuids = dict.fromkeys(v.build.array_uuid for dummy, v in ours if v.build.array_uuid is not None)
    pieces = tuple(array for uuid in uuids for array in arrays_of(state, uuid) if uuid)
    refusals.extend(_pieces_refusals(state, pieces))
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
    for disk, _dummy in ours:
        if disk.mount_points:
            at = ", ".join(disk.mount_points)
            refusals.append(
                Refusal(str(disk), "it is mounted at {0}".format(at), "unmount {0}, then run again".format(at))
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
        return Plan(refusals=tuple(refusals), notes=mount_plan.notes)

    notes = list(mount_plan.notes)
    sizes = sorted({disk.size_bytes for disk in chosen})
    if len(sizes) > 1:
        notes.append(
            "The disks differ in size ({0} to {1} bytes): the end of the larger is striped over fewer.".format(
                sizes[0], sizes[-1]
            )
        )
    if ours:
        notes.append("What is left of our earlier array is not whole, so its data are lost already: it is built anew.")
    planned = mounting.noted(extend(record, build), mount_plan, desired)
    done = mounting.noted(extend(record, dataclasses.replace(build, finished=True)), mount_plan, desired)
    steps: List[Action] = _declaration(state, desired)
    steps.append(WriteRecord(planned, "about to build on {0}".format(", ".join(build.serials))))
    steps.extend(StopArray(uuid_of(state, piece) or "", piece.name) for piece in pieces)
    for disk, verdict in ours:
        if verdict.marked:
            array_uuid = verdict.build.array_uuid
            filesystem_uuid = None if array_uuid else verdict.build.filesystem_uuid
            steps.append(EraseMark(disk.serial, disk.name, array_uuid, filesystem_uuid))
    if build.array_uuid is not None:
        steps.append(
            CreateArray(
                build.array_uuid,
                desired.array_name,
                desired.chunk_kib,
                build.serials,
                tuple(disk.name for disk in chosen),
            )
        )
    steps.append(_filesystem(desired, build, record))
    steps.append(WriteRecord(done, "the file system is made"))
    return Plan(tuple(steps) + mount_plan.actions, notes=tuple(notes))


def _count_refusals(state: State, desired: Desired, chosen: Tuple[Disk, ...]) -> List[Refusal]:
    """As many disks as asked for; without a number, no fewer than what carries our mark was built of.

    A disk that is late or lost for the moment may come back, and with it the data of the whole array. So
    fewer disks than before are used only when the user says how many there are to be.
    """
    if desired.count is not None:
        return [] if len(chosen) == desired.count else [selection.wrong_count(chosen, desired.count)]
    builds = [verdict.build for verdict in (judge(disk, state) for disk in state.disks) if isinstance(verdict, Ours)]
    expected = max((len(build.serials) for build in builds), default=1)
    return [] if len(chosen) >= expected else [selection.wrong_count(chosen, expected)]
