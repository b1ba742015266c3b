# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Iterable, List, Optional

from ..resource import Action, Plan, Refusal
from .types import FOLDER, MARKER, BootUnit, EnableUnit, ReloadSystemd, RemoveUnit, Seen, WriteUnit


def plan(seen: Seen, unit: BootUnit, wanted: bool) -> Plan:
    """The part of a resource's plan: steps, or refusals, or a note on a unit of others that stays."""
    foreign = seen.link is not None or not _ours(seen.text)
    if not wanted:
        actions: List[Action] = [RemoveUnit(name) for name, text in seen.drop_ins if text is not None and _ours(text)]
        if not foreign and (seen.text is not None or seen.enabled):
            actions.append(RemoveUnit(unit.name))
        notes = ("{0} is not ours and is left as it is".format(unit.path),) if foreign else ()
        return Plan((*actions, *_reload(actions, seen.stale and not foreign)), notes=notes)
    refusals = [
        Refusal("{0}/{1}".format(FOLDER, name), "it is there and is not ours", "move it away")
        for name, text in seen.drop_ins
        if not _ours(text)
    ]
    if foreign:
        masked = "it is masked" if seen.link == "/dev/null" else "it is there and is not ours"
        undo = "run 'systemctl unmask {0}'".format(unit.name) if seen.link == "/dev/null" else "move it away"
        refusals.append(Refusal(unit.path, masked, "{0}, or ask for no boot unit".format(undo)))
    if refusals:
        return Plan(refusals=tuple(refusals))
    found = dict(seen.drop_ins)
    actions = [WriteUnit(name, text) for name, text in unit.drop_ins if found.get(name) != text]
    if seen.text != unit.text():
        actions.append(WriteUnit(unit.name, unit.text()))
    if not seen.enabled:
        actions.append(EnableUnit(unit.name))
    return Plan((*actions, *_reload(actions, seen.stale)))


def _ours(text: Optional[str]) -> bool:
    return text is None or text.startswith(MARKER)


def _reload(actions: List[Action], stale: bool) -> List[Action]:
    return [ReloadSystemd()] if actions or stale else []


def text(seen: Seen, unit: BootUnit, actions: Iterable[Action] = ()) -> str:
    """Our unit as diff mode shows it, when these steps were taken; other kinds of steps are passed over."""
    content = seen.text if seen.link is None and _ours(seen.text) else None
    for action in actions:
        if isinstance(action, WriteUnit) and action.name == unit.name:
            content = action.text
        elif isinstance(action, RemoveUnit) and action.name == unit.name:
            content = None
    return "" if content is None else "==> {0} <==\n{1}".format(unit.path, content)
