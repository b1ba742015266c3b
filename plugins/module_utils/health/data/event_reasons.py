# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a GPU runs slower than it could: what each of NVML's clock event reasons means for a node."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen
from ..types import Certainty, Outcome, Remedy

_NVML = "nvml.h of CUDA 13, nvmlClocksEventReasons: {0}"
_AZURE = " (github.com/Azure/azurehpc-health-checks 0e0a1ac accepts only idle, none and the power cap)"
_HOT = "look at the fans, the inlet temperature and the heat sink; redeploy the machine when it stays"
_POWER = "look at the power supplies and the power cap of the chassis; redeploy the machine when it stays"


@frozen
class EventReason:
    """``mask`` as in nvml.h, ``name`` as gpu_info gives it. ``part_of``: another reason that says more replaces it."""

    mask: int
    name: str
    text: str
    outcome: Outcome
    action: Remedy
    remedy: str
    source: str
    certainty: Certainty = Certainty.LIKELY
    part_of: Tuple[str, ...] = ()


def _normal(mask: int, name: str, text: str, source: str) -> EventReason:
    return EventReason(mask, name, text, Outcome.PASS, Remedy.WATCH, "", _NVML.format(source))


EVENT_REASONS: Tuple[EventReason, ...] = (
    _normal(0x1, "gpu_idle", "nothing runs on it", "GpuIdle"),
    _normal(0x2, "application_clocks_setting", "application clocks are set", "ApplicationsClocksSetting"),
    _normal(0x4, "software_power_cap", "the power limit of the driver, normal under load", "SwPowerCap"),
    EventReason(
        0x8,
        "hardware_slowdown",
        "the hardware slows it down (heat, power brake, or too fast a rise of the power)",
        Outcome.FAIL,
        Remedy.REPLACE,
        _POWER,
        _NVML.format("HwSlowdown: clocks are cut by half or more; also told during clock changes") + _AZURE,
        part_of=("hardware_thermal_slowdown", "hardware_power_brake_slowdown"),
    ),
    _normal(0x10, "sync_boost", "the clocks of a group of GPUs are held together", "SyncBoost"),
    EventReason(
        0x20,
        "software_thermal_slowdown",
        "the driver slows it down, since the GPU or its memory is hot",
        Outcome.WARN,
        Remedy.LOOK,
        _HOT,
        _NVML.format("SwThermalSlowdown") + _AZURE,
        part_of=("hardware_thermal_slowdown",),
    ),
    EventReason(
        0x40,
        "hardware_thermal_slowdown",
        "the hardware slows it down, since it is too hot",
        Outcome.FAIL,
        Remedy.REPLACE,
        _HOT,
        _NVML.format("HwThermalSlowdown: clocks are cut by half or more") + _AZURE,
        Certainty.CERTAIN,
    ),
    EventReason(
        0x80,
        "hardware_power_brake_slowdown",
        "the machine asserts the power brake of the GPU",
        Outcome.FAIL,
        Remedy.REPLACE,
        _POWER,
        _NVML.format("HwPowerBrakeSlowdown: clocks are cut by half or more") + _AZURE,
        Certainty.CERTAIN,
    ),
    _normal(0x100, "display_clock_setting", "a display needs these clocks", "DisplayClockSetting"),
    _normal(0x200, "board_limit", "a limit of the board", "nvidia-ml-py, nvmlClocksThrottleReason BoardLimit"),
    _normal(
        0x400, "reliability", "the highest voltage of the chip", "nvidia-ml-py, nvmlClocksThrottleReason Reliability"
    ),
)
BY_NAME = {one.name: one for one in EVENT_REASONS}


def known(name: str) -> Optional[EventReason]:
    return BY_NAME.get(name)
