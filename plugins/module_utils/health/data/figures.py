# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meaning of the figures of active checks, as the HELP line of their metric. The unit is the end of the name."""

from __future__ import annotations

from typing import Dict

_TYPES = {
    "f16": "FP16 tensor cores",
    "bf16": "BF16 tensor cores",
    "fp8": "FP8 tensor cores",
    "int8": "INT8 tensor cores",
    "fp32": "FP32 cores",
    "fp64": "FP64 cores",
    "int32": "32-bit integer cores",
}

HELP: Dict[str, str] = {
    "gpu_product_info": "Product of a GPU; always 1.",
    "gpu_memory_gigabytes_per_second": "Rate at which a GPU reads its own memory and compares it, in 10^9 bytes.",
    **{
        "compute_{0}_tera{1}_per_second".format(name, unit): "Rate of the {0} of a GPU, all SMs together, in 10^12 "
        "operations.".format(cores)
        for name, cores in _TYPES.items()
        for unit in ("flops", "ops")
    },
    "compute_graphics_clock_mhz": "Median graphics clock of a GPU under arithmetic load.",
    "compute_power_watts": "Median power of a GPU under arithmetic load.",
    "compute_temperature_celsius": "Highest temperature of a GPU under arithmetic load.",
    "host_to_device_gigabytes_per_second": "Copies from the host to a GPU alone, in 10^9 bytes.",
    "device_to_host_gigabytes_per_second": "Copies from a GPU alone to the host, in 10^9 bytes.",
    "host_to_device_together_gigabytes_per_second": "Copies from the host to a GPU while all GPUs copy.",
    "device_to_host_together_gigabytes_per_second": "Copies from a GPU to the host while all GPUs copy.",
    "gpu_to_gpu_gigabytes_per_second": "Copies between two GPUs alone, in 10^9 bytes.",
    "gpu_to_gpu_together_gigabytes_per_second": "Copies between GPUs while all GPUs copy, in 10^9 bytes.",
    "infiniband_write_gigabits_per_second": "RDMA writes of a port in loopback from host memory, in 10^9 bits.",
    "infiniband_gdr_write_gigabits_per_second": "RDMA writes of a port in loopback from GPU memory, in 10^9 bits.",
    "nccl_allreduce_busbw_gigabytes_per_second": "Bus bandwidth of an all-reduce over all GPUs of the node.",
    "nccl_infiniband_loopback_gigabytes_per_second": "Bus bandwidth of an all-reduce of the node over InfiniBand.",
    "scratch_write_gigabytes_per_second": "Direct writes to the scratch, in 10^9 bytes.",
    "scratch_read_gigabytes_per_second": "Direct reads from the scratch, in 10^9 bytes.",
    "hpl_gigaflops_per_second": "Best run of HPL in the output of a job.",
    "hpl_mxp_gigaflops_per_second": "Best run of HPL-MxP in the output of a job.",
}


def help_of(name: str) -> str:
    """One sentence for any figure."""
    return HELP.get(name, "{0}, as a check of this node measured it.".format(name))
