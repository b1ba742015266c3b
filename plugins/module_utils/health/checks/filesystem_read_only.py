# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems of the system that the kernel made read-only, as it does after an error."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core import mounts
from ..container import contained
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .filesystem_space import PATHS

# Those that become read-only by an error. An image that is read-only by design is of another kind (erofs, squashfs,
# overlay of composefs), or fstab says so.
_ON_DISKS = ("ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs")


def look(evidence: Evidence) -> Optional[Tuple[str, ...]]:
    """The mount points that are read-only and were not meant to be. None: whoever made this container meant them."""
    if contained(evidence.host):
        return None
    table = mounts.read(evidence.host)
    wanted = set()
    for line in (evidence.host.read("/etc/fstab") or "").split("\n"):
        words = line.split()
        if len(words) >= 4 and not words[0].startswith("#") and "ro" in words[3].split(","):
            wanted.add(words[1])
    found = (mounts.at(table, path) for path in PATHS)
    return tuple(
        one.point
        for one in found
        if one is not None and not one.writable and one.filesystem in _ON_DISKS and one.point not in wanted
    )


def judge(seen: Optional[Tuple[str, ...]], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="this is a container")
    reason = "it is read-only, as after an error of its disk or of itself"
    remedy = "look at 'dmesg' for the error, then reboot with a check of the file system (fsck.mode=force)"
    return Judgement(
        seen="writable" if not seen else "",
        findings=tuple(
            Finding(
                Outcome.FAIL, "file system " + one, reason, remedy, Remedy.REBOOT, Certainty.CERTAIN, one, "read_only"
            )
            for one in seen
        ),
    )


CHECKS = (Check("filesystem_read_only", "The system can write to its disks", Cost.QUICK, judge, look, lane="storage"),)
