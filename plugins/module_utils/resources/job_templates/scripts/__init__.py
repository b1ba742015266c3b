# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts themselves: text out of a topology, a profile and options. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from ....core.managed_files import Wanted
from ....core.mounts import SCRATCH
from ....facts.topology import Topology
from .. import launch
from ..options import Desired
from . import checkpoint, hpl, mpi, nccl, training
from .shell import Made

GPU_WRAPPER = "pin-gpu-ranks.sh"
MPI_WRAPPER = "pin-mpi-ranks.sh"

GPU_NAMES = (*nccl.NAMES, hpl.NAME, *training.NAMES, checkpoint.NAME, GPU_WRAPPER)
#: All that may lie in the folder.
NAMES = (*GPU_NAMES, *mpi.NAMES, MPI_WRAPPER, training.BOARD)


def render(
    topology: Topology, desired: Desired, profile: Mapping[str, Any], gpus: int, scratch: str = SCRATCH
) -> Tuple[Wanted, ...]:
    """``gpus``: how many the machine has to give; 0 leaves the scripts for GPUs out. ``scratch``: where it has its fast
    disks.

    :raises Refused: when more ranks were asked for than the machine has room for.
    """
    texts: List[Tuple[str, str]] = []
    if gpus:
        ranks = desired.gpus_per_node or gpus
        made = Made(topology, desired, profile, ranks, gpus, "{0}/{1}".format(desired.folder, GPU_WRAPPER), scratch)
        texts += nccl.render(made) + hpl.render(made) + training.render(made) + checkpoint.render(made)
        texts.append((GPU_WRAPPER, launch.wrapper_text(topology, ranks, "each", "numa")))
    ranks = desired.mpi_ranks_per_node or max(1, sum(1 for node in topology.numa_nodes if node.cpus))
    made = Made(topology, desired, profile, ranks, 0, "{0}/{1}".format(desired.folder, MPI_WRAPPER))
    texts += mpi.render(made)
    texts.append(training.board(made))
    if mpi.launched(made).wrapped:
        texts.append((MPI_WRAPPER, launch.wrapper_text(topology, ranks, "none", "core")))
    return tuple(Wanted("{0}/{1}".format(desired.folder, name), text, 0o755) for name, text in texts)
