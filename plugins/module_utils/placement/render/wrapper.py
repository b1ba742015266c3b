# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script that binds the process of one rank and then becomes the program."""

from __future__ import annotations

import shlex

from ...facts.sysfs import format_cpulist
from ..types import Placement, Rank
from .rendered import File, cuda_devices, device_order

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
    devices = cuda_devices(placement) if each_its_gpu else ()
    words = ["{0}={1}".format(name, value) for name, value in device_order(placement)] + ["CUDA_VISIBLE_DEVICES=$gpu"]
    environment = "export {0}\n".format(" ".join(words)) if devices else ""
    return (
        _HEAD.format(rank=rank)
        + "".join(_line(*one) for one in zip(placement.ranks, devices or ("",) * len(placement.ranks)))
        + _TAIL.format(last=len(placement.ranks) - 1, environment=environment)
    )


def _line(rank: Rank, device: str) -> str:
    memory = "--membind=" + format_cpulist(rank.memory_nodes) if rank.memory_nodes else "--localalloc"
    words = "cpus={0} memory={1}".format(format_cpulist(rank.cpus), memory)
    if device:
        words += " gpu={0}".format(shlex.quote(device))
    return "{0}) {1} ;;\n".format(rank.index, words)


def path_of(file: File) -> str:
    """The script as a word of a command: with a slash, so that it is not looked for in PATH."""
    return file.name if "/" in file.name else "./" + file.name
