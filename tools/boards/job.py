# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job: which job is slow, and why."""

from __future__ import annotations

from typing import Any, Callable

from . import looks
from .board import Board
from .looks import Column
from .names import DISKS, GPU, JOB, NODE, OWNER, PLACE, SLOW, joined, owned, ports_down, worst

_CHOSEN = ("cluster", "hpc_job")
_LINE = "{{hostname}} GPU {{gpu}}"
_SPREAD = (("quantile(0.5, {0})", "median"), ("min({0})", "lowest"), ("max({0})", "highest"))


def make() -> Any:
    what = "Which job is slow and why: slowed GPUs, the slowest GPU against the median, network and storage."
    of = dict.fromkeys(_CHOSEN, "gpu_node:gpu_job")
    found = Board("job", "GPU job", what, _CHOSEN, single=_CHOSEN, of=of)
    own = "max by ({0}) ({1})".format(PLACE, found.of("gpu_node:gpu_job"))
    gpus = "max by ({0}) ({1})".format(GPU, found.of("gpu_node:gpu_job"))
    nodes = "group by ({0}) ({1})".format(NODE, found.of("gpu_node:job_node"))

    def job(metric: str) -> str:
        """Of each GPU or MIG instance of the job."""
        return "gpu_node:{0} * on ({1}) group_left () {2}".format(metric, PLACE, own)

    def hardware(metric: str) -> str:
        """Of each whole GPU of which the job has a part."""
        return "max by ({0}) (gpu_node:{1}) * on ({0}) {2}".format(GPU, metric, gpus)

    def node(expr: str) -> str:
        """Of each node of the job."""
        return "{0} and on ({1}) {2}".format(expr, NODE, nodes)

    _all_jobs(found)
    found.row("Job $hpc_job")
    found.stat("GPUs", "GPUs that the job has.", "max({0})".format(found.of("gpu_node:job_gpus")), "none", looks.PLAIN)
    found.stat(
        "Busy",
        "Share of time in which a kernel ran on its GPUs.",
        "max({0})".format(found.of("gpu_node:job_busy:ratio")),
        "percentunit",
        looks.MORE_IS_BETTER,
        alert="GpuNodeAllocatedAndIdle",
    )
    found.stat(
        "Least busy GPU",
        "Busy ratio of its least busy GPU, relative to the median of the job. A slowed GPU is busier than the others.",
        "max({0}) / max({1} > 0)".format(
            found.of("gpu_node:job_busy_least:ratio"), found.of("gpu_node:job_busy_median:ratio")
        ),
        "percentunit",
        looks.NEAR_MEDIAN,
        alert="GpuNodeOneGpuOfJobIdle",
    )
    clock = hardware("gpu_sm_clock:hertz")
    found.stat(
        "Lowest clock",
        "The lowest clock of its GPUs, relative to the median of the job.",
        "min({0}) / quantile(0.5, {0})".format(clock),
        "percentunit",
        looks.NEAR_MEDIAN,
        alert="GpuNodeSlowedByHardware",
    )
    found.stat(
        "Slowed GPUs",
        "GPUs of the job with reduced clocks because of heat or power.",
        "max({0}) or max({1}) * 0".format(found.of("gpu_node:job_slowed_gpus", SLOW), found.of("gpu_node:job_gpus")),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeSlowedByHardware",
    )
    found.stat(
        "Ports down",
        "InfiniBand and RoCE ports of its nodes that were active within seven days and are not now.",
        "count({0}) or max({1}) * 0".format(
            node(ports_down(found.where(without=("hpc_job",)))), found.of("gpu_node:job_gpus")
        ),
        "none",
        looks.NONE_IS_GOOD,
    )
    found.row("GPUs")
    found.series(
        "Slowed GPUs by reason",
        "How many GPUs of the job have reduced clocks, and why.",
        [("max by (reason) ({0})".format(found.of("gpu_node:job_slowed_gpus")), "{{reason}}")],
        "none",
        stacked=True,
        alert="GpuNodeSlowedByHardware",
        none="No GPU of the job is slowed down.",
    )
    found.series(
        "Activity",
        "Means over all its GPUs. Busy with few active multiprocessors means small kernels; busy without tensor cores "
        "means FP32 arithmetic.",
        [
            (found.of("gpu_node:job_busy:ratio"), "busy"),
            (found.of("gpu_node:job_sm_active:ratio"), "multiprocessors active"),
            (found.of("gpu_node:job_tensor_active:ratio"), "tensor cores"),
            ("avg({0})".format(job("gpu_dram_active:ratio")), "memory bandwidth"),
        ],
        "percentunit",
        alert="GpuNodeTensorCoresUnused",
    )
    found.series(
        "Least busy GPUs",
        "The five least busy GPUs of the job, and the median of all.",
        [
            (worst(5, job("gpu_busy:ratio"), PLACE, lowest=True), _LINE + " {{GPU_I_ID}}"),
            (found.of("gpu_node:job_busy_median:ratio"), "median"),
        ],
        "percentunit",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "Slowest clocks",
        "The five lowest clocks of the job, and the median. A job runs at the pace of its slowest GPU.",
        [
            (worst(5, hardware("gpu_sm_clock:hertz"), GPU, lowest=True), _LINE),
            ("quantile(0.5, {0})".format(hardware("gpu_sm_clock:hertz")), "median"),
        ],
        "hertz",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "Hottest GPUs",
        "The five hottest GPUs of the job. Above 87 degrees Celsius most GPUs reduce their clocks.",
        [(worst(5, hardware("gpu_temperature:celsius"), GPU), _LINE)],
        "celsius",
        looks.HEAT,
        alert="GpuNodeHot",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.series(
        "Arithmetic",
        "Activity of the pipes by data type, stacked.",
        [
            ("avg({0})".format(job("gpu_{0}_active:ratio".format(pipe))), text)
            for pipe, text in (("tensor", "tensor"), ("fp64", "FP64"), ("fp32", "FP32"), ("fp16", "FP16"))
        ],
        "percentunit",
        stacked=True,
    )
    slowed = "count by ({0}) ({1}) and on ({0}) {2}".format(
        GPU, "gpu_node:gpu_slowed{{{0},{1}}}".format(found.where(without=("hpc_job",)), SLOW), gpus
    )
    places = "({0})".format(job("gpu_busy:ratio"))
    found.table(
        "GPUs of the job",
        "Slowed GPUs first, then the least busy.",
        ("cluster", "hostname", "gpu", "GPU_I_ID"),
        (
            Column("slowed", "{0} or {1} * 0".format(joined(slowed, own), own), "none", looks.NONE_IS_BEST),
            Column("busy", places, "percentunit", looks.MORE_IS_BETTER),
            Column(
                "busy / median",
                "{0} / on (cluster) group_left () max by (cluster) ({1} > 0)".format(
                    places, found.of("gpu_node:job_busy_median:ratio")
                ),
                "percentunit",
                looks.NEAR_MEDIAN,
            ),
            Column("tensor cores", job("gpu_tensor_active:ratio"), "percentunit"),
            Column("clock", joined(clock, own), "hertz"),
            Column("temperature", joined(hardware("gpu_temperature:celsius"), own), "celsius", looks.HEAT),
        ),
        none="The job has no GPUs at this time.",
        height=8,
        then="busy / median",
    )
    found.row("Network and storage of its nodes")
    sent = "sum by ({0}) ({1})".format(NODE, node("gpu_node:ib_port_sent:bytes_per_second"))
    found.series(
        "Network sent",
        "InfiniBand and RoCE, of each node: median, lowest and highest. Nodes of one training job are alike.",
        [(how.format(sent), text) for how, text in _SPREAD],
        "Bps",
        none="No InfiniBand or RoCE port on these nodes.",
    )
    found.series(
        "NVLink and PCIe sent",
        "Over all its GPUs. Much PCIe and no NVLink traffic between GPUs of a node means a wrong NCCL setting.",
        [
            ("sum({0})".format(hardware("gpu_nvlink_sent:bytes_per_second")), "NVLink"),
            ("sum({0})".format(hardware("gpu_pcie_sent:bytes_per_second")), "PCIe"),
        ],
        "Bps",
        none="No link activity reported.",
    )
    found.series(
        "Local disks",
        "Bytes per second on the local disks of all its nodes.",
        [
            ("sum({0})".format(node("rate(node_disk_{0}_bytes_total{{{1}}}[5m])".format(way, DISKS))), text)
            for way, text in (("read", "read"), ("written", "written"))
        ],
        "Bps",
        none="Node exporter does not report disks of these nodes.",
    )
    found.series(
        "Waiting for storage",
        "Share of time in which a process of a node waited for disks or network file systems, over the nodes.",
        [(how.format(node("rate(node_pressure_io_waiting_seconds_total[5m])")), text) for how, text in _SPREAD],
        "percentunit",
        none="No I/O pressure is reported. If a node has no /proc/pressure, boot its kernel with psi=1.",
    )
    _nodes(found, node)
    return found.build()


def _all_jobs(found: Board) -> None:
    cluster = found.where(without=("hpc_job",))
    slowed = "sum by ({0}) (gpu_node:job_slowed_gpus{{{1},{2}}}) > 0".format(JOB, cluster, SLOW)
    apart = (
        "gpu_node:job_busy_least:ratio{{{0}}} / on ({1}) (gpu_node:job_busy_median:ratio{{{0}}} > 0.05) < 0.8".format(
            cluster, JOB
        )
    )
    jobs = "gpu_node:job_node{{{0}}}".format(cluster)
    down = _of_jobs(jobs, "count by ({0}) ({1})".format(NODE, ports_down(cluster)))
    errors = _of_jobs(jobs, "sum by ({0}) ({1})".format(NODE, _ERRORS.format(cluster)))
    sign = "({0} or {1} or {2} or {3})".format(slowed, apart, down, errors)
    gpus = "gpu_node:job_gpus{{{0}}} and on ({1}) {2}".format(cluster, JOB, sign)
    found.row("All jobs")
    found.table(
        "Jobs that may be slow",
        "Jobs and pods with a slowed GPU, a GPU below 80 % of the median of the job, or a network fault on a node. "
        "Click a job to show it below.",
        ("cluster", "hpc_job", *OWNER),
        (
            Column("GPUs", owned(gpus, "gpu_node:job_owner{{{0}}}".format(cluster)), "none"),
            Column("slowed GPUs", slowed, "none", looks.NONE_IS_BEST, without=OWNER),
            Column("least busy / median", apart, "percentunit", looks.NEAR_MEDIAN, without=OWNER),
            Column("ports down", down, "none", looks.NONE_IS_GOOD, without=OWNER),
            Column("port errors, 1 h", errors, "none", looks.NONE_IS_BEST, without=OWNER),
        ),
        none="No job shows a sign of being slow.",
        height=6,
        alert="GpuNodeSlowedByHardware",
    )


_ERRORS = "increase(gpu_node:ib_port_errors_total{{{0}}}[1h]) > 0"


def _of_jobs(jobs: str, of_nodes: str) -> str:
    """Of each job the sum over its nodes."""
    return "sum by ({0}) ({1} * on ({2}) group_left () ({3}))".format(JOB, jobs, NODE, of_nodes)


def _nodes(found: Board, node: Callable[[str], str]) -> None:
    cluster = found.where(without=("hpc_job",))
    moved = "gpu_node:ib_port_{0}:bytes_per_second"

    def total(expr: str, how: str = "sum") -> str:
        return "{0} by ({1}) ({2})".format(how, NODE, node(expr))

    found.table(
        "Nodes of the job",
        "A node that differs from the others delays them all.",
        ("cluster", "hostname"),
        (
            Column("verdict", node("gpu_node:node_outcome"), "none", values=looks.OUTCOMES),
            Column("network sent", total(moved.format("sent")), "Bps"),
            Column("received", total(moved.format("received")), "Bps"),
            Column("ports down", total(ports_down(cluster), "count"), "none", looks.NONE_IS_GOOD),
            Column("port errors, 1 h", total(_ERRORS.format(cluster)), "none", looks.NONE_IS_BEST),
            Column(
                "busiest disk",
                total("rate(node_disk_io_time_seconds_total{{{0}}}[5m])".format(DISKS), "max"),
                "percentunit",
                looks.LESS_IS_BETTER,
            ),
            Column("NFS requests", total('rate(node_nfs_requests_total{method=~"Read|Write"}[5m])'), "reqps"),
            Column(
                "NFS retransmissions, 1 h",
                total("increase(node_nfs_rpc_retransmissions_total[1h])"),
                "none",
                looks.NONE_IS_BEST,
            ),
        ),
        none="The job runs on no node at this time.",
        alert="GpuNodeSick",
    )
