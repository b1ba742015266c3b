# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at mounts, and at the folder that is to be one."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Iterator, List, Optional, Sequence, Set, Tuple

from ...core import child
from ...core import mounts as core_mounts
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.scratch.disks import disks_under
from . import parse
from .types import Mount, MountPoint

# An automount waits for its device as long as fstab says (30 s in our line), then mounts it.
AUTOMOUNT_SECONDS = 45.0


def _devices(host: Host, line: core_mounts.Mount, device: Optional[str]) -> List[str]:
    """Every block device of a mounted file system; of btrfs and ZFS mountinfo has one of them or none."""
    if line.filesystem == "btrfs" and device is not None:
        base = "/sys/fs/btrfs"
        for name in host.names(base):
            found = host.names("{0}/{1}/devices".format(base, name))
            if device in found:
                return found
    if line.filesystem == "zfs" and host.which("zpool") is not None:
        pool = line.source.split("/")[0]
        with contextlib.suppress(NodeError):
            listed = host.run(["zpool", "list", "-vHPL", pool], 10.0, accept=(0, 1)).stdout
            words = [text.split("\t")[1] for text in listed.splitlines() if text.startswith("\t/dev/")]
            return [os.path.basename(host.real_path(word)) for word in words]
    return [device] if device is not None else []


def mounts(host: Host) -> Tuple[Mount, ...]:
    """All mounts; of those on disks it is told what covers them."""
    found = []
    lines = core_mounts.read(host)
    covering = parse.covering(lines)
    for line in lines:
        device = None
        if host.exists("/sys/dev/block/" + line.device):
            device = os.path.basename(host.real_path("/sys/dev/block/" + line.device))
        elif line.source.startswith("/dev/"):  # btrfs and zfs mounts have numbers of their own
            device = os.path.basename(host.real_path(line.source))
        devices = _devices(host, line, device)
        disks = tuple(sorted({disk for one in devices for disk in disks_under(host, one)}))
        over = covering[line.mount_id] if disks else ()
        hiding = [one for one in over if (line.point + "/").startswith(one.point.rstrip("/") + "/")]
        found.append(
            Mount(
                line.point,
                device,
                line.filesystem,
                line.writable,
                line.source,
                line.root == "/",
                disks,
                _words(over),
                _words(hiding),
                line.options,
            )
        )
    return tuple(found)


def _words(lines: Sequence[core_mounts.Mount]) -> Tuple[str, ...]:
    return tuple("{0} ({1}) at {2}".format(one.source, one.filesystem, one.point) for one in lines)


def concern(found: Sequence[Mount], places: Set[str], names: Set[str]) -> List[Mount]:
    """Those at these places, over them, and on these disks; what comes and goes inside of them is no matter."""
    return [
        replaced(mount, covered_by=())
        for mount in found
        if names & set(mount.disks) or any((path + "/").startswith(mount.mount_point + "/") for path in places)
    ]


def _waits(found: Sequence[Mount], path: str) -> bool:
    """Whether an automount lies there that has not mounted anything, or took it away again."""
    top = next((mount for mount in reversed(found) if mount.mount_point == path), None)
    return top is not None and top.filesystem == "autofs"


def awake(host: Host, places: Set[str]) -> Tuple[Mount, ...]:
    """All mounts, with the automounts at these places used, as anybody's access does it.

    What an automount mounts then lies on top of it. It may as well fail, or hang on a server.
    """
    found = mounts(host)
    for path in sorted(places):
        if not _waits(found, path):
            continue

        def task(dummy: child.Report, folder: str = host.path(path)) -> Iterator[int]:
            with contextlib.suppress(OSError):
                yield len(os.listdir(folder))

        with contextlib.suppress(NodeError):
            child.collect(task, AUTOMOUNT_SECONDS)
        found = mounts(host)
    return found


def mount_point(host: Host, path: str, found_mounts: Sequence[Mount] = ()) -> MountPoint:
    if _waits(found_mounts, path):
        # What an automount hides is hidden already, and any look at it would set off the mount.
        return MountPoint(path, "folder")
    full = host.path(path)
    try:
        os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return MountPoint(path, "failed", False)
    missing: List[str] = []
    parent = path
    while parent != "/" and not os.path.lexists(host.path(parent)):
        missing.insert(0, parent)
        parent = os.path.dirname(parent)
    if missing:
        above = host.path(parent)
        kind = "missing" if os.path.isdir(above) else "blocked"
        if kind == "missing" and host.real_path(parent) != parent:
            kind = "symlink"
        return MountPoint(path, kind, True, tuple(missing))
    if os.path.islink(full) or host.real_path(path) != path:
        return MountPoint(path, "symlink", False)
    found = os.lstat(full)
    if not stat.S_ISDIR(found.st_mode):
        return MountPoint(path, "file" if stat.S_ISREG(found.st_mode) else "other", False)
    empty = False
    with contextlib.suppress(OSError):
        empty = not os.listdir(full)
    return MountPoint(path, "folder", empty, (), found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))
