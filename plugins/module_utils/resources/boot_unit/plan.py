# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import List, Optional

from ...core.resource import Action, Plan, Refusal
from .types import FOLDER, MARKER, Desired, EnableUnit, ReloadSystemd, RemoveUnit, State, WriteUnit


def plan(state: State, desired: Desired) -> Plan:
    path = "{0}/{1}".format(FOLDER, desired.name)
    foreign = state.link is not None or not _ours(state.text)
    if not desired.present:
        actions: List[Action] = [RemoveUnit(name) for name, text in state.drop_ins if text is not None and _ours(text)]
        if not foreign and (state.text is not None or state.enabled):
            actions.append(RemoveUnit(desired.name))
        notes = ("{0} is not ours and is left as it is".format(path),) if foreign else ()
        return Plan((*actions, *_reload(actions, state.stale and not foreign)), notes=notes)
    refusals = [
        Refusal("{0}/{1}".format(FOLDER, name), "it is there and is not ours", "move it away")
        for name, text in state.drop_ins
        if not _ours(text)
    ]
    if foreign:
        masked = "it is masked" if state.link == "/dev/null" else "it is there and is not ours"
        undo = "run 'systemctl unmask {0}'".format(desired.name) if state.link == "/dev/null" else "move it away"
        refusals.append(Refusal(path, masked, "{0}, or ask for no boot unit".format(undo)))
    if refusals:
        return Plan(refusals=tuple(refusals))
    found = dict(state.drop_ins)
    actions = [WriteUnit(name, text) for name, text in desired.drop_ins if found.get(name) != text]
    if state.text != desired.text():
        actions.append(WriteUnit(desired.name, desired.text()))
    if not state.enabled:
        actions.append(EnableUnit(desired.name))
    return Plan((*actions, *_reload(actions, state.stale)))


def _ours(text: Optional[str]) -> bool:
    return text is None or text.startswith(MARKER)


def _reload(actions: List[Action], stale: bool) -> List[Action]:
    return [ReloadSystemd()] if actions or stale else []
