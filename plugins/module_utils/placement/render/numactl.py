# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""numactl: one line a rank, and a script that a launcher starts in place of the program.

Without NUMA in the kernel numactl does nothing but fail, so taskset stands in.
"""

from __future__ import annotations

import shlex
from typing import List

from ...facts.sysfs import format_cpulist
from ...facts.topology.types import Topology
from ..types import Placement, Rank
from .rendered import File, Rendered, cuda_devices, device_order, omp_threads
from .wrapper import script

ORDER = "gpu"


def binding(rank: Rank, numa: bool) -> List[str]:
    """The words before the program."""
    cpus = format_cpulist(rank.cpus)
    if not numa:
        return ["taskset", "--cpu-list", cpus]
    memory = ["--membind=" + format_cpulist(rank.memory_nodes)] if rank.memory_nodes else ["--localalloc"]
    return ["numactl", "--physcpubind=" + cpus, *memory]


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    exports = omp_threads(placement)
    exports += device_order(placement)
    devices = cuda_devices(placement) or ("",) * len(placement.ranks)
    lines = ["export " + " ".join("{0}={1}".format(name, value) for name, value in exports)] if exports else []
    for rank, device in zip(placement.ranks, devices):
        words = ["CUDA_VISIBLE_DEVICES={0}".format(shlex.quote(device))] if device else []
        lines.append(" ".join(words + binding(rank, placement.numa) + ["PROGRAM"]))
    return Rendered(
        launcher="numactl",
        lines=tuple(lines),
        files=(File(base + ".sh", script(placement, each_its_gpu=True), executable=True),),
        notes=(
            "any launcher that binds nothing itself (mpirun --bind-to none) can start the script before the program",
        ),
    )
