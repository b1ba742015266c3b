# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the settings: how each is read, planned, undone, carried out and reported. A new one is a row here."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import Refusal
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.call import Reading
from . import clocks, held_clocks
from .types import (
    Decision,
    Known,
    ResetClocks,
    SetClocks,
    SetComputeMode,
    SetEcc,
    SetPersistence,
    SetPowerLimit,
)

# nvmlComputeMode_t; 1 is of drivers long gone.
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_MODE_CODES = {name: code for code, name in COMPUTE_MODES.items()}
#: What a call returns: fields of a ClockClaim that are known only after setting.
Ways = Dict[str, Any]


@frozen
class Setting:
    """One setting of a GPU. ``option`` is its name for users, ``name`` that in the record of what was changed.

    ``read(gpu)``: its fields of :class:`.types.Gpu`. ``plan(known, wanted, snap, decision)`` adds the step to what an
    option asks for, ``undo(known, changed, decision)`` the step back to what was before; ``changed``: the record has it
    as changed here. ``calls``: what carries out each kind of step; it and ``read`` run in the child process.
    ``report(known)``: its part of a result, ``summary`` of that part a few words.

    ``volatile``: the driver forgets it when the last user of the GPU leaves. ``by_declaration``: where the record was
    lost, a declaration that has it says that it was changed here.
    """

    option: str
    name: str
    read: Callable[[OpenGpu], Dict[str, Any]]
    plan: Callable[[Known, Any, bool, Decision], None]
    undo: Callable[[Known, bool, Decision], None]
    calls: Mapping[type, Callable[[OpenGpu, Any], Optional[Ways]]]
    report: Callable[[Known], Dict[str, Any]]
    summary: Optional[Callable[[Mapping[str, Any]], str]] = None
    volatile: bool = False
    by_declaration: bool = False


# Persistence mode ---------------------------------------------------------------------------------------


# The reason and the remedy for a GPU whose driver forgot what was set before the run was over.
FORGOT_SETTINGS = (
    "the driver forgot its settings at once, since persistence mode is off and nothing else keeps the GPU open",
    "set persistence to true",
)
FORGOT_CLOCKS = (
    "the driver forgot its clocks at once, since persistence mode is off and nothing keeps the GPU open",
    "switch persistence mode on, with the role trainyard.gpu_node.gpu_settings",
)


def _plan_persistence(known: Known, wanted: bool, dummy: bool, decision: Decision) -> None:
    gpu = known.gpu
    decision.held = wanted and gpu.persistence is not None
    if gpu.persistence == wanted:
        return
    if gpu.persistence is None:
        decision.cannot(known, "persistence", "it has no persistence mode", explicit=wanted)
    elif not wanted and known.persistenced:
        decision.held = True
        decision.notes.append(
            "{0}: nvidia-persistenced holds persistence mode on, and it is left to that service; "
            "stop it to switch the mode off".format(known.label)
        )
    else:
        decision.actions.append(SetPersistence(*known.names, wanted))
        decision.changed.append("persistence")
        if not wanted:  # that may unload the driver's state
            decision.claim, decision.keeps_claim = None, False


def _undo_persistence(known: Known, changed: bool, decision: Decision) -> None:
    gpu = known.gpu
    if not (changed and gpu.persistence):
        return
    if known.persistenced:
        decision.notes.append("{0}: persistence mode stays on, since nvidia-persistenced holds it".format(known.label))
    else:
        decision.actions.append(SetPersistence(*known.names, False))
        decision.keeps_claim = False


def forgotten(known: Known, wanted: Mapping[str, Any]) -> Tuple[str, ...]:
    """A note where the driver is going to forget what is set."""
    mode = wanted.get("persistence")
    if mode is True or not (mode is False or known.gpu.loose):
        return ()
    note = "persistence mode is off, so the driver forgets clocks and power limit when its last user leaves"
    return ("{0}: {1}; set persistence to true to keep them".format(known.label, note),)


def _word(result: Mapping[str, Any]) -> str:
    mode = result.get("persistence")
    return "persistence {0}".format("unknown" if mode is None else "on" if mode else "off")


