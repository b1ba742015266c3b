# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that active checks use: their names, where images and packages put them, and what to do without one."""

from __future__ import annotations

import dataclasses
from typing import Dict, Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Tool:
    """``programs`` are looked for in PATH, then ``places`` (patterns; of several matches the last by name is taken)."""

    programs: Tuple[str, ...]
    places: Tuple[str, ...]
    remedy: str
    source: str


TOOLS: Dict[str, Tool] = {
    "nvbandwidth": Tool(
        ("nvbandwidth",),
        ("/opt/nvidia/nvbandwidth/nvbandwidth", "/opt/nvbandwidth/nvbandwidth"),
        "build it from github.com/NVIDIA/nvbandwidth",
        "github.com/Azure/azhpc-images, its component inventory; NVIDIA/nvbandwidth, README",
    ),
    "all_reduce_perf": Tool(
        ("all_reduce_perf",),
        ("/opt/nccl-tests/build/all_reduce_perf", "/opt/nccl-tests*/build/all_reduce_perf"),
        "build it from github.com/NVIDIA/nccl-tests into /opt/nccl-tests/build",
        "github.com/Azure/azhpc-images, common/install_nccl.sh; NVIDIA/nccl-tests, README",
    ),
    "ib_write_bw": Tool(
        ("ib_write_bw",),
        ("/opt/perftest/bin/ib_write_bw", "/opt/perftest*/bin/ib_write_bw"),
        "install the package perftest",
        "linux-rdma/perftest, README (make install); the distributions' package perftest",
    ),
    "dcgmi": Tool(
        ("dcgmi",),
        ("/usr/bin/dcgmi",),
        "install NVIDIA's package datacenter-gpu-manager-4-cuda-all and start nvidia-dcgm",
        "docs.nvidia.com/datacenter/dcgm, getting started",
    ),
    "fio": Tool(("fio",), (), "install the package fio", "the distributions' package fio"),
}

# Where the MPI library lies that nccl-tests of an image are linked with; its loader path is set by a modulefile.
MPI_LIBRARIES: Tuple[str, ...] = (
    "/opt/hpcx/current/ompi/lib",
    "/opt/hpcx*/ompi/lib",
    "/opt/hpcx/hpcx*/ompi/lib",
    "/usr/mpi/gcc/openmpi*/lib*",
)


@dataclasses.dataclass(frozen=True)
class CudaFault:
    """A result of the CUDA driver that concerns the machine, not the program that called it.

    ``action``: None where the GPU itself need not be at fault.
    """

    name: str
    reason: str
    remedy: str
    action: Optional[str]  # a value of types.Remedy
    source: str = "CUDA driver API, enum CUresult (cuda.h of CUDA 12.8)"


# 700 and 715 to 719 are errors of a program in general. The programs here are always the same, and right on other GPUs,
# so they are the GPU's or its driver's: the Xid catalogue names a bad program, the driver and hardware as the causes of
# the Xids 13 and 31 that accompany them.
CUDA_FAULTS: Dict[int, CudaFault] = {
    2: CudaFault(
        "OUT_OF_MEMORY",
        "there is not enough free memory",
        "find what uses the memory of the GPU or of the host: nvidia-smi, free",
        None,
    ),
    46: CudaFault(
        "DEVICE_UNAVAILABLE",
        "the GPU is in exclusive or prohibited mode, or held",
        "look at nvidia-smi -q -d COMPUTE",
        "look",
    ),
    100: CudaFault(
        "NO_DEVICE",
        "CUDA shows no GPU, though NVML does",
        "look at the kernel log for an Xid and at nvidia-fabricmanager, then reboot",
        "reboot",
    ),
    214: CudaFault(
        "ECC_UNCORRECTABLE",
        "an uncorrectable memory error happened",
        "reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    220: CudaFault(
        "NVLINK_UNCORRECTABLE",
        "an uncorrectable NVLink error happened",
        "reset the GPUs; replace it if it recurs",
        "reset_gpu",
    ),
    226: CudaFault("CONTAINED", "a contained memory error happened", "reset the GPU", "reset_gpu"),
    700: CudaFault(
        "ILLEGAL_ADDRESS",
        "a kernel used an address outside its memory",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    702: CudaFault(
        "LAUNCH_TIMEOUT",
        "a kernel took longer than the driver allows",
        "look at the kernel log for an Xid, then reset the GPU",
        "reset_gpu",
    ),
    714: CudaFault(
        "HARDWARE_STACK_ERROR",
        "a hardware stack error happened",
        "reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    715: CudaFault(
        "ILLEGAL_INSTRUCTION",
        "a kernel met an instruction that is not valid",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    716: CudaFault(
        "MISALIGNED_ADDRESS",
        "a kernel used an address that is not aligned",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    717: CudaFault(
        "INVALID_ADDRESS_SPACE",
        "a kernel used an address of another kind of memory",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    718: CudaFault(
        "INVALID_PC",
        "the program counter of a kernel left its code",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    719: CudaFault(
        "LAUNCH_FAILED",
        "a copy or kernel failed on the GPU",
        "look at the kernel log for an Xid, then reset the GPU; replace it if it recurs",
        "reset_gpu",
    ),
    802: CudaFault(
        "SYSTEM_NOT_READY",
        "the NVSwitch fabric is not ready",
        "restart nvidia-fabricmanager and look at its log",
        "restart_service",
    ),
    803: CudaFault(
        "SYSTEM_DRIVER_MISMATCH", "the driver in the kernel and its library differ", "reboot the node", "reboot"
    ),
    999: CudaFault(
        "UNKNOWN",
        "the driver reports an unknown error",
        "look at the kernel log for an Xid, then reboot the node",
        "reboot",
    ),
}


# Results of cuModuleLoadDataEx that concern the text and the driver, not the GPU: INVALID_IMAGE, NO_BINARY_FOR_GPU,
# INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED (cuda.h of CUDA 12.8).
PTX_REFUSED: Tuple[int, ...] = (200, 209, 218, 221, 222, 223)


@dataclasses.dataclass(frozen=True)
class DcgmSeverity:
    """What DCGM's severity of an error means here."""

    outcome: str
    action: str
    remedy: str
    source: str = "NVIDIA/DCGM, dcgmlib/dcgm_errors.h, enum dcgmErrorSeverity_enum"


DCGM_SEVERITIES: Dict[int, DcgmSeverity] = {
    1: DcgmSeverity("warn", "watch", "watch it: it can work"),
    2: DcgmSeverity("fail", "replace", "isolate the GPU and have it replaced"),
    4: DcgmSeverity("fail", "look", "run dcgmi diag by hand and have a person look at it"),
    5: DcgmSeverity("fail", "configure", "correct that setting: run 'gpunode converge', then the diagnosis again"),
    6: DcgmSeverity("fail", "reset_gpu", "drain the node and reset the GPU"),
}
