# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done to the GPUs of a node, or why nothing may be done. Pure and total.

A GPU that does not answer has no part in the plan: the others are set, and the run fails afterwards
(:mod:`.told`).
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core import declaration
from ...core.resource import Action, Plan, Refusal
from .rules import Decision, DetailedPlan, entries, one_gpu
from .select import select
from .types import Entry, Forget, Remember, State
from .undo import undo
from .wish import SECTION, Wish


def decide(state: State, wish: Wish) -> DetailedPlan:
    wanted = None if wish.undo or wish.asks_nothing else wish.to_dict()
    sections = {} if state.declared is None else {SECTION: dict(state.declared)}
    declare = declaration.plan(sections, SECTION, wanted) if wish.declare else None
    first: List[Action] = [] if declare is None else [declare]
    if state.absent is not None:
        return _without_gpus(state, wish, first)
    if wish.undo:
        return undo(state, wish, first)
    chosen, refusals = select(state, wish)
    everything = Decision(refusals=refusals)
    if wish.asks_nothing:
        everything.notes.append("no setting was asked for, so all GPUs stay as they are")
    before: List[Tuple[str, Optional[Entry]]] = []
    after: List[Tuple[str, Optional[Entry]]] = []
    for gpu, settings in chosen:
        one = one_gpu(state, gpu, settings, wish.snap)
        for name in ("actions", "refusals", "notes", "unsupported", "pending"):
            getattr(everything, name).extend(getattr(one, name))
        if one.actions:
            early, late = entries(state, gpu, settings, one)
            before.append((gpu.uuid, early))
            after.append((gpu.uuid, late))
    if everything.refusals:
        return DetailedPlan(
            Plan(refusals=tuple(everything.refusals), notes=tuple(everything.notes)),
            everything.unsupported,
            everything.pending,
        )
    actions = first + _with_record(state, before, list(everything.actions), after)
    return DetailedPlan(
        Plan(actions=tuple(actions), notes=tuple(everything.notes)), everything.unsupported, everything.pending
    )


def _without_gpus(state: State, wish: Wish, first: List[Action]) -> DetailedPlan:
    reason = state.absent or ""
    if wish.require_gpus:
        return DetailedPlan(
            Plan(
                refusals=(Refusal("this node", reason, "set require_gpus to false where nodes without GPUs are fine"),)
            )
        )
    if wish.undo:
        actions = first + ([Forget()] if state.entries else [])
        if actions:
            return DetailedPlan(Plan(actions=tuple(actions), notes=(reason,)))
    return DetailedPlan(Plan(skipped=reason))


def _with_record(
    state: State,
    before: List[Tuple[str, Optional[Entry]]],
    setters: List[Action],
    after: List[Tuple[str, Optional[Entry]]],
) -> List[Action]:
    """The setters between the two writes of the record that keep it true at any moment."""
    early = tuple((uuid, entry) for uuid, entry in before if state.entry(uuid) != entry)
    known = dict(state.entries)
    known.update((uuid, entry) for uuid, entry in before if entry is not None)
    late = tuple((uuid, entry) for uuid, entry in after if known.get(uuid) != entry)
    actions: List[Action] = [Remember("before", early)] if early else []
    actions += setters
    if late:
        actions.append(Remember("after", late))
    return actions