PERSISTENCE = Setting(
    "persistence",
    "persistence",
    lambda gpu: {"persistence": gpu.read("nvmlDeviceGetPersistenceMode").map(bool).value},
    _plan_persistence,
    _undo_persistence,
    {SetPersistence: lambda gpu, step: gpu.call("nvmlDeviceSetPersistenceMode", int(step.enabled))},
    lambda known: {"persistence": known.gpu.persistence},
    _word,
)

# ECC mode -----------------------------------------------------------------------------------------------


def _read_ecc(gpu: OpenGpu) -> Dict[str, Any]:
    pair: Reading[Tuple[bool, bool]] = gpu.read("nvmlDeviceGetEccMode").map(lambda pair: (bool(pair[0]), bool(pair[1])))
    return {} if pair.value is None else {"ecc": pair.value[0], "ecc_pending": pair.value[1]}


def _plan_ecc(known: Known, wanted: bool, dummy: bool, decision: Decision) -> None:
    gpu = known.gpu
    if gpu.ecc is None or gpu.ecc_pending is None:
        if wanted:
            decision.cannot(known, "ecc", "it has no ECC memory", explicit=True)
        return
    if gpu.ecc_pending != wanted:
        decision.actions.append(SetEcc(*known.names, wanted))
        before = gpu.ecc_pending if decision.ecc_before is None else decision.ecc_before
        # Back at what it was before us: nothing is left to undo.
        decision.ecc_before = None if before == wanted else before
    _pending_ecc(known, wanted, decision)


def _undo_ecc(known: Known, dummy: bool, decision: Decision) -> None:
    """The mode outlives reboots, so what it was before counts under whatever load of the driver."""
    gpu, before = known.gpu, None if known.entry is None else known.entry.ecc_before
    if before is None or gpu.ecc_pending is None:
        return
    if gpu.ecc_pending != before:
        decision.actions.append(SetEcc(*known.names, before))
    _pending_ecc(known, before, decision)


def _pending_ecc(known: Known, wanted: bool, decision: Decision) -> None:
    if known.gpu.ecc == wanted:
        return
    word = "on" if wanted else "off"
    fact = {"gpu": known.label, "uuid": known.gpu.uuid, "setting": "ecc", "value": wanted}
    decision.pending.append(dict(fact, needs="GPU reset or reboot"))
    decision.notes.append("{0}: it needs a reset or a reboot: ECC becomes {1} then".format(known.label, word))


ECC = Setting(
    "ecc",
    "ecc",
    _read_ecc,
    _plan_ecc,
    _undo_ecc,
    {SetEcc: lambda gpu, step: gpu.call("nvmlDeviceSetEccMode", int(step.enabled))},
    lambda known: {"ecc": known.gpu.ecc, "ecc_pending": known.gpu.ecc_pending},
)

# Power limit --------------------------------------------------------------------------------------------


def _read_power(gpu: OpenGpu) -> Dict[str, Any]:
    limits: Reading[Tuple[int, int]] = gpu.read("nvmlDeviceGetPowerManagementLimitConstraints").map(
        lambda pair: (int(pair[0]), int(pair[1]))
    )
    return {
        "power_limit_mw": gpu.read("nvmlDeviceGetPowerManagementLimit").map(int).value,
        "power_default_mw": gpu.read("nvmlDeviceGetPowerManagementDefaultLimit").map(int).value,
        "power_min_mw": None if limits.value is None else limits.value[0],
        "power_max_mw": None if limits.value is None else limits.value[1],
    }


def _power_target(known: Known, wanted: Union[str, float]) -> Tuple[Optional[int], Optional[str]]:
    """The limit in milliwatts, or the reason why there is none."""
    gpu = known.gpu
    if gpu.power_limit_mw is None:
        return None, "its power limit cannot be set"
    if wanted == "default":
        return gpu.power_default_mw, None if gpu.power_default_mw is not None else "it tells no default power limit"
    if wanted == "max":
        return gpu.power_max_mw, None if gpu.power_max_mw is not None else "it tells no highest power limit"
    return int(round(float(wanted) * 1000)), None


