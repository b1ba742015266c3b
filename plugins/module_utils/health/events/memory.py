# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be known from one look at the events to the next, over reboots, in one small file.

The reason in Slurm alone says who drained the node, and the cloud alone says which events are pending. So if the file
is lost or damaged, a node that is drained for an event is validated before it returns. A damaged file is kept aside.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...core import safe_files
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.state_file import StateFile, document
from .read import MOST_EVENTS
from .types import TYPES

PATH = "/var/lib/gpu_node/cloud_events.json"
DAMAGED = PATH + safe_files.DAMAGED
_MOST_DRAINED = 64
_MOST_NOTES = 50
# Older releases did not write all of these.
_OPTIONAL = ("machine", "name", "boot", "struck", "over", "another", "proved", "tries", "tried", "why", "notes")
#: What became of the events that this node was drained for: nothing happened, or it may have.
WITHDRAWN, OVER = "withdrawn", "over"


@frozen
class Known:
    """An event as it was last seen. ``boot``: the start of this machine in which it was first seen. ``asked``: when the
    cloud was told that it may start, 0: it was not."""

    id: str
    type: str
    not_before: Optional[float]
    started: bool
    boot: str
    asked: float = 0.0


@frozen
class Note:
    time: float
    text: str


@frozen
class Memory:
    """``machine``: the one that this was found on; ``name``: what the cloud calls it. ``known``: pending events.

    ``drained``: ids of the events that this node was drained for, in its start ``boot``; ``struck``: one had started by
    then, so nobody knows what the machine was before. ``over``: what became of them, "" while they are pending.
    ``another``: this is another machine than the one that was drained. ``proved``: the start in which the node has
    proved well since. ``tries`` proofs failed, the last at ``tried`` for the reason ``why``. ``notes``: what happened.
    """

    machine: str = ""
    name: str = ""
    known: Tuple[Known, ...] = ()
    drained: Tuple[str, ...] = ()
    boot: str = ""
    struck: bool = False
    over: str = ""
    another: bool = False
    proved: str = ""
    tries: int = 0
    tried: float = 0.0
    why: str = ""
    notes: Tuple[Note, ...] = ()

    def noted(self, now: float, texts: Tuple[str, ...]) -> Memory:
        notes = self.notes + tuple(Note(now, text[:300]) for text in texts)
        return replaced(self, notes=notes[-_MOST_NOTES:])

    def drained_for(self, ids: Tuple[str, ...]) -> Memory:
        """Bounded: the last ones."""
        return replaced(self, drained=tuple(dict.fromkeys((*self.drained, *ids)))[-_MOST_DRAINED:])

    def settled(self) -> Memory:
        """Nothing is drained by us any more."""
        return replaced(
            self, drained=(), boot="", struck=False, over="", another=False, proved="", tries=0, tried=0.0, why=""
        )


def read(host: Host) -> Memory:
    """Empty if the file does not exist or is damaged."""
    return load(host)[0]


def load(host: Host) -> Tuple[Memory, str]:
    """(the memory, why it could not be read)."""
    found, damage = FILE.read(host)
    return found or Memory(), damage


def taken(host: Host) -> Tuple[Memory, str]:
    """(the memory, a sentence about a damaged file), for a caller that writes it: a damaged file is kept aside."""
    found, note = FILE.recover(host)
    return found or Memory(), note and note + ", and a node that is drained for an event is validated before it returns"


def _parse(content: Dict[str, Any]) -> Memory:
    found = document(Memory, content, _OPTIONAL)
    if any(one.type not in TYPES for one in found.known) or found.over not in ("", WITHDRAWN, OVER) or found.tries < 0:
        raise ValueError("no event")
    known, drained, notes = found.known[:MOST_EVENTS], found.drained[-_MOST_DRAINED:], found.notes[-_MOST_NOTES:]
    return replaced(found, known=known, drained=drained, notes=notes)


FILE = StateFile("cloud_events", PATH, _parse, mode=0o644)


def write(host: Host, memory: Memory) -> None:
    """:raises NodeError: it cannot be written."""
    FILE.write(host, memory)
