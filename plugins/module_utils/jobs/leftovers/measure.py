# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in one folder: each thing with its size, owners, age and marks. Follows no link."""

from __future__ import annotations

import os
import re
import stat
import time
from typing import FrozenSet, Hashable, Iterator, List, Optional, Set, Tuple

from ...core import environments, root_folders, shares
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.resource import printable
from .types import CONTAINERS, CORE_DUMPS, ENVIRONMENTS, JOB_FOLDERS, TMP_FILES, Leftover, Place

# For everything in one directory; its owners share it.
_MEASURE_SECONDS = 40.0


@frozen
class Measured:
    """``owners`` None: not all of it was seen. ``used``: the newest change of anything, or reading of a file."""

    size_bytes: Optional[int]
    owners: Optional[FrozenSet[int]]
    changed: float
    used: float


def in_folder(
    host: Host, kind: str, top: str, folders: Tuple[str, ...], wanted: "re.Pattern[str]"
) -> Iterator[Leftover]:
    """:raises OSError: the folder cannot be read."""
    with root_folders.opened(host, top, folders, make=False) as above:
        names = [] if above is None else [name for name in sorted(os.listdir(above)) if wanted.fullmatch(name)]
        for name, deadline in _timed(host, above, names):
            if above is not None:
                one = _leftover(kind, Place(top, folders, name), above, deadline)
                if one is not None and kind == ENVIRONMENTS:
                    # What is being built has no mark yet, and the mark of a copy is of another path.
                    one = replaced(
                        one, ours=one.ours and environments.read_mark(host, "/".join((top, *folders, name))) is not None
                    )
                if one is not None:
                    yield one


def in_shared(host: Host, top: str, least: int) -> Iterator[Leftover]:
    """What people have there; what is of root or a daemon is not even told.

    :raises OSError: it cannot be read.
    """
    above = os.open(host.path(top), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name, deadline in _timed(host, above, sorted(os.listdir(above))):
            seen = root_folders.identity(above, name)
            if seen is not None and seen.uid >= least:
                one = _leftover(TMP_FILES, Place(top, (), name, shared=True), above, deadline)
                if one is not None:
                    yield one
    finally:
        os.close(above)


def _timed(host: Host, above: Optional[int], names: List[str]) -> Iterator[Tuple[str, float]]:
    """Each name with the deadline of its owner."""
    of = shares.owner(host)

    def owner(name: str) -> Hashable:
        seen = None if above is None else root_folders.identity(above, name)
        return None if seen is None else of(seen.uid)

    return shares.timed(names, owner, _MEASURE_SECONDS)


def _leftover(kind: str, place: Place, above: int, deadline: float) -> Optional[Leftover]:
    seen = root_folders.identity(above, place.name)
    if seen is None:
        return None
    folder = stat.S_ISDIR(seen.kind)
    if kind == CORE_DUMPS and not stat.S_ISREG(seen.kind):
        return None
    measured = measure(above, place.name, deadline)
    ours, keeps = False, False
    if kind in (JOB_FOLDERS, CONTAINERS):
        ours = folder and root_folders.marked(above, place.name)
    elif kind == ENVIRONMENTS:
        ours, keeps = folder and _has(above, place.name), _linked(above, place.name)
    used = measured.changed if kind == JOB_FOLDERS else measured.used
    return Leftover(
        kind,
        printable(place.path),
        place,
        seen,
        measured.size_bytes,
        max(0.0, time.time() - used),
        measured.owners,
        ours=ours,
        keeps=keeps,
        open=None if kind == ENVIRONMENTS and measured.owners is None else False,
        link=stat.S_ISLNK(seen.kind),
    )


def _has(above: int, name: str) -> bool:
    """Whether it has a mark of root's."""
    try:
        found = os.stat("{0}/{1}".format(name, environments.MARK_NAME), dir_fd=above, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def _linked(above: int, name: str) -> bool:
    """Whether a link beside it leads to it."""
    for other in os.listdir(above):
        try:
            if os.path.basename(os.readlink(other, dir_fd=above).rstrip("/")) == name:
                return True
        except OSError:
            continue
    return False


def measure(above: int, name: str, deadline: float) -> Measured:
    """What lies there, without following a link or leaving its file system. A name that grows under our hands, or is
    nested beyond all measure, ends as not seen."""
    first = os.stat(name, dir_fd=above, follow_symlinks=False)
    size, changed, owners, whole = first.st_blocks * 512, first.st_ctime, {first.st_uid}, True
    used = max(first.st_ctime, first.st_atime) if stat.S_ISREG(first.st_mode) else first.st_ctime
    links: Set[int] = set()
    try:
        for found in _below(above, name, first.st_dev, deadline) if stat.S_ISDIR(first.st_mode) else ():
            owners.add(found.st_uid)
            changed = max(changed, found.st_ctime)
            if stat.S_ISREG(found.st_mode):
                used = max(used, found.st_atime)
            if found.st_dev != first.st_dev:
                whole = False
            elif found.st_nlink < 2 or stat.S_ISDIR(found.st_mode) or found.st_ino not in links:
                size += found.st_blocks * 512
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    links.add(found.st_ino)
    except (OSError, RecursionError):
        whole = False
    return Measured(size if whole else None, frozenset(owners) if whole else None, changed, max(used, changed))


def _below(above: int, name: str, device: int, deadline: float) -> Iterator[os.stat_result]:
    """Everything in a directory. The names are read a few at a time, so that a huge directory meets the deadline, too.

    :raises TimeoutError: the deadline has passed.
    """
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        with os.scandir(handle) as entries:
            for one in entries:
                if time.monotonic() > deadline:
                    raise TimeoutError
                found = os.stat(one.name, dir_fd=handle, follow_symlinks=False)
                yield found
                if stat.S_ISDIR(found.st_mode) and found.st_dev == device:
                    yield from _below(handle, one.name, device, deadline)
    finally:
        os.close(handle)
