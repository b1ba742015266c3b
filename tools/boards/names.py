# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that the boards share: metrics, labels, and the anchors of the runbooks."""

from __future__ import annotations

#: Recording rules of the role monitoring, the same for DCGM and for gpunode metrics.
#: The boards also use the metrics of the verdict, ``gpu_node_health_*``, and NODE_EXPORTER.
METRICS = frozenset(
    [
        "gpu_node:gpu_{0}:ratio".format(name)
        for name in (
            *("busy", "sm_active", "tensor_active", "dram_active"),
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
            "gpu_node:gpu_sm_clock:hertz",
        ),
        *("gpu_node:gpu_slowed", "gpu_node:gpu_job", "gpu_node:gpu_up"),
        *("gpu_node:job_gpus", "gpu_node:job_power:watts"),
        *("gpu_node:job_busy:ratio", "gpu_node:job_tensor_active:ratio", "gpu_node:job_sm_active:ratio"),
        "gpu_node:job_busy_least:ratio",
        *("gpu_node:fleet_gpus", "gpu_node:fleet_gpu_hours:7d", "gpu_node:gpu_failures:7d"),
        *("gpu_node:node_failures:7d", "gpu_node:node_time_between_failures:seconds"),
        *("gpu_node:whole_gpu_busy:ratio", "gpu_node:gpu_active_of_job:ratio"),
        *("gpu_node:node_outcome", "gpu_node:node_gpus", "gpu_node:fleet_busy_gpus:bucket"),
        *("gpu_node:job_owner", "gpu_node:job_node", "gpu_node:job_slowed_gpus", "gpu_node:job_busy_median:ratio"),
        *("gpu_node:gpu_nvlink_errors_total", "gpu_node:gpu_pcie_replays_total"),
        *("gpu_node:ib_port_up", "gpu_node:ib_port_errors_total"),
        *("gpu_node:ib_port_sent:bytes_per_second", "gpu_node:ib_port_received:bytes_per_second"),
    ]
)
#: Metrics of node exporter, of collectors that are on by default.
NODE_EXPORTER = frozenset(
    [
        *("node_disk_read_bytes_total", "node_disk_written_bytes_total", "node_disk_io_time_seconds_total"),
        *("node_nfs_requests_total", "node_nfs_rpc_retransmissions_total", "node_pressure_io_waiting_seconds_total"),
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
PORT = "cluster, hostname, device, port"
#: Slurm reports user and account, Kubernetes the namespace.
OWNER = ("user", "account", "namespace")

#: Checks of the fabric and the network.
NETWORK_CHECKS = "ib_.*|network_.*|gpu_nvlink|gpu_fabric|nvswitch_sxid|fabric_manager_version"
#: Findings that count.
COUNTS = 'silenced="false",observed="false"'
#: Slow-down reasons that make a job slow; the other reasons are settings, or an idle GPU.
SLOW = 'reason=~"hardware.*|software_thermal.*"'
#: Local disks, without the devices that are built from them.
DISKS = 'device!~"(loop|ram|sr|dm-|md|zram).*"'


def per_gpu(expr: str) -> str:
    """One value for each GPU: DCGM reports temperature, power and clocks of a GPU with MIG once for each instance."""
    return "max by ({0}) ({1})".format(GPU, expr)


def or_zero(expr: str, something: str) -> str:
    """Zero if nothing matches, but only if ``something`` has values: missing data is not zero."""
    return "{0} or sum({1}) * 0".format(expr, something)


def worst(number: int, expr: str, on: str, lowest: bool = False) -> str:
    """The same ``number`` of lines over the whole time range: those with the highest (or lowest) value in it.

    ``topk`` alone chooses anew at each step, so a panel of five has a line for each that was once among the five.
    """
    rank, over = ("bottomk", "min") if lowest else ("topk", "max")
    return "({0}) and on ({1}) {2}({3}, {4}_over_time(({0})[${{__range}}:1m] @ end()))".format(
        expr, on, rank, number, over
    )


def since(finding: str) -> str:
    """When each present finding was first seen within seven days, in milliseconds, as Grafana's dates have it."""
    seen = "min_over_time(timestamp({0})[7d:15m]) or timestamp({0})".format(finding)
    return "({0}) * 1000 and {1}".format(seen, finding)


def owned(expr: str, owner: str, only: str = "", rest: bool = True) -> str:
    """A value of each job, with the labels of its owner; user ``(unknown)`` if a job has no owner.

    ``only``: of these owners alone. ``rest``: also of jobs without any owner. One owner for each job: a job whose
    account was changed has two in a time range.
    """
    one = "topk by ({0}) (1, {1})".format(JOB, only or owner)
    found = "({0}) * on ({1}) group_left ({2}) {3}".format(expr, JOB, ", ".join(OWNER), one)
    if not rest:
        return found
    unknown = "({0}) unless on ({1}) {2}".format(expr, JOB, owner)
    return '{0} or label_replace({1}, "user", "(unknown)", "", "")'.format(found, unknown)


def joined(whole: str, parts: str) -> str:
    """A value of a whole GPU for each of its ``parts``, MIG instances or the GPU itself."""
    return "({0}) * on ({1}) group_left () ({2})".format(parts, GPU, whole)


def ports_down(where: str) -> str:
    """Ports that are down and were active within seven days. A port without a cable never was."""
    port = "gpu_node:ib_port_up{{{0}}}".format(where)
    active = "(max_over_time({0}[7d:1h]) == 1 or max_over_time({0}[6h:10m]) == 1)".format(port)
    return "{0} == 0 and on ({1}) {2}".format(port, PORT, active)
