# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which impact category of Azure's Guest Health Reporting a finding belongs to."""

from __future__ import annotations

import dataclasses
import fnmatch
from typing import Optional, Tuple

_PAGE = "learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-categories (2025-09-18)"


@dataclasses.dataclass(frozen=True)
class Category:
    """``finding`` is a pattern of finding names, ``check/code/key``. ``gpu``: a report may tell which GPU it is."""

    finding: str
    category: str
    meaning: str
    source: str = _PAGE
    gpu: bool = False

    @property
    def name(self) -> str:
        return "Resource.Hpc.Unhealthy." + self.category


# The first that fits holds. What the owner of a node can repair (a reset, a driver, a setting) is not in it.
CATEGORIES: Tuple[Category, ...] = (
    Category("gpu_xid/xid_48*", "XID48DoubleBitECC", "a GPU reports a double-bit ECC error", gpu=True),
    Category("gpu_xid/xid_79*", "XID79FallenOffBus", "a GPU fell off the PCIe bus", gpu=True),
    Category("gpu_xid/xid_94*", "XID94ContainedECCError", "a GPU reports a contained ECC error", gpu=True),
    Category("gpu_xid/xid_95*", "XID95UncontainedECCError", "a GPU reports an uncontained ECC error", gpu=True),
    Category("gpu_xid*", "GpuXIDError", "a GPU reports another Xid", gpu=True),
    Category("gpu_count/missing*", "HpcMissingGpu", "a GPU is missing", gpu=True),
    Category("gpu_count/unclaimed*", "HpcMissingGpu", "a GPU is on the bus and not in the driver", gpu=True),
    Category("gpu_lost/lost*", "HpcMissingGpu", "a GPU is lost", gpu=True),
    Category("gpu_lost/hung*", "UnhealthyGPUNvidiasmi", "NVML, and so nvidia-smi, hangs", gpu=True),
    Category("gpu_driver/hung*", "UnhealthyGPUNvidiasmi", "NVML, and so nvidia-smi, hangs", gpu=True),
    Category("gpu_row_remap/failure*", "HpcRowRemapFailure", "rows of a GPU could not be remapped", gpu=True),
    Category("gpu_row_remap/rows*", "HpcRowRemapFailure", "too many rows of a GPU were remapped", gpu=True),
    Category("gpu_row_remap/banks*", "HpcRowRemapFailure", "banks of a GPU have no spare row left", gpu=True),
    Category("gpu_retired_pages/pages*", "ECCPageRetirementTableFull", "a GPU has retired too many pages", gpu=True),
    Category("gpu_inforom*", "HpcInforomCorruption", "the infoROM of a GPU is corrupted", gpu=True),
    Category("gpu_nvlink/links*", "NvLink", "an NVLink is down", gpu=True),
    Category("nvswitch_sxid*", "NvLink", "an NVSwitch reports a fatal error"),
    Category("gpu_slowdown*", "HpcDcgmiThermalReport", "a GPU is slowed down by heat or power", gpu=True),
    Category("gpu_temperature*", "HpcDcgmiThermalReport", "a GPU is too hot", gpu=True),
    Category("dcgm_diagnosis*", "HpcGpuDcgmDiagFailure", "DCGM's diagnostics failed", gpu=True),
    Category("gpu_memory_test*", "GPUMemoryBWFailure", "the memory of a GPU failed a test", gpu=True),
    Category("host_device_bandwidth*", "GPUMemoryBWFailure", "a GPU copies too slowly", gpu=True),
    Category("ib_ports/count*", "MissingIB", "an InfiniBand port is missing"),
    Category("ib_ports/rate*", "IBPerformance", "an InfiniBand port is slower than it should be"),
    Category("ib_ports*", "IBPortDown", "an InfiniBand port is down"),
    Category("ib_flaps*", "IBPortFlapping", "an InfiniBand port goes down and up"),
    Category("ib_errors*", "IBPerformance", "an InfiniBand port makes errors"),
    Category("ib_bandwidth*", "IBPerformance", "InfiniBand is slower than it should be"),
    Category("cpu_count*", "CPUPerformance", "CPUs are missing"),
)
GENERIC = Category("*", "HpcGenericFailure", "what falls into no other category")


def category(finding_name: str) -> Optional[Category]:
    """None: the table has nothing for it."""
    return next((one for one in CATEGORIES if fnmatch.fnmatchcase(finding_name, one.finding)), None)
