# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script that binds the process of one rank and then becomes the program."""

from __future__ import annotations

from ...sysfs import format_cpulist
from ..types import Placement, Rank

# What torchrun, Open MPI, Intel MPI (and MPICH), MVAPICH2 and Slurm call the number of a rank on its node. That of
# Slurm comes last: in mpirun within a job every rank has the one of the step which started mpirun.
LOCAL_RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)

_HEAD = """#!/bin/sh
# Written by gpunode pin: binds the process of each rank on this node, then becomes the program.
rank={rank}
case $rank in
"""
_TAIL = """*) echo "$0: no place for local rank '$rank'; this file was written for ranks 0 to {last}" >&2; exit 1 ;;
esac
{environment}if command -v numactl >/dev/null 2>&1 && numactl --show >/dev/null 2>&1; then
  exec numactl --physcpubind="$cpus" "$memory" "$@"
fi
exec taskset --cpu-list "$cpus" "$@"
"""


def script(placement: Placement, each_its_gpu: bool) -> str:
    """``each_its_gpu``: the process sees the one GPU of its rank; otherwise it takes the device of its local rank."""
    rank = "".join("${" + name + ":-" for name in LOCAL_RANKS) + "}" * len(LOCAL_RANKS)
    gpus = each_its_gpu and all(rank.gpu is not None for rank in placement.ranks)
    environment = "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$gpu\n" if gpus else ""
    return (
        _HEAD.format(rank=rank)
        + "".join(_line(one, gpus) for one in placement.ranks)
        + _TAIL.format(last=len(placement.ranks) - 1, environment=environment)
    )


def _line(rank: Rank, gpus: bool) -> str:
    memory = "--membind=" + format_cpulist(rank.memory_nodes) if rank.memory_nodes else "--localalloc"
    words = "cpus={0} memory={1}".format(format_cpulist(rank.cpus), memory)
    if gpus and rank.gpu is not None:
        words += " gpu={0}".format(rank.gpu.index)
    return "{0}) {1} ;;\n".format(rank.index, words)
