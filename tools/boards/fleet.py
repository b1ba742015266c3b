# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet: which nodes and jobs to look at first."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board, Column
from .names import COUNTS, IDLE, JOB, NODE, or_zero

_CHOSEN = ("cluster", "profile", "hostname")


def make() -> Any:
    found = Board("fleet", "GPU fleet", "How all GPU nodes are, and which nodes and jobs to look at first.", _CHOSEN)
    up, sick = found.of("gpu_node:gpu_up", 'GPU_I_ID=""'), found.of("gpu_node_health_outcome", 'outcome="fail"')
    found.row("Now")
    found.stat("GPUs", "GPUs that answer.", "sum({0})".format(up), "none", board.PLAIN)
    found.stat(
        "GPUs lost",
        "GPUs that do not answer, where the node itself tells it. DCGM leaves them out: see the alert.",
        "sum({0} == bool 0)".format(up),
        "none",
        board.NONE_IS_GOOD,
        alert="GpuNodeGpuLost",
    )
    found.stat(
        "Nodes sick",
        "Nodes whose checks fail. They take no job where the gate is on.",
        or_zero("sum({0})".format(sick), up),
        "none",
        board.NONE_IS_GOOD,
        alert="GpuNodeSick",
    )
    cluster = found.where(without=("profile", "hostname"))
    found.stat(
        "GPUs of jobs that do nothing",
        "GPUs that a job has had for half an hour, and on which less than 5 % of the time a kernel ran.",
        or_zero('sum(gpu_node:fleet_gpus{{{0},state="wasted"}})'.format(found.where(without=("hostname",))), up),
        "none",
        board.NONE_IS_BEST,
        alert="GpuNodeAllocatedAndIdle",
    )
    found.stat(
        "Busy",
        "Share of time in which a kernel ran, over all GPUs, with a job or without.",
        "avg({0})".format(found.of("gpu_node:gpu_busy:ratio", 'GPU_I_ID=""')),
        "percentunit",
        board.MORE_IS_BETTER,
    )
    found.stat(
        "Power",
        "Power of all GPUs.",
        "sum({0})".format(found.of("gpu_node:gpu_power:watts", 'GPU_I_ID=""')),
        "watt",
        board.PLAIN,
    )
    found.row("Jobs")
    found.table(
        "Jobs that leave GPUs idle",
        "The job that keeps most GPUs with least to show for it is at the top: its GPUs times the share of time in "
        "which nothing ran on them.",
        ("cluster", "hpc_job"),
        (
            Column("GPUs idle", "gpu_node:job_gpus{{{0}}} * (1 - gpu_node:job_busy:ratio)".format(cluster), "none"),
            Column("GPUs", "gpu_node:job_gpus{{{0}}}".format(cluster), "none"),
            Column("busy", "gpu_node:job_busy:ratio{{{0}}}".format(cluster), "percentunit", board.MORE_IS_BETTER),
            Column("tensor cores", "gpu_node:job_tensor_active:ratio{{{0}}}".format(cluster), "percentunit"),
            Column("power", "gpu_node:job_power:watts{{{0}}}".format(cluster), "watt"),
        ),
        alert="GpuNodeAllocatedAndIdle",
    )
    found.row("Nodes")
    found.table(
        "Findings that count",
        "What is wrong with which node, and what its checks say should be done.",
        ("cluster", "hostname", "check", "code", "key", "action"),
        (
            Column(
                "found",
                "max by ({0}, check, code, key, action) ({1})".format(
                    NODE, found.of("gpu_node_health_finding", COUNTS)
                ),
                "none",
            ),
        ),
        alert="GpuNodeSick",
    )
    busy = found.of("gpu_node:gpu_busy:ratio", 'GPU_I_ID=""')
    found.heat(
        "How busy GPUs are", "How many GPUs are how busy: two bands are jobs beside idle GPUs.", busy, "", "percentunit"
    )
    found.series(
        "Slowed down",
        "GPUs whose clocks are lower now, by the reason: heat, power, or the power cap that was set.",
        [
            (
                "count by (reason) ({0})".format(found.of("gpu_node:gpu_slowed", 'reason=~"hardware.*|software.*"')),
                "{{reason}}",
            )
        ],
        "none",
        alert="GpuNodeSlowedByHardware",
    )
    found.series(
        "Idle GPUs of jobs, by job",
        "How many GPUs of each job do nothing at this moment.",
        [
            (
                "count by ({0}) (gpu_node:gpu_job{{{1}}} and on (cluster, hostname, gpu) ({2} < {3}))".format(
                    JOB, cluster, busy, IDLE
                ),
                "{{hpc_job}}",
            )
        ],
        "none",
        stacked=True,
        link="hpc_job",
        known=("cluster", "hpc_job"),
    )
    found.series(
        "Temperature, hottest GPU of each node",
        "Ten nodes. One that is hotter than the others has a cooling problem of its own.",
        [
            (
                "topk(10, max by ({0}) ({1}))".format(NODE, found.of("gpu_node:gpu_temperature:celsius")),
                "{{hostname}}",
            )
        ],
        "celsius",
        board.HEAT,
        alert="GpuNodeHot",
        link="hostname",
        known=("cluster", "hostname"),
    )
    return found.build()
