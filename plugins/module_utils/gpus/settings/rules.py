# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each wish means for one GPU: the steps, what is refused, unsupported, pending, and what to remember. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from ...core.resource import Plan, Refusal
from . import clocks as clock_rules
from .types import (
    ClockClaim,
    Entry,
    Gpu,
    GpuAction,
    ResetClocks,
    SetClocks,
    SetComputeMode,
    SetEcc,
    SetPersistence,
    SetPowerLimit,
    State,
)
from .wish import PowerLimit, Settings


@dataclasses.dataclass
class Decision:
    """What was found out for one GPU, or for all of them put together."""

    actions: List[GpuAction] = dataclasses.field(default_factory=list)
    refusals: List[Refusal] = dataclasses.field(default_factory=list)
    notes: List[str] = dataclasses.field(default_factory=list)
    unsupported: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    pending: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    claim: Optional[ClockClaim] = None  # what the record shall say of the clocks afterwards
    changed: List[str] = dataclasses.field(default_factory=list)
    ecc_before: Optional[bool] = None


@dataclasses.dataclass
class DetailedPlan:
    """The plan with the details that a result shows beside it."""

    plan: Plan
    unsupported: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    pending: List[Dict[str, Any]] = dataclasses.field(default_factory=list)


def same_load(state: State, gpu: Gpu) -> Optional[Entry]:
    """What is remembered of this GPU, if the driver is still the one that was loaded then."""
    entry = state.entry(gpu.uuid)
    return entry if entry is not None and entry.driver_load == state.driver_load else None


def live_claim(state: State, gpu: Gpu) -> Optional[ClockClaim]:
    """The clocks that still count as set: same load of the driver, and persistence mode was not lost since."""
    entry = same_load(state, gpu)
    if entry is None or (entry.persistence and gpu.persistence is False):
        return None
    return entry.clocks


def one_gpu(state: State, gpu: Gpu, settings: Settings, snap: bool) -> Decision:
    one = Decision()
    _persistence(state, gpu, settings, one)
    _ecc(state, gpu, settings, one)
    _power(gpu, settings, one)
    _clocks(state, gpu, settings, snap, one)
    _compute_mode(gpu, settings, one)
    volatile = settings.clocks is not None or settings.power_limit is not None
    off = gpu.persistence is False and settings.persistence is not True
    if volatile and (off or settings.persistence is False):
        one.notes.append(
            "{0}: persistence mode is off, so the driver forgets clocks and power limit when its last user leaves; "
            "set persistence to true to keep them".format(gpu.label)
        )
    return one


def _cannot(gpu: Gpu, one: Decision, setting: str, reason: str, explicit: bool) -> None:
    """A GPU without this ability: a refusal where a value was asked for as such, else a reported fact."""
    if explicit:
        one.refusals.append(Refusal(gpu.label, reason, "leave {0} out for this GPU".format(setting)))
        return
    one.unsupported.append({"gpu": gpu.label, "uuid": gpu.uuid, "setting": setting, "reason": reason})
    one.notes.append("{0}: {1} is left alone, since {2}".format(gpu.label, setting, reason))


def _persistence(state: State, gpu: Gpu, settings: Settings, one: Decision) -> None:
    wanted = settings.persistence
    if wanted is None or gpu.persistence == wanted:
        return
    if gpu.persistence is None:
        _cannot(gpu, one, "persistence", "it has no persistence mode", explicit=wanted)
    elif not wanted and state.persistenced:
        one.notes.append(
            "{0}: nvidia-persistenced holds persistence mode on, and it is left to that service; "
            "stop it to switch the mode off".format(gpu.label)
        )
    else:
        one.actions.append(SetPersistence(gpu.label, gpu.uuid, gpu.index, wanted))
        one.changed.append("persistence")


def _ecc(state: State, gpu: Gpu, settings: Settings, one: Decision) -> None:
    entry = state.entry(gpu.uuid)
    one.ecc_before = None if entry is None else entry.ecc_before
    wanted = settings.ecc
    if wanted is None:
        return
    if gpu.ecc is None or gpu.ecc_pending is None:
        if wanted:
            _cannot(gpu, one, "ecc", "it has no ECC memory", explicit=True)
        return
    if gpu.ecc_pending != wanted:
        one.actions.append(SetEcc(gpu.label, gpu.uuid, gpu.index, wanted))
        before = gpu.ecc_pending if one.ecc_before is None else one.ecc_before
        # Back at what it was before us: nothing is left to undo.
        one.ecc_before = None if before == wanted else before
    if gpu.ecc != wanted:
        pending_ecc(gpu, wanted, one)


def pending_ecc(gpu: Gpu, wanted: bool, one: Decision) -> None:
    word = "on" if wanted else "off"
    one.pending.append(
        {"gpu": gpu.label, "uuid": gpu.uuid, "setting": "ecc", "value": wanted, "needs": "GPU reset or reboot"}
    )
    one.notes.append("{0}: it needs a reset or a reboot: ECC becomes {1} then".format(gpu.label, word))


