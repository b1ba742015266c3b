# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity: where GPUs are wasted."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .looks import Column
from .names import GPU, IDLE, NODE, OWNER, PLACE, or_zero, owned

_CHOSEN = ("cluster", "profile")


def make() -> Any:
    what = "GPUs that jobs, pods or MIG instances leave idle, and GPUs that are not allocated."
    found = Board("capacity", "GPU capacity and waste", what, _CHOSEN, since="now-7d")
    gpus, hours = found.of("gpu_node:fleet_gpus"), found.of("gpu_node:fleet_gpu_hours:7d")

    def state(of: str, states: str) -> str:
        return "(sum({0}) or sum({1}) * 0)".format(of.replace("{", '{{state=~"{0}",'.format(states), 1), of)

    found.row("Now")
    found.stat(
        "Wasted GPUs",
        "GPUs that a job has held for half an hour while they were less than 5 % busy.",
        state(gpus, "wasted"),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeAllocatedAndIdle",
    )
    found.stat("Unallocated", "GPUs that no job and no pod has.", state(gpus, "unallocated"), "none", looks.PLAIN)
    found.stat(
        "Out of service",
        "GPUs of nodes whose checks fail.",
        or_zero(
            "sum({0} and on ({1}) {2} == 3)".format(
                found.of("gpu_node:node_gpus"), NODE, found.of("gpu_node:node_outcome")
            ),
            found.of("gpu_node:node_gpus"),
        ),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeSick",
    )
    found.stat(
        "Allocated",
        "Share of GPUs that a job or a pod has.",
        "{0} / sum({1})".format(state(gpus, "busy|idle|wasted|unknown"), gpus),
        "percentunit",
        looks.MORE_IS_BETTER,
    )
    found.stat(
        "Busy",
        "Share of GPUs that a job or a pod has and uses.",
        "{0} / sum({1})".format(state(gpus, "busy"), gpus),
        "percentunit",
        looks.MORE_IS_BETTER,
    )
    found.stat(
        "Tensor cores",
        "Mean activity of the tensor cores of all GPUs.",
        "avg({0})".format(found.of("gpu_node:gpu_tensor_active:ratio")),
        "percentunit",
        looks.PLAIN,
    )
    found.row("Who wastes GPUs")
    cluster = found.where(without=("profile",))
    jobs = "gpu_node:job_gpus{{{0}}}".format(cluster)
    idle = "topk(50, {0} * (1 - gpu_node:job_busy:ratio) > 0.05)".format(jobs)
    found.table(
        "Jobs by unused GPUs",
        "Jobs and pods by their number of GPUs, multiplied by the share of time in which no kernel ran on them.",
        ("cluster", "hpc_job", *OWNER),
        (
            Column("unused GPUs", owned(idle, "gpu_node:job_owner{{{0}}}".format(cluster)), "none"),
            *(
                Column(title, "gpu_node:job_{0} and on (cluster, hpc_job) {1}".format(name, idle), unit, steps, OWNER)
                for title, name, unit, steps in (
                    ("GPUs", "gpus", "none", None),
                    ("busy", "busy:ratio", "percentunit", looks.MORE_IS_BETTER),
                    ("tensor cores", "tensor_active:ratio", "percentunit", None),
                    ("power", "power:watts", "watt", None),
                )
            ),
        ),
        none="No job and no pod leaves GPUs unused.",
        height=8,
        alert="GpuNodeAllocatedAndIdle",
    )
    active = found.of("gpu_node:gpu_active_of_job:ratio", 'GPU_I_ID!=""')
    # Idle for half an hour, as gpu_node:fleet_gpus counts it.
    long = "(max by ({0}, GPU_I_PROFILE) (max_over_time({1}[30m]) and {1} offset 30m and {1}) < {2})".format(
        PLACE, active, IDLE
    )
    held = "group by ({0}, hpc_job) (gpu_node:gpu_job{{{1}}})".format(PLACE, cluster)
    found.table(
        "Idle MIG instances",
        "Instances that a job or a pod has and that were less than 5 % busy for half an hour.",
        (*PLACE.split(", "), "GPU_I_PROFILE", "hpc_job", *OWNER),
        (
            Column(
                "busiest in 30 min",
                owned(
                    "{0} * on ({1}) group_right (GPU_I_PROFILE) {2}".format(long, PLACE, held),
                    "gpu_node:job_owner{{{0}}}".format(cluster),
                ),
                "percentunit",
            ),
        ),
        none="No idle MIG instance is allocated.",
        height=4,
    )
    free = "{0} == 1 unless on ({1}) gpu_node:gpu_job{{{2}}}".format(found.of("gpu_node:gpu_up"), GPU, cluster)
    found.table(
        "Nodes with unallocated GPUs",
        "GPUs that no job or pod uses, not even in part. Failed nodes accept no jobs.",
        ("cluster", "hostname", "profile", "partition"),
        (
            Column("GPUs", "count by ({0}, profile, partition) ({1})".format(NODE, free), "none"),
            Column(
                "verdict",
                "{0} and on ({1}) ({2})".format(found.of("gpu_node:node_outcome"), NODE, free),
                "none",
                values=looks.OUTCOMES,
            ),
        ),
        none="All GPUs are allocated.",
    )
    found.row("Over time")
    found.series(
        "GPUs by state",
        "Unallocated; allocated and idle; wasted, that is idle for half an hour; busy; unknown if no activity is "
        "reported. MIG instances count as a share of their GPU.",
        [("sum by (state) ({0})".format(gpus), "{{state}}")],
        "none",
        stacked=True,
        width=24,
    )
    found.bars(
        "GPU hours by state",
        "GPU hours of the last seven days.",
        "sum by (state) ({0})".format(hours),
        "{{state}}",
        "suffix:h",
        looks.PLAIN,
        width=12,
        none="No GPU hours are recorded yet.",
    )
    found.bars(
        "Wasted GPUs by profile",
        "GPUs that a job has held for half an hour while they were less than 5 % busy.",
        "sum by (profile) ({0})".format(gpus.replace("{", '{state="wasted",', 1)),
        "{{profile}}",
        "none",
        looks.NONE_IS_BEST,
        width=12,
        none="No GPU is wasted.",
    )
    return found.build()
