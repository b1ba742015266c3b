# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LSF: how many cores a task needs, and that they belong together. LSF chooses which ones."""

from __future__ import annotations

from ...facts.topology.types import Topology
from ..types import Placement, Refused
from .rendered import Rendered, gpus, omp_threads

ORDER = "gpu"


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    # With bind numa a task may run on the whole node; what is reserved for it is its own part.
    whole_node = placement.request.bind == "numa"
    sizes = sorted({rank.threads if whole_node else len(rank.cpus) for rank in placement.ranks})
    if len(sizes) > 1:
        raise Refused(
            "launcher lsf",
            "an affinity string gives all tasks as many cores, and these ranks have {0}".format(
                " or ".join(str(size) for size in sizes)
            ),
            "ask for {0} threads a rank".format(sizes[0]),
        )
    unit = "thread" if any(len(core) > 1 for rank in placement.ranks for core in rank.cores) else "core"
    one_node = all(len(rank.numa_nodes) == 1 for rank in placement.ranks)
    affinity = "affinity[{0}({1}{2}):cpubind={3}:membind={4}:distribute=balance]".format(
        unit,
        sizes[0],
        ",same=numa" if one_node else "",
        "numa" if whole_node else unit,
        "localonly" if one_node else "localprefer",
    )
    count = len(placement.ranks)
    arguments = ["-R", "span[ptile={0}]".format(count), "-R", affinity]
    numbers = set(gpus(placement))
    if numbers:
        arguments += ["-gpu", "num={0}:mode=shared:j_exclusive=yes".format(len(numbers))]
    return Rendered(
        launcher="lsf",
        program="bsub",
        count=("-n", str(count)),
        arguments=tuple(arguments),
        environment=omp_threads(placement),
        notes=("LSF chooses the cores itself: gpunode pin check tells whether a rank sits beside its GPU",),
    )
