# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's HPL: the affinity flags of hpl.sh, one part a local rank, joined by colons.

A rank keeps its whole fair share; HPL places its own threads in it. Without a wish it gets 8 threads, as NVIDIA's
sample scripts for the A100 have it, or all of a smaller share. Their number is OMP_NUM_THREADS: hpl.sh of 20.10 to 21.4
demanded --cpu-cores-per-rank and set the variable from it, the later ones end at a flag that they do not know.
"""

from __future__ import annotations

from typing import List

from ...facts.topology.types import Topology
from .. import masks
from ..types import Placement
from .rendered import Rendered, fewest_threads, flat, gpus, memory_node

ORDER = "gpu"
WHOLE_SHARE = True
THREADS = "OMP_NUM_THREADS"
_THREADS = 8


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    ranks = placement.ranks
    threads = placement.request.threads or min(_THREADS, fewest_threads(placement))
    flags = [
        ("--cpu-affinity", masks.ranges(rank.cpus for rank in ranks)),
    ]
    if gpus(placement):
        flags.append(("--gpu-affinity", _joined([str(number) for number in gpus(placement)])))
    memory = [memory_node(rank) for rank in ranks]
    if all(node is not None for node in memory):
        flags.append(("--mem-affinity", _joined([str(node) for node in memory])))
    devices = [rank.infiniband for rank in ranks if rank.infiniband]
    if len(devices) == len(ranks):
        flags.append(("--ucx-affinity", _joined(devices)))
    return Rendered(
        launcher="hpl",
        program="hpl.sh",
        application="--dat HPL.dat",
        arguments=flat([tuple(flag) for flag in flags]),
        environment=((THREADS, str(threads)),),
        notes=(
            "start it with {0} ranks a node and no binding (srun --cpu-bind=none, mpirun --bind-to none)".format(
                len(ranks)
            ),
            "hpl.sh of 20.10 to 21.4 wants --cpu-cores-per-rank {0} too, which that of later images refuses".format(
                threads
            ),
        ),
    )


def _joined(parts: List[str]) -> str:
    return ":".join(parts)
