# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the clocks of a GPU are held: read and set them, by locks or as application clocks; judge whether they still are.

The driver cannot tell which locks are on, so the record has them (:mod:`.record`). A claim of the record counts only
while the boot and the load of the driver are the same and nothing has released the driver (:meth:`.types.State.known`),
and while the clock readings do not contradict it: above the lock; or below it without a reason, where the lock did show
in the readings when it was set.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import plain
from ...core.resource import NodeError
from ...facts.nvml.call import CallError, Kind, Reading
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.values import CLOCK_STEP_MHZ
from .types import (
    APPLICATION,
    DEFAULT,
    LOCKED,
    UNSUPPORTED,
    ClockClaim,
    Decision,
    Gpu,
    Known,
    ResetClocks,
    SetClocks,
)

GRAPHICS, MEMORY = 0, 2  # nvmlClockType_t
# Compute capability of the first generation whose graphics and memory clocks can be locked: Volta, Ampere.
VOLTA, AMPERE = (7, 0), (8, 0)
# Event reasons that hold a clock below a lock: software power cap, hardware slowdown, sync boost, software and
# hardware thermal slowdown, power brake, display, board limit, reliability (bits of nvmlClocksEventReasons).
LIMITING_REASONS = 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400
RESET = ClockClaim(graphics_way=DEFAULT, memory_way=DEFAULT)
# A reading may lag behind a setter; how often and how long to wait until a lock shows.
_LOOKS, _LOOK_SECONDS = 3, 0.03

# Is it held? ------------------------------------------------------------------------------------------


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


def is_met(gpu: Gpu, step: SetClocks, claim: Optional[ClockClaim]) -> bool:
    """Whether this GPU holds these clocks already; ``claim`` is what is remembered, if that still counts."""
    graphics = _holds(
        step.graphics_mhz,
        step.graphics_way,
        claim is not None and claim.graphics_way == LOCKED and claim.graphics_mhz == step.graphics_mhz,
        contradicted(step.graphics_mhz, bool(claim and claim.graphics_seen), gpu.graphics_clock_mhz, gpu.event_reasons),
        gpu.application_graphics_mhz,
    )
    memory = _holds(
        step.memory_mhz,
        step.memory_way,
        claim is not None and claim.memory_way == LOCKED and claim.memory_mhz == step.memory_mhz,
        contradicted(step.memory_mhz, bool(claim and claim.memory_seen), gpu.memory_clock_mhz, gpu.event_reasons),
        gpu.application_memory_mhz,
    )
    return graphics and memory


def _holds(mhz: Optional[int], way: str, claimed: bool, drifted: bool, application: Optional[int]) -> bool:
    if way == LOCKED:
        return claimed and not drifted
    if way == APPLICATION:
        return application == mhz
    return True  # fixed, untouched, or without any way


def _application_is_default(gpu: Gpu) -> bool:
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
    return (lifted or not lockable) and (_application_is_default(gpu) or not gpu.can_set_application)


def _reset(known: Known) -> ResetClocks:
    gpu = known.gpu
    application = gpu.can_set_application and not _application_is_default(gpu)
    return ResetClocks(*known.names, gpu.can_lock_graphics, gpu.can_lock_memory, application)


def plan_default(known: Known, claim: Optional[ClockClaim], decision: Decision) -> None:
    if not is_default(known.gpu, claim):
        decision.actions.append(_reset(known))
        decision.changed.append("clocks")
        decision.keeps_claim = False
    decision.claim = RESET


def undo(known: Known, changed: bool, decision: Decision) -> None:
    if changed and not is_default(known.gpu, known.claim):
        decision.actions.append(_reset(known))
        decision.keeps_claim = False


def report(known: Known) -> Dict[str, Any]:
    claim = {} if known.claim is None else plain(known.claim)
    return {
        "application_graphics_mhz": known.gpu.application_graphics_mhz,
        "application_memory_mhz": known.gpu.application_memory_mhz,
        "clocks": {name: claim.get(name) for name in ("graphics_way", "graphics_mhz", "memory_way", "memory_mhz")},
    }


def summary(result: Mapping[str, Any]) -> str:
    clocks = result.get("clocks") or {}
    parts = [
        "{0} {1} MHz {2}".format(name, clocks[name + "_mhz"], clocks[name + "_way"])
        for name in ("graphics", "memory")
        if clocks.get(name + "_mhz") and clocks.get(name + "_way") in (LOCKED, APPLICATION)
    ]
    return ", ".join(parts) or "clocks are the driver's own"


# In the child process ---------------------------------------------------------------------------------


