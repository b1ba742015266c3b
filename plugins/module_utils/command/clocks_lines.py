# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``gpunode clocks`` prints: a line for each GPU, and what was changed."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..core.resource import Action
from ..gpus.settings import clocks_session
from ..gpus.settings.types import APPLICATION, DEFAULT, FIXED, LOCKED
from . import by_gpu
from .output import painter, table, wrapped

NOT_KNOWN = "not known"
HEAD = ("GPU", "ADDRESS", "NOW", "HELD AT", "BY", "DEFAULT", "MAXIMUM")


def print_table(rows: Sequence[Dict[str, Any]]) -> None:
    paint = painter(sys.stdout)
    lines = table(HEAD, [_cells(one) for one in rows])
    print(paint(lines[0], "strong"))
    for line, one in zip(lines[1:], rows):
        print(paint(line, "warning") if _contradicted(one) else line)
    print(paint("MHz: graphics (SM) + memory", "faint"))
    notes = []
    if any(_held_text(one)[1] == NOT_KNOWN for one in rows):
        notes.append(
            "not known: NVML cannot tell of a lock, and gpunode set or lifted none since the driver was loaded"
        )
    notes += [
        "GPU {0}: its clock speaks against the lock that was set; 'gpunode clocks max' sets it again".format(
            one["index"]
        )
        for one in rows
        if _contradicted(one)
    ]
    notes += by_gpu.grouped((str(one["index"]), text) for one in rows for text in _overridden(one))
    for note in notes:
        print(wrapped("note: " + note))


def _overridden(one: Dict[str, Any]) -> List[str]:
    """Locks that do not show where people look for them: other tools print the application clock, which stays."""
    told = []
    for kind in ("graphics", "memory"):
        clock = one[kind]
        reads = clock["application_mhz"]
        if clock["held_by"] == LOCKED and reads is not None and reads == clock["default_mhz"] != clock["held_mhz"]:
            told.append(
                "the {0} clock is locked at {1} MHz; the application clock reads its default, {2} MHz, and the lock "
                "overrides it".format(kind, clock["held_mhz"], reads)
            )
    return told


def _contradicted(one: Dict[str, Any]) -> bool:
    return bool(one["graphics"]["contradicted"] or one["memory"]["contradicted"])


def _cells(one: Dict[str, Any]) -> List[object]:
    def pair(key: str) -> Optional[str]:
        values = [one[kind][key] for kind in ("graphics", "memory")]
        return None if values == [None, None] else "+".join("-" if mhz is None else str(mhz) for mhz in values)

    held, how = _held_text(one)
    return [one["index"], one["pci_address"], pair("now_mhz"), held, how, pair("default_mhz"), pair("max_mhz")]


def _held_text(one: Dict[str, Any]) -> Tuple[Optional[str], str]:
    clocks = (one["graphics"], one["memory"])
    holding = [clock["held_by"] for clock in clocks if clock["held_by"] in (LOCKED, APPLICATION)]
    if not holding:
        ways = {clock["held_by"] for clock in clocks}
        return None, NOT_KNOWN if NOT_KNOWN in ways else DEFAULT
    told = [clock["held_mhz"] if clock["held_by"] in (LOCKED, APPLICATION, FIXED) else None for clock in clocks]
    text = "+".join("-" if mhz is None else str(mhz) for mhz in told)
    return text, "+".join(dict.fromkeys(holding))


def print_change(outcome: clocks_session.Outcome, check_mode: bool, any_gpu: bool) -> None:
    paint = painter(sys.stdout)
    if outcome.skipped:
        print(outcome.skipped)
    for line in _by_gpu(outcome.actions, "would " if check_mode else ""):
        print(line)
    if not outcome.actions and any_gpu and not outcome.skipped:
        print("as asked already, nothing to do")
    if outcome.actions and not check_mode:
        print(paint("until reset, reboot or 'gpunode apply gpu_settings'; nothing was declared", "faint"))
    for note in by_gpu.grouped(by_gpu.labelled(note) for note in outcome.notes):
        print(wrapped("note: " + note))
    by_gpu.print_failed(outcome.failed)


def _by_gpu(actions: Sequence[Action], verb: str) -> List[str]:
    labelled = [by_gpu.labelled(action.describe()) for action in actions]
    return [wrapped(line) for line in by_gpu.grouped((number, verb + text) for number, text in labelled)]
