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

GPU_LIMITS: Dict[str, Threshold] = {
    "gpu_remapped_uncorrectable_rows": Threshold("lower", None, 512, _DCGM + "512; " + _MEMORY + ", RMA policy: 512"),
    "gpu_pending_row_remaps": Threshold("lower", 0, None, _MEMORY + ", Row-remapping pending flag: new work may start"),
    "gpu_memory_exhausted_banks": Threshold(
        "lower", 0, None, _MEMORY + ", RMA policy: one more bad row in such a bank is a failure"
    ),
    "gpu_retired_pages": Threshold("lower", 15, 62, _DCGM + "15 soft, 63 hard"),
    "gpu_ecc_uncorrected_volatile_errors": Threshold("lower", 0, None, "github.com/facebookresearch/gcm: 0"),
    "gpu_ecc_corrected_volatile_dram_errors": Threshold(
        "lower", None, 20000000, _AZURE + "conf/nd96asr_v4.conf, check_gpu_ecc 20000000"
    ),
    "gpu_ecc_corrected_volatile_sram_errors": Threshold(
        "lower", None, 10000, _AZURE + "conf/nd96asr_v4.conf, check_gpu_ecc 10000"
    ),
    "gpu_pcie_replays_per_minute": Threshold("lower", 8, None, _DCGM + "8 PCIe replays a minute"),
    "gpu_nvlink_replay_errors_per_day": Threshold("lower", 0, None, _DCGM + "NVLink error 1"),
    "gpu_nvlink_recovery_errors_per_day": Threshold("lower", 0, None, _DCGM + "NVLink error 1"),
    "gpu_nvlink_crc_errors_per_second": Threshold("lower", 100, None, _DCGM + "NVLink CRC errors 100 a second"),
}
