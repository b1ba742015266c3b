# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleet: the state of all GPU nodes, and the board to open next."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .names import COUNTS, JOB, NETWORK_CHECKS, NODE, OWNER, SLOW, or_zero, owned, ports_down, worst

_CHOSEN = ("cluster", "profile")


def make() -> Any:
    what = "State of all GPU nodes. Click a number to open the dashboard with the details."
    found = Board("fleet", "GPU fleet", what, _CHOSEN)
    whole = 'GPU_I_ID=""'
    up, outcome = found.of("gpu_node:gpu_up", whole), found.of("gpu_node:node_outcome")
    nodes = found.of("gpu_node:node_gpus")
    gpus, cluster = found.of("gpu_node:fleet_gpus"), found.where(without=("profile",))
    found.row("Now")
    found.stat(
        "Unhealthy nodes",
        "Nodes whose checks fail. They accept no jobs if the health gate is on.",
        or_zero("count({0} == 3)".format(outcome), outcome),
        "none",
        looks.NONE_IS_GOOD,
        alert="GpuNodeSick",
        none="no verdicts",
        target="health",
    )
    found.stat(
        "Unknown nodes",
        "Nodes whose checks could not run or whose verdict is stale, and nodes with GPUs but without a verdict.",
        or_zero("count({0} == 2 or on ({1}) ({2} unless on ({1}) {0}))".format(outcome, NODE, nodes), nodes),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeVerdictStale",
        target="health",
    )
    found.stat(
        "GPUs lost",
        "GPUs that do not answer. DCGM does not list lost GPUs; GpuNodeGpuLost detects them by their count.",
        "sum({0} == bool 0)".format(up),
        "none",
        looks.NONE_IS_GOOD,
        alert="GpuNodeGpuLost",
        target="health",
    )
    found.stat(
        "Slowed jobs",
        "Jobs with a GPU that is slowed down by heat or power.",
        "count(count by ({0}) (gpu_node:job_slowed_gpus{{{1},{2}}} > 0)) or sum({3}) * 0".format(
            JOB, cluster, SLOW, up
        ),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeSlowedByHardware",
        target="job",
    )
    found.stat(
        "Wasted GPUs",
        "GPUs that a job has held for half an hour while they were less than 5 % busy.",
        or_zero("sum({0})".format(gpus.replace("{", '{state="wasted",', 1)), gpus),
        "none",
        looks.NONE_IS_BEST,
        alert="GpuNodeAllocatedAndIdle",
        target="capacity",
    )
    found.stat(
        "Fabric faults",
        "Nodes with a finding of a network or NVLink check.",
        or_zero(
            "count(count by ({0}) ({1}))".format(
                NODE, found.of("gpu_node_health_finding", COUNTS, 'check=~"{0}"'.format(NETWORK_CHECKS))
            ),
            outcome,
        ),
        "none",
        looks.NONE_IS_GOOD,
        none="no verdicts",
        target="fabric",
    )
    found.stat("Nodes", "Nodes with GPUs.", "count({0})".format(nodes), "none", looks.PLAIN)
    found.stat("GPUs", "GPUs that answer.", "sum({0})".format(up), "none", looks.PLAIN)
    found.stat(
        "Allocated",
        "Share of GPUs that are allocated to a job or a pod.",
        "(sum({0}) or sum({1}) * 0) / sum({1})".format(gpus.replace("{", '{state=~"busy|idle|wasted",', 1), gpus),
        "percentunit",
        looks.MORE_IS_BETTER,
        target="capacity",
    )
    found.stat(
        "Busy",
        "Share of time in which a kernel ran, over all GPUs, with or without a job.",
        "avg({0})".format(found.of("gpu_node:whole_gpu_busy:ratio")),
        "percentunit",
        looks.MORE_IS_BETTER,
        target="capacity",
    )
    found.stat(
        "Power",
        "Power of all GPUs.",
        "sum({0})".format(found.of("gpu_node:gpu_power:watts", whole)),
        "watt",
        looks.PLAIN,
        target="usage",
    )
    found.stat(
        "Ports down",
        "InfiniBand and RoCE ports that were active within seven days and are not now.",
        or_zero("count({0})".format(ports_down(cluster)), "gpu_node:ib_port_up{{{0}}}".format(cluster)),
        "none",
        looks.NONE_IS_GOOD,
        none="no ports",
        target="fabric",
    )
    found.row("Over time")
    found.series(
        "Nodes by verdict",
        "Number of nodes by the outcome of their checks.",
        [
            ('label_replace(count({0} == {1}), "outcome", "{2}", "", "")'.format(outcome, number, text), "{{outcome}}")
            for number, (text, _color) in looks.OUTCOMES.items()
        ],
        "none",
        stacked=True,
    )
    found.series(
        "GPUs by state",
        "Unallocated; allocated and idle; wasted, that is idle for half an hour; busy.",
        [("sum by (state) ({0})".format(gpus), "{{state}}")],
        "none",
        stacked=True,
    )
    found.heat(
        "Busy GPUs",
        "Number of GPUs by busy ratio. A row is named by its upper bound: 0.05 is idle, 1 is more than 0.9.",
        "sum by (le) ({0})".format(found.of("gpu_node:fleet_busy_gpus:bucket")),
        "percentunit",
    )
    found.series(
        "Slowed GPUs",
        "GPUs with reduced clocks, by reason: heat, power supply, or the configured power limit.",
        [("count by (reason) ({0})".format(found.of("gpu_node:gpu_slowed", SLOW)), "{{reason}}")],
        "none",
        alert="GpuNodeSlowedByHardware",
        none="No GPU is slowed down.",
    )
    hottest = "max by ({0}) ({1})".format(NODE, found.of("gpu_node:gpu_temperature:celsius"))
    found.series(
        "Hottest nodes",
        "Hottest GPU of each of the ten hottest nodes. A node above the others has a cooling problem.",
        [(worst(10, hottest, NODE), "{{hostname}}")],
        "celsius",
        looks.HEAT,
        alert="GpuNodeHot",
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.table(
        "Largest jobs",
        "Jobs and pods by the number of GPUs that they hold.",
        ("cluster", "hpc_job", *OWNER),
        (
            looks.Column(
                "GPUs",
                owned(
                    "topk(20, gpu_node:job_gpus{{{0}}})".format(cluster), "gpu_node:job_owner{{{0}}}".format(cluster)
                ),
                "none",
            ),
        ),
        none="No job has a GPU.",
        width=12,
        height=8,
    )
    return found.build()
