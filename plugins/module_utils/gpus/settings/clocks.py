# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clocks one GPU is to run at, by which way, and whether it does so already. Pure.

Locked clocks come first (graphics: Volta and later, memory: Ampere and later), application clocks where
only they exist; the latter are deprecated since CUDA 13. ``max`` locks to [max, max], as ``nvidia-smi -lgc``
with both bounds does, so the GPU does not fall back to lower clocks between the steps of a job.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.resource import Refusal
from ...facts.nvml.values import CLOCK_STEP_MHZ
from .types import APPLICATION, DEFAULT, FIXED, LOCKED, UNSUPPORTED, UNTOUCHED, ClockClaim, Gpu, ResetClocks, SetClocks
from .wish import Clocks

# Event reasons that hold a clock below a lock: software power cap, hardware slowdown, sync boost, software and
# hardware thermal slowdown, power brake, display, board limit, reliability (bits of nvmlClocksEventReasons).
LIMITING_REASONS = 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400


@frozen
class Target:
    """The clocks to run at and the way to get there."""

    graphics_mhz: Optional[int]
    memory_mhz: Optional[int]
    graphics_way: str
    memory_way: str
    application: Optional[Tuple[int, int]]  # memory, graphics
    required: bool


@frozen
class Answer:
    """What :func:`resolve` found: a target, or the reason why there is none."""

    target: Optional[Target] = None
    refusal: Optional[Refusal] = None
    unsupported: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()


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


def resolve(gpu: Gpu, wish: Clocks, snap: bool, learned: Optional[ClockClaim]) -> Answer:
    """Turn a wish other than ``default`` into a target.

    ``learned`` is what was remembered under the present load of the driver: it tells which ways the driver
    refused.
    """
    if wish.word == "max":
        graphics, memory = highest(gpu)
        return _choose_ways(gpu, graphics, memory, learned, required=False, notes=())
    values = _explicit(gpu, wish, snap)
    if isinstance(values, Refusal):
        return Answer(refusal=values)
    graphics, memory, notes = values
    return _choose_ways(gpu, graphics, memory, learned, required=True, notes=notes)


