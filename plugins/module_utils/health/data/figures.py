# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meaning of the figures of active checks, as the HELP line of their metric. The unit is the end of the name."""

from __future__ import annotations

from typing import Dict

_COMPUTE = "Rate of the {0} of a GPU, all SMs together, in 10^12 operations."

HELP: Dict[str, str] = {
    "gpu_product_info": "Product of a GPU; always 1.",
    "gpu_memory_gigabytes_per_second": "Rate at which a GPU reads its own memory and compares it, in 10^9 bytes.",
    "compute_f16_teraflops_per_second": _COMPUTE.format("FP16 tensor cores"),
    "compute_bf16_teraflops_per_second": _COMPUTE.format("BF16 tensor cores"),
    "compute_fp8_teraflops_per_second": _COMPUTE.format("FP8 tensor cores"),
    "compute_int8_teraops_per_second": _COMPUTE.format("INT8 tensor cores"),
    "compute_f32_teraflops_per_second": _COMPUTE.format("FP32 cores"),
    "compute_f64_teraflops_per_second": _COMPUTE.format("FP64 cores"),
    "compute_int32_teraops_per_second": _COMPUTE.format("32-bit integer cores"),
    "compute_slowest_multiprocessor_percent": "Time of the slowest SM of a GPU for equal work, above the median SM.",
    "compute_graphics_clock_mhz": "Median graphics clock of a GPU under arithmetic load.",
    "compute_power_watts": "Median power of a GPU under arithmetic load.",
    "compute_temperature_celsius": "Highest temperature of a GPU under arithmetic load.",
    "host_to_device_gigabytes_per_second": "Copies from the host to a GPU alone, in 10^9 bytes.",
    "device_to_host_gigabytes_per_second": "Copies from a GPU alone to the host, in 10^9 bytes.",
    "host_to_device_together_gigabytes_per_second": "Copies from the host to a GPU while all GPUs copy.",
    "device_to_host_together_gigabytes_per_second": "Copies from a GPU to the host while all GPUs copy.",
    "host_device_both_directions_gigabytes_per_second": "Copies to and from a GPU at the same time, both added up.",
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


# The longest end of a name that fits counts.
_UNITS: Dict[str, str] = {
    "teraflops_per_second": "Tflop/s",
    "teraops_per_second": "Top/s",
    "gigaflops_per_second": "Gflop/s",
    "gigabytes_per_second": "GB/s",
    "gigabits_per_second": "Gbit/s",
    "percent": "%",
    "celsius": "°C",
    "mhz": "MHz",
    "watts": "W",
    "seconds": "s",
    "bytes": "bytes",
}


def unit_of(name: str) -> str:
    """``GB/s`` of ``host_to_device_gigabytes_per_second``; "" where the name ends with no unit that is known."""
    return next((unit for end, unit in _UNITS.items() if name.endswith("_" + end)), "")


def help_of(name: str) -> str:
    """One sentence for any figure."""
    return HELP.get(name, "{0}, as a check of this node measured it.".format(name))
