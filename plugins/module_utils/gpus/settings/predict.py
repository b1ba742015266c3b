# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan would lead to, for the diff of check mode. Pure; a driver that refuses a way is not foreseen."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from ...core.declaration import Declare
from ...core.frozen import replaced
from ...core.resource import Action
from .types import (
    APPLICATION,
    Entry,
    Forget,
    Gpu,
    GpuAction,
    Remember,
    ResetClocks,
    SetClocks,
    SetComputeMode,
    SetEcc,
    SetPersistence,
    SetPowerLimit,
    State,
)


def predict(state: State, actions: Sequence[Action]) -> State:
    for action in actions:
        if isinstance(action, Declare):
            state = replaced(state, declared=action.content)
        elif isinstance(action, Forget):
            state = replaced(state, entries=())
        elif isinstance(action, Remember):
            entries: Dict[str, Optional[Entry]] = dict(state.entries)
            entries.update(action.entries)
            kept = tuple((uuid, entry) for uuid, entry in sorted(entries.items()) if entry is not None)
            state = replaced(state, entries=kept)
        elif isinstance(action, GpuAction):
            uuid, changes = action.uuid, _changes(action)
            gpus = tuple(_changed(gpu, action, changes) if gpu.uuid == uuid else gpu for gpu in state.gpus)
            state = replaced(state, gpus=gpus)
    return state


def _changes(action: GpuAction) -> Dict[str, Any]:
    if isinstance(action, SetPersistence):
        return {"persistence": action.enabled}
    if isinstance(action, SetEcc):
        return {"ecc_pending": action.enabled}
    if isinstance(action, SetPowerLimit):
        return {"power_limit_mw": action.limit_mw}
    if isinstance(action, SetComputeMode):
        return {"compute_mode": action.mode}
    if isinstance(action, SetClocks) and APPLICATION in (action.graphics_way, action.memory_way):
        return {
            "application_graphics_mhz": action.application_graphics_mhz,
            "application_memory_mhz": action.application_memory_mhz,
        }
    return {}


def _changed(gpu: Gpu, action: GpuAction, changes: Dict[str, Any]) -> Gpu:
    if isinstance(action, ResetClocks) and action.application:
        changes = {
            "application_graphics_mhz": gpu.default_application_graphics_mhz,
            "application_memory_mhz": gpu.default_application_memory_mhz,
        }
    return replaced(gpu, **changes)
