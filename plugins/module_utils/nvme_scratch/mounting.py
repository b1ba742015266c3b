# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount point, line in fstab, owner and mode: what is to be done, and what stands in the way. Pure."""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

from ..resource import Action, Refusal
from . import fstab
from .actions import EditFstab, MakeFolder, MountFilesystem, SetRoot, Unmount
from .desired import Desired
from .types import Build, Mount, Record, State, filesystem_form


@dataclasses.dataclass(frozen=True)
class Mounting:
    """``folders`` are those that we will make; ``makes_fstab``: there is no fstab yet."""

    actions: Tuple[Action, ...] = ()
    refusals: Tuple[Refusal, ...] = ()
    notes: Tuple[str, ...] = ()
    folders: Tuple[str, ...] = ()
    makes_fstab: bool = False


def mounted_at(state: State, path: str) -> Optional[Mount]:
    """The topmost mount there."""
    return next((mount for mount in reversed(state.mounts) if mount.mount_point == path), None)


def _folder_refusal(state: State, desired: Desired) -> Optional[Refusal]:
    point = state.mount_point
    path = desired.mount_point
    if point is None or point.kind == "missing":
        return None
    other = "or choose another mount_point"
    if point.kind == "folder":
        if point.empty:
            return None
        return Refusal(path, "the folder is not empty, and a mount would hide its files", "move them away, " + other)
    reason = {
        "symlink": "it is, or lies behind, a symbolic link",
        "file": "it is a file",
        "blocked": "one of its parents is not a folder",
    }.get(point.kind, "it is not a folder")
    remedy = (
        "give the real path as mount_point, or remove the link" if point.kind == "symlink" else "move it away, " + other
    )
    return Refusal(path, reason, remedy)


def plan(state: State, desired: Desired, build: Build, device: Optional[str]) -> Mounting:
    """How ``build`` gets mounted; ``device`` is its block device, None when it is still to be made or assembled."""
    record = state.record or Record()
    found: List[Refusal] = []
    notes: List[str] = []
    steps: List[Action] = []
    path = desired.mount_point
    there = mounted_at(state, path)
    if there is None:
        refusal = _folder_refusal(state, desired)
        if refusal is not None:
            found.append(refusal)
    elif device is None or there.device != device or not there.whole:
        found.append(
            Refusal(
                path,
                "{0} ({1}) is mounted there".format(there.source or there.device or "something", there.filesystem),
                "unmount it, or choose another mount_point",
            )
        )
    elif not there.writable:
        found.append(
            Refusal(
                path,
                "our file system is mounted read-only there",
                "look for errors in the kernel log, unmount it and run again",
            )
        )
    known = tuple(b.filesystem_uuid for b in record.builds) + (build.filesystem_uuid,)
    lines = fstab.entries(state.fstab)
    own = [line for line in lines if fstab.is_ours(line, path, known)]
    for line in lines:
        if line in own:
            continue
        if line.mount_point == path:
            found.append(
                Refusal(
                    "/etc/fstab line {0}".format(line.number + 1),
                    "it mounts {0} at {1} and is not ours".format(line.source, path),
                    "remove that line, or choose another mount_point",
                )
            )
        elif fstab.source_uuid(line) in known and "nofail" not in line.options:
            notes.append(
                "/etc/fstab line {0} mounts the scratch at {1} too, without nofail: its loss stops a boot.".format(
                    line.number + 1, line.mount_point
                )
            )
    if found:
        return Mounting(refusals=tuple(found), notes=tuple(notes))

    wanted = fstab.wanted(build.filesystem_uuid, path, build.filesystem, desired.mount_options)
    mount = MountFilesystem(
        filesystem_uuid=build.filesystem_uuid,
        filesystem=build.filesystem,
        mount_point=path,
        options=desired.mount_options,
        array_uuid=build.array_uuid,
        serial=build.serials[0] if build.array_uuid is None else None,
    )
    old = record.mount_point
    if old is not None and old != path and device is not None:
        at_old = mounted_at(state, old)
        if at_old is not None and at_old.device == device:
            steps.append(Unmount(old, device))
    folders: Tuple[str, ...] = ()
    if there is None and state.mount_point is not None and state.mount_point.kind == "missing":
        folders = state.mount_point.missing_folders
        steps.extend(MakeFolder(folder) for folder in folders)
    if [line.text for line in own] != [wanted]:
        # The same file system with other options: they take effect at once, not only after the next boot.
        same = [line for line in own if fstab.source_uuid(line) == build.filesystem_uuid and line.mount_point == path]
        if there is not None and same and same[0].options != desired.mount_options:
            steps.append(dataclasses.replace(mount, remount=True))
        steps.append(EditFstab(wanted, path, known))
    root = SetRoot(path, state.owner or 0, state.group or 0, desired.mode)
    if there is None:
        steps += [mount, root]
    elif state.mount_point is not None:
        point = state.mount_point
        if (point.owner, point.group, point.mode) != (root.owner, root.group, root.mode):
            steps.append(root)
    return Mounting(tuple(steps), (), tuple(notes), folders, state.fstab is None)


def noted(record: Record, mounting: Mounting, desired: Desired) -> Record:
    """The record with what the mounting will make, so that it can be undone."""
    folders = record.created_folders + tuple(f for f in mounting.folders if f not in record.created_folders)
    return dataclasses.replace(
        record,
        mount_point=desired.mount_point,
        created_folders=folders,
        created_fstab=record.created_fstab or mounting.makes_fstab,
    )


def uuid_text(build: Build) -> str:
    return filesystem_form(build.filesystem_uuid)
