# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MIG: the instances of GPUs, and whether they are used."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board, Column
from .names import PLACE, or_zero

_CHOSEN = ("cluster", "hostname")
_BY = "hostname, gpu, GPU_I_ID, GPU_I_PROFILE"


def make() -> Any:
    of = {one: "gpu_node:gpu_memory_total:bytes" for one in _CHOSEN}
    found = Board(
        "mig", "MIG instances", "GPUs that are divided: which instances there are, and who uses them.", _CHOSEN, of=of
    )
    part = 'GPU_I_ID!=""'
    memory = found.of("gpu_node:gpu_memory_total:bytes", part)
    found.row("Now")
    found.stat("Instances", "GPU instances.", "count({0})".format(memory), "none", board.PLAIN, none="none")
    found.stat(
        "GPUs divided",
        "GPUs that have instances.",
        "count(count by (cluster, hostname, gpu) ({0}))".format(memory),
        "none",
        board.PLAIN,
        none="none",
    )
    found.stat(
        "Instances of jobs",
        "Instances that a job has.",
        or_zero("count(group by ({0}) ({1}))".format(PLACE, found.of("gpu_node:gpu_job", part)), memory),
        "none",
        board.PLAIN,
        none="none",
    )
    found.stat(
        "Memory in use",
        "Share of the memory of all instances.",
        "sum({0}) / sum({1})".format(found.of("gpu_node:gpu_memory_used:bytes", part), memory),
        "percentunit",
        board.PLAIN,
        none="none",
    )
    found.bars(
        "By profile",
        "How many instances there are of each profile.",
        "count by (GPU_I_PROFILE) ({0})".format(memory),
        "{{GPU_I_PROFILE}}",
        "none",
        board.PLAIN,
    )
    found.row("Use of $hostname", repeat="hostname")
    found.series(
        "Multiprocessors active, by instance",
        "Share of those of the instance. The utilisation of a whole GPU says nothing of its instances.",
        [(found.of("gpu_node:gpu_sm_active:ratio", part), "GPU {{gpu}} instance {{GPU_I_ID}} ({{GPU_I_PROFILE}})")],
        "percentunit",
    )
    found.series(
        "Tensor cores, by instance",
        "Share of cycles in which they worked.",
        [(found.of("gpu_node:gpu_tensor_active:ratio", part), "GPU {{gpu}} instance {{GPU_I_ID}} ({{GPU_I_PROFILE}})")],
        "percentunit",
    )
    found.series(
        "Memory in use, by instance",
        "Near its limit a larger profile is wanted, far below it a smaller one.",
        [(found.of("gpu_node:gpu_memory_used:bytes", part), "GPU {{gpu}} instance {{GPU_I_ID}} ({{GPU_I_PROFILE}})")],
        "bytes",
    )
    found.table(
        "Instances",
        "All of them, with the share of their memory that is in use.",
        ("hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"),
        (
            Column(
                "memory in use",
                "max by ({0}) ({1} / {2})".format(_BY, found.of("gpu_node:gpu_memory_used:bytes", part), memory),
                "percentunit",
            ),
            Column(
                "active",
                "max by ({0}) ({1})".format(_BY, found.of("gpu_node:gpu_sm_active:ratio", part)),
                "percentunit",
                board.MORE_IS_BETTER,
            ),
            Column("jobs", "count by ({0}) ({1})".format(_BY, found.of("gpu_node:gpu_job", part)), "none"),
        ),
        width=12,
    )
    return found.build()