def _explicit(gpu: Gpu, wish: Clocks, snap: bool) -> "Refusal | Tuple[Optional[int], Optional[int], Tuple[str, ...]]":
    graphics, memory = wish.graphics_mhz, wish.memory_mhz
    notes: List[str] = []
    memories = [clock for clock, dummy in gpu.supported_clocks]
    for name, wanted, top in (
        ("memory", memory, gpu.max_memory_clock_mhz if not memories else None),
        ("graphics", graphics, gpu.max_graphics_clock_mhz if not memories else None),
    ):
        if wanted is not None and top is not None and wanted > top:
            return Refusal(
                gpu.label,
                "a {0} clock of {1} MHz is above its highest, {2} MHz".format(name, wanted, top),
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
    return graphics, memory, tuple(notes)


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


def _choose_ways(
    gpu: Gpu,
    graphics: Optional[int],
    memory: Optional[int],
    learned: Optional[ClockClaim],
    required: bool,
    notes: Tuple[str, ...],
) -> Answer:
    refused = (APPLICATION, UNSUPPORTED)
    lock_graphics = gpu.can_lock_graphics and not (learned and learned.graphics_way in refused)
    lock_memory = gpu.can_lock_memory and not (learned and learned.memory_way in refused)
    graphics_out = bool(learned and learned.graphics_way == UNSUPPORTED)
    memory_out = bool(learned and learned.memory_way == UNSUPPORTED)
    pair = _application_pair(gpu, graphics, memory)
    fixed = memory is not None and [clock for clock, dummy in gpu.supported_clocks] == [memory]
    graphics_way = _way(graphics, lock_graphics, pair is not None and not graphics_out)
    memory_way = FIXED if fixed else _way(memory, lock_memory, pair is not None and not memory_out)

    if required and memory_way == UNSUPPORTED and graphics is None and gpu.can_set_application and not memory_out:
        return Answer(refusal=_alone(gpu, memory))
    missing = []
    if graphics_way == UNSUPPORTED or (graphics is None and not required):
        missing.append("graphics clock")
    if memory_way == UNSUPPORTED or (memory is None and not required):
        missing.append("memory clock")
    if missing and required:
        return Answer(
            refusal=Refusal(
                gpu.label,
                "its {0} cannot be set: the driver offers neither locked nor application clocks for it".format(
                    missing[0]
                ),
                "leave that clock out for this GPU, or use max, which takes what there is",
            )
        )
    target = Target(graphics, memory, graphics_way, memory_way, pair, required)
    return Answer(target=target, unsupported=tuple(missing), notes=notes)


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


# Is it so already? ------------------------------------------------------------------------------------


def contradicted(mhz: Optional[int], seen: bool, reading: Optional[int], reasons: Optional[int]) -> bool:
    """Whether a reading speaks against a lock at ``mhz``.

    A clock above the lock always does. One below it does only when the lock did show in the readings once
    (some GPUs rest below a lock while idle) and nothing known holds the clock down (power, heat).
    """
    if mhz is None or reading is None:
        return False
    if reading > mhz + CLOCK_STEP_MHZ:
        return True
    return seen and reasons is not None and not reasons & LIMITING_REASONS and reading < mhz - CLOCK_STEP_MHZ


def is_met(gpu: Gpu, target: Target, claim: Optional[ClockClaim]) -> bool:
    """Whether this GPU holds the target already; ``claim`` is what is remembered, if that still counts."""
    graphics = _holds(
        target.graphics_mhz,
        target.graphics_way,
        claim is not None and claim.graphics_way == LOCKED and claim.graphics_mhz == target.graphics_mhz,
        contradicted(
            target.graphics_mhz, bool(claim and claim.graphics_seen), gpu.graphics_clock_mhz, gpu.event_reasons
        ),
        gpu.application_graphics_mhz,
    )
    memory = _holds(
        target.memory_mhz,
        target.memory_way,
        claim is not None and claim.memory_way == LOCKED and claim.memory_mhz == target.memory_mhz,
        contradicted(target.memory_mhz, bool(claim and claim.memory_seen), gpu.memory_clock_mhz, gpu.event_reasons),
        gpu.application_memory_mhz,
    )
    return graphics and memory


def _holds(mhz: Optional[int], way: str, claimed: bool, drifted: bool, application: Optional[int]) -> bool:
    if way == LOCKED:
        return claimed and not drifted
    if way == APPLICATION:
        return application == mhz
    return True  # fixed, untouched, or without any way


def set_action(gpu: Gpu, target: Target) -> SetClocks:
    memory, graphics = target.application if target.application is not None else (None, None)
    return SetClocks(
        gpu=gpu.label,
        uuid=gpu.uuid,
        index=gpu.index,
        graphics_mhz=target.graphics_mhz,
        memory_mhz=target.memory_mhz,
        graphics_way=target.graphics_way,
        memory_way=target.memory_way,
        application_graphics_mhz=graphics,
        application_memory_mhz=memory,
        required=target.required,
    )


# Back to the driver's default -------------------------------------------------------------------------

RESET = ClockClaim(graphics_way=DEFAULT, memory_way=DEFAULT)


def application_is_default(gpu: Gpu) -> bool:
    """Whether the application clocks read as the default ones; also when there are none to read."""
    pairs = (
        (gpu.application_graphics_mhz, gpu.default_application_graphics_mhz),
        (gpu.application_memory_mhz, gpu.default_application_memory_mhz),
    )
    return all(value is None or default is None or value == default for value, default in pairs)


def is_default(gpu: Gpu, claim: Optional[ClockClaim]) -> bool:
    """Whether no lock can be on this GPU. One that somebody else set does not show, so without a claim: no.

    Application clocks that the driver lets nobody set are as much at their default as they can be.
    """
    lifted = claim is not None and claim.graphics_way == DEFAULT and claim.memory_way == DEFAULT
    lockable = gpu.can_lock_graphics or gpu.can_lock_memory
    return (lifted or not lockable) and (application_is_default(gpu) or not gpu.can_set_application)


def reset_action(gpu: Gpu) -> ResetClocks:
    return ResetClocks(
        gpu=gpu.label,
        uuid=gpu.uuid,
        index=gpu.index,
        graphics_lock=gpu.can_lock_graphics,
        memory_lock=gpu.can_lock_memory,
        application=gpu.can_set_application and not application_is_default(gpu),
    )
