# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a checkpoint into the store: the files, then its manifest."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..core.frozen import frozen, replaced
from ..core.machine import whole_name
from ..core.moment import moment
from ..core.resource import NodeError
from . import files, whole, words
from .copying import Copy, Copying
from .files import Source
from .store import Store, Tell
from .whole import Part


@frozen
class Done:
    """``already``: it was there. ``resumed``: how many files an earlier run had brought."""

    files: int
    size_bytes: int
    seconds: float
    already: bool = False
    resumed: int = 0
    retries: int = 0
    cap: float = 0.0
    halved: int = 0
    removed: Tuple[str, ...] = ()


class _State:
    """What was done of a copy, on the scratch, so that a killed run goes on."""

    def __init__(self, store: Store, name: str, part: Part, sources: Sequence[Source]) -> None:
        self.work = store.setting.work
        self.key = "{0}.{1}-of-{2}".format(name, part.number, part.of)
        self.url = store.url
        known = self.work.read(self.key)
        kept: Any = known.get("files") if known.get("destination") == store.url else None
        self.files: Dict[str, Dict[str, Any]] = {}
        for one in sources:
            fresh = {"path": one.path, "bytes": one.size_bytes, "mtime_ns": one.mtime_ns}
            entry = kept.get(one.name) if isinstance(kept, dict) else None
            same = isinstance(entry, dict) and all(entry.get(name) == value for name, value in fresh.items())
            self.files[one.name] = dict(entry if same and entry else fresh)

    def save(self) -> None:
        self.work.write(self.key, {"destination": self.url, "files": self.files})

    def begun(self, copy: Copy, job: str) -> None:
        self.files[copy.name]["job"] = job
        self.save()

    def ended(self, copy: Copy) -> None:
        self.files[copy.name].update(done=True, job="")
        self.save()

    def is_done(self, name: str) -> bool:
        return self.files[name].get("done") is True

    def job(self, name: str) -> str:
        job = str(self.files[name].get("job") or "")
        return job if job and self.work.planned(job) else ""


def put(
    store: Store,
    name: str,
    part: Part,
    sources: Sequence[Source],
    tell: Tell,
    keep: int = 0,
    limit_seconds: Optional[float] = None,
) -> Done:
    """:raises NodeError: it is not whole in the store. A checkpoint without its manifest counts for nothing, and the
    same call again goes on with it."""
    started = time.monotonic()
    deadline = None if limit_seconds is None else started + limit_seconds
    size = sum(one.size_bytes for one in sources)
    with store.setting.work.turn("{0}.{1}-of-{2}".format(name, part.number, part.of)):
        there = store.listing(name)
        if any(one.path == part.manifest for one in there):
            _same(store, name, part, sources)
            return Done(len(sources), size, 0.0, already=True, removed=_prune(store, name, part, keep))
        others = {one.path for one in there if one.path.startswith("gpunode-manifest.")}
        foreign = sorted(one for one in others if not one.endswith("-of-{0}.json".format(part.of)))
        if foreign:
            reason = "it is there with another number of parts ({0})".format(foreign[0])
            raise NodeError("checkpoint " + name, reason, "give it another name")
        state = _State(store, name, part, sources)
        left = [one for one in sources if not state.is_done(one.name)]
        # What was recorded as done and is not there was removed meanwhile.
        gone = {one.name for one in sources} - {one.name for one in left} - {one.path for one in _own(part, there)}
        left += [one for one in sources if one.name in gone]
        resumed = len(sources) - len(left)
        if resumed:
            tell("{0} of {1} files are there from an earlier run".format(resumed, len(sources)))
        state.save()
        copying = Copying(store.setting, tell, state.begun, state.ended)
        copying.run([_copy(store, name, part, one, state) for one in left], deadline)
        _write_manifest(store, name, part, sources)
        state.work.forget(state.key)
    return Done(
        files=len(sources),
        size_bytes=size,
        seconds=time.monotonic() - started,
        resumed=resumed,
        retries=copying.retries,
        cap=copying.cap.now,
        halved=copying.cap.halved,
        removed=_prune(store, name, part, keep),
    )


def _copy(store: Store, name: str, part: Part, one: Source, state: _State) -> Copy:
    query = store.setting.access.query
    return Copy(
        one.name,
        one.size_bytes,
        lambda cap: words.upload(one.path, store.address(name, part.folder + one.name), cap),
        lambda job, cap: words.resume(job, query, cap),
        state.job(one.name),
    )


def _own(part: Part, blobs: Sequence[words.Blob]) -> List[words.Blob]:
    """Those in the folder of the part, by their names in it."""
    start = len(part.folder)
    return [replaced(one, path=one.path[start:]) for one in blobs if one.path.startswith(part.folder)]


def _write_manifest(store: Store, name: str, part: Part, sources: Sequence[Source]) -> None:
    changed = files.changed(sources)
    if changed:
        reason = "{0} was written to while it was copied".format(changed[0])
        remedy = "write each checkpoint into files of its own, and copy when they are closed"
        raise NodeError("checkpoint " + name, reason, remedy)
    wanted = files.sizes(sources)
    there = [one for one in _own(part, store.listing(name)) if one.path in wanted]
    wrong = whole.missing(wanted, there)
    if wrong is not None:
        raise NodeError("checkpoint " + name, wrong, "run the same command again")
    times = {one.name: one.mtime_ns for one in sources}
    created = moment(time.time())
    store.write(whole.manifest(name, part, there, times, whole_name(), created), name, part.manifest)


def _same(store: Store, name: str, part: Part, sources: Sequence[Source]) -> None:
    """:raises NodeError: what is there under this name is of other files."""
    manifest = whole.read(store.read(name, part.manifest), "{0}/{1}".format(name, part.manifest))
    there = {one.path: (one.size_bytes, one.modified) for one in manifest}
    here = {one.name: (one.size_bytes, str(one.mtime_ns)) for one in sources}
    if there != here:
        thing = "checkpoint {0}{1}".format(name, part.words)
        raise NodeError(thing, "it is there already, made of other files", "give this one another name")


def _prune(store: Store, added: str, part: Part, keep: int) -> Tuple[str, ...]:
    """Remove whole checkpoints beside the last ``keep``; one node of a job does it for all."""
    if keep < 1 or part.number != 0:
        return ()
    every = whole.checkpoints(store.listing())
    removed: List[str] = []
    for name in whole.too_many(every, keep, added):
        found = next(one for one in every if one.name == name)
        store.remove(name, tuple(Part(number, found.of).manifest for number in found.parts))
        removed.append(name)
    return tuple(removed)