def _power_target(gpu: Gpu, wish: PowerLimit) -> Tuple[Optional[int], Optional[str]]:
    """The limit in milliwatts, or the reason why there is none."""
    if gpu.power_limit_mw is None:
        return None, "its power limit cannot be set"
    if wish.word == "default":
        return gpu.power_default_mw, None if gpu.power_default_mw is not None else "it tells no default power limit"
    if wish.word == "max":
        return gpu.power_max_mw, None if gpu.power_max_mw is not None else "it tells no highest power limit"
    return wish.milliwatts, None


def _power(gpu: Gpu, settings: Settings, one: Decision) -> None:
    wish = settings.power_limit
    if wish is None:
        return
    target, reason = _power_target(gpu, wish)
    if target is None:
        _cannot(gpu, one, "power_limit_watts", reason or "", explicit=wish.word is None)
        return
    low = 0 if gpu.power_min_mw is None else gpu.power_min_mw
    high = target if gpu.power_max_mw is None else gpu.power_max_mw
    if not low <= target <= high:
        one.refusals.append(
            Refusal(
                gpu.label,
                "a power limit of {0:g} W is outside its range of {1:g} W to {2:g} W".format(
                    target / 1000.0, low / 1000.0, high / 1000.0
                ),
                "ask for a limit in that range",
            )
        )
    elif not same_power(gpu.power_limit_mw, target):
        one.actions.append(SetPowerLimit(gpu.label, gpu.uuid, gpu.index, target))
        one.changed.append("power_limit")


def same_power(left: Optional[int], right: int) -> bool:
    """Equal to half a watt: drivers may round a limit to whole watts."""
    return left is not None and abs(left - right) < 500


def _clocks(state: State, gpu: Gpu, settings: Settings, snap: bool, one: Decision) -> None:
    wish = None if settings.clocks is None else settings.clocks.of(bool(gpu.mig))
    entry = same_load(state, gpu)
    # Switching persistence mode off in this run may unload the driver's state, so the claim does not outlive it.
    going_off = any(isinstance(action, SetPersistence) and not action.enabled for action in one.actions)
    claim = None if going_off else live_claim(state, gpu)
    one.claim = claim
    if wish is None:
        return
    if wish.word == "default":
        if not clock_rules.is_default(gpu, claim):
            one.actions.append(clock_rules.reset_action(gpu))
            one.changed.append("clocks")
        one.claim = clock_rules.RESET
        return
    answer = clock_rules.resolve(gpu, wish, snap, None if entry is None else entry.clocks)
    if answer.refusal is not None:
        one.refusals.append(answer.refusal)
        return
    one.notes.extend(answer.notes)
    for what in answer.unsupported:
        _cannot(gpu, one, "clocks", "the driver offers no way to set its {0}".format(what), explicit=False)
    target = answer.target
    if target is None or clock_rules.is_met(gpu, target, claim):
        return
    one.actions.append(clock_rules.set_action(gpu, target))
    one.changed.append("clocks")
    one.claim = ClockClaim(target.graphics_way, target.memory_way, target.graphics_mhz, target.memory_mhz)


def _compute_mode(gpu: Gpu, settings: Settings, one: Decision) -> None:
    wanted = settings.compute_mode
    if wanted is None or gpu.compute_mode == wanted:
        return
    if gpu.compute_mode is None:
        _cannot(gpu, one, "compute_mode", "it has no compute mode", explicit=wanted != "default")
    elif gpu.mig:
        _cannot(gpu, one, "compute_mode", "it is in MIG mode, where each MIG device has its own", explicit=True)
    else:
        one.actions.append(SetComputeMode(gpu.label, gpu.uuid, gpu.index, wanted))
        one.changed.append("compute_mode")


def entries(state: State, gpu: Gpu, settings: Settings, one: Decision) -> Tuple[Entry, Entry]:
    """What the record says of this GPU while it is being changed, and what it says afterwards."""
    entry = same_load(state, gpu)
    known = () if entry is None else entry.changed
    changed = tuple(sorted(set(known) | set(one.changed)))
    setting_clocks = any(isinstance(action, (SetClocks, ResetClocks)) for action in one.actions)
    going_off = any(isinstance(action, SetPersistence) and not action.enabled for action in one.actions)
    kept = None if setting_clocks or going_off else live_claim(state, gpu)
    stored = state.entry(gpu.uuid)
    old_ecc = None if stored is None else stored.ecc_before
    held = bool(entry is not None and entry.persistence and kept is not None)
    # While ECC is being changed, both the old note and the new one would be true; the one that can undo is kept.
    early = Entry(state.driver_load, held, changed, kept, old_ecc if one.ecc_before is None else one.ecc_before)
    on = (
        gpu.persistence is True
        if settings.persistence is None
        else settings.persistence and gpu.persistence is not None
    )
    if settings.persistence is False and state.persistenced:
        on = gpu.persistence is True
    return early, Entry(state.driver_load, bool(on), changed, one.claim, one.ecc_before)
