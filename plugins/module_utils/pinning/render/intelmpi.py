# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Intel MPI: one domain a rank, as hexadecimal masks in brackets.

Domains must not overlap (developer reference, Interoperability with OpenMP API). Ranks go through the NUMA nodes in
order, so that every I_MPI_PIN_ORDER comes to the same.
"""

from __future__ import annotations

from ...topology.types import Topology
from .. import masks
from ..types import Placement, Refused
from .rendered import Rendered, omp_threads, shared_gpus, visible_devices

ORDER = "numa"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    sets = [rank.cpus for rank in placement.ranks]
    if len({cpu for one in sets for cpu in one}) < sum(len(one) for one in sets):
        raise Refused(
            "launcher intelmpi",
            "its domains must not overlap, and these ranks share CPUs",
            "give each rank cores of its own (bind core), or use the launcher numactl",
        )
    pinning = (("I_MPI_PIN", "1"), ("I_MPI_PIN_DOMAIN", "[{0}]".format(masks.masks(sets))))
    count = str(len(placement.ranks))
    return Rendered(
        launcher="intelmpi",
        program="mpirun",
        count=("-n", count, "-ppn", count),
        environment=omp_threads(placement) + visible_devices(placement) + pinning,
        notes=shared_gpus(placement),
    )
