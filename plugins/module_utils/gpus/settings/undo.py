# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what we changed, and only that. Pure."""

from __future__ import annotations

from typing import List, Tuple

from ...core.frozen import replaced
from ...core.resource import Action, Plan
from . import clocks as clock_rules
from .rules import Decision, DetailedPlan, live_claim, pending_ecc, same_load, same_power
from .types import Forget, Gpu, Remember, ResetClocks, SetComputeMode, SetEcc, SetPersistence, SetPowerLimit, State
from .wish import Wish


def undo(state: State, wish: Wish, first: List[Action]) -> DetailedPlan:
    everything = Decision()
    for gpu in sorted(state.gpus, key=lambda one: (one.pci_address, one.index)):
        _undo_one(state, gpu, _managed(state, gpu, wish.declare), everything)
    # As when setting: no claim stands while the clocks that it claims are being changed.
    changing = {action.uuid for action in everything.actions if isinstance(action, (ResetClocks, SetPersistence))}
    withdrawn = tuple(
        (uuid, replaced(entry, clocks=None))
        for uuid, entry in state.entries
        if uuid in changing and entry.clocks is not None
    )
    actions = first + ([Remember("before", withdrawn)] if withdrawn else []) + list(everything.actions)
    if state.entries:
        silent = {gpu.uuid for gpu in state.failed}
        kept = [uuid for uuid, dummy in state.entries if uuid in silent]
        if not kept and not any(gpu.uuid is None for gpu in state.failed):
            actions.append(Forget())
        else:
            answering = {gpu.uuid for gpu in state.gpus}
            gone = tuple((uuid, None) for uuid, dummy in state.entries if uuid in answering)
            actions += [Remember("after", gone)] if gone else []
    return DetailedPlan(
        Plan(actions=tuple(actions), notes=tuple(everything.notes)), everything.unsupported, everything.pending
    )


def _managed(state: State, gpu: Gpu, declared: bool) -> Tuple[str, ...]:
    """The settings that we changed under this load of the driver.

    Without any entry (the record was lost) the declaration tells what we must have changed; not persistence
    mode though, which something else may have switched on before us.
    """
    entry = same_load(state, gpu)
    if entry is not None:
        return entry.changed
    if state.entry(gpu.uuid) is not None or not state.declared or not declared:
        return ()
    names = {"clocks": "clocks", "power_limit_watts": "power_limit", "compute_mode": "compute_mode"}
    overrides = state.declared.get("overrides")
    sections = (
        [state.declared] + [one for one in overrides if isinstance(one, dict)]
        if isinstance(overrides, list)
        else [state.declared]
    )
    return tuple(sorted({short for name, short in names.items() if any(one.get(name) is not None for one in sections)}))


def _undo_one(state: State, gpu: Gpu, managed: Tuple[str, ...], everything: Decision) -> None:
    actions = everything.actions
    entry = state.entry(gpu.uuid)
    if entry is not None and entry.ecc_before is not None and gpu.ecc_pending is not None:
        if gpu.ecc_pending != entry.ecc_before:
            actions.append(SetEcc(gpu.label, gpu.uuid, gpu.index, entry.ecc_before))
        if gpu.ecc != entry.ecc_before:
            pending_ecc(gpu, entry.ecc_before, everything)
    if (
        "power_limit" in managed
        and gpu.power_default_mw is not None
        and not same_power(gpu.power_limit_mw, gpu.power_default_mw)
    ):
        actions.append(SetPowerLimit(gpu.label, gpu.uuid, gpu.index, gpu.power_default_mw))
    if "clocks" in managed and not clock_rules.is_default(gpu, live_claim(state, gpu)):
        actions.append(clock_rules.reset_action(gpu))
    if "compute_mode" in managed and gpu.compute_mode not in (None, "default") and not gpu.mig:
        actions.append(SetComputeMode(gpu.label, gpu.uuid, gpu.index, "default"))
    if "persistence" in managed and gpu.persistence:
        if state.persistenced:
            everything.notes.append(
                "{0}: persistence mode stays on, since nvidia-persistenced holds it".format(gpu.label)
            )
        else:
            actions.append(SetPersistence(gpu.label, gpu.uuid, gpu.index, False))
