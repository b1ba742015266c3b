# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a checkpoint on this node, as they are now."""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterator, List, Sequence, Tuple

from ..core.frozen import frozen
from ..core.resource import NodeError
from . import destination

_MOST = 100000


@frozen
class Source:
    """``name`` in the checkpoint; ``path`` here."""

    name: str
    path: str
    size_bytes: int
    mtime_ns: int


def find(paths: Sequence[str]) -> Tuple[Source, ...]:
    """Regular files, and those in folders, by the name of the folder; links in folders are not followed.

    :raises NodeError: there is nothing to copy, one cannot be read, or two would have one name.
    """
    found: Dict[str, Source] = {}
    for given in paths:
        whole = os.path.realpath(given)
        top = os.path.basename(os.path.abspath(given))
        names = [(top, whole)] if not os.path.isdir(whole) else list(_below(whole, top))
        for name, path in names:
            source = _source(destination.file_name(name), path)
            if name in found and found[name].path != path:
                reason = "{0} and {1} would both be {2} in the checkpoint".format(found[name].path, path, name)
                raise NodeError("file " + path, reason, "give them names of their own")
            found[name] = source
            if len(found) > _MOST:
                raise NodeError("folder " + given, "it holds more than {0} files".format(_MOST), "pack them first")
    if not found:
        raise NodeError("checkpoint of {0}".format(" ".join(paths)), "there is no file in it", "name some files")
    return tuple(found[name] for name in sorted(found))


def _below(folder: str, top: str) -> Iterator[Tuple[str, str]]:
    def failed(error: OSError) -> None:
        raise NodeError(
            "folder {0}".format(error.filename), "it cannot be read ({0})".format(error.strerror), "see to it"
        )

    for here, folders, names in os.walk(folder, onerror=failed):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield os.path.join(top, os.path.relpath(path, folder)), path


def _source(name: str, path: str) -> Source:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
        finally:
            os.close(handle)
    except OSError as error:
        reason = "it cannot be read ({0})".format(error.strerror)
        raise NodeError("file " + path, reason, "correct the name, or its rights") from error
    if not stat.S_ISREG(found.st_mode):
        raise NodeError("file " + path, "it is no regular file", "name files or folders of files")
    if "*" in path:
        raise NodeError("file " + path, "azcopy takes * for a pattern", "move it to a path without one")
    return Source(name, path, found.st_size, found.st_mtime_ns)


def sizes(sources: Sequence[Source]) -> Dict[str, int]:
    return {one.name: one.size_bytes for one in sources}


def changed(sources: Sequence[Source]) -> List[str]:
    """The names of those that are not as they were."""
    found = []
    for one in sources:
        try:
            now = os.stat(one.path)
        except OSError:
            found.append(one.name)
            continue
        if (now.st_size, now.st_mtime_ns) != (one.size_bytes, one.mtime_ns):
            found.append(one.name)
    return found
