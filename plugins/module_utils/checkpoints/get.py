# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a checkpoint back from the store."""

from __future__ import annotations

import os
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.resource import NodeError
from ..core.units import size as sized
from . import destination, whole, words
from .copying import Copy, Copying
from .put import Done
from .store import Store, Tell
from .whole import Checkpoint, Part

#: In the place of a name.
LATEST = "latest"
_ROOM_PERCENT = 1


def choose(store: Store, name: str) -> Checkpoint:
    """The checkpoint of that name; ``latest``: the newest whole one.

    :raises NodeError: there is none, or it is not whole.
    """
    every = whole.checkpoints(store.listing())
    if name == LATEST:
        good = [one for one in every if one.whole]
        if not good:
            thing = "destination " + store.url
            raise NodeError(thing, "no whole checkpoint is there", "see 'gpunode checkpoint list'")
        return good[-1]
    found = next((one for one in every if one.name == name), None)
    if found is None:
        raise NodeError("checkpoint " + name, "it is not in the store", "see 'gpunode checkpoint list'")
    if not found.whole:
        reason = "it is not whole: {0}".format(
            "{0} of {1} parts have a manifest".format(len(found.parts), found.of) if found.of else "it has no manifest"
        )
        raise NodeError("checkpoint " + name, reason, "finish its 'put', or take another one: get latest")
    return found


def get(
    store: Store, found: Checkpoint, folder: str, tell: Tell, part: Optional[Part], limit_seconds: Optional[float]
) -> Done:
    """Into ``folder``. ``part``: only what that part wrote; None for all.

    :raises NodeError: not all of it is there.
    """
    started = time.monotonic()
    deadline = None if limit_seconds is None else started + limit_seconds
    parts = [part] if part is not None else [Part(number, found.of) for number in found.parts]
    wanted: Dict[str, words.Blob] = {}
    places: Dict[str, str] = {}
    for one in parts:
        if one.of != found.of:
            reason = "it has {0} part(s), and part {1} of {2} was asked for".format(found.of, one.number, one.of)
            raise NodeError("checkpoint " + found.name, reason, "leave --part out, which brings all of it")
        text = store.read(found.name, one.manifest)
        for blob in whole.read(text, "{0}/{1}".format(found.name, one.manifest)):
            destination.file_name(blob.path)
            other = wanted.setdefault(blob.path, blob)
            if (other.size_bytes, other.md5) != (blob.size_bytes, blob.md5):
                reason = "{0} is in more than one part, with other content".format(blob.path)
                remedy = "bring each part into a folder of its own: --part 0/{0} and so on".format(found.of)
                raise NodeError("checkpoint " + found.name, reason, remedy)
            places.setdefault(blob.path, one.folder + blob.path)
    _check(store, found, wanted, places)
    _room(folder, sum(one.size_bytes for one in wanted.values()))
    copies = [
        _copy(store.address(found.name, places[one.path]), one, _target(folder, one.path)) for one in wanted.values()
    ]
    copying = Copying(store.setting, tell)
    copying.run(copies, deadline)
    _arrived(folder, list(wanted.values()))
    size = sum(one.size_bytes for one in wanted.values())
    seconds = time.monotonic() - started
    return Done(len(wanted), size, seconds, retries=copying.retries, cap=copying.cap.now, halved=copying.cap.halved)


def _copy(source: words.Word, one: words.Blob, path: str) -> Copy:
    def given(cap: float) -> Tuple[words.Word, ...]:
        return words.download(source, path, cap)

    # A download that is begun anew writes its file anew, so there is nothing to go on with.
    return Copy(one.path, one.size_bytes, given, lambda dummy, cap: given(cap))


def _check(store: Store, found: Checkpoint, wanted: Mapping[str, words.Blob], places: Mapping[str, str]) -> None:
    """What lies there is what the manifest says: somebody may have written to it since."""
    there = {one.path: one for one in store.listing(found.name)}
    for one in wanted.values():
        blob = there.get(places[one.path])
        if blob is None or (blob.size_bytes, blob.md5) != (one.size_bytes, one.md5):
            what = "is gone from the store" if blob is None else "was changed in the store"
            reason = "{0} {1} after its manifest was written".format(one.path, what)
            raise NodeError("checkpoint " + found.name, reason, "take another one")


def _room(folder: str, size_bytes: int) -> None:
    """:raises NodeError: it would not fit, or there is no such folder."""
    try:
        os.makedirs(folder, exist_ok=True)
        found = os.statvfs(folder)
    except OSError as error:
        reason = "it cannot be made ({0})".format(error.strerror)
        raise NodeError("folder " + folder, reason, "give one that you may write to") from error
    free = found.f_bavail * found.f_frsize
    if free < size_bytes * (100 + _ROOM_PERCENT) // 100:
        reason = "{0} are free there, and the checkpoint has {1}".format(sized(free), sized(size_bytes))
        raise NodeError("folder " + folder, reason, "free some space there, or give another one")


def _target(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    above = os.path.dirname(path)
    os.makedirs(above, exist_ok=True)
    inside = os.path.realpath(above)
    top = os.path.realpath(folder)
    if inside != top and not inside.startswith(top + os.sep):
        raise NodeError("file " + path, "a link leads out of the folder", "give an empty folder")
    return path


def _arrived(folder: str, wanted: Sequence[words.Blob]) -> None:
    wrong: List[str] = []
    for one in wanted:
        try:
            size = os.stat(os.path.join(folder, one.path)).st_size
        except OSError:
            size = -1
        if size != one.size_bytes:
            wrong.append(one.path)
    if wrong:
        raise NodeError(
            "file " + wrong[0], "it did not arrive whole in {0}".format(folder), "run the same command again"
        )
