# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount point, line in fstab, owner and mode: what is to be done, and what prevents it. Pure."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...core.frozen import frozen, replaced
from ...core.resource import Action, Refusal
from ...facts.scratch.record import Build, Record
from . import fstab
from .actions import EditFstab, MakeFolder, MountFilesystem, SetRoot, Unmount
from .types import Mount, Node, State


@frozen
class Mounting:
    """``record``: our record with what the mounting will make, so that it can be undone. ``moves``: it is unmounted
    where it was, which the record says until that is done."""

    actions: Tuple[Action, ...] = ()
    refusals: Tuple[Refusal, ...] = ()
    notes: Tuple[str, ...] = ()
    record: Record = Record()
    moves: bool = False


def plan(node: Node, build: Build, device: Optional[str]) -> Mounting:
    """How ``build`` gets mounted; ``device`` is its block device, None when it is still to be made or assembled."""
    state, desired, record = node.state, node.desired, node.record
    path, point = desired.mount_point, node.state.mount_point
    there = state.mounted_at(path)
    refusals = _obstacles(node, device, there)
    notes: List[str] = []
    known = (*node.known, build.filesystem_uuid)
    lines = fstab.entries(state.fstab, path, known)
    ours = [line for line in lines if line.ours]
    for line in lines:
        thing = "/etc/fstab line {0}".format(line.number + 1)
        if not line.ours and line.mount_point == path:
            reason = "it mounts {0} at {1} and is not ours".format(line.source, path)
            refusals.append(Refusal(thing, reason, "remove that line, or choose another mount_point"))
        elif not line.ours and line.uuid in known and "nofail" not in line.options:
            text = "{0} mounts the scratch at {1} too, without nofail: its loss stops a boot."
            notes.append(text.format(thing, line.mount_point))
    at_old = state.mounted_at(record.mount_point) if record.mount_point not in (None, path) else None
    moves = at_old is not None and at_old.device == device and device is not None
    if not refusals and at_old is not None and moves:
        refusals += [over for over in [covered(at_old)] if over is not None]
    if refusals:
        return Mounting(refusals=tuple(refusals), notes=tuple(notes))

    steps: List[Action] = []
    if at_old is not None and moves:
        steps.append(Unmount(at_old.mount_point, device or ""))
    folders: Tuple[str, ...] = ()
    if there is None and point is not None and point.kind == "missing":
        folders = point.missing_folders
        steps.extend(MakeFolder(folder) for folder in folders)
    wanted = fstab.wanted(build.filesystem_uuid, path, build.filesystem, desired.all_mount_options)
    mount = MountFilesystem(
        filesystem_uuid=build.filesystem_uuid,
        filesystem=build.filesystem,
        mount_point=path,
        options=desired.all_mount_options,
        array_uuid=build.array_uuid,
        serial=build.serials[0] if build.array_uuid is None else None,
    )
    same = [line for line in ours if line.uuid == build.filesystem_uuid and line.mount_point == path]
    if there is not None:
        # The same file system with other options: they take effect at once, not only after the next boot.
        other = bool(same) and same[0].options != desired.all_mount_options
        remounts, fixed = fstab.differences(build.filesystem, there.options, desired.all_mount_options, other)
        steps += [replaced(mount, remount=True)] if remounts else []
        if fixed:
            notes.append(
                "{0}: the mount does not follow mount_options yet ({1}). The kernel changes this at a new mount only: "
                "unmount it (umount {0}) and run it again, or reboot. An option that the device does not support "
                "has no effect.".format(path, ", ".join(fixed))
            )
    elif ours and not same:
        # systemd may unmount ours as long as a line of another file system is there: its mount unit waits for that.
        steps.append(EditFstab(None, path, known))
    for what, name, number in (("owner", desired.owner, state.owner), ("group", desired.group, state.group)):
        if number is None:
            text = "{0} {1}: this node does not know it now, so the {0} of {2} stays as it is."
            notes.append(text.format(what, name, path))
    root = SetRoot(path, state.owner, state.group, desired.mode_bits)
    # Written after the mount, so that no boot repeats an option that the kernel does not accept.
    line_of_fstab = [EditFstab(wanted, path, known)] if [line.text for line in ours] != [wanted] else []
    if there is None:
        steps += [mount, *line_of_fstab, root]
    elif point is not None:
        pairs = ((root.owner, point.owner), (root.group, point.group), (root.mode, point.mode))
        steps += line_of_fstab
        steps += [root] if any(wish is not None and wish != has for wish, has in pairs) else []
    base = state.base_record
    made = replaced(
        base,
        mount_point=base.mount_point if moves else path,
        created_folders=base.created_folders + tuple(one for one in folders if one not in base.created_folders),
        created_fstab=base.created_fstab or state.fstab is None,
    )
    return Mounting(tuple(steps), (), tuple(notes), made, moves)


