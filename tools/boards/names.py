# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that the boards share: metrics, labels, and the anchors of the runbooks."""

from __future__ import annotations

#: What the boards ask for: recording rules of the role monitoring, the same whoever tells of a GPU.
#: Beside these they use only the verdict's own metrics, ``gpu_node_health_*``.
METRICS = frozenset(
    [
        "gpu_node:gpu_{0}:ratio".format(name)
        for name in (
            *("busy", "sm_active", "sm_occupancy", "tensor_active", "dram_active"),
            *("fp64_active", "fp32_active", "fp16_active"),
        )
    ]
    + ["gpu_node:gpu_memory_{0}:bytes".format(name) for name in ("used", "total")]
    + ["gpu_node:gpu_{0}temperature:celsius".format(name) for name in ("", "memory_")]
    + [
        "gpu_node:gpu_{0}_{1}:bytes_per_second".format(link, way)
        for link in ("pcie", "nvlink")
        for way in ("sent", "received")
    ]
    + [
        *(
            "gpu_node:gpu_power:watts",
            "gpu_node:gpu_power_limit:watts",
            "gpu_node:gpu_energy:joules_total",
            "gpu_node:gpu_sm_clock:hertz",
        ),
        *("gpu_node:gpu_slowed", "gpu_node:gpu_job", "gpu_node:gpu_up"),
        *("gpu_node:job_gpus", "gpu_node:job_power:watts", "gpu_node:job_memory_used:bytes"),
        *("gpu_node:job_busy:ratio", "gpu_node:job_tensor_active:ratio", "gpu_node:job_sm_active:ratio"),
        *("gpu_node:job_busy_least:ratio", "gpu_node:job_energy:joules"),
        *("gpu_node:fleet_gpus", "gpu_node:fleet_gpu_hours:7d", "gpu_node:gpu_failures:7d"),
        *("gpu_node:node_failures:7d", "gpu_node:node_time_between_failures:seconds"),
    ]
)
HEALTH = "gpu_node_health_"

#: Alerts whose runbook a panel links to; the anchor in docs/runbooks.md is the name in lower case.
RUNBOOKS = frozenset(
    [
        *("GpuNodeAllocatedAndIdle", "GpuNodeGpuLost", "GpuNodeHot", "GpuNodeOneGpuOfJobIdle"),
        *("GpuNodeFailsAgain", "GpuNodeRepeatOffender", "GpuNodeSick", "GpuNodeSlowedByHardware"),
        *("GpuNodeTensorCoresUnused", "GpuNodeVerdictStale"),
    ]
)

#: Below this share of the time a GPU counts as idle, as in the recording rule gpu_node:fleet_gpus.
IDLE = "0.05"
#: One GPU or MIG instance, and one GPU, of the fleet.
PLACE = "cluster, hostname, gpu, GPU_I_ID"
GPU = "cluster, hostname, gpu"
NODE = "cluster, hostname"
JOB = "cluster, hpc_job"

#: Checks whose findings explain a slow network.
NETWORK_CHECKS = "ib_.*|network_.*|gpu_nvlink|gpu_fabric|nvswitch_sxid"
#: Findings that count.
COUNTS = 'silenced="false",observed="false"'


def per_gpu(expr: str) -> str:
    """One value for each GPU, although DCGM tells the temperature and the like of each instance of a GPU with MIG."""
    return "max by ({0}) ({1})".format(GPU, expr)


def or_zero(expr: str, something: str) -> str:
    """Zero where nothing matches, but only where ``something`` is there: what nobody tells of is not zero."""
    return "{0} or sum({1}) * 0".format(expr, something)
