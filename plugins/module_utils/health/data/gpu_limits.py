# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default limits of figures of GPUs. A limit ..._per_day is one of growth within a day."""

from __future__ import annotations

from typing import Dict

from ..types import Threshold

_MEMORY = "NVIDIA GPU Memory Error Management, docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt"
_AZURE = "github.com/Azure/azurehpc-health-checks 0e0a1ac, "
_DCGM = "NVIDIA DCGM 4.6.0, limits of its health watches: "
_NVLINK_ERROR = (
    _DCGM + "NVLink error 1 within its last minute fails; github.com/NVIDIA/NVSentinel, gpu-health-monitor, does not "
    "drain for that failure (DCGM_FR_NVLINK_ERROR_CRITICAL), and here it is told for a day, so it warns"
)

GPU_LIMITS: Dict[str, Threshold] = {
    "gpu_remapped_uncorrectable_rows": Threshold("lower", None, 512, _DCGM + "512; " + _MEMORY + ", RMA policy: 512"),
    "gpu_pending_row_remaps": Threshold("lower", 0, None, _MEMORY + ", Row-remapping pending flag: new work may start"),
    "gpu_memory_exhausted_banks": Threshold(
        "lower", 0, None, _MEMORY + ", RMA policy: one more bad row in such a bank is a failure"
    ),
    "gpu_retired_pages": Threshold("lower", None, 62, _DCGM + "63 of all kinds fail"),
    "gpu_retired_pages_double_bit": Threshold("lower", 15, None, _DCGM + "15 of double-bit errors; see per_week"),
    "gpu_retired_pages_double_bit_per_week": Threshold(
        "lower", None, 1, _DCGM + "more than 1 within a week fails, where there are more than 15"
    ),
    "gpu_ecc_uncorrected_volatile_errors": Threshold("lower", 0, None, "github.com/facebookresearch/gcm: 0"),
    "gpu_ecc_corrected_volatile_dram_errors": Threshold(
        "lower", None, 20000000, _AZURE + "conf/nd96asr_v4.conf, check_gpu_ecc 20000000"
    ),
    "gpu_ecc_corrected_volatile_sram_errors": Threshold(
        "lower", None, 10000, _AZURE + "conf/nd96asr_v4.conf, check_gpu_ecc 10000"
    ),
    "gpu_hardware_slowdown_percent": Threshold(
        "lower", None, 60, "github.com/leptonai/gpud, hw-slowdown: 6 of the last 10 minutes"
    ),
    "gpu_hardware_slowdown_seconds_per_day": Threshold(
        "lower", 360, None, "this collection: as much as fails a GPU within 10 minutes; within a day it warns"
    ),
    "gpu_nvlink_replay_errors_per_day": Threshold("lower", 0, None, _NVLINK_ERROR),
    "gpu_nvlink_recovery_errors_per_day": Threshold("lower", 0, None, _NVLINK_ERROR),
    "gpu_nvlink_crc_errors_per_day": Threshold("lower", 0, None, _DCGM + "NVLink error 1, a warning for CRC errors"),
    "gpu_nvlink_crc_errors_per_second": Threshold("lower", None, 100, _DCGM + "NVLink CRC errors 100 a second"),
    "gpu_nvlink_effective_bit_error_rate": Threshold(
        "lower",
        1e-6,
        None,
        "github.com/Azure/cyclecloud-healthagent 2.0.2: a warning, which calls DCGM's limit disputed (4.6.0: 1e-12)",
    ),
    "gpu_nvlink_packet_errors_per_day": Threshold(
        "lower", 0, None, _DCGM + "NVLink error 1, which fails there; a warning here, since we have seen no Blackwell"
    ),
}

# Megatransfers a second of each generation, one bit each.
_PCIE_RATES = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000, 6: 64000}


def pcie_replays_per_minute(generation: int, lanes: int) -> Threshold:
    """The limit of ``gpu_pcie_replays_per_minute`` of a link, where neither a profile nor a setting has one."""
    rate = _PCIE_RATES[min(max(generation, 1), max(_PCIE_RATES))]
    limit = -(-rate * lanes * 60 // 10**6)  # rounded up
    source = _DCGM + "one wrong bit in 10^12 of the highest generation and the lanes: 8 at Gen3 x16, 16, 31 at Gen5"
    return Threshold("lower", limit, None, source)
