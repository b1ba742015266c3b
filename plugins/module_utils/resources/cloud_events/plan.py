# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import List

from ...core import declaration, folder_given
from ...core.managed_files import RemoveFile
from ...core.options import as_section, private
from ...core.resource import Action, Plan, Refusal
from ...core.systemd import boot_unit
from ...core.systemd.boot_unit import WriteUnit
from ...core.systemd.units import StartUnit, StopUnit
from ...health.events.settings import AZURE, NONE, SECTION, Settings
from .options import AUTO, Desired
from .types import UNIT, State

_NOBODY = "nobody announces events here: this is no virtual machine of Azure by its firmware (cloud_events_provider)"
_DRAINED = (
    "this node is drained for events ({0}), and nothing resumes it any more: "
    "run 'scontrol update NodeName=NAME State=UNDRAIN' when they are over"
)


def provider(state: State, desired: Desired) -> str:
    if desired.provider != AUTO:
        return desired.provider
    return AZURE if state.azure else NONE


def plan(state: State, desired: Desired) -> Plan:
    asked = provider(state, desired) if desired.present else NONE
    if asked == NONE:
        return _absent(state, desired)
    unit = boot_unit.plan(state.unit, UNIT, True)
    refusals = unit.refusals
    if state.foreign:
        refusals += (Refusal(desired.textfile, "it is there and is not ours", "move it away, or give another path"),)
    if refusals:
        return Plan(refusals=refusals)
    step = declaration.plan(
        {SECTION: state.declared}, SECTION, dict(as_section(Settings, desired), provider=asked), private(Desired)
    )
    actions: List[Action] = [step] if step is not None else []
    actions += [RemoveFile(path) for path in state.metrics if path != desired.textfile]
    actions += unit.actions
    # Options are read anew with each look, the text of the unit is not.
    if state.running and (not state.active or any(isinstance(one, WriteUnit) for one in unit.actions)):
        actions.append(StartUnit(UNIT.name))
    missing = () if state.folder is None else folder_given.missing(SECTION + "_textfile", state.folder)
    return Plan(tuple(actions), notes=missing)


def _absent(state: State, desired: Desired) -> Plan:
    unit = boot_unit.plan(state.unit, UNIT, False)
    ours = state.unit.link is None and not unit.notes
    actions: List[Action] = [StopUnit(UNIT.name)] if state.active and ours else []
    actions += unit.actions
    actions += [RemoveFile(path) for path in state.metrics]
    actions += [RemoveFile(path) for path in state.left]
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    notes = unit.notes + ((_DRAINED.format(", ".join(state.drained)),) if state.drained else ())
    if desired.present:
        if not actions and not notes:
            return Plan(skipped=_NOBODY if desired.provider == AUTO else "nobody is to be asked for events")
        notes += (_NOBODY,)
    return Plan(tuple(actions), notes=notes)
