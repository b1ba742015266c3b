# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""srun: one mask a task.

The order of masks is the order of the tasks on the node. Masks are the kernel's CPU numbers and need the whole node
(srun(1): mask_cpu). No --cpus-per-task: it implies --exact, and a step of fewer CPUs than the masks name fails.
The number of tasks is told: without it a step starts as many as the job asked for (SLURM_NTASKS), and
--ntasks-per-node is only the most that a node may get.
"""

from __future__ import annotations

from ...facts.topology.types import Topology
from .. import masks
from ..types import Placement
from .rendered import Rendered, gpus, memory_node, omp_threads

ORDER = "gpu"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    numbers = gpus(placement)
    words = ["--cpu-bind=mask_cpu:" + masks.masks(rank.cpus for rank in placement.ranks)]
    if numbers:
        # A number counts among the GPUs of the job (srun(1): map_gpu), and Slurm counts those that do not answer, too.
        place = {index: number for number, index in enumerate(placement.all_gpus)}
        words.append("--gpu-bind=map_gpu:" + ",".join(str(place[number]) for number in numbers))
    if all(rank.memory_nodes for rank in placement.ranks):
        if all(len(rank.memory_nodes) == 1 for rank in placement.ranks):
            words.append("--mem-bind=map_mem:" + ",".join(str(memory_node(rank)) for rank in placement.ranks))
        else:
            sets = [masks.mask(rank.memory_nodes) for rank in placement.ranks]
            words.append("--mem-bind=mask_mem:" + ",".join("0x" + one for one in sets))
    words.append("--nodes=1")
    count = len(placement.ranks)
    notes = [
        "the job needs the whole node (sbatch --exclusive), and the step no --cpus-per-task; for more nodes like this "
        "one, --nodes and --ntasks grow with their number"
    ]
    if placement.limited:
        notes = ["srun takes masks only where a job has the whole node, and here some CPUs may not be used"]
    if numbers:
        notes.append(
            "with --gpu-bind each task sees one GPU, as device 0; leave it out if tasks choose by SLURM_LOCALID"
        )
    return Rendered(
        launcher="srun",
        program="srun",
        count=("--ntasks={0}".format(count), "--ntasks-per-node={0}".format(count)),
        arguments=tuple(words),
        environment=omp_threads(placement),
        notes=tuple(notes),
    )
