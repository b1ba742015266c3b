# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readings of how a GPU is set and what it is doing."""

from __future__ import annotations

import functools
import time
from typing import Any, List, Optional, Sequence, Tuple

from ...core.host import Host
from ...core.processes import name as process_name
from ..nvml import processes as lists
from ..nvml import values
from ..nvml.call import Kind, Reading, missing
from . import names
from .ask import Ask
from .types import Clocks, Load, Power, Process, Processes, Settings, SupportedClocks, Temperature

_GRAPHICS, _SM, _MEMORY, _VIDEO = 0, 1, 2, 3
_FIELD_MEMORY_TEMPERATURE = 82
_FIELD_SLOWDOWN_MARGIN = 194  # NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT, Ada and newer
# NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, HW_THERM_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN: nanoseconds.
_FIELDS_SLOWED = (269, 270, 271)
_GPU_SENSOR = 0
# Bits of HwSlowdown, HwThermalSlowdown and HwPowerBrakeSlowdown. nvml.h: "May be also reported during PState or clock
# change", which takes some milliseconds.
_HARDWARE_REASONS = 0x8 | 0x40 | 0x80
_SAMPLES = 6
_SPACING_SECONDS = 0.1


def clocks(ask: Ask, every_clock: bool = False) -> Clocks:
    supported_memory: Reading[Tuple[int, ...]] = ask.gpu.read("nvmlDeviceGetSupportedMemoryClocks").map(_descending)
    mask = _event_reasons(ask)
    by_driver, by_heat, by_brake = ask.fields([(field, 0) for field in _FIELDS_SLOWED])

    def megahertz(field: str, function: str, *arguments: Any) -> Optional[int]:
        return ask(field, values.megahertz, function, *arguments)

    return Clocks(
        graphics_mhz=megahertz("graphics_mhz", "nvmlDeviceGetClockInfo", _GRAPHICS),
        sm_mhz=megahertz("sm_mhz", "nvmlDeviceGetClockInfo", _SM),
        memory_mhz=megahertz("memory_mhz", "nvmlDeviceGetClockInfo", _MEMORY),
        video_mhz=megahertz("video_mhz", "nvmlDeviceGetClockInfo", _VIDEO),
        max_graphics_mhz=megahertz("max_graphics_mhz", "nvmlDeviceGetMaxClockInfo", _GRAPHICS),
        max_sm_mhz=megahertz("max_sm_mhz", "nvmlDeviceGetMaxClockInfo", _SM),
        max_memory_mhz=megahertz("max_memory_mhz", "nvmlDeviceGetMaxClockInfo", _MEMORY),
        max_video_mhz=megahertz("max_video_mhz", "nvmlDeviceGetMaxClockInfo", _VIDEO),
        application_graphics_mhz=megahertz("application_graphics_mhz", "nvmlDeviceGetApplicationsClock", _GRAPHICS),
        application_memory_mhz=megahertz("application_memory_mhz", "nvmlDeviceGetApplicationsClock", _MEMORY),
        default_application_graphics_mhz=megahertz(
            "default_application_graphics_mhz", "nvmlDeviceGetDefaultApplicationsClock", _GRAPHICS
        ),
        default_application_memory_mhz=megahertz(
            "default_application_memory_mhz", "nvmlDeviceGetDefaultApplicationsClock", _MEMORY
        ),
        max_customer_boost_graphics_mhz=megahertz(
            "max_customer_boost_graphics_mhz", "nvmlDeviceGetMaxCustomerBoostClock", _GRAPHICS
        ),
        supported_memory_mhz=ask.take("supported_memory_mhz", supported_memory),
        supported_graphics=ask.take("supported_graphics", _supported_graphics(ask, supported_memory, every_clock)),
        event_reasons=ask.take("event_reasons", mask.map(names.event_reasons)),
        event_reasons_mask=ask.take("event_reasons_mask", mask),
        software_thermal_slowdown_seconds=ask.take("software_thermal_slowdown_seconds", by_driver.map(values.seconds)),
        hardware_thermal_slowdown_seconds=ask.take("hardware_thermal_slowdown_seconds", by_heat.map(values.seconds)),
        hardware_power_brake_slowdown_seconds=ask.take(
            "hardware_power_brake_slowdown_seconds", by_brake.map(values.seconds)
        ),
    )


def _event_reasons(ask: Ask) -> Reading[int]:
    """The mask of event reasons. Where it shows a slowdown by the hardware, more samples are taken, and only one that
    is in all of them stays; a GPU without one costs one call."""

    def sample() -> Reading[int]:
        return ask.gpu.first(
            ("nvmlDeviceGetCurrentClocksEventReasons",), ("nvmlDeviceGetCurrentClocksThrottleReasons",)
        ).map(values.mask)

    reading = sample()
    mask = reading.value or 0
    left = _SAMPLES - 1
    while left and mask & _HARDWARE_REASONS:
        left -= 1
        time.sleep(_SPACING_SECONDS)
        reading = sample()
        if reading.value is None:
            return reading
        mask &= reading.value | ~_HARDWARE_REASONS
    return reading.map(lambda dummy: mask)


def _descending(clocks_mhz: Sequence[int]) -> Tuple[int, ...]:
    return tuple(sorted({values.megahertz(clock) for clock in clocks_mhz}, reverse=True))