def read(gpu: OpenGpu) -> Dict[str, Any]:
    def number(function: str, *arguments: Any) -> Optional[int]:
        return gpu.read(function, *arguments).map(int).value

    capability: Reading[Tuple[int, int]] = gpu.read("nvmlDeviceGetCudaComputeCapability").map(
        lambda pair: (int(pair[0]), int(pair[1]))
    )
    reasons = gpu.first(("nvmlDeviceGetCurrentClocksEventReasons",), ("nvmlDeviceGetCurrentClocksThrottleReasons",))
    application = [number("nvmlDeviceGetApplicationsClock", kind) for kind in (GRAPHICS, MEMORY)]
    return {
        "graphics_clock_mhz": number("nvmlDeviceGetClockInfo", GRAPHICS),
        "memory_clock_mhz": number("nvmlDeviceGetClockInfo", MEMORY),
        "max_graphics_clock_mhz": number("nvmlDeviceGetMaxClockInfo", GRAPHICS),
        "max_memory_clock_mhz": number("nvmlDeviceGetMaxClockInfo", MEMORY),
        "application_graphics_mhz": application[0],
        "application_memory_mhz": application[1],
        "default_application_graphics_mhz": number("nvmlDeviceGetDefaultApplicationsClock", GRAPHICS),
        "default_application_memory_mhz": number("nvmlDeviceGetDefaultApplicationsClock", MEMORY),
        "event_reasons": reasons.map(int).value,
        "can_lock_graphics": _offers(gpu, "nvmlDeviceSetGpuLockedClocks") and _since(capability.value, VOLTA),
        "can_lock_memory": _offers(gpu, "nvmlDeviceSetMemoryLockedClocks") and _since(capability.value, AMPERE),
        "can_set_application": _offers(gpu, "nvmlDeviceSetApplicationsClocks") and None not in application,
        "supported_clocks": _supported_clocks(gpu),
    }


def _offers(gpu: OpenGpu, function: str) -> bool:
    """Whether both the binding and the driver's library have this call (a setter: asking is not calling)."""
    binding = gpu.nvml.binding
    return hasattr(binding, function) and hasattr(getattr(binding, "nvmlLib", None), function)


def _since(capability: Optional[Tuple[int, int]], first: Tuple[int, int]) -> bool:
    """Whether a GPU is of this generation or a later one; one that does not tell is tried."""
    return capability is None or capability >= first


def _supported_clocks(gpu: OpenGpu) -> Tuple[Tuple[int, Tuple[int, ...]], ...]:
    memories: Reading[List[int]] = gpu.read("nvmlDeviceGetSupportedMemoryClocks").map(
        lambda values: [int(v) for v in values]
    )
    table = []
    for memory in sorted(set(memories.value or ()), reverse=True):
        graphics: Reading[List[int]] = gpu.read("nvmlDeviceGetSupportedGraphicsClocks", memory).map(
            lambda values: [int(v) for v in values]
        )
        table.append((memory, tuple(sorted(set(graphics.value or ()), reverse=True))))
    return tuple(table)


def _tried(call: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the call worked; False where the driver does not have it for this GPU."""
    try:
        call(*arguments)
    except CallError as error:
        if error.kind is not Kind.ABSENT:
            raise
        return False
    return True


def hold(gpu: OpenGpu, action: SetClocks) -> Dict[str, Any]:
    """Lock what can be locked, else set application clocks; tell which way it went."""
    ways = {"graphics": action.graphics_way, "memory": action.memory_way}
    for name, call, mhz in (
        ("graphics", "nvmlDeviceSetGpuLockedClocks", action.graphics_mhz),
        ("memory", "nvmlDeviceSetMemoryLockedClocks", action.memory_mhz),
    ):
        if ways[name] == LOCKED and not _tried(gpu.call, call, mhz, mhz):
            ways[name] = APPLICATION
    if APPLICATION in ways.values():
        pair = (action.application_memory_mhz, action.application_graphics_mhz)
        if None in pair or not _tried(gpu.call, "nvmlDeviceSetApplicationsClocks", *pair):
            ways = {name: UNSUPPORTED if way == APPLICATION else way for name, way in ways.items()}
    if action.required and UNSUPPORTED in ways.values():
        name = "graphics" if ways["graphics"] == UNSUPPORTED else "memory"
        raise NodeError(
            gpu.name,
            "the driver refuses both locked and application clocks for its {0} clock".format(name),
            "leave that clock out for this GPU, or use max, which takes what there is",
        )
    seen = _seen(gpu, action, ways)
    return {
        "graphics_way": ways["graphics"],
        "memory_way": ways["memory"],
        "graphics_seen": seen[0],
        "memory_seen": seen[1],
    }


def _seen(gpu: OpenGpu, action: SetClocks, ways: Dict[str, str]) -> Tuple[bool, bool]:
    """Whether each lock shows in the readings: only then does a lower reading later on speak against it."""
    graphics = memory = False
    for look in range(_LOOKS):
        if look:
            time.sleep(_LOOK_SECONDS)
        graphics = ways["graphics"] == LOCKED and _reads(gpu, GRAPHICS, action.graphics_mhz)
        memory = ways["memory"] == LOCKED and _reads(gpu, MEMORY, action.memory_mhz)
        if graphics == (ways["graphics"] == LOCKED) and memory == (ways["memory"] == LOCKED):
            break
    return graphics, memory


def _reads(gpu: OpenGpu, kind: int, mhz: Optional[int]) -> bool:
    """Whether a clock reads as locked, within the step by which a reading may be off (3199 of 3201 on an H200)."""
    reading = gpu.read("nvmlDeviceGetClockInfo", kind).map(int).value
    return reading is not None and mhz is not None and abs(reading - mhz) <= CLOCK_STEP_MHZ


def release(gpu: OpenGpu, action: ResetClocks) -> None:
    if action.graphics_lock:
        _tried(gpu.call, "nvmlDeviceResetGpuLockedClocks")
    if action.memory_lock:
        _tried(gpu.call, "nvmlDeviceResetMemoryLockedClocks")
    if action.application:
        _tried(gpu.call, "nvmlDeviceResetApplicationsClocks")
