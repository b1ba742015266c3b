# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done to the GPUs of a node, or why nothing may be done. Pure and total.

A GPU that does not answer has no part in the plan: the others are set, and the run fails afterwards (:mod:`.report`).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ...core import declaration
from ...core.declaration import Declare
from ...core.frozen import frozen, replaced
from ...core.options import given
from ...core.resource import Action, Plan, Refusal
from ...facts.nvml.selectors import identity_of, matches, matches_any, refused
from .options import SECTION, Override, Settings
from .settings import SETTINGS, UNDO_ORDER, forgotten
from .types import Decision, Entry, FailedGpu, Forget, Gpu, GpuAction, Known, Remember, State

Wanted = Mapping[str, Any]  # of one GPU: the options that ask for something


@frozen
class DetailedPlan:
    """The plan with the details that a result shows beside it."""

    plan: Plan
    unsupported: Tuple[Dict[str, Any], ...] = ()
    pending: Tuple[Dict[str, Any], ...] = ()


def decide(state: State, settings: Settings) -> DetailedPlan:
    nothing = not _wanted(settings) and not any(map(_wanted, settings.overrides))
    content = None if nothing or not settings.present else given(settings, Settings)
    sections = {} if state.declared is None else {SECTION: dict(state.declared)}
    declare = declaration.plan(sections, SECTION, content) if settings.declare else None
    first: List[Action] = [] if declare is None else [declare]
    if state.absent is not None:
        return _without_gpus(state, settings, first)
    if not settings.present:
        return _undo(state, settings, first)
    chosen, refusals = select(state, settings)
    notes = ["no setting was asked for, so all GPUs stay as they are"] if nothing else []
    decisions = [one_gpu(state, gpu, wanted, settings.snap) for gpu, wanted in chosen]
    refusals += [one for decision in decisions for one in decision.refusals]
    notes += [one for decision in decisions for one in decision.notes]
    actions: List[Action] = []
    if not refusals:
        # The setters between the two writes of the record that keep it true at any moment.
        changed = [(one.known.gpu.uuid, one.early, one.late) for one in decisions if one.actions]
        before = tuple((uuid, early) for uuid, early, dummy in changed if state.entry(uuid) != early)
        after = tuple((uuid, late) for uuid, early, late in changed if early != late)
        actions = first + ([Remember("before", before)] if before else [])
        actions += [one for decision in decisions for one in decision.actions]
        actions += [Remember("after", after)] if after else []
    return DetailedPlan(
        Plan(tuple(actions), tuple(refusals), tuple(notes)),
        tuple(one for decision in decisions for one in decision.unsupported),
        tuple(one for decision in decisions for one in decision.pending),
    )


def one_gpu(state: State, gpu: Gpu, wanted: Wanted, snap: bool) -> Decision:
    """The steps for one GPU, with what the record says of it while they run and afterwards."""
    known = state.known(gpu)
    one = Decision(known)
    asked = [setting for setting in SETTINGS if setting.option in wanted]
    notes = forgotten(known, wanted) if any(setting.volatile for setting in asked) else ()
    for setting in asked:
        setting.plan(known, wanted[setting.option], snap, one)
    one.notes += notes
    current = known.current
    changed = tuple(sorted({*(() if current is None else current.changed), *one.changed}))
    kept = known.claim if one.keeps_claim else None
    held = known.held and kept is not None
    # While ECC is being changed, both the old note and the new one would be true; the one that can undo is kept.
    old_ecc = None if known.entry is None else known.entry.ecc_before
    one.early = Entry(state.driver_load, held, changed, kept, old_ecc if one.ecc_before is None else one.ecc_before)
    one.late = Entry(state.driver_load, one.held, changed, one.claim, one.ecc_before)
    return one


# Which GPUs are meant ---------------------------------------------------------------------------------


def _wanted(one: Union[Settings, Override]) -> Wanted:
    values = ((setting.option, getattr(one, setting.option)) for setting in SETTINGS)
    return {option: value for option, value in values if value is not None}


