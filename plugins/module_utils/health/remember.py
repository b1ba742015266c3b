# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the journal: what a verdict tells goes into it, and what other nodes know of the parts that are here now.

Whatever goes wrong here is a sentence and costs the journal alone; the verdict is given all the same.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Iterable, Iterator, List, Mapping, Tuple

from ..core import machine, processes, safe_files
from ..core.child import collect
from ..core.frozen import replaced
from ..core.host import Host
from ..core.resource import NodeError
from . import journal, kernel_log, xid_bursts
from .data.repeats import WARNINGS
from .journal import Event, Journal
from .parts import Part
from .parts import look as parts_of
from .types import Cost, Verdict

# A server that does not answer must not take the time of the checks.
SHARE_SECONDS = 3.0
_LOCK = "health_journal"
_LOCK_SECONDS = 10.0
_SHARE_REMEDY = "look at that file system, or take option journal_folder of health_gate out"


def keep(host: Host, verdict: Verdict, folder: str = "") -> Tuple[str, ...]:
    """Put a verdict into the journal; returns what to tell. ``folder``: of the site, "" for none."""
    if verdict.level is Cost.QUICK:
        return ()
    notes: List[str] = []
    try:
        with host.lock(_LOCK, _LOCK_SECONDS):
            _keep(host, verdict, folder, notes)
    except NodeError as error:
        notes.append(str(error))
    return tuple(notes)


def note(host: Host, event: Event) -> None:
    """Add an event of another kind: a remedy that was tried, what a person overruled.

    :raises NodeError: when it cannot be written.
    """
    with host.lock(_LOCK, _LOCK_SECONDS):
        known = journal.read(host)[0].on(machine.fingerprint(host), parts_of(host).values())
        journal.write(host, replaced(known, events=journal.bounded((*known.events, event))))


def _keep(host: Host, verdict: Verdict, folder: str, notes: List[str]) -> None:
    here, boot = parts_of(host), processes.boot_id(host)
    known, damage = journal.read(host)
    before = known = known.on(machine.fingerprint(host), here.values())
    bursts = _bursts(host, verdict, here, boot)
    known = journal.updated(known, journal.told(verdict, here, WARNINGS), bursts, boot, verdict.time, verdict.node)
    if folder:
        known = _share(host, folder, known, here.values(), notes)
    if known != before or damage:
        moved = journal.write(host, known)
        notes += [moved + ", and the journal starts again"] if moved else []


def _bursts(host: Host, verdict: Verdict, here: Mapping[str, Part], boot: str) -> Tuple[Event, ...]:
    """The log is read again only where it has Xids."""
    if not any(one.name == "gpu_xid_events" and one.value > 0 for one in verdict.measured):
        return ()
    return xid_bursts.of_log(kernel_log.read(host), here, boot, verdict.time)


# The folder of the site -----------------------------------------------------------------------------------


def _share(host: Host, folder: str, known: Journal, here: Iterable[Part], notes: List[str]) -> Journal:
    """A file for each part: read once in each start of a machine, written when there is something new of it."""
    names = {part: _name(part) for part in here if part.lasts}
    wanted = [part for part in names if names[part] not in known.shared]
    try:
        found = collect(lambda dummy: _read(host, folder, [(part, names[part]) for part in wanted]), SHARE_SECONDS)
        if found.hung_at is not None:
            raise NodeError(folder, "it did not answer within {0:g} s".format(SHARE_SECONDS), _SHARE_REMEDY)
        for name, events, damage in found.items:
            known = replaced(known, shared=(*known.shared, name))
            if damage:
                notes.append("{0}/{1}: {2}; it is written anew".format(folder, name, damage))
            known = journal.merged(known, events)
        texts = [(name, _text(known, part)) for part, name in names.items()]
        done = collect(lambda dummy: _write(host, folder, [one for one in texts if one[1]]), SHARE_SECONDS)
        if done.hung_at is not None:
            raise NodeError(folder, "it did not answer within {0:g} s".format(SHARE_SECONDS), _SHARE_REMEDY)
    except NodeError as error:
        notes.append(str(error))
    return known


def _name(part: Part) -> str:
    return "{0}-{1}.json".format(part.kind, re.sub(r"[^A-Za-z0-9_-]", "_", part.name))


def _text(known: Journal, part: Part) -> str:
    events = tuple(one for one in known.events if one.part == part)
    return journal.FILE.text(Journal(events)) if events else ""


def _read(host: Host, folder: str, wanted: List[Tuple[Part, str]]) -> Iterator[Tuple[str, Tuple[Event, ...], str]]:
    """In a child. What a file says of other parts than its own does not count.

    :raises NodeError: what lies there may be anybody's.
    """
    _check(host, folder)
    for part, name in wanted:
        text, damage = safe_files.load(os.path.join(host.path(folder), name), journal.MOST_BYTES)
        events: Tuple[Event, ...] = ()
        if text is not None:
            found, damage = journal.FILE.parse(text)
            events = tuple(one for one in found.events if one.part == part) if found else ()
        yield name, events, damage


def _write(host: Host, folder: str, texts: List[Tuple[str, str]]) -> Iterator[Any]:
    """In a child. Nothing is written through a link, and a file that says the same is left.

    :raises NodeError: nothing can be written there.
    """
    try:
        handle = os.open(host.path(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check(host, folder)
            for name, text in texts:
                if safe_files.load(name, journal.MOST_BYTES, handle)[0] != text:
                    with safe_files.replaced_in(handle, name, 0o644, exact=True) as stream:
                        stream.write(text.encode("utf-8"))
                yield name
        finally:
            os.close(handle)
    except OSError as error:
        raise NodeError(folder, "nothing can be written there ({0})".format(error.strerror), _SHARE_REMEDY) from error


def _check(host: Host, folder: str) -> None:
    try:
        mode = os.stat(host.path(folder)).st_mode
    except OSError as error:
        raise NodeError(folder, "it cannot be looked at ({0})".format(error.strerror), _SHARE_REMEDY) from error
    if mode & stat.S_IWOTH:
        remedy = "run 'chmod o-w {0}', or give another folder".format(folder)
        raise NodeError(folder, "every user may write to it, and what lies there decides about nodes", remedy)
