# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder that somebody else makes, and that an option names: is it there, and does what lies in it last?"""

from __future__ import annotations

import os
from typing import Iterator, Optional, Tuple

from . import mounts
from .child import ChildDied, collect
from .frozen import frozen
from .host import Host
from .resource import Refusal, sentence

# A server that does not answer must not hold up a converge.
_SECONDS = 5.0
# A start of the machine empties them.
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


@frozen
class Folder:
    """``there`` None: it did not answer. ``filesystem`` and ``point``: of the mount that it lies on."""

    path: str
    there: Optional[bool] = True
    filesystem: str = ""
    point: str = ""


def look(host: Host, path: str) -> Folder:
    def asked(dummy: object) -> Iterator[Tuple[bool, str]]:
        yield os.path.isdir(host.path(path)), host.real_path(path)

    try:
        found = collect(asked, _SECONDS)
    except ChildDied:
        return Folder(path, None)
    if found.hung_at is not None or not found.items:
        return Folder(path, None)
    there, real = found.items[0]
    mount = mounts.holding(mounts.read(host), real)
    return Folder(path, there, *(("", "") if mount is None else (mount.filesystem, mount.point)))


def refusal(option: str, folder: Folder, lasts: bool = False, scratch: Tuple[str, ...] = ()) -> Optional[Refusal]:
    """Why what an option names cannot be used; None: it can, or nobody knows. ``lasts``: what lies there has to survive
    a start of the machine and the loss of its scratch, which may be mounted at ``scratch``. Pure."""
    remedy = "give a folder on a file system that lasts"
    if lasts and folder.filesystem in _IN_MEMORY:
        reason = "{0} lies on a {1}, which each start of the machine empties".format(folder.path, folder.filesystem)
        return Refusal(option, reason, remedy)
    if lasts and any(_on(folder, point) for point in scratch):
        return Refusal(
            option, "{0} lies on the scratch, which may be made anew at any start".format(folder.path), remedy
        )
    return None


def missing(option: str, folder: Folder) -> Tuple[str, ...]:
    """A note, and no refusal: another program or a mount may bring it later, and no node is worth losing for it."""
    if folder.there is not False:
        return ()
    reason, remedy = "there is no folder {0}".format(folder.path), "make it, or correct {0}".format(option)
    return (sentence(option, reason, remedy),)


def _on(folder: Folder, point: str) -> bool:
    """Of a scratch that is not mounted yet says the path; below one that is something else may be mounted."""
    return folder.point == point or (_within(folder.path, point) and not _within(folder.point, point))


def _within(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")