def select(state: State, settings: Settings) -> Tuple[List[Tuple[Gpu, Wanted]], List[Refusal]]:
    """Each selected GPU with what is wanted of it, in the order of PCI addresses, and what is wrong with the
    selection."""
    everything: List[Union[Gpu, FailedGpu]] = [*state.gpus, *state.failed]
    refusals = [*refused(everything, settings.gpus)]
    wanted = {gpu.uuid: _wanted(settings) for gpu in state.gpus if matches_any(identity_of(gpu), settings.gpus)}
    overridden: Set[str] = set()
    for override in settings.overrides:
        refusals += refused(everything, (override.gpu,))
        for gpu in state.gpus:
            if not matches(identity_of(gpu), override.gpu):
                continue
            if gpu.uuid not in wanted:
                reason = "it has an override and is not among the selected GPUs"
                refusals.append(Refusal(gpu.label, reason, "add it to gpus, or drop the override"))
            elif gpu.uuid in overridden:
                refusals.append(Refusal(gpu.label, "it has two overrides", "join them into one"))
            else:
                overridden.add(gpu.uuid)
                wanted[gpu.uuid] = {**wanted[gpu.uuid], **_wanted(override)}
    chosen = [(gpu, wanted[gpu.uuid]) for gpu in state.gpus if gpu.uuid in wanted]
    chosen.sort(key=lambda pair: (pair[0].pci_address, pair[0].index))
    return chosen, refusals


def selected_failures(state: State, settings: Settings) -> List[FailedGpu]:
    """The selected GPUs that do not answer. An unknown one counts: it may be the one."""
    return [gpu for gpu in state.failed if gpu.nameless or matches_any(identity_of(gpu), settings.gpus)]


# Other ends ------------------------------------------------------------------------------------------


def _without_gpus(state: State, settings: Settings, first: List[Action]) -> DetailedPlan:
    reason = state.absent or ""
    if settings.require_gpus:
        remedy = "set require_gpus to false where nodes without GPUs are fine"
        return DetailedPlan(Plan(refusals=(Refusal("this node", reason, remedy),)))
    actions = first + ([Forget()] if state.entries else [])
    if actions and not settings.present:
        return DetailedPlan(Plan(actions=tuple(actions), notes=(reason,)))
    return DetailedPlan(Plan(skipped=reason))


def _undo(state: State, settings: Settings, first: List[Action]) -> DetailedPlan:
    """Return what we changed, and only that."""
    decisions = []
    for gpu in sorted(state.gpus, key=lambda one: (one.pci_address, one.index)):
        one = Decision(state.known(gpu))
        changed = _changed(state, one.known, settings.declare)
        for setting in UNDO_ORDER:
            setting.undo(one.known, setting.name in changed, one)
        decisions.append(one)
    # As when setting: no claim stands while the clocks that it claims are being changed.
    changing = {one.known.gpu.uuid for one in decisions if not one.keeps_claim}
    withdrawn = tuple(
        (uuid, replaced(entry, clocks=None))
        for uuid, entry in state.entries
        if uuid in changing and entry.clocks is not None
    )
    actions = first + ([Remember("before", withdrawn)] if withdrawn else [])
    actions += [step for one in decisions for step in one.actions]
    if state.entries:
        silent = {gpu.uuid for gpu in state.failed}
        if None not in silent and not any(uuid in silent for uuid, dummy in state.entries):
            actions.append(Forget())
        else:
            answering = {gpu.uuid for gpu in state.gpus}
            gone = tuple((uuid, None) for uuid, dummy in state.entries if uuid in answering)
            actions += [Remember("after", gone)] if gone else []
    return DetailedPlan(
        Plan(actions=tuple(actions), notes=tuple(note for one in decisions for note in one.notes)),
        pending=tuple(fact for one in decisions for fact in one.pending),
    )


def _changed(state: State, known: Known, declared: bool) -> Sequence[str]:
    """The settings that we changed under this load of the driver.

    Without any entry (the record was lost) the declaration tells what we must have changed.
    """
    if known.current is not None:
        return known.current.changed
    if known.entry is not None or not state.declared or not declared:
        return ()
    overrides = state.declared.get("overrides")
    sections = [state.declared, *(overrides if isinstance(overrides, list) else ())]
    return [
        setting.name
        for setting in SETTINGS
        if setting.by_declaration
        and any(isinstance(one, Mapping) and one.get(setting.option) is not None for one in sections)
    ]


def predict(state: State, actions: Sequence[Action]) -> State:
    """The state after these steps, for the diff of check mode."""
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
            gpus = (replaced(gpu, **action.after(gpu)) if gpu.uuid == action.uuid else gpu for gpu in state.gpus)
            state = replaced(state, gpus=tuple(gpus))
    return state
