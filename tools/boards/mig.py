# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG: the instances of GPUs, and whether they are used."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .looks import Column
from .names import PLACE, or_zero

_CHOSEN = ("cluster", "hostname")
_BY = ("cluster", "hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE")
_LINE = "GPU {{gpu}}:{{GPU_I_ID}} {{GPU_I_PROFILE}}"


def make() -> Any:
    of = dict.fromkeys(_CHOSEN, 'gpu_node:gpu_memory_total:bytes{GPU_I_ID!=""}')
    what = "GPUs that are divided into MIG instances, and who uses the instances."
    found = Board("mig", "MIG instances", what, _CHOSEN, of=of)
    part = 'GPU_I_ID!=""'
    memory, job = found.of("gpu_node:gpu_memory_total:bytes", part), found.of("gpu_node:gpu_job", part)
    used = "{0} / {1}".format(found.of("gpu_node:gpu_memory_used:bytes", part), memory)
    found.row("Now")
    found.stat("Instances", "MIG instances.", "count({0})".format(memory), "none", looks.PLAIN, none="none")
    found.stat(
        "Divided GPUs",
        "GPUs that have instances.",
        "count(count by (cluster, hostname, gpu) ({0}))".format(memory),
        "none",
        looks.PLAIN,
        none="none",
    )
    found.stat(
        "Allocated",
        "Instances that a job or a pod has.",
        or_zero("count(group by ({0}) ({1}))".format(PLACE, job), memory),
        "none",
        looks.PLAIN,
        none="none",
    )
    found.stat(
        "Memory in use",
        "Share of the memory of all instances.",
        "sum({0}) / sum({1})".format(found.of("gpu_node:gpu_memory_used:bytes", part), memory),
        "percentunit",
        looks.PLAIN,
        none="none",
    )
    found.bars(
        "Instances by profile",
        "Number of instances of each MIG profile.",
        "count by (GPU_I_PROFILE) ({0})".format(memory),
        "{{GPU_I_PROFILE}}",
        "none",
        looks.PLAIN,
        height=4,
        none="No GPU is divided.",
    )
    found.table(
        "Instances",
        "All instances, the least active first.",
        _BY,
        (
            Column("active", found.of("gpu_node:gpu_sm_active:ratio", part), "percentunit", looks.MORE_IS_BETTER),
            Column("tensor cores", found.of("gpu_node:gpu_tensor_active:ratio", part), "percentunit"),
            Column("memory in use", used, "percentunit"),
            Column("jobs", job, "none", how="count"),
        ),
        none="No GPU of these nodes is divided.",
        ascending=True,
    )
    found.row("Use of $hostname", repeat="hostname")
    found.series(
        "Active multiprocessors",
        "Share of the multiprocessors of each instance. The utilisation of the whole GPU does not show this.",
        [(found.of("gpu_node:gpu_sm_active:ratio", part), _LINE)],
        "percentunit",
        width=8,
    )
    found.series(
        "Tensor cores",
        "Share of cycles in which the tensor cores of each instance worked.",
        [(found.of("gpu_node:gpu_tensor_active:ratio", part), _LINE)],
        "percentunit",
        width=8,
    )
    found.series(
        "Memory in use",
        "An instance near its limit needs a larger profile, one far below it a smaller profile.",
        [(found.of("gpu_node:gpu_memory_used:bytes", part), _LINE)],
        "bytes",
        width=8,
    )
    return found.build()
