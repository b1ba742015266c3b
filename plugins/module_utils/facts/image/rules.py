# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules by which the parts of an image fit each other. Pure: an image in, what is wrong out.

A rule is silent where one of its parts is not there, or its version is not known. What depends on another fault is
told there and not here, so one wrong pair is one problem.
"""

from __future__ import annotations

from typing import Callable, Tuple

from ...core.frozen import frozen
from . import data, judge_cuda, judge_driver, judge_jobs
from .problem import Problem, Told
from .types import Image


@frozen
class Rule:
    """``about``: driver, cuda, communication, containers or links. ``title`` is what holds where it is silent.
    ``told_by``: the health check that says the same of a running node."""

    id: str
    about: str
    title: str
    source: str
    judge: Callable[[Image], Told]
    told_by: str = ""


_OWN = "own choice"
_GUIDE = "NVIDIA, driver installation guide"
_LOADER = "ld.so(8)"

RULES: Tuple[Rule, ...] = (
    Rule(
        "driver_library",
        "driver",
        "The driver's libraries and its kernel module are of one version",
        "NVIDIA, NVML, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        judge_driver.library,
        "gpu_driver",
    ),
    Rule("driver_module", "driver", "The running kernel has NVIDIA's module", _GUIDE, judge_driver.module),
    Rule("dkms", "driver", "DKMS has built its modules for the running kernel", "dkms(8)", judge_driver.dkms),
    Rule("next_kernel", "driver", "The newest kernel has NVIDIA's module", _OWN, judge_driver.next_kernel),
    Rule(
        "module_kind",
        "driver",
        "The kernel module is of the kind that these GPUs need",
        "{0}; {1}".format(data.KERNEL_MODULES, data.OPEN_ONLY),
        judge_driver.module_kind,
    ),
    Rule(
        "last_branch",
        "driver",
        "The driver still supports these GPUs",
        data.LAST_BRANCHES,
        judge_driver.last_branch,
    ),
    Rule(
        "gsp_firmware",
        "driver",
        "The open kernel module has its firmware",
        "NVIDIA, driver README, GSP firmware",
        judge_driver.firmware,
    ),
    Rule("nouveau", "driver", "The module nouveau is not loaded", _GUIDE, judge_driver.nouveau),
    Rule(
        "fabric_manager",
        "driver",
        "The Fabric Manager is of the driver's version",
        "NVIDIA, Fabric Manager user guide",
        judge_driver.fabric_manager,
        "fabric_manager_version",
    ),
    Rule(
        "cuda_driver",
        "cuda",
        "The driver is new enough for each CUDA toolkit",
        data.COMPATIBILITY,
        judge_cuda.cuda_driver,
    ),
    Rule(
        "cuda_ptx",
        "cuda",
        "The driver compiles the PTX of each CUDA toolkit",
        "NVIDIA, CUDA Compatibility; Azure/azhpc-images, verify_cuda_installation",
        judge_cuda.cuda_ptx,
    ),
    Rule(
        "nccl_cuda",
        "cuda",
        "libnccl was built for the CUDA of a toolkit",
        "NVIDIA, NCCL installation guide",
        judge_cuda.nccl_cuda,
    ),
    Rule("nccl_minimum", "cuda", "NCCL is not too old", data.NCCL_MINIMUM_SOURCE, judge_cuda.nccl_minimum),
    Rule(
        "peermem",
        "communication",
        "GPUs and RDMA devices reach each other",
        "NVIDIA, GPU Operator, GPUDirect RDMA",
        judge_jobs.peermem,
        "ib_gpu_direct",
    ),
    Rule("sharp_plugin", "communication", "NCCL's plugins find their libraries", _LOADER, judge_jobs.sharp_plugin),
    Rule("mpi_ucx", "communication", "Open MPI finds UCX", _LOADER, judge_jobs.mpi_ucx),
    Rule("one_mpi", "communication", "The search path of a login has one MPI", _OWN, judge_jobs.one_mpi),
    Rule(
        "pmix",
        "communication",
        "Slurm has the PMIx that the job templates use",
        "SchedMD, Slurm MPI guide",
        judge_jobs.pmix,
    ),
    Rule(
        "container_cli",
        "containers",
        "Every user can run nvidia-container-cli",
        "NVIDIA/enroot, conf/hooks/98-nvidia.sh",
        judge_jobs.container_cli,
    ),
    Rule("broken_link", "links", "No link of the software leads nowhere", _OWN, judge_jobs.broken_links),
)


def judge(image: Image) -> Tuple[Problem, ...]:
    """Everything that does not fit, in the order of the rules."""
    return tuple(problem for rule in RULES for problem in rule.judge(image))
