# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every metric of a GPU: its name, unit and labels, and what it is read from. docs/metrics.md is made of it. Pure."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Optional, Tuple

from ..core.exposition import COUNTER, GAUGE
from ..core.frozen import frozen
from ..facts.gpu_info.types import GpuInformation
from ..facts.nvml import gpm
from .types import Part

Sample = Tuple[Mapping[str, str], float]
_HERTZ = 1e6


@frozen
class Family:
    """A metric of each GPU. ``of`` yields its samples: the labels beside those of the GPU, and the value."""

    name: str
    kind: str
    help: str
    of: Callable[[GpuInformation], Iterable[Sample]]
    labels: Tuple[str, ...] = ()


@frozen
class PartFamily:
    """A metric of each GPU, and of each of its MIG instances."""

    name: str
    help: str
    of: Callable[[Part], Optional[float]]


def _value(group: str, field: str, factor: float = 1.0) -> Callable[[GpuInformation], Iterable[Sample]]:
    def of(gpu: GpuInformation) -> Iterable[Sample]:
        value = getattr(gpu.groups.get(group), field, None)
        if value is not None:
            yield {}, float(value) * factor

    return of


def _inner(group: str, *samples: Tuple[str, str, str, str]) -> Callable[[GpuInformation], Iterable[Sample]]:
    """Each (label, its value, field of the group, field of that)."""

    def of(gpu: GpuInformation) -> Iterable[Sample]:
        for label, told, field, inner in samples:
            value = getattr(getattr(gpu.groups.get(group), field, None), inner, None)
            if value is not None:
                yield ({label: told} if label else {}), float(value)

    return of


def _slowed(gpu: GpuInformation) -> Iterable[Sample]:
    clocks = gpu.groups.get("clocks")
    for reason in getattr(clocks, "event_reasons", None) or ():
        yield {"reason": reason}, 1.0


def _slowdowns(gpu: GpuInformation) -> Iterable[Sample]:
    clocks = gpu.groups.get("clocks")
    for cause in ("software_thermal", "hardware_thermal", "hardware_power_brake"):
        value = getattr(clocks, cause + "_slowdown_seconds", None)
        if value is not None:
            yield {"cause": cause}, float(value)


def _errors(gpu: GpuInformation) -> Iterable[Sample]:
    ecc = gpu.groups.get("ecc")
    for memory in ("dram", "sram"):
        counts = getattr(ecc, memory, None)
        for corrected, field in (("true", "volatile_corrected"), ("false", "volatile_uncorrected")):
            value = getattr(counts, field, None)
            if value is not None:
                yield {"memory": memory, "corrected": corrected}, float(value)


def _retired(gpu: GpuInformation) -> Iterable[Sample]:
    repair = gpu.groups.get("repair")
    for cause in ("corrected", "uncorrected"):
        value = getattr(repair, "retired_pages_" + cause, None)
        if value is not None:
            yield {"cause": cause}, float(value)


def _action(gpu: GpuInformation) -> Iterable[Sample]:
    action = getattr(gpu.groups.get("repair"), "recovery_action", None)
    if action is not None:
        yield {"action": action}, 1.0


def _processes(gpu: GpuInformation) -> Iterable[Sample]:
    running = getattr(gpu.groups.get("processes"), "running", None)
    if running is not None:
        yield {}, float(len({process.pid for process in running}))


