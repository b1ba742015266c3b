# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the kernel: which are changed, what they were before, and when they are put back. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...core import sysctl as core
from ...core.resource import Action
from .types import SYSCTL, Elsewhere, SetSysctl, State

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


def ours(state: State, wanted: Mapping[str, str]) -> Dict[str, str]:
    """The settings that a run may set: an existing larger limit has another owner and is never lowered, neither now nor
    by our file at the next boot. A limit that an earlier run raised follows the option down."""
    former, now = remembered(state.declared), dict(state.sysctl)
    found: Dict[str, str] = {}
    for name, value in plain(wanted).items():
        current = now.get(name)
        set_by_us = name in former and current == former[name]["set"]
        if (set_by_us or current == value) and _larger(state, name, value) is None:
            # The numbers of a limit that were larger before our first run have another owner, too.
            found[name] = core.raised(name, former[name]["before"], value) if set_by_us else value
        elif not core.enough(name, current, value):
            found[name] = core.raised(name, current, value)
    return found


def in_file(state: State, wanted: Mapping[str, str]) -> Dict[str, str]:
    """Without the settings that another owner's file sets to more: our file may be read after it."""
    every = plain(wanted)
    return {name: value for name, value in ours(state, wanted).items() if _larger(state, name, every[name]) is None}


def _larger(state: State, name: str, value: str) -> Optional[Elsewhere]:
    other = next((one for one in state.sysctl_elsewhere if one.name == name), None)
    more = other is not None and other.value != value and core.enough(name, other.value, value)
    return other if more else None


def notes(state: State, wanted: Mapping[str, str]) -> List[str]:
    """The other files that set them."""
    found, now, mine = [], dict(state.sysctl), ours(state, wanted)
    for name, value in plain(wanted).items():
        more = _larger(state, name, value)
        other = next((one for one in state.sysctl_elsewhere if one.name == name), None)
        if more is not None:
            text = "{0} sets {1} to {2}, more than the requested {3}, and stays"
            found.append(text.format(more.path, name, more.value, value))
        elif name not in mine:
            text = "{0} is {1}, more than the requested {2}, and stays; no file in sysctl.d sets it"
            found.append(text.format(name, now.get(name), value))
        elif other is not None and other.later and not core.enough(name, other.value, value):
            text = "{0} sets {1} to {2} and is read after {3}, so it wins at the next boot: remove it there"
            found.append(text.format(other.path, name, other.value, SYSCTL))
    return found


def remember(state: State, wanted: Mapping[str, str]) -> Remembered:
    """A value that was right already is none of ours, until somebody changes it."""
    former, now = remembered(state.declared), dict(state.sysctl)
    kept: Remembered = {}
    for name, value in ours(state, wanted).items():
        current = now.get(name)
        if name in former:
            kept[name] = {"before": former[name]["before"], "set": value}
        elif current is not None and current != value:
            kept[name] = {"before": current, "set": value}
    return kept


def changes(state: State, wanted: Mapping[str, str]) -> List[Action]:
    """A name that this kernel does not have (yet) is passed over; the file in /etc/sysctl.d has it."""
    now = dict(state.sysctl)
    return [SetSysctl(name, value) for name, value in ours(state, wanted).items() if now.get(name) not in (None, value)]


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
