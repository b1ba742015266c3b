# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the kernel: which are changed, what they were before, and when they are put back. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence

from ...core.resource import Action
from .types import SetSysctl, State

# name → {before, set}: what a value was, and what we made of it.
Remembered = Dict[str, Dict[str, str]]


def remembered(declared: Mapping[str, Any]) -> Remembered:
    """Of an earlier run. A person may have edited the section: what is no such entry is passed over."""
    content = declared.get("sysctl")
    found: Remembered = {}
    for name, entry in content.items() if isinstance(content, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("before"), str) and isinstance(entry.get("set"), str):
            if re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", name):
                found[name] = {"before": entry["before"], "set": entry["set"]}
    return found


def remember(state: State, wanted: Mapping[str, str]) -> Remembered:
    """A value that was right already is none of ours, until somebody changes it."""
    former, now = remembered(state.declared), dict(state.sysctl)
    kept: Remembered = {}
    for name, value in plain(wanted).items():
        current = now.get(name)
        if name in former:
            kept[name] = {"before": former[name]["before"], "set": value}
        elif current is not None and current != value:
            kept[name] = {"before": current, "set": value}
    return kept


def changes(state: State, wanted: Mapping[str, str]) -> List[Action]:
    """A name that this kernel does not have (yet) is passed over; the file in /etc/sysctl.d has it."""
    now = dict(state.sysctl)
    return [SetSysctl(name, value) for name, value in plain(wanted).items() if now.get(name) not in (None, value)]


def restore(state: State, keep: Sequence[str] = ()) -> List[Action]:
    """Back to what it was, where it still is what we set; a value that somebody changed since is theirs."""
    now = dict(state.sysctl)
    return [
        SetSysctl(name, entry["before"])
        for name, entry in remembered(state.declared).items()
        if name not in keep and now.get(name) == entry["set"] != entry["before"]
    ]


def plain(wanted: Mapping[str, str]) -> Dict[str, str]:
    """The kernel parts numbers by tabs, people by any number of blanks."""
    return {name: " ".join(value.split()) for name, value in wanted.items()}
