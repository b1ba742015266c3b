# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a node's layouts: how each GPU was before us, what a change that runs started from, and what was made.

A change is noted before its first step. A run that is killed in its midst therefore leaves the way back behind; the
next one goes on to what is declared, and a change that fails goes back to what the record says. A record that is
missing, cut short or of another form counts as empty.
"""

from __future__ import annotations

import json
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional, Tuple

from ...core import machine
from ...core.frozen import plain
from ...core.host import Host
from .types import RECORD_PATH, RESETS_PATH, Entry, Piece, Standing

VERSION = 1


def read(host: Host) -> Tuple[Tuple[str, Entry], ...]:
    content = _content(host).get("gpus")
    entries = ((uuid, _entry(value)) for uuid, value in sorted((content if isinstance(content, dict) else {}).items()))
    return tuple((uuid, entry) for uuid, entry in entries if entry is not None)


def stopped(host: Host) -> Tuple[str, ...]:
    """Units that a change has stopped and not started again."""
    units = _content(host).get("stopped")
    return tuple(unit for unit in units if isinstance(unit, str)) if isinstance(units, list) else ()


def moved(host: Host) -> bool:
    """Whether it was written on another machine: an image carries it on."""
    written, here = _content(host).get("machine"), machine.identity(host)
    return isinstance(written, str) and here is not None and machine.normal(written) != machine.normal(here)


def _content(host: Host) -> Dict[str, Any]:
    text = host.read(RECORD_PATH)
    try:
        content = json.loads(text) if text else None
    except ValueError:
        return {}
    return content if isinstance(content, dict) and content.get("version") == VERSION else {}


def write(host: Host, changes: Iterable[Tuple[str, Optional[Entry]]]) -> None:
    """Put entries in, take those out whose entry is None; the file goes away with the last one."""
    entries: Dict[str, Entry] = dict(read(host))
    for uuid, entry in changes:
        if entry is None:
            entries.pop(uuid, None)
        else:
            entries[uuid] = entry
    _write(host, entries, stopped(host))


def note_stopped(host: Host, units: Tuple[str, ...]) -> None:
    """Written before they are stopped; empty when they run again."""
    _write(host, dict(read(host)), units)


def resets(host: Host) -> FrozenSet[str]:
    """The GPUs of which the driver has said since the boot that their mode comes with a reset."""
    try:
        uuids = json.loads(host.read(RESETS_PATH) or "[]")
    except ValueError:
        uuids = []
    return frozenset(uuid for uuid in uuids if isinstance(uuid, str)) if isinstance(uuids, list) else frozenset()


def note_resets(host: Host, said: Mapping[str, bool]) -> None:
    """What the driver has said of each GPU whose mode was set."""
    before = resets(host)
    now = {uuid for uuid in before if uuid not in said} | {uuid for uuid, reset in said.items() if reset}
    if now != before:
        host.write(RESETS_PATH, json.dumps(sorted(now)) + "\n")


def _write(host: Host, entries: Dict[str, Entry], units: Tuple[str, ...]) -> None:
    if not entries and not units:
        host.remove(RECORD_PATH, folder_too=True)
        return
    content: Dict[str, Any] = {"version": VERSION, "gpus": {uuid: plain(entry) for uuid, entry in entries.items()}}
    here = machine.identity(host)
    if here is not None:
        content["machine"] = here
    if units:
        content["stopped"] = list(units)
    host.write(RECORD_PATH, json.dumps(content, indent=2, sort_keys=True) + "\n")


def _entry(value: Any) -> Optional[Entry]:
    if not isinstance(value, dict):
        return None
    before = _standing(value.get("before"))
    return None if before is None else Entry(before, _standing(value.get("journal")), _standing(value.get("made")))


def _standing(value: Any) -> Optional[Standing]:
    if not isinstance(value, dict) or not isinstance(value.get("mode"), bool):
        return None
    pieces = value.get("pieces")
    if not isinstance(pieces, list):
        return None
    found = []
    for piece in pieces:
        numbers = (piece.get("profile"), piece.get("start")) if isinstance(piece, dict) else (None, None)
        compute = piece.get("compute") if isinstance(piece, dict) else None
        if (
            not all(_number(n) for n in numbers)
            or not isinstance(compute, list)
            or not all(_number(n) for n in compute)
        ):
            return None
        found.append(Piece(int(numbers[0] or 0), int(numbers[1] or 0), tuple(compute)))
    return Standing(value["mode"], tuple(found))


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
