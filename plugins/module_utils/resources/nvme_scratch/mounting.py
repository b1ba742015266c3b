# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount point, line in fstab, owner and mode: what is to be done, and what stands in the way. Pure."""

from __future__ import annotations

import re
from typing import Any, FrozenSet, List, Mapping, Optional, Set, Tuple

from ...core.frozen import frozen, replaced
from ...core.resource import Action, Refusal
from ...facts.scratch.record import Build, Record
from . import fstab
from .actions import EditFstab, MakeFolder, MountFilesystem, SetRoot, Unmount
from .options import Desired
from .types import SECTION, Mount, State, filesystem_form


@frozen
class Mounting:
    """``folders`` are those that we will make; ``makes_fstab``: there is no fstab yet. ``moves``: it is unmounted where
    it was, which the record says until that is done."""

    actions: Tuple[Action, ...] = ()
    refusals: Tuple[Refusal, ...] = ()
    notes: Tuple[str, ...] = ()
    folders: Tuple[str, ...] = ()
    makes_fstab: bool = False
    moves: bool = False


def mounted_at(state: State, path: str) -> Optional[Mount]:
    """The topmost mount there. An automount alone is none: it waits for one, or could not get it."""
    found = next((mount for mount in reversed(state.mounts) if mount.mount_point == path), None)
    return None if found is not None and found.filesystem == "autofs" else found


def covered(mount: Mount) -> Optional[Refusal]:
    """umount takes what lies on top, so a mount of ours is taken away only when nothing does."""
    if not mount.covered_by:
        return None
    return Refusal(
        mount.mount_point,
        "something is mounted over our file system or inside of it: " + _named(mount.covered_by),
        "unmount that first, then run again",
    )


def _named(mounts: Tuple[str, ...]) -> str:
    more = len(mounts) - 3
    shown = ", ".join(mounts[:3]) + (" and {0} more".format(more) if more > 0 else "")
    # Who mounts by FUSE chooses the names.
    return "".join(char if char.isprintable() else "?" for char in shown)


def hidden(mount: Mount) -> Optional[Refusal]:
    """What is written to its path goes elsewhere, to a file system that may be in memory."""
    if not mount.hidden_by:
        return None
    reason = "something is mounted over our file system, so that nothing reaches it: " + _named(mount.hidden_by)
    return Refusal(mount.mount_point, reason, "unmount that, then run again")


def shut_down(path: str) -> Refusal:
    """A mounted XFS or ext4 that the kernel has given up answers nothing but Input/output error."""
    return Refusal(
        path,
        "our file system there answers nothing but errors: the kernel has shut it down",
        "look for the cause in the kernel log, end what uses it (fuser -vm {0}), unmount it (umount {0}) and run it "
        "again, which mounts it anew".format(path),
    )


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
        "failed": "what is mounted there answers nothing but errors",
    }.get(point.kind, "it is not a folder")
    remedy = (
        "give the real path as mount_point, or remove the link" if point.kind == "symlink" else "move it away, " + other
    )
    return Refusal(path, reason, remedy)


