# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ...core import declaration, folder_given, managed_files, timer_unit
from ...core.managed_files import RemoveFile, Wanted
from ...core.resource import Action, Plan, Refusal
from ..labels.settings import FOLDER
from . import texts
from .options import Desired
from .types import SECTION, TIMER, UNITS, State

_NOBODY = (
    "nobody would read the labels: there is no folder {0} of Node Feature Discovery (install it in the cluster, or "
    "give node_labels_file)".format(FOLDER)
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _gone(state)
    if not state.file:
        gone = _gone(state)
        if gone.actions or gone.notes:
            return Plan(gone.actions, notes=(*gone.notes, _NOBODY))
        return Plan(skipped=_NOBODY)
    wanted = texts.wanted(state.file, desired)
    refusals = managed_files.refusals(state.files, wanted, "move it away") + _refusals(state, desired)
    if refusals:
        return Plan(refusals=refusals)
    actions = _declare(state, wanted)
    actions += [RemoveFile(one) for one in state.left if one != state.file]
    actions += managed_files.write(state.files, wanted)
    actions += timer_unit.started(state.timer, TIMER, timer_unit.touched(actions, UNITS))
    missing = () if state.folder is None else folder_given.missing(SECTION + "_file", state.folder)
    return Plan(tuple(actions), notes=missing)


def _refusals(state: State, desired: Desired) -> Tuple[Refusal, ...]:
    found: Tuple[Refusal, ...] = ()
    if state.file == state.gate:
        reason = "the labels of the health gate go there (health_gate_labels_file)"
        found += (Refusal(state.file, reason, "give node_labels_file another path"),)
    elif state.foreign:
        found += (Refusal(state.file, "it is there and is not ours", "move it away, or give another path"),)
    if desired.gfd and state.gfd:
        reason = "GPU feature discovery has its file there and writes the labels nvidia.com/* itself"
        found += (
            Refusal(state.gfd, reason, "set node_labels_gfd to false, or remove GPU feature discovery and its file"),
        )
    return found


def _gone(state: State) -> Plan:
    """Nothing of it is wanted, or nobody reads it. The labels go with their file, at the next look of its reader."""
    ours = all(not state.files.seen(path).foreign for path in UNITS)
    actions: List[Action] = timer_unit.stopped(state.timer, TIMER) if ours else []
    files = managed_files.remove(state.files, UNITS)
    actions += files
    actions += [RemoveFile(path) for path in state.left]
    if state.timer.running and timer_unit.touched(files, UNITS):
        actions.append(timer_unit.ReloadSystemd())
    step = declaration.plan({SECTION: state.declared}, SECTION, None)
    if state.declared and step is not None:
        actions.append(step)
    return Plan(tuple(actions), notes=managed_files.foreign_notes(state.files, UNITS))


def _declare(state: State, wanted: Sequence[Wanted]) -> List[Action]:
    content: Dict[str, Any] = {"file": state.file}
    content.update(managed_files.remembered(state.files, [one.path for one in wanted]))
    step = declaration.plan({SECTION: state.declared}, SECTION, content)
    return [] if step is None else [step]
