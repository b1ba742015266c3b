# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what happens to the packages of one resource; no I/O."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..declaration import Declare
from ..frozen import replaced
from ..resource import Action, Refusal
from .types import (
    SUFFIXES,
    FetchPackage,
    Installed,
    InstallPackages,
    Package,
    Packages,
    Record,
    RemovePackages,
    records,
    to_section,
)


def needed(state: Packages, wanted: Iterable[Package]) -> Tuple[Package, ...]:
    """Those that are not there in exactly this version, whole."""
    return tuple(one for one in wanted if state.installed(one.name) != Installed(one.name, one.version))


def refusals(state: Packages, wanted: Sequence[Package], allow_downgrade: bool = False) -> Tuple[Refusal, ...]:
    found: List[Refusal] = []
    for one in needed(state, wanted):
        thing = "package {0} {1}".format(one.name, one.version)
        if state.manager is None:
            found.append(Refusal(thing, "this node has neither dpkg nor rpm", "take it out of the list of packages"))
        elif not one.file.shown.endswith(SUFFIXES[state.manager]):
            found.append(
                Refusal(
                    thing,
                    "{0} is not for this node, whose package manager is {1}".format(one.file.shown, state.manager),
                    "give the {0} file to these nodes".format(SUFFIXES[state.manager]),
                )
            )
        elif one.name in state.newer and not allow_downgrade:
            installed = state.installed(one.name)
            found.append(
                Refusal(
                    thing,
                    "the newer {0} is installed".format(installed.version if installed else "one"),
                    "allow the downgrade, or ask for that version",
                )
            )
    return tuple(found)


def fetch(state: Packages, wanted: Iterable[Package]) -> List[Action]:
    """These come before anything else is done: one that fails leaves the node as it is."""
    if state.manager is None:
        return []
    return [FetchPackage(one, state.manager) for one in needed(state, wanted)]


def install(state: Packages, wanted: Iterable[Package]) -> List[Action]:
    packages = needed(state, wanted)
    return [InstallPackages(packages, state.manager)] if packages and state.manager is not None else []


def remembered(state: Packages, wanted: Iterable[Package]) -> Dict[str, Any]:
    """What belongs into the section of the declaration, before anything is installed.

    A package that was there in the wanted version is nothing of ours. One that is wanted no more stays, and stays ours.
    """
    kept = {one.name: one for one in state.records}
    missing = needed(state, wanted)
    for one in wanted:
        known = kept.get(one.name)
        installed = state.installed(one.name)
        if known is not None:
            if known.version != one.version:
                kept[one.name] = replaced(known, version=one.version, former=_standing(known, installed))
        elif one in missing:
            kept[one.name] = Record(one.name, one.version, installed.version if installed else "")
    return to_section(kept[name] for name in sorted(kept))


def remove(state: Packages) -> List[Action]:
    """``absent``: what we brought, and what is still as we brought it."""
    names = tuple(one.name for one in state.records if _ours(state, one))
    return [RemovePackages(names, state.manager)] if names and state.manager is not None else []


def kept_notes(state: Packages) -> Tuple[str, ...]:
    """What ``absent`` says of the packages that stay."""
    notes = []
    for one in state.records:
        installed = state.installed(one.name)
        if installed is None or _ours(state, one):
            continue
        if one.before:
            text = "package {0} was there before in version {1} and stays, now in version {2}"
            notes.append(text.format(one.name, one.before, installed.version))
        else:
            text = "package {0} stays: it was installed here in version {1}, and somebody made it {2}"
            notes.append(text.format(one.name, one.version, installed.version))
    return tuple(notes)


def _standing(known: Record, installed: Optional[Installed]) -> str:
    """Which of our versions is there now."""
    there = installed is not None and installed.version == known.former
    return known.former if there else known.version


def _ours(state: Packages, record: Record) -> bool:
    installed = state.installed(record.name)
    return installed is not None and not record.before and installed.version in (record.version, record.former)


def after(state: Packages, actions: Iterable[Action]) -> Packages:
    """What will be found when these steps were taken; other kinds of steps are passed over."""
    found = {one.name: one for one in state.found}
    newer, kept = state.newer, state.records
    for action in actions:
        if isinstance(action, InstallPackages):
            for one in action.packages:
                found[one.name] = Installed(one.name, one.version)
                newer = tuple(name for name in newer if name != one.name)
        elif isinstance(action, RemovePackages):
            for name in action.names:
                found.pop(name, None)
        elif isinstance(action, Declare):
            kept = records(action.content or {})
    return Packages(state.manager, tuple(found.values()), newer, kept)
