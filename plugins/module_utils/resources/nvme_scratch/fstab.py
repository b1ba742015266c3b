# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of /etc/fstab: ours is found and changed, every other byte stays; its options against the live mount."""

from __future__ import annotations

import re
from typing import FrozenSet, Optional, Sequence, Set, Tuple

from ...core.frozen import frozen
from ...facts.scratch.record import canonical, filesystem_form
from .options import MARKER_OPTION


@frozen
class Line:
    """One entry; ``number`` counts from 0, ``text`` is the line without its end. ``uuid``: of its file system.
    ``ours``: it bears our marker, or mounts a file system that we made where we mount it."""

    number: int
    text: str
    source: str
    mount_point: str
    options: Tuple[str, ...]
    uuid: Optional[str]
    ours: bool


def unescape(text: str) -> str:
    """Undo the octal escapes of fstab and mountinfo (\\040 is a blank)."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match.group(1), 8)), text)


def entries(text: Optional[str], place: str = "", filesystem_uuids: Sequence[str] = ()) -> Tuple[Line, ...]:
    """``place``: where we mount one of these file systems."""
    found = []
    # Only a line feed ends a line; str.splitlines would also break at form feeds and the like.
    for number, raw in enumerate((text or "").split("\n")):
        fields = raw.split()
        if len(fields) < 2 or fields[0].startswith("#"):
            continue
        mount_point = unescape(fields[1])
        if len(mount_point) > 1:
            mount_point = mount_point.rstrip("/") or "/"
        options = tuple(fields[3].split(",")) if len(fields) > 3 else ()
        source = unescape(fields[0])
        name = next((source[len(one) :] for one in ("UUID=", "/dev/disk/by-uuid/") if source.startswith(one)), None)
        uuid = None if name is None else canonical(name.strip('"'))
        ours = MARKER_OPTION in options or (mount_point == place and uuid in filesystem_uuids)
        found.append(Line(number, raw, source, mount_point, options, uuid, ours))
    return tuple(found)


def wanted(filesystem_uuid: str, mount_point: str, filesystem: str, options: Sequence[str]) -> str:
    place = re.sub(r"[\s\\#]", lambda match: "\\{0:03o}".format(ord(match.group(0))), mount_point)
    return "UUID={0} {1} {2} {3} 0 0".format(filesystem_form(filesystem_uuid), place, filesystem, ",".join(options))


def edit(text: Optional[str], line: Optional[str], mount_point: str, filesystem_uuids: Sequence[str]) -> str:
    """The text with ``line`` as our only line (None: with no line of ours).

    The first line of ours is replaced where it stands, further ones go. A text that does not end with a line
    feed does not get one: our line then is the last one without it, and taking it out gives the old text back.
    """
    lines = (text or "").split("\n")
    ours = [entry.number for entry in entries(text, mount_point, filesystem_uuids) if entry.ours]
    if line is not None and ours:
        lines[ours.pop(0)] = line
        line = None
    for number in reversed(ours):
        del lines[number]
    if line is not None:
        if not text:
            return line + "\n"
        # A text that ends with a line feed has an empty last item here.
        lines.insert(len(lines) - 1 if lines[-1] == "" else len(lines), line)
    return "\n".join(lines)


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


def differences(
    filesystem: str, live: Tuple[str, ...], wanted: Tuple[str, ...], other_line: bool
) -> Tuple[bool, Tuple[str, ...]]:
    """Whether a remount changes the live mount, and what needs a new mount. ``other_line``: it had other options in
    fstab.

    A remount sets options on ext4, but does not remove them; XFS ignores most of them then.
    """
    if not live:
        return other_line, ()
    # A mount with strictatime shows no option for access times.
    times = live if set(live) & {"noatime", "relatime"} else (*live, "strictatime")
    remounts = other_line or _flags(wanted) != _flags(times)
    has, wants = _shown(live), _shown(wanted)
    lacking = wants - has
    if other_line:
        lacking = lacking - _BY_REMOUNT if filesystem == "xfs" else lacking & {"dirsync"}
        has -= _BY_REMOUNT
    missing = tuple("no {0}".format(one) for one in sorted(lacking))
    return remounts, missing + tuple("still {0}".format(one) for one in sorted(has - wants))
