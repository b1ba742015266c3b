# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts, swap files and the space on file systems. The only reader of mountinfo."""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, Mapping, Optional, Sequence, Tuple, Union

from .frozen import frozen
from .host import Host

# Of the module nvme_scratch: where it mounts the scratch, and where images and agents of clouds mount theirs.
SCRATCH = "/mnt/resource_nvme"
ADOPTED = ("/nvme", "/mnt/nvme", "/mnt/resource_nvme")
# Of file systems that other machines have, too, and of any made by a program (fuse.sshfs, fuse.glusterfs).
_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|lustre|ceph|beegfs|gpfs|wekafs|panfs|pvfs2|glusterfs|gfs2|ocfs2|afs|9p|fuse\..+"
)


@frozen
class Mount:
    """A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).

    ``device`` is major:minor. ``writable``: neither the mount nor its file system is read-only. ``root``: the directory
    of the file system that is mounted. ``parent_id``: the mount that it is mounted on. ``options``: of the mount, then
    of the file system.
    """

    point: str
    device: str
    filesystem: str
    source: str
    writable: bool
    root: str = "/"
    mount_id: str = ""
    parent_id: str = ""
    options: Tuple[str, ...] = ()

    @property
    def network(self) -> bool:
        return is_network(self.filesystem)


def is_network(filesystem: str) -> bool:
    return _NETWORK.fullmatch(filesystem) is not None


@frozen
class Swap:
    path: str
    size_bytes: int
    used_bytes: int


@frozen
class Space:
    """As df counts it: of what anybody but root may use. ``inodes_used_percent`` None: it has no fixed number."""

    total_bytes: int
    free_bytes: int
    used_percent: float
    inodes_used_percent: Optional[float]


def read(host: Host, pid: Union[int, str] = "self", limit: Optional[int] = None) -> Tuple[Mount, ...]:
    """In the order of mounting. ``pid``: as that process sees them. ``limit``: of so many bytes."""
    return parse(host.read("/proc/{0}/mountinfo".format(pid), limit) or "")


def parse(text: str) -> Tuple[Mount, ...]:
    """Lines of another kind are passed over."""
    found = []
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if dash and len(fields) >= 6 and len(rest) >= 3:
            own, shared = fields[5].split(","), rest[2].split(",")
            found.append(
                Mount(
                    point=unescape(fields[4]),
                    device=fields[2],
                    filesystem=rest[0],
                    source=unescape(rest[1]),
                    writable="rw" in own and "rw" in shared,
                    root=unescape(fields[3]),
                    mount_id=fields[0],
                    parent_id=fields[1],
                    options=tuple(dict.fromkeys(own + shared)),
                )
            )
    return tuple(found)


def unescape(text: str) -> str:
    """Undo the octal escapes of mountinfo, swaps and fstab (a blank is \\040)."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found.group(1), 8)), text)


def swaps(host: Host) -> Tuple[Swap, ...]:
    """The devices and files that are used for swapping."""
    rows = (line.split() for line in (host.read("/proc/swaps") or "").split("\n")[1:])
    return tuple(Swap(unescape(row[0]), _bytes(row[2:3]), _bytes(row[3:4])) for row in rows if row)


def _bytes(words: Sequence[str]) -> int:
    return int(words[0]) * 1024 if words and words[0].isdecimal() else 0


def of_scratch(section: Optional[Mapping[str, Any]]) -> Tuple[str, ...]:
    """Where the declared scratch may be mounted: its own mount point, then those of an adopted one."""
    if section is None or section.get("state", "present") != "present":
        return ()
    adopted = section.get("adopt_mount_points", ADOPTED) if section.get("adopt", True) else ()
    others = adopted if isinstance(adopted, (list, tuple)) else ()  # a person may have edited it
    return tuple(dict.fromkeys([str(section.get("mount_point", SCRATCH)), *(str(one) for one in others)]))


def at(mounts: Tuple[Mount, ...], point: str) -> Optional[Mount]:
    """The topmost mount there."""
    return next((one for one in reversed(mounts) if one.point == point), None)


def scratch_in(mounts: Tuple[Mount, ...], candidates: Iterable[str]) -> Optional[Mount]:
    """The local file system that is mounted at the first of these places. A network file system is not a scratch."""
    found = (at(mounts, one) for one in candidates)
    return next((one for one in found if one is not None and not one.network), None)


def holding(mounts: Tuple[Mount, ...], path: str) -> Optional[Mount]:
    """The one that a path without links lies on."""
    inside = [one for one in mounts if path == one.point or path.startswith(one.point.rstrip("/") + "/")]
    return max(reversed(inside), key=lambda one: len(one.point), default=None)


def on_network(host: Host, paths: Iterable[str]) -> Tuple[str, ...]:
    """Those on a network file system, which other nodes have, too; or that will be when they are made. A folder on the
    way may be a link to one; CycleCloud's prolog.d is."""
    table = read(host)
    found = []
    for path in paths:
        mount = holding(table, host.real_path(path))
        if mount is not None and mount.network:
            found.append(path)
    return tuple(found)


def space(host: Host, path: str) -> Space:
    """:raises OSError: nothing is there, or it does not answer."""
    return of_numbers(os.statvfs(host.path(path)))


def of_numbers(found: os.statvfs_result) -> Space:
    used = max(0, found.f_blocks - found.f_bfree)
    inodes_used = max(0, found.f_files - found.f_ffree)
    return Space(
        total_bytes=found.f_blocks * found.f_frsize,
        free_bytes=found.f_bavail * found.f_frsize,
        used_percent=_share(used, used + found.f_bavail),
        inodes_used_percent=_share(inodes_used, inodes_used + found.f_favail) if found.f_files else None,
    )


def _share(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole > 0 else 0.0
