# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import List

from ..resource import Action, Plan, Refusal
from .types import FOLDER, MARKER, Desired, EnableUnit, ReloadSystemd, RemoveUnit, State, WriteUnit


def plan(state: State, desired: Desired) -> Plan:
    path = "{0}/{1}".format(FOLDER, desired.name)
    if state.link is not None or not (state.text is None or state.text.startswith(MARKER)):
        if not desired.present:
            return Plan(notes=("{0} is not ours and is left as it is".format(path),))
        masked = "it is masked" if state.link == "/dev/null" else "it is there and is not ours"
        undo = "run 'systemctl unmask {0}'".format(desired.name) if state.link == "/dev/null" else "move it away"
        return Plan(refusals=(Refusal(path, masked, "{0}, or ask for no boot unit".format(undo)),))
    actions: List[Action] = []
    if not desired.present:
        if state.text is not None or state.enabled:
            actions.append(RemoveUnit(desired.name))
    else:
        if state.text != desired.text():
            actions.append(WriteUnit(desired.name, desired.text()))
        if not state.enabled:
            actions.append(EnableUnit(desired.name))
    if actions or state.stale:
        actions.append(ReloadSystemd())
    return Plan(tuple(actions))
