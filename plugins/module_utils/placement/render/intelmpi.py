# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel MPI: one domain a rank, as hexadecimal masks in brackets, the first for local rank 0.

Every mask begins with 0x: the pinning of 2021.18 refuses others and then pins as it likes, the older one
(I_MPI_HYDRA_TOPOLIB=ipl) takes both. Both were run, and both took domains that overlap, of which the developer
reference (Interoperability with OpenMP API) knows nothing.
"""

from __future__ import annotations

from ...facts.topology.types import Topology
from .. import masks
from ..types import Placement
from .rendered import Rendered, gpu_notes, omp_threads, visible_devices

ORDER = "gpu"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    sets = [rank.cpus for rank in placement.ranks]
    notes = gpu_notes(placement)
    if len({cpu for one in sets for cpu in one}) < sum(len(one) for one in sets):
        notes += ("these domains overlap: Intel's reference knows only separate ones, Intel MPI 2021.18 takes both",)
    pinning = (
        ("I_MPI_PIN", "1"),
        ("I_MPI_PIN_DOMAIN", "[{0}]".format(",".join("0x" + masks.mask(one) for one in sets))),
    )
    count = str(len(placement.ranks))
    return Rendered(
        launcher="intelmpi",
        program="mpirun",
        count=("-n", count, "-ppn", count),
        environment=omp_threads(placement) + visible_devices(placement) + pinning,
        notes=notes,
    )