def _plan_power(known: Known, wanted: Union[str, float], dummy: bool, decision: Decision) -> None:
    gpu = known.gpu
    target, reason = _power_target(known, wanted)
    if target is None:
        decision.cannot(known, "power_limit_watts", reason or "", explicit=not isinstance(wanted, str))
        return
    low = 0 if gpu.power_min_mw is None else gpu.power_min_mw
    high = target if gpu.power_max_mw is None else gpu.power_max_mw
    if not low <= target <= high:
        watts = (target / 1000.0, low / 1000.0, high / 1000.0)
        reason = "a power limit of {0:g} W is outside its range of {1:g} W to {2:g} W".format(*watts)
        decision.refusals.append(Refusal(known.label, reason, "ask for a limit in that range"))
    elif not _same_power(gpu.power_limit_mw, target):
        decision.actions.append(SetPowerLimit(*known.names, target))
        decision.changed.append("power_limit")


def _same_power(left: Optional[int], right: int) -> bool:
    """Equal to half a watt: drivers may round a limit to whole watts."""
    return left is not None and abs(left - right) < 500


def _undo_power(known: Known, changed: bool, decision: Decision) -> None:
    gpu = known.gpu
    if changed and gpu.power_default_mw is not None and not _same_power(gpu.power_limit_mw, gpu.power_default_mw):
        decision.actions.append(SetPowerLimit(*known.names, gpu.power_default_mw))


def _report_power(known: Known) -> Dict[str, Any]:
    limit = known.gpu.power_limit_mw
    return {"power_limit_watts": None if limit is None else limit / 1000.0}


POWER_LIMIT = Setting(
    "power_limit_watts",
    "power_limit",
    _read_power,
    _plan_power,
    _undo_power,
    {SetPowerLimit: lambda gpu, step: gpu.call("nvmlDeviceSetPowerManagementLimit", step.limit_mw)},
    _report_power,
    volatile=True,
    by_declaration=True,
)

CLOCKS = Setting(
    "clocks",
    "clocks",
    held_clocks.read,
    clocks.plan,
    held_clocks.undo,
    {SetClocks: held_clocks.hold, ResetClocks: held_clocks.release},
    held_clocks.report,
    held_clocks.summary,
    volatile=True,
    by_declaration=True,
)

# Compute mode -------------------------------------------------------------------------------------------


def _plan_compute_mode(known: Known, wanted: str, dummy: bool, decision: Decision) -> None:
    gpu = known.gpu
    if gpu.compute_mode == wanted:
        return
    if gpu.compute_mode is None:
        decision.cannot(known, "compute_mode", "it has no compute mode", explicit=wanted != "default")
    elif gpu.mig:
        reason = "it is in MIG mode, where each MIG device has its own"
        decision.cannot(known, "compute_mode", reason, explicit=True)
    else:
        decision.actions.append(SetComputeMode(*known.names, wanted))
        decision.changed.append("compute_mode")


def _undo_compute_mode(known: Known, changed: bool, decision: Decision) -> None:
    gpu = known.gpu
    if changed and gpu.compute_mode not in (None, "default") and not gpu.mig:
        decision.actions.append(SetComputeMode(*known.names, "default"))


COMPUTE_MODE = Setting(
    "compute_mode",
    "compute_mode",
    lambda gpu: {"compute_mode": gpu.read("nvmlDeviceGetComputeMode").map(lambda mode: COMPUTE_MODES[int(mode)]).value},
    _plan_compute_mode,
    _undo_compute_mode,
    {SetComputeMode: lambda gpu, step: gpu.call("nvmlDeviceSetComputeMode", _MODE_CODES[step.mode])},
    lambda known: {"compute_mode": known.gpu.compute_mode},
    by_declaration=True,
)

#: In the order in which they are set.
SETTINGS = (PERSISTENCE, ECC, POWER_LIMIT, CLOCKS, COMPUTE_MODE)
#: What keeps the driver loaded, and with it the others, is switched off last.
UNDO_ORDER = (*SETTINGS[1:], PERSISTENCE)