def accounts(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    """Names that this node does not know. Those of the declaration it has known: its directory is not up yet."""
    return tuple(
        Refusal("{0} {1}".format(what, name), "this node does not know it", "create it first, or name another")
        for what, name in _unknown(state, desired)
        if _declared(state).get(what) != name
    )


def _declared(state: State) -> Mapping[str, Any]:
    section = state.declared.get(SECTION)
    return section if isinstance(section, dict) else {}


def _unknown(state: State, desired: Desired) -> Tuple[Tuple[str, str], ...]:
    wanted = (("owner", desired.owner, state.owner), ("group", desired.group, state.group))
    return tuple((what, name) for what, name, number in wanted if number is None)


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
    elif there.hidden_by:
        found += [refusal for refusal in [hidden(there)] if refusal is not None]
    elif state.mount_point is not None and state.mount_point.kind == "failed":
        found.append(shut_down(path))
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

    wanted = fstab.wanted(build.filesystem_uuid, path, build.filesystem, desired.all_mount_options)
    mount = MountFilesystem(
        filesystem_uuid=build.filesystem_uuid,
        filesystem=build.filesystem,
        mount_point=path,
        options=desired.all_mount_options,
        array_uuid=build.array_uuid,
        serial=build.serials[0] if build.array_uuid is None else None,
    )
    old = record.mount_point
    if old is not None and old != path and device is not None:
        at_old = mounted_at(state, old)
        if at_old is not None and at_old.device == device:
            over = covered(at_old)
            if over is not None:
                return Mounting(refusals=(over,), notes=tuple(notes))
            steps.append(Unmount(old, device))
    folders: Tuple[str, ...] = ()
    if there is None and state.mount_point is not None and state.mount_point.kind == "missing":
        folders = state.mount_point.missing_folders
        steps.extend(MakeFolder(folder) for folder in folders)
    same = [line for line in own if fstab.source_uuid(line) == build.filesystem_uuid and line.mount_point == path]
    if there is not None:
        # The same file system with other options: they take effect at once, not only after the next boot.
        other = bool(same) and same[0].options != desired.all_mount_options
        if other or changed_flags(there.options, desired.all_mount_options):
            steps.append(replaced(mount, remount=True))
        fixed = kept_options(build.filesystem, there.options, desired.all_mount_options, other)
        if fixed:
            notes.append(
                "{0}: the mount does not follow mount_options yet ({1}). The kernel changes this at a new mount only: "
                "unmount it (umount {0}) and run it again, or reboot. An option that the device does not support "
                "has no effect.".format(path, ", ".join(fixed))
            )
    elif own and not same:
        # systemd may unmount ours as long as a line of another file system is there: its mount unit waits for that.
        steps.append(EditFstab(None, path, known))
    for what, name in _unknown(state, desired):
        notes.append(
            "{0} {1}: this node does not know it now, so the {0} of {2} stays as it is.".format(what, name, path)
        )
    root = SetRoot(path, state.owner, state.group, desired.mode_bits)
    # Written after the mount, so that no boot repeats an option that the kernel does not accept.
    line_of_fstab = [EditFstab(wanted, path, known)] if [line.text for line in own] != [wanted] else []
    if there is None:
        steps += [mount, *line_of_fstab, root]
    elif state.mount_point is not None:
        point = state.mount_point
        pairs = ((root.owner, point.owner), (root.group, point.group), (root.mode, point.mode))
        steps += line_of_fstab
        if any(wish is not None and wish != has for wish, has in pairs):
            steps.append(root)
    moves = any(isinstance(step, Unmount) for step in steps)
    return Mounting(tuple(steps), (), tuple(notes), folders, state.fstab is None, moves)


# Options of a mount (MNT_* of include/linux/mount.h). /proc/self/mountinfo always shows them, for each file system, and
# a remount always changes them.
_FLAGS = {"exec": "noexec", "suid": "nosuid", "dev": "nodev", "symfollow": "nosymfollow", "diratime": "nodiratime"}
# mount(8): these imply others, which a later option may change again.
_IMPLIED = {"group": ("nosuid", "nodev"), "owner": ("nosuid", "nodev"), "user": ("noexec", "nosuid", "nodev")}
_IMPLIED["users"] = _IMPLIED["user"]
_ATIMES = ("strictatime", "noatime", "relatime")
# Options of a file system that /proc/self/mountinfo shows whenever they are in effect, with their other names.
_SHOWN = frozenset(
    "discard usrquota grpquota prjquota uqnoenforce gqnoenforce pqnoenforce largeio swalloc wsync filestreams noalign "
    "grpid lazytime sync dirsync".split()
)
_SAME = {"pquota": "prjquota", "uquota": "usrquota", "quota": "usrquota", "gquota": "grpquota", "bsdgroups": "grpid"}
_SAME["qnoenforce"] = "uqnoenforce"
# The options above that a remount sets on each file system (MS_RMT_MASK of include/linux/fs.h).
_BY_REMOUNT = frozenset(("lazytime", "sync"))


def _flags(options: Tuple[str, ...]) -> FrozenSet[str]:
    """The options of a mount that ``options`` result in; without an option for access times, relatime."""
    found = set()
    for one in (part for option in options for part in (*_IMPLIED.get(option, ()), option)):
        if one in _FLAGS.values():
            found.add(one)
        elif one in _FLAGS:
            found.discard(_FLAGS[one])
        elif one in _ATIMES:
            found.add(one)
        elif one == "atime":
            found.discard("noatime")
    times = [one for one in _ATIMES if one in found]
    return frozenset(found - set(_ATIMES)) | frozenset(times[:1] or ["relatime"])


def _live_flags(live: Tuple[str, ...]) -> FrozenSet[str]:
    """A mount with strictatime shows no option for access times."""
    return _flags(live if set(live) & {"noatime", "relatime"} else (*live, "strictatime"))


def changed_flags(live: Tuple[str, ...], wanted: Tuple[str, ...]) -> Tuple[str, ...]:
    """What a remount has to change: options of the live mount that differ from the wanted ones."""
    return tuple(sorted(_flags(wanted) ^ _live_flags(live))) if live else ()


def for_remount(wanted: Tuple[str, ...]) -> Tuple[str, ...]:
    """A remount without an option for access times leaves them as they are (do_mount in fs/namespace.c)."""
    return wanted if set(wanted) & set(_ATIMES) else (*wanted, "relatime")


def _shown(options: Tuple[str, ...]) -> FrozenSet[str]:
    found: Set[str] = set()
    for option in options:
        one = _SAME.get(option, option)
        if one in _SHOWN:
            found.add(one)
        elif one == "noquota":
            found = {other for other in found if not other.endswith(("quota", "qnoenforce"))}
        elif one == "async":
            found.discard("sync")
        elif one.startswith("no"):
            found.discard(_SAME.get(one[2:], one[2:]))
    # XFS shows it with sync.
    return frozenset(found - {"wsync"} if "sync" in found else found)


def kept_options(filesystem: str, live: Tuple[str, ...], wanted: Tuple[str, ...], remounts: bool) -> Tuple[str, ...]:
    """What differs between the live mount and the wanted options, and needs a new mount. ``remounts``: a remount is
    planned, which on ext4 sets options, but does not remove them; XFS ignores most of them then."""
    if not live:
        return ()
    has, wants = _shown(live), _shown(wanted)
    lacking = wants - has
    if remounts:
        lacking = lacking - _BY_REMOUNT if filesystem == "xfs" else lacking & {"dirsync"}
        has -= _BY_REMOUNT
    return tuple("no {0}".format(one) for one in sorted(lacking)) + tuple(
        "still {0}".format(one) for one in sorted(has - wants)
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


def noted(record: Record, mounting: Mounting, desired: Desired) -> Record:
    """The record with what the mounting will make, so that it can be undone."""
    folders = record.created_folders + tuple(f for f in mounting.folders if f not in record.created_folders)
    return replaced(
        record,
        mount_point=record.mount_point if mounting.moves else desired.mount_point,
        created_folders=folders,
        created_fstab=record.created_fstab or mounting.makes_fstab,
    )


def uuid_text(build: Build) -> str:
    return filesystem_form(build.filesystem_uuid)
