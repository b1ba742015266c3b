# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a Slurm node, by one name in all versions and forms. Pure.

A node has one base state (IDLE, DOWN ...) and flags (DRAIN, RESERVED ...). scontrol writes ``IDLE+DRAIN``, older ones
put signs behind the base state, JSON has one word and a list of flags, or a list of both (sinfo(1), NODE STATE CODES).
"""

from __future__ import annotations

import re
from typing import FrozenSet, Iterable, Tuple

# What else the same states are called: by JSON, by versions before 21.08, by the short form.
_ALIASES = {
    "MAINTENANCE": "MAINT",
    "POWER": "POWERED_DOWN",
    "NO_RESPOND": "NOT_RESPONDING",
    "REBOOT": "REBOOT_REQUESTED",
    "RES": "RESERVED",
    "ALLOC": "ALLOCATED",
    "MIX": "MIXED",
    "COMP": "COMPLETING",
    "UNK": "UNKNOWN",
    "FUT": "FUTURE",
    "DRAINED": "DRAIN",
    "DRAINING": "DRAIN",
    "FAILING": "FAIL",
}
_SIGNS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
_BASES = ("ALLOCATED", "MIXED", "IDLE", "DOWN", "UNKNOWN", "FUTURE", "ERROR")
# A job is on the node, or its epilog still runs.
_BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING"))
# No machine is behind the node now, or it is about to go.
_AWAY = frozenset(("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "FUTURE"))
_REBOOTING = frozenset(("REBOOT_REQUESTED", "REBOOT_ISSUED"))
# With one of these an idle node is not free for everybody's next job.
_HINDERED = frozenset(("DRAIN", "FAIL", "RESERVED", "MAINT", "NOT_RESPONDING", "INVALID_REG", "BLOCKED", "COMPLETING"))
# Every state by the name that :func:`names` gives it, for people to choose from.
KNOWN = tuple(
    name.lower()
    for name in (
        *_BASES,
        "DRAINED",
        "DRAINING",
        *sorted((_HINDERED | _AWAY | _REBOOTING) - {"DRAIN", "FUTURE"}),
        "CLOUD",
        "DYNAMIC_FUTURE",
        "DYNAMIC_NORM",
        "EXTERNAL",
        "PERFCTRS",
        "PLANNED",
        "POWER_UP",
    )
)


def normalised(words: Iterable[str]) -> FrozenSet[str]:
    """The flags that such words mean: ``["IDLE*+DRAIN"]``, ``["idle", "DRAIN"]``, ``["IDLE", "MAINTENANCE"]``."""
    flags = set()
    for word in words:
        for part in word.upper().split("+"):
            found = re.fullmatch(r"([A-Z_]*)([*~#!%$@^-]*)", part.strip())
            if found is None:
                continue
            if found.group(1):
                flags.add(_ALIASES.get(found.group(1), found.group(1)))
            flags.update(_SIGNS[sign] for sign in found.group(2))
    return frozenset(flags)


def names(flags: FrozenSet[str]) -> Tuple[str, ...]:
    """The states as sinfo words them: with DRAIN a node is ``draining`` while a job is on it, then ``drained``.

    ``idle`` is said only of a node that everybody's next job may get.
    """
    told = [base for base in _BASES if base in flags and not (base == "IDLE" and hindered(flags))]
    told += sorted(flag for flag in flags if flag not in _BASES and flag != "DRAIN")
    if "DRAIN" in flags:
        told.insert(0, "DRAINING" if busy(flags) else "DRAINED")
    return tuple(one.lower() for one in told) or ("unknown",)


def hindered(flags: FrozenSet[str]) -> bool:
    return bool(flags & (_HINDERED | _AWAY | _REBOOTING))


def busy(flags: FrozenSet[str]) -> bool:
    return bool(flags & _BUSY)


def away(flags: FrozenSet[str]) -> bool:
    return bool(flags & _AWAY)


def rebooting(flags: FrozenSet[str]) -> bool:
    return bool(flags & _REBOOTING)


def unheard(flags: FrozenSet[str]) -> bool:
    """Nothing is known of it: its slurmd has not registered since slurmctld knows the node."""
    return "UNKNOWN" in flags or not flags & frozenset(_BASES)
