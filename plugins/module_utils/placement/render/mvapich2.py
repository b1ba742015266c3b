# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MVAPICH2: one CPU list a local rank, joined by colons (user guide: MV2_CPU_MAPPING)."""

from __future__ import annotations

from ...facts.topology.types import Topology
from .. import masks
from ..types import Placement
from .rendered import Rendered, gpu_notes, omp_threads, visible_devices

ORDER = "gpu"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    environment = omp_threads(placement) + visible_devices(placement)
    environment += (
        ("MV2_ENABLE_AFFINITY", "1"),
        ("MV2_CPU_MAPPING", masks.ranges(rank.cpus for rank in placement.ranks)),
    )
    return Rendered(
        launcher="mvapich2",
        program="mpirun_rsh",
        count=("-np", str(len(placement.ranks))),
        # mpirun_rsh takes the environment of the ranks as words before the program.
        arguments=tuple("{0}={1}".format(name, value) for name, value in environment),
        notes=gpu_notes(placement) + ("mpirun_rsh also needs -hostfile FILE",),
    )
