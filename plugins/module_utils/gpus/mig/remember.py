# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into the record around the steps: the way back before them, and what was made after them. Pure."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

from ...core.frozen import replaced
from ...core.resource import Action
from .instances import Places
from .types import (
    EndCompute,
    EndInstance,
    Entry,
    Gpu,
    GpuAction,
    HoldUnits,
    MakeCompute,
    MakeFiles,
    MakeInstance,
    Piece,
    Remember,
    SetMode,
    Standing,
    StartUnits,
    State,
    standing,
)


def places(entry: Optional[Entry]) -> Places:
    made = None if entry is None else entry.made
    return {(piece.profile, piece.start): piece.compute for piece in made.pieces} if made is not None else {}


def made_by(gpu: Gpu, steps: Sequence[GpuAction]) -> Optional[Standing]:
    """The instances after the steps; None where there are none, or where it is only known after another look."""
    if any(isinstance(step, SetMode) for step in steps[-1:]):
        return None
    stands = {i.id: Piece(i.placed.profile.id, i.placed.start, i.slices) for i in gpu.instances}
    sizes = {(i.id, compute.id): compute.slices for i in gpu.instances for compute in i.compute}
    pieces = []
    for step in steps:
        if isinstance(step, EndInstance):
            stands.pop(step.gi, None)
        elif isinstance(step, MakeInstance):
            pieces.append(Piece(step.profile_id, step.start, tuple(sorted(step.compute))))
        elif isinstance(step, (EndCompute, MakeCompute)) and step.gi in stands:
            compute = list(stands[step.gi].compute)
            if isinstance(step, MakeCompute):
                compute += step.compute
            else:
                for number in step.compute:
                    compute.remove(sizes[step.gi, number])
            stands[step.gi] = replaced(stands[step.gi], compute=tuple(sorted(compute)))
    pieces += stands.values()
    return Standing(True, tuple(sorted(pieces, key=lambda piece: (piece.start, piece.profile)))) if pieces else None


def changes(steps: Sequence[GpuAction]) -> bool:
    """Whether the GPU is divided anew by them; device files are nothing to go back from."""
    return any(not isinstance(step, MakeFiles) for step in steps)


def with_record(
    state: State,
    steps_of: Mapping[str, Sequence[GpuAction]],
    over: Sequence[Tuple[str, Optional[Entry]]],
    forget: bool = False,
) -> Tuple[Action, ...]:
    """The steps between the writes of the record.

    GPUs whose mode has to change before anything else is known come last: then the node is looked at again, and what
    can be made is planned; until that is done their journal stays.
    """
    gpus = {gpu.uuid: gpu for gpu in state.gpus}
    seen = {*gpus, *(gpu.uuid for gpu in state.failed)}
    gone = tuple((uuid, None) for uuid, dummy in state.entries if state.moved and uuid not in seen)
    early: List[Tuple[str, Optional[Entry]]] = []
    late = list(over)
    steps_first: List[Action] = []
    looked_at: List[Action] = []
    for uuid, found in steps_of.items():
        if not changes(found):
            steps_first += found
            continue
        now, entry = standing(gpus[uuid]), state.entry(uuid)
        origin = entry.before if entry is not None else now
        journal = entry.journal if entry is not None and entry.journal is not None else now
        started = Entry(origin, journal, None if entry is None else entry.made)
        if entry != started:
            early.append((uuid, started))
        if found[-1].then_look():
            looked_at += found
        else:
            steps_first += found
            late.append((uuid, None if forget else Entry(origin, None, made_by(gpus[uuid], found))))
    actions: Tuple[Action, ...] = (Remember("gone", gone),) if gone else ()
    actions += (Remember("before", tuple(early)),) if early else ()
    # What a killed run has stopped stays so until the change is done: started first, it would hold the GPUs again.
    steps = (*steps_first, *looked_at)
    ends = any(isinstance(step, (SetMode, EndCompute, EndInstance)) for step in steps)
    held = tuple(dict.fromkeys((*state.stopped, *(state.holding if ends else ()))))
    if held:
        actions += (HoldUnits(held) if steps else StartUnits(held),)
    actions += tuple(steps_first)
    actions += (Remember("after", tuple(late)),) if late else ()
    return actions + tuple(looked_at)