def _obstacles(node: Node, device: Optional[str], there: Optional[Mount]) -> List[Refusal]:
    """What is at the mount point, and is not our file system as it should be."""
    path, point = node.desired.mount_point, node.state.mount_point
    other = "or choose another mount_point"
    if there is None:
        if point is None or point.kind == "missing" or (point.kind == "folder" and point.empty):
            return []
        reason = {
            "folder": "the folder is not empty, and a mount would hide its files",
            "symlink": "it is, or lies behind, a symbolic link",
            "file": "it is a file",
            "blocked": "one of its parents is not a folder",
            "failed": "what is mounted there answers nothing but errors",
        }.get(point.kind, "it is not a folder")
        remedy = {
            "folder": "move them away, " + other,
            "symlink": "give the real path as mount_point, or remove the link",
        }.get(point.kind, "move it away, " + other)
        return [Refusal(path, reason, remedy)]
    if device is None or there.device != device or not there.whole:
        reason = "{0} ({1}) is mounted there".format(there.source or there.device or "something", there.filesystem)
        return [Refusal(path, reason, "unmount it, " + other)]
    if there.hidden_by:
        # What is written to its path goes elsewhere, to a file system that may be in memory.
        reason = "something is mounted over our file system, so that nothing reaches it: " + _named(there.hidden_by)
        return [Refusal(path, reason, "unmount that, then run again")]
    if point is not None and point.kind == "failed":
        return [shut_down(path)]
    if not there.writable:
        remedy = "look for errors in the kernel log, unmount it and run again"
        return [Refusal(path, "our file system is mounted read-only there", remedy)]
    return []


def covered(mount: Mount) -> Optional[Refusal]:
    """umount takes what lies on top, so a mount of ours is taken away only when nothing does."""
    if not mount.covered_by:
        return None
    return Refusal(
        mount.mount_point,
        "something is mounted over our file system or inside of it: " + _named(mount.covered_by),
        "unmount that first, then run again",
    )


def second(mount: Mount) -> Refusal:
    reason = "our file system, or a directory of it, is mounted there too"
    return Refusal(mount.mount_point, reason, "unmount it (umount {0}), then run again".format(mount.mount_point))


def _named(mounts: Tuple[str, ...]) -> str:
    more = len(mounts) - 3
    shown = ", ".join(mounts[:3]) + (" and {0} more".format(more) if more > 0 else "")
    # Who mounts by FUSE chooses the names.
    return "".join(char if char.isprintable() else "?" for char in shown)


def shut_down(path: str) -> Refusal:
    """A mounted XFS or ext4 that the kernel has given up answers nothing but Input/output error."""
    return Refusal(
        path,
        "our file system there answers nothing but errors: the kernel has shut it down",
        "look for the cause in the kernel log, end what uses it (fuser -vm {0}), unmount it (umount {0}) and run it "
        "again, which mounts it anew".format(path),
    )


def adopted_lines(state: State, mount: Mount) -> Tuple[str, ...]:
    """Notes on lines of fstab for an adopted mount that stop a boot, or that mount nothing, after a deallocation."""
    notes = []
    for line in fstab.entries(state.fstab):
        if line.mount_point != mount.mount_point:
            continue
        thing = "/etc/fstab line {0} mounts {1} at {2}".format(line.number + 1, line.source, line.mount_point)
        if not {"nofail", "noauto", "x-systemd.automount"} & set(line.options):
            notes.append(
                thing + " without nofail: once its disks are blank, a boot stops there. Add nofail to its options."
            )
        if re.match(r"/dev/(md\d|nvme\d|dm-\d|sd[a-z])", line.source):
            notes.append(
                thing + ", a name that the next boot may give to another device. Use its UUID (blkid) instead."
            )
    return tuple(notes)
