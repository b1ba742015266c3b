# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a checkpoint whole: a manifest of each of its parts, written when all files of the part are there. Pure.

A store of blobs has no rename, so a checkpoint cannot be uploaded under another name and then be called by its own
without a second copy of every byte. A blob is there when its last block was committed, whole or not at all; and a set
of them is a checkpoint when its manifests say so.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.resource import NodeError
from .words import Blob

_FILE = re.compile(r"gpunode-manifest\.([0-9]{1,6})-of-([0-9]{1,6})\.json")
VERSION = 1


@frozen
class Part:
    """Part ``number`` of ``of``, counted from 0: each node of a job writes one."""

    number: int = 0
    of: int = 1

    @property
    def manifest(self) -> str:
        return "gpunode-manifest.{0}-of-{1}.json".format(self.number, self.of)

    @property
    def folder(self) -> str:
        """In the store, with a slash at its end: nodes may have files of one name with other content."""
        return "" if self.of == 1 else "part-{0}-of-{1}/".format(self.number, self.of)

    @property
    def words(self) -> str:
        return "" if self.of == 1 else " part {0} of {1}".format(self.number, self.of)


@frozen
class Checkpoint:
    """``parts`` are those with a manifest, of ``of``; ``of`` 0: it has none. ``modified``: of the last manifest."""

    name: str
    parts: Tuple[int, ...]
    of: int
    files: int
    size_bytes: int
    modified: str

    @property
    def whole(self) -> bool:
        return self.of > 0 and self.parts == tuple(range(self.of))


def part(text: str) -> Part:
    """``I/N``, counted from 0.

    :raises NodeError: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if not found or int(found.group(1)) >= int(found.group(2)):
        remedy = "count from 0, as in 0/4 to 3/4 for four nodes"
        raise NodeError("part {0!r}".format(text), "this is no part of a checkpoint", remedy)
    return Part(int(found.group(1)), int(found.group(2)))


def checkpoints(blobs: Sequence[Blob]) -> Tuple[Checkpoint, ...]:
    """Those in a listing of the destination, the oldest first; those without any manifest come last."""
    found: Dict[str, List[Blob]] = {}
    for blob in blobs:
        name, slash, rest = blob.path.partition("/")
        if slash and rest:
            found.setdefault(name, []).append(blob)
    every = [_checkpoint(name, some) for name, some in found.items()]
    return tuple(sorted(every, key=lambda one: (not one.of, one.modified, one.name)))


def _checkpoint(name: str, blobs: Sequence[Blob]) -> Checkpoint:
    manifests = [
        (int(found.group(1)), int(found.group(2)), blob.modified)
        for blob in blobs
        for found in [_FILE.fullmatch(blob.path.partition("/")[2])]
        if found
    ]
    # Two counts of parts: somebody wrote it with one number of nodes and then with another.
    of = manifests[0][1] if len({one[1] for one in manifests}) == 1 else 0
    return Checkpoint(
        name=name,
        parts=tuple(sorted({one[0] for one in manifests})),
        of=of,
        files=len(blobs) - len(manifests),
        size_bytes=sum(blob.size_bytes for blob in blobs if not _FILE.fullmatch(blob.path.partition("/")[2])),
        modified=max((one[2] for one in manifests), default=""),
    )


def series(name: str) -> str:
    """What the checkpoints of one run have in common: the name without the number at its end."""
    return re.sub(r"[0-9]+$", "", name)


def too_many(every: Sequence[Checkpoint], keep: int, name: str) -> Tuple[str, ...]:
    """The names of whole checkpoints of the run of ``name`` beside its last ``keep``, the oldest first. What is not
    whole is not ours to judge: it may be on its way, or somebody else's folder; and other jobs may have the same
    destination."""
    whole = [one.name for one in every if one.whole and series(one.name) == series(name)]
    return tuple(whole[: max(0, len(whole) - keep)]) if keep > 0 else ()


def manifest(name: str, own: Part, files: Sequence[Blob], sources: Mapping[str, int], node: str, created: str) -> str:
    """``sources``: when each file was last written, in nanoseconds."""
    content = {
        "version": VERSION,
        "checkpoint": name,
        "part": own.number,
        "of": own.of,
        "node": node,
        "created": created,
        "files": [
            {"name": one.path, "bytes": one.size_bytes, "md5": one.md5, "mtime_ns": sources[one.path]}
            for one in sorted(files, key=lambda one: one.path)
        ],
    }
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def read(text: str, thing: str) -> Tuple[Blob, ...]:
    """The files of a manifest; ``modified`` of each is when its source was last written, in nanoseconds.

    :raises NodeError: it is none.
    """
    try:
        content: Any = json.loads(text)
        if content["version"] != VERSION:
            raise NodeError(thing, "it is of another version ({0})".format(content["version"]), "use a newer gpunode")
        return tuple(
            Blob(str(one["name"]), int(one["bytes"]), str(one["md5"]), str(int(one["mtime_ns"])))
            for one in content["files"]
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise NodeError(thing, "it is no manifest of ours", "see who wrote it") from error


def missing(wanted: Mapping[str, int], there: Sequence[Blob]) -> Optional[str]:
    """The first thing wrong with what is in the store, or None. ``wanted``: the size of each file."""
    found = {one.path: one for one in there}
    for name, size in sorted(wanted.items()):
        blob = found.get(name)
        if blob is None:
            return "{0} is not in the store".format(name)
        if blob.size_bytes != size:
            return "{0} has {1} bytes in the store, and {2} here".format(name, blob.size_bytes, size)
        if not blob.md5:
            return "{0} has no MD5 in the store".format(name)
    return None
