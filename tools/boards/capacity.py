# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity: how much of what is paid for computes."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board, Column

_CHOSEN = ("cluster", "profile")


def make() -> Any:
    what = "How much of what is paid for computes: GPUs that nobody has, that jobs leave idle, and that work."
    found = Board("capacity", "GPU capacity", what, _CHOSEN, since="now-7d")
    gpus, hours = found.of("gpu_node:fleet_gpus"), found.of("gpu_node:fleet_gpu_hours:7d")
    whole = 'GPU_I_ID=""'

    def share(of: str, states: str) -> str:
        """Of the GPUs; zero where none is in such a state."""
        return "(sum({0}) or sum({1}) * 0) / sum({1})".format(of.replace("{", '{{state=~"{0}",'.format(states), 1), of)

    found.row("Now")
    found.stat(
        "Allocated",
        "Share of GPUs that a job has.",
        share(gpus, "busy|idle|wasted"),
        "percentunit",
        board.MORE_IS_BETTER,
    )
    found.stat(
        "Busy", "Share of GPUs on which a job's kernels run.", share(gpus, "busy"), "percentunit", board.MORE_IS_BETTER
    )
    found.stat(
        "Wasted",
        "Share of GPUs that a job has had for half an hour without use.",
        share(gpus, "wasted"),
        "percentunit",
        ((None, "green"), (0.05, "orange"), (0.2, "red")),
        alert="GpuNodeAllocatedAndIdle",
    )
    found.stat(
        "Tensor cores",
        "Mean activity over all GPUs: how much of the arithmetic that was bought is used.",
        "avg({0})".format(found.of("gpu_node:gpu_tensor_active:ratio", whole)),
        "percentunit",
        board.PLAIN,
    )
    found.stat(
        "Power", "Of all GPUs.", "sum({0})".format(found.of("gpu_node:gpu_power:watts", whole)), "watt", board.PLAIN
    )
    found.stat(
        "GPU hours busy",
        "Of the last seven days.",
        "sum({0})".format(hours.replace("{", '{state="busy",', 1)),
        "h",
        board.PLAIN,
        none="not told yet",
    )
    found.row("Over time")
    found.series(
        "GPUs by what they do",
        "Unallocated, of a job and idle, of a job and wasted (idle for half an hour), busy.",
        [("sum by (state) ({0})".format(gpus), "{{state}}")],
        "none",
        stacked=True,
        width=24,
    )
    found.bars(
        "GPU hours of seven days",
        "By what the GPUs did.",
        "sum by (state) ({0})".format(hours),
        "{{state}}",
        "h",
        board.PLAIN,
    )
    found.bars(
        "Wasted by profile",
        "GPUs of jobs that do nothing.",
        "sum by (profile) ({0})".format(gpus.replace("{", '{state="wasted",', 1)),
        "{{profile}}",
        "none",
        board.NONE_IS_BEST,
    )
    found.bars(
        "Lost and out of service",
        "GPUs on nodes that are sick.",
        "count by (cluster) (gpu_node:gpu_up{{{0},{1}}} and on (cluster, hostname) "
        '(gpu_node_health_outcome{{outcome="fail"}} == 1))'.format(found.where(), whole),
        "{{cluster}}",
        "none",
        board.NONE_IS_BEST,
        alert="GpuNodeSick",
    )
    cluster = found.where(without=("profile",))
    found.table(
        "Jobs by energy",
        "Energy of each within the last seven days, and what it made of it.",
        ("cluster", "hpc_job"),
        (
            Column("energy", "gpu_node:job_energy:joules{{{0}}}".format(cluster), "joule"),
            Column("GPUs", "gpu_node:job_gpus{{{0}}}".format(cluster), "none"),
            Column("busy", "gpu_node:job_busy:ratio{{{0}}}".format(cluster), "percentunit", board.MORE_IS_BETTER),
            Column("tensor cores", "gpu_node:job_tensor_active:ratio{{{0}}}".format(cluster), "percentunit"),
        ),
    )
    return found.build()