def _supported_graphics(
    ask: Ask, supported_memory: Reading[Tuple[int, ...]], every_clock: bool
) -> Reading[SupportedClocks]:
    if supported_memory.value is None:
        return missing(supported_memory.reason or "", supported_memory.kind or Kind.ABSENT)
    if not supported_memory.value:
        return missing("the driver lists no memory clock")
    top = supported_memory.value[0]

    def summary(clocks_mhz: Sequence[int]) -> SupportedClocks:
        every = sorted({values.megahertz(clock) for clock in clocks_mhz})
        step = names.even_step(every)
        if step is None:
            ask.take("supported_graphics.step_mhz", missing("the steps differ", Kind.NO_DATA))
        if not every_clock:
            ask.take("supported_graphics.all_mhz", missing("every_clock was not asked for", Kind.NO_DATA))
        return SupportedClocks(
            memory_mhz=top,
            count=len(every),
            min_mhz=every[0],
            max_mhz=every[-1],
            step_mhz=step,
            all_mhz=tuple(reversed(every)) if every_clock else None,
        )

    return ask.gpu.read("nvmlDeviceGetSupportedGraphicsClocks", top).map(summary)


def settings(ask: Ask) -> Settings:
    mig = ask.gpu.read("nvmlDeviceGetMigMode")
    return Settings(
        persistence=ask("persistence", values.flag, "nvmlDeviceGetPersistenceMode"),
        compute_mode=ask("compute_mode", names.named(names.COMPUTE_MODES), "nvmlDeviceGetComputeMode"),
        mig_current=ask.take("mig_current", mig.map(lambda pair: values.flag(pair[0]))),
        mig_pending=ask.take("mig_pending", mig.map(lambda pair: values.flag(pair[1]))),
    )


def power(ask: Ask) -> Power:
    limits = ask.gpu.read("nvmlDeviceGetPowerManagementLimitConstraints")
    return Power(
        usage_watts=ask("usage_watts", values.watts, "nvmlDeviceGetPowerUsage"),
        limit_watts=ask("limit_watts", values.limit_watts, "nvmlDeviceGetPowerManagementLimit"),
        default_limit_watts=ask("default_limit_watts", values.limit_watts, "nvmlDeviceGetPowerManagementDefaultLimit"),
        min_limit_watts=ask.take("min_limit_watts", limits.map(lambda pair: values.watts(pair[0]))),
        max_limit_watts=ask.take("max_limit_watts", limits.map(lambda pair: values.watts(pair[1]))),
        enforced_limit_watts=ask("enforced_limit_watts", values.limit_watts, "nvmlDeviceGetEnforcedPowerLimit"),
        total_energy_joules=ask("total_energy_joules", values.joules, "nvmlDeviceGetTotalEnergyConsumption"),
    )


def temperature(ask: Ask) -> Temperature:
    gpu = ask.gpu.first(("nvmlDeviceGetTemperatureV", _GPU_SENSOR), ("nvmlDeviceGetTemperature", _GPU_SENSOR))
    memory, slowdown = ask.fields([(_FIELD_MEMORY_TEMPERATURE, 0), (_FIELD_SLOWDOWN_MARGIN, 0)])

    def threshold(field: str, number: int) -> Optional[int]:
        return ask(field, values.limit_celsius, "nvmlDeviceGetTemperatureThreshold", number)

    return Temperature(
        gpu_celsius=ask.take("gpu_celsius", gpu.map(values.celsius)),
        memory_celsius=ask.take("memory_celsius", memory.map(values.celsius)),
        margin_celsius=ask("margin_celsius", values.margin_celsius, "nvmlDeviceGetMarginTemperature"),
        slowdown_margin_celsius=ask.take("slowdown_margin_celsius", slowdown.map(values.slowdown_margin_celsius)),
        shutdown_celsius=threshold("shutdown_celsius", 0),
        slowdown_celsius=threshold("slowdown_celsius", 1),
        memory_max_celsius=threshold("memory_max_celsius", 2),
        gpu_max_celsius=threshold("gpu_max_celsius", 3),
    )


def load(ask: Ask) -> Load:
    rates = ask.gpu.read("nvmlDeviceGetUtilizationRates")
    return Load(
        gpu_percent=ask.take("gpu_percent", rates.map(lambda answer: values.percent(answer.gpu))),
        memory_percent=ask.take("memory_percent", rates.map(lambda answer: values.percent(answer.memory))),
        performance_state=ask("performance_state", names.performance_state, "nvmlDeviceGetPerformanceState"),
    )


def processes(ask: Ask) -> Processes:
    found: List[Process] = []
    told = False
    for kind in lists.KINDS:
        reading = lists.ask(ask.gpu, kind).map(functools.partial(_process_list, ask, kind))
        if reading.value is None:
            ask.take("running" if kind == lists.COMPUTE else "running." + kind, reading)
            continue
        told = told or kind == lists.COMPUTE
        found.extend(reading.value)
    return Processes(running=tuple(sorted(found, key=lambda process: (process.pid, process.kind))) if told else None)


def _process_list(ask: Ask, kind: str, items: Sequence[Any]) -> List[Process]:
    return [_process(ask, item, kind) for item in items]


def _process(ask: Ask, item: Any, kind: str) -> Process:
    pid = values.whole(item.pid)
    name = process_name(Host(), pid) or None

    def optional(field: str, value: Any, reason: str) -> Optional[int]:
        number = Reading(value).map(values.whole)
        return number.value if number.ok else ask.take("running.*." + field, missing(reason, Kind.NO_DATA))

    if name is None:
        ask.take("running.*.name", missing("the process has ended, or lives in another PID namespace", Kind.NO_DATA))
    no_instance = "the GPU is not partitioned"
    return Process(
        pid=pid,
        kind=kind,
        name=name,
        used_memory_bytes=optional("used_memory_bytes", item.usedGpuMemory, "the driver does not tell"),
        gpu_instance_id=optional("gpu_instance_id", getattr(item, "gpuInstanceId", None), no_instance),
        compute_instance_id=optional("compute_instance_id", getattr(item, "computeInstanceId", None), no_instance),
    )
