# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a node's layouts: how each GPU was before us, what a change that runs started from, and what was made.

A change is noted before its first step. A run that is killed in its midst therefore leaves the way back behind; the
next one goes on to what is declared, and a change that fails goes back to what the record says. A record that is
missing or damaged counts as empty.
"""

from __future__ import annotations

import functools
from typing import Dict, FrozenSet, Iterable, Mapping, Optional, Tuple

from ...core import machine
from ...core.frozen import frozen
from ...core.host import Host
from ...core.state_file import StateFile, document
from .types import RECORD_PATH, RESETS_PATH, Entry


@frozen
class _Record:
    gpus: Dict[str, Entry] = {}
    machine: Optional[str] = None
    stopped: Tuple[str, ...] = ()


@frozen
class _Resets:
    gpus: Tuple[str, ...] = ()


FILE = StateFile(
    "mig_layout", RECORD_PATH, functools.partial(document, _Record, optional=("machine", "stopped")), mode=0o644
)
_RESETS = StateFile("mig_resets", RESETS_PATH, functools.partial(document, _Resets), mode=0o644)


def _read(host: Host) -> _Record:
    return FILE.read(host)[0] or _Record()


def read(host: Host) -> Tuple[Tuple[str, Entry], ...]:
    return tuple(sorted(_read(host).gpus.items()))


def stopped(host: Host) -> Tuple[str, ...]:
    """Units that a change has stopped and not started again."""
    return _read(host).stopped


def moved(host: Host) -> bool:
    """Whether it was written on another machine: an image carries it on."""
    written, here = _read(host).machine, machine.identity(host)
    return written is not None and here is not None and machine.normal(written) != machine.normal(here)


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
    return frozenset((_RESETS.read(host)[0] or _Resets()).gpus)


def note_resets(host: Host, said: Mapping[str, bool]) -> None:
    """What the driver has said of each GPU whose mode was set."""
    before = resets(host)
    now = {uuid for uuid in before if uuid not in said} | {uuid for uuid, reset in said.items() if reset}
    if now != before:
        _RESETS.write(host, _Resets(tuple(sorted(now))))


def _write(host: Host, entries: Dict[str, Entry], units: Tuple[str, ...]) -> None:
    if not entries and not units:
        FILE.remove(host)
        return
    FILE.write(host, _Record(entries, machine.identity(host), units))