GPU = (
    Family("gpu_temperature_celsius", GAUGE, "Temperature of the GPU.", _value("temperature", "gpu_celsius")),
    Family(
        "gpu_memory_temperature_celsius", GAUGE, "Temperature of its memory.", _value("temperature", "memory_celsius")
    ),
    Family(
        "gpu_slowdown_temperature_celsius",
        GAUGE,
        "Temperature at which the hardware slows it down.",
        _value("temperature", "slowdown_celsius"),
    ),
    Family(
        "gpu_temperature_margin_celsius",
        GAUGE,
        "Degrees that are left until it is slowed down.",
        _value("temperature", "margin_celsius"),
    ),
    Family("gpu_power_watts", GAUGE, "Power that it takes.", _value("power", "usage_watts")),
    Family("gpu_power_limit_watts", GAUGE, "Power limit in force.", _value("power", "enforced_limit_watts")),
    Family(
        "gpu_energy_joules_total",
        COUNTER,
        "Energy since the driver was loaded.",
        _value("power", "total_energy_joules"),
    ),
    Family("gpu_sm_clock_hertz", GAUGE, "Clock of its multiprocessors.", _value("clocks", "sm_mhz", _HERTZ)),
    Family("gpu_sm_clock_max_hertz", GAUGE, "Highest clock of these.", _value("clocks", "max_sm_mhz", _HERTZ)),
    Family("gpu_memory_clock_hertz", GAUGE, "Clock of its memory.", _value("clocks", "memory_mhz", _HERTZ)),
    Family("gpu_slowed", GAUGE, "1 for each reason for which its clocks are lower now.", _slowed, ("reason",)),
    Family("gpu_slowdown_seconds_total", COUNTER, "Time that it was slowed down.", _slowdowns, ("cause",)),
    Family(
        "gpu_busy_ratio",
        GAUGE,
        "Share of the last moment in which a kernel ran, be it on one multiprocessor.",
        _value("load", "gpu_percent", 0.01),
    ),
    Family(
        "gpu_memory_busy_ratio",
        GAUGE,
        "Share of the last moment in which its memory was read or written.",
        _value("load", "memory_percent", 0.01),
    ),
    Family("gpu_memory_reserved_bytes", GAUGE, "Memory that the driver keeps.", _value("memory", "reserved_bytes")),
    Family("gpu_processes", GAUGE, "Processes that have it.", _processes),
    Family(
        "gpu_ecc_errors_total",
        COUNTER,
        "Bit errors since the driver was loaded.",
        _errors,
        ("memory", "corrected"),
    ),
    Family(
        "gpu_rows_remapped",
        GAUGE,
        "Rows of its memory that spare rows stand in for.",
        _inner(
            "repair",
            ("cause", "correctable", "remapped_rows", "correctable"),
            ("cause", "uncorrectable", "remapped_rows", "uncorrectable"),
        ),
        ("cause",),
    ),
    Family(
        "gpu_row_remap_pending",
        GAUGE,
        "1: a row is remapped with the next reset.",
        _inner("repair", ("", "", "remapped_rows", "pending")),
    ),
    Family(
        "gpu_row_remap_failed",
        GAUGE,
        "1: no spare row was left, the GPU has to be replaced.",
        _inner("repair", ("", "", "remapped_rows", "failure")),
    ),
    Family("gpu_retired_pages", GAUGE, "Pages of its memory out of use, before Ampere.", _retired, ("cause",)),
    Family("gpu_recovery_action", GAUGE, "1 for what the driver asks for.", _action, ("action",)),
    Family("gpu_pcie_replays_total", COUNTER, "Packets that PCIe sent again.", _value("pcie", "replay_count")),
)


def _told(metric: int, factor: float) -> Callable[[Part], Optional[float]]:
    def of(part: Part) -> Optional[float]:
        value = None if part.activity is None else part.activity.get(metric)
        return None if value is None else value * factor

    return of


PARTS = (
    PartFamily("gpu_memory_used_bytes", "Memory in use.", lambda part: _float(part.memory_used_bytes)),
    PartFamily("gpu_memory_total_bytes", "Memory that there is.", lambda part: _float(part.memory_total_bytes)),
    PartFamily("gpu_sm_active_ratio", "Multiprocessors that had work.", _told(gpm.SM, 0.01)),
    PartFamily("gpu_sm_occupancy_ratio", "Places for warps that were taken.", _told(gpm.SM_OCCUPANCY, 0.01)),
    PartFamily("gpu_tensor_active_ratio", "Activity of its tensor cores.", _told(gpm.TENSOR, 0.01)),
    PartFamily("gpu_dram_active_ratio", "Bandwidth of its memory in use.", _told(gpm.DRAM, 0.01)),
    PartFamily("gpu_fp64_active_ratio", "Activity of FP64 without tensor cores.", _told(gpm.FP64, 0.01)),
    PartFamily("gpu_fp32_active_ratio", "Activity of FP32 without tensor cores.", _told(gpm.FP32, 0.01)),
    PartFamily("gpu_fp16_active_ratio", "Activity of FP16 without tensor cores.", _told(gpm.FP16, 0.01)),
    PartFamily("gpu_pcie_sent_bytes_per_second", "Sent over PCIe.", _told(gpm.PCIE_SENT, 1.0)),
    PartFamily("gpu_pcie_received_bytes_per_second", "Received over PCIe.", _told(gpm.PCIE_RECEIVED, 1.0)),
    PartFamily("gpu_nvlink_sent_bytes_per_second", "Sent over all NVLinks.", _told(gpm.NVLINK_SENT, 1.0)),
    PartFamily("gpu_nvlink_received_bytes_per_second", "Received over all NVLinks.", _told(gpm.NVLINK_RECEIVED, 1.0)),
)


def _float(value: Optional[int]) -> Optional[float]:
    return None if value is None else float(value)
