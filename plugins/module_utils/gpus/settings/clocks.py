# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clocks one GPU is to run at, and by which way. Pure.

Locked clocks come first (graphics: Volta and later, memory: Ampere and later), application clocks where
only they exist; the latter are deprecated since CUDA 13. ``max`` locks to [max, max], as ``nvidia-smi -lgc``
with both bounds does, so the GPU does not fall back to lower clocks between the steps of a job.
"""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple, Union

from ...core.resource import Refusal
from . import held_clocks
from .options import BETWEEN_JOBS, Clocks
from .types import (
    APPLICATION,
    FIXED,
    LOCKED,
    UNSUPPORTED,
    UNTOUCHED,
    ClockClaim,
    Decision,
    Gpu,
    Known,
    SetClocks,
)

# The clocks of one GPU, graphics and memory.
Pair = Tuple[Optional[int], Optional[int]]


def on_gpu(wanted: Clocks, mig: bool) -> Clocks:
    """What clocks are on a GPU that no job has: of ``between_jobs`` those of a GPU in MIG mode, or of another."""
    if wanted != BETWEEN_JOBS:
        return wanted
    return "max" if mig else "default"


def plan(known: Known, wanted: Clocks, snap: bool, decision: Decision) -> None:
    gpu, claim = known.gpu, decision.claim
    notes: List[str] = []
    values: Union[Refusal, Pair]
    wanted = on_gpu(wanted, bool(gpu.mig))
    if wanted == "default":
        held_clocks.plan_default(known, claim, decision)
        return
    if isinstance(wanted, Mapping):
        values = _explicit(gpu, wanted, snap, notes)
    else:
        values = highest(gpu)
    step = values if isinstance(values, Refusal) else _step(known, values, not isinstance(wanted, str), decision)
    if isinstance(step, Refusal):
        decision.refusals.append(step)
        return
    decision.notes += notes
    if not held_clocks.is_met(gpu, step, claim):
        decision.actions.append(step)
        decision.changed.append("clocks")
        decision.claim = ClockClaim(step.graphics_way, step.memory_way, step.graphics_mhz, step.memory_mhz)
        decision.keeps_claim = False


def nearest(wanted: int, supported: Sequence[int]) -> List[int]:
    """The supported values around the wanted one: at most the next lower and the next higher."""
    lower = [value for value in supported if value <= wanted]
    higher = [value for value in supported if value >= wanted]
    return sorted(({max(lower)} if lower else set()) | ({min(higher)} if higher else set()))


def snapped(wanted: int, supported: Sequence[int]) -> int:
    """The nearest supported value; the lower one of two that are equally near."""
    return min(nearest(wanted, supported), key=lambda value: (abs(value - wanted), value))


def in_mhz(values: Sequence[int]) -> str:
    return " and ".join("{0} MHz".format(value) for value in values)


def _graphics_of(gpu: Gpu, memory_mhz: Optional[int]) -> Tuple[int, ...]:
    """The graphics clocks beside this memory clock; without one, those beside the highest."""
    table = dict(gpu.supported_clocks)
    if memory_mhz is not None:
        return table.get(memory_mhz, ())
    return table[max(table)] if table else ()


def highest(gpu: Gpu) -> Tuple[Optional[int], Optional[int]]:
    """(graphics, memory): the highest supported clocks, or the maxima where the driver lists none."""
    memories = [memory for memory, dummy in gpu.supported_clocks]
    memory = max(memories) if memories else gpu.max_memory_clock_mhz
    graphics = _graphics_of(gpu, memory)
    return (max(graphics) if graphics else gpu.max_graphics_clock_mhz), memory


def _explicit(gpu: Gpu, wanted: Mapping[str, int], snap: bool, notes: List[str]) -> Union[Refusal, Pair]:
    graphics, memory = wanted.get("graphics_mhz"), wanted.get("memory_mhz")
    memories = [clock for clock, dummy in gpu.supported_clocks]
    for name, mhz, top in (
        ("memory", memory, gpu.max_memory_clock_mhz if not memories else None),
        ("graphics", graphics, gpu.max_graphics_clock_mhz if not memories else None),
    ):
        if mhz is not None and top is not None and mhz > top:
            return Refusal(
                gpu.label,
                "a {0} clock of {1} MHz is above its highest, {2} MHz".format(name, mhz, top),
                "ask for at most {0} MHz".format(top),
            )
    if memory is not None and memories and memory not in memories:
        if not snap:
            return _not_supported(gpu, "memory", memory, memories, "")
        notes.append(_snap_note(gpu, "memory", memory, snapped(memory, memories)))
        memory = snapped(memory, memories)
    beside = _graphics_of(gpu, memory)
    if graphics is not None and beside and graphics not in beside:
        if not snap:
            pair = "" if memory is None else " beside a memory clock of {0} MHz".format(memory)
            return _not_supported(gpu, "graphics", graphics, beside, pair)
        notes.append(_snap_note(gpu, "graphics", graphics, snapped(graphics, beside)))
        graphics = snapped(graphics, beside)
    return graphics, memory


def _not_supported(gpu: Gpu, name: str, wanted: int, supported: Sequence[int], pair: str) -> Refusal:
    near = in_mhz(nearest(wanted, supported))
    return Refusal(
        gpu.label,
        "{0} MHz is not a supported {1} clock{2}; the nearest supported: {3}".format(wanted, name, pair, near),
        "ask for a supported clock, or set snap to take the nearest",
    )


def _snap_note(gpu: Gpu, name: str, wanted: int, taken: int) -> str:
    return "{0}: the {1} clock was snapped from {2} MHz to the nearest supported, {3} MHz".format(
        gpu.label, name, wanted, taken
    )


def _step(known: Known, clocks: Pair, explicit: bool, decision: Decision) -> Union[SetClocks, Refusal]:
    """What holds these clocks, by the ways that the driver did not refuse under its present load."""
    gpu, learned = known.gpu, None if known.current is None else known.current.clocks
    graphics, memory = clocks
    refused = (APPLICATION, UNSUPPORTED)
    lock_graphics = gpu.can_lock_graphics and not (learned and learned.graphics_way in refused)
    lock_memory = gpu.can_lock_memory and not (learned and learned.memory_way in refused)
    graphics_out = bool(learned and learned.graphics_way == UNSUPPORTED)
    memory_out = bool(learned and learned.memory_way == UNSUPPORTED)
    pair = _application_pair(gpu, graphics, memory)
    fixed = memory is not None and [clock for clock, dummy in gpu.supported_clocks] == [memory]
    graphics_way = _way(graphics, lock_graphics, pair is not None and not graphics_out)
    memory_way = FIXED if fixed else _way(memory, lock_memory, pair is not None and not memory_out)

    if explicit and memory_way == UNSUPPORTED and graphics is None and gpu.can_set_application and not memory_out:
        return _alone(gpu, memory)
    missing = []
    if graphics_way == UNSUPPORTED or (graphics is None and not explicit):
        missing.append("graphics clock")
    if memory_way == UNSUPPORTED or (memory is None and not explicit):
        missing.append("memory clock")
    if missing and explicit:
        reason = "its {0} cannot be set: the driver offers neither locked nor application clocks for it"
        remedy = "leave that clock out for this GPU, or use max, which takes what there is"
        return Refusal(known.label, reason.format(missing[0]), remedy)
    for clock in missing:
        decision.cannot(known, "clocks", "the driver offers no way to set its " + clock)
    by_memory, by_graphics = (None, None) if pair is None else pair
    return SetClocks(*known.names, graphics, memory, graphics_way, memory_way, by_graphics, by_memory, explicit)


def _way(wanted: Optional[int], lock: bool, application: bool) -> str:
    if wanted is None:
        return UNTOUCHED
    return LOCKED if lock else APPLICATION if application else UNSUPPORTED


def _application_pair(gpu: Gpu, graphics: Optional[int], memory: Optional[int]) -> Optional[Tuple[int, int]]:
    """The (memory, graphics) pair for application clocks, which always come in pairs; None: there is none."""
    if not gpu.can_set_application or graphics is None or not gpu.supported_clocks:
        return None
    order = [memory] if memory is not None else [gpu.application_memory_mhz] + [m for m, dummy in gpu.supported_clocks]
    for candidate in order:
        if candidate is not None and graphics in _graphics_of(gpu, candidate):
            return candidate, graphics
    return None


def _alone(gpu: Gpu, memory: Optional[int]) -> Refusal:
    beside = _graphics_of(gpu, memory)
    current = gpu.application_graphics_mhz
    near = nearest(current, beside) if current is not None and beside else list(beside[:1])
    pairs = " and ".join("{0} MHz with {1} MHz".format(memory, clock) for clock in near) or "none is listed"
    return Refusal(
        gpu.label,
        "its memory clock can only be set together with a graphics clock; the nearest supported pairs: " + pairs,
        "add graphics_mhz",
    )
