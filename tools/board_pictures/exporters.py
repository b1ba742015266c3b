# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Series as the exporters have them: our own metrics, dcgm-exporter's and node_exporter's. Pure."""

from __future__ import annotations

import math
from typing import Callable, Dict, Iterator, NamedTuple, Optional

Labels = Dict[str, str]
Value = Callable[[int], Optional[float]]


class Series(NamedTuple):
    """A series: ``value`` of a minute, or none."""

    name: str
    labels: Labels
    value: Value


def wave(middle: float, share: float, seed: int) -> Value:
    """A value that varies by a share of itself, the same in each run."""
    return lambda minute: middle * (1 + share * math.sin(minute / (5 + seed % 7) + seed))


def constant(value: float) -> Value:
    return lambda minute: value


def counter(per_minute: float, since: int = 0) -> Value:
    return lambda minute: per_minute * max(0, minute - since)


def until(end: int, value: Value) -> Value:
    return lambda minute: value(minute) if minute < end else None


def since(start: int, value: Value) -> Value:
    return lambda minute: value(minute) if minute >= start else None


def step(minute: int, before: float, after: float) -> Value:
    return lambda now: before if now < minute else after


class Work(NamedTuple):
    """What a GPU does: figures of one GPU, or of one MIG instance."""

    busy: Value
    tensor: Value
    power: Value
    temperature: Value
    clock: Value
    memory: float
    total: float


def scaled(value: Value, factor: float) -> Value:
    def of(minute: int) -> Optional[float]:
        found = value(minute)
        return None if found is None else found * factor

    return of


def _summed(value: Value, factor: float) -> Value:
    return lambda minute: sum((value(one) or 0.0) for one in range(minute)) * 60 * factor


def own(labels: Labels, made: Work, nvlink_errors: float = 0.0) -> Iterator[Series]:
    """The metrics of gpunode metrics."""
    ratios = {
        "busy": made.busy, "sm_active": scaled(made.busy, 0.9), "sm_occupancy": scaled(made.busy, 0.4),
        "tensor_active": made.tensor, "dram_active": scaled(made.busy, 0.45), "fp64_active": constant(0.0),
        "fp32_active": scaled(made.busy, 0.1), "fp16_active": scaled(made.busy, 0.05),
    }  # fmt: skip
    for name, value in ratios.items():
        yield Series("gpu_node_gpu_{0}_ratio".format(name), labels, value)
    others = {
        "memory_used_bytes": constant(made.memory), "memory_total_bytes": constant(made.total),
        "temperature_celsius": made.temperature,
        "memory_temperature_celsius": scaled(made.temperature, 1.08), "power_watts": made.power,
        "power_limit_watts": constant(700.0), "energy_joules_total": _summed(made.power, 1.0),
        "sm_clock_hertz": made.clock, "up": constant(1.0),
        "pcie_sent_bytes_per_second": scaled(made.busy, 5e9), "pcie_received_bytes_per_second": scaled(made.busy, 6e9),
        "nvlink_sent_bytes_per_second": scaled(made.busy, 2e11),
        "nvlink_received_bytes_per_second": scaled(made.busy, 2e11), "pcie_replays_total": constant(0.0),
        "row_remap_failed": constant(0.0), "row_remap_pending": constant(0.0),
    }  # fmt: skip
    for name, value in others.items():
        yield Series("gpu_node_gpu_" + name, labels, value)
    address = {name: value for name, value in labels.items() if name not in ("gpu", "UUID", "modelName")}
    figures = dict(address, check="gpu_nvlink", key=labels["UUID"])
    yield Series("gpu_node_health_figure_gpu_nvlink_replay_errors_total", figures, counter(nvlink_errors))
    for memory in ("dram", "sram"):
        for corrected in ("true", "false"):
            more = {"memory": memory, "corrected": corrected}
            yield Series("gpu_node_gpu_ecc_errors_total", dict(labels, **more), constant(0.0))


def dcgm(labels: Labels, made: Work, whole: bool = True) -> Iterator[Series]:
    """The metrics of dcgm-exporter. Of an instance it reports the power and the clock of its GPU."""
    values = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": made.busy, "DCGM_FI_PROF_SM_ACTIVE": scaled(made.busy, 0.9),
        "DCGM_FI_PROF_SM_OCCUPANCY": scaled(made.busy, 0.4), "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": made.tensor,
        "DCGM_FI_PROF_DRAM_ACTIVE": scaled(made.busy, 0.45),
        "DCGM_FI_DEV_FB_USED": constant(made.memory / 2**20),
        "DCGM_FI_DEV_FB_FREE": constant((made.total - made.memory) / 2**20),
        "DCGM_FI_DEV_POWER_USAGE": made.power, "DCGM_FI_DEV_SM_CLOCK": scaled(made.clock, 1e-6),
        "DCGM_FI_DEV_GPU_TEMP": made.temperature, "DCGM_FI_DEV_MEMORY_TEMP": scaled(made.temperature, 1.08),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _summed(made.power, 1000.0),
        "DCGM_FI_PROF_PCIE_TX_BYTES": scaled(made.busy, 5e9), "DCGM_FI_PROF_PCIE_RX_BYTES": scaled(made.busy, 6e9),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": constant(0.0),
    }  # fmt: skip
    if whole:
        values["DCGM_FI_DEV_GPU_UTIL"] = scaled(made.busy, 100)
        values["DCGM_FI_DEV_POWER_MGMT_LIMIT"] = constant(700.0)
        values["DCGM_FI_PROF_NVLINK_TX_BYTES"] = scaled(made.busy, 2e11)
        values["DCGM_FI_PROF_NVLINK_RX_BYTES"] = scaled(made.busy, 2e11)
        values["DCGM_FI_DEV_ROW_REMAP_FAILURE"] = constant(0.0)
        values["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] = constant(0.0)
        values["DCGM_FI_DEV_XID_ERRORS"] = constant(0.0)
        values["DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"] = constant(0.0)
        values["DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"] = constant(0.0)
    for name, value in values.items():
        yield Series(name, labels, value)


def infiniband(labels: Labels, rate: float, down: bool, bad: bool) -> Iterator[Series]:
    """A port of node_exporter's collector infiniband: ``down`` from minute 30 on, ``bad`` has errors from 100 on."""
    values: Dict[str, Value] = {
        "state_id": step(30, 4.0, 1.0 if down else 4.0),
        "physical_state_id": step(30, 5.0, 3.0 if down else 5.0),
        "link_downed_total": step(30, 0.0, float(down)),
        "rate_bytes_per_second": constant(5e10),
        "port_data_transmitted_bytes_total": counter(rate),
        "port_data_received_bytes_total": counter(rate * 0.98),
        "link_error_recovery_total": counter(0.2 if bad else 0.0, 100),
        "symbol_error_total": counter(40.0 if bad else 0.0, 100),
        "port_errors_received_total": counter(12.0 if bad else 0.0, 100),
        "port_receive_remote_physical_errors_total": constant(0.0),
        "local_link_integrity_errors_total": constant(0.0),
        "excessive_buffer_overrun_errors_total": constant(0.0),
        "port_transmit_wait_total": counter(rate / 1e9),
    }
    for name, value in values.items():
        yield Series("node_infiniband_" + name, labels, value)
    info = {"board_id": "MT_0000000838", "firmware_version": "28.43.2026", "hca_type": "MT4129"}
    named = {name: value for name, value in labels.items() if name != "port"}
    yield Series("node_infiniband_info", {**named, **info}, constant(1.0))
