# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes: what the kubelet and the pods must say so that the kubelet itself comes to such a placement.

The kubelet chooses the CPUs. Its static policy gives whole cores to Guaranteed pods, and refuses to start without some
CPUs reserved for the system; the topology manager keeps them beside the GPU.
"""

from __future__ import annotations

from typing import List

from ...facts.sysfs import format_cpulist
from ...facts.topology.types import Topology
from ..types import Placement, Rank
from .rendered import Rendered, gpus

ORDER = "gpu"
# The kubelet's topology manager refuses more NUMA nodes without the option max-allowable-numa-nodes.
_MOST_NODES = 8


def render(placement: Placement, topology: Topology, base: str) -> Rendered:
    ranks = placement.ranks
    siblings = {cpu: group for group in topology.cpus.sibling_groups for cpu in group}
    size = min(_own_cores(placement, rank) for rank in ranks)
    if placement.idle_cpus:
        reserved = siblings.get(placement.idle_cpus[0], placement.idle_cpus[:1])
    else:
        # Nothing is idle: the first core of each NUMA node goes to the system, and each rank gives up one.
        firsts = {rank.home: rank.cores[0][0] for rank in reversed(ranks)}
        reserved = tuple(cpu for first in firsts.values() for cpu in siblings.get(first, (first,)))
        size -= 1
    cpus = max(size, 1) * topology.cpus.threads_per_core  # the kubelet counts hardware threads
    policy = "single-numa-node" if all(len(rank.numa_nodes) == 1 for rank in ranks) else "best-effort"
    lines = [
        "# KubeletConfiguration",
        "cpuManagerPolicy: static",
    ]
    if topology.cpus.threads_per_core > 1:
        lines += ["cpuManagerPolicyOptions:", '  full-pcpus-only: "true"']
    lines += [
        'reservedSystemCPUs: "{0}"'.format(format_cpulist(reserved)),
        "topologyManagerPolicy: {0}".format(policy),
        "topologyManagerScope: pod",
    ]
    options = []
    if policy == "best-effort":
        options.append('  prefer-closest-numa-nodes: "true"')
    if len(topology.numa_nodes) > _MOST_NODES:
        options.append('  max-allowable-numa-nodes: "{0}"'.format(len(topology.numa_nodes)))
    lines += (["topologyManagerPolicyOptions:"] + options) if options else []
    lines += ["# each of {0} pods: requests equal to limits, whole numbers".format(len(ranks))]
    lines += _resources(cpus, bool(gpus(placement)))
    return Rendered(
        launcher="kubernetes",
        lines=tuple(lines),
        notes=("the kubelet chooses the CPUs; a change of its policy needs its state file cpu_manager_state removed",),
    )


def _own_cores(placement: Placement, rank: Rank) -> int:
    """Cores of a rank's own; of a NUMA node that ranks share, an equal part."""
    if placement.request.bind == "core":
        return len(rank.cores)
    return len(rank.cores) // sum(1 for one in placement.ranks if one.home == rank.home)


def _resources(cpus: int, gpu: bool) -> List[str]:
    lines = ["resources:"]
    for kind in ("requests", "limits"):
        lines += ["  {0}:".format(kind), '    cpu: "{0}"'.format(cpus)]
        if gpu:
            lines.append('    nvidia.com/gpu: "1"')
        lines.append("    memory: MEMORY")
    return lines
