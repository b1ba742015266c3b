# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the live mount and the wanted ones: what a remount changes, and what needs a new mount. Pure."""

from __future__ import annotations

from typing import FrozenSet, Set, Tuple

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
