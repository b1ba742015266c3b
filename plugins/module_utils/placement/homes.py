# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NUMA node each rank belongs on: that of its GPU, or spread over the nodes where it has none."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from .machine import Machine, Node
from .types import RankGpu

#: Of each rank: its GPU, and the number of the NUMA node that it is placed on.
Homes = List[Tuple[Optional[RankGpu], int]]


def of_gpus(machine: Machine, gpus: Sequence[RankGpu], order: str) -> Homes:
    """Each rank beside its GPU; one whose node has no core to use goes to the nearest node that has some."""
    found: List[Tuple[RankGpu, Optional[int]]] = []
    load: Dict[int, int] = {node.id: 0 for node in machine.nodes}
    for gpu in gpus:
        home = None if gpu.numa_node is None else machine.nearest(gpu.numa_node).id
        if home is not None:
            load[home] += 1
        found.append((gpu, home))
    homes: Homes = []
    for gpu, home in found:
        if home is None:  # the firmware tells no node for it: where the most cores are left a rank
            home = min(machine.nodes, key=lambda node: ((load[node.id] + 1) / len(node.cores), node.id)).id
            load[home] += 1
        homes.append((gpu, home))
    if order == "numa":
        homes.sort(key=lambda one: one[1])
    return homes


def spread(machine: Machine, ranks: int, need: int) -> Optional[Homes]:
    """Ranks without a GPU, each on a node with ``need`` cores left for it; None when they do not fit so."""
    rooms = [(node, len(node.cores) // need) for node in machine.nodes if len(node.cores) >= need]
    if sum(room for dummy, room in rooms) < ranks:
        return None
    if ranks <= len(rooms):
        return [(None, node.id) for node in _apart([node for node, dummy in rooms], ranks)]
    counts = [0] * len(rooms)
    for _dummy in range(ranks):
        # By the size of the nodes, so that ranks get equal shares where a cpuset leaves one node less than another.
        open_ones = [place for place, (node, room) in enumerate(rooms) if counts[place] < room]
        counts[min(open_ones, key=lambda place: ((counts[place] + 1) / len(rooms[place][0].cores), place))] += 1
    return [(None, node.id) for (node, room), count in zip(rooms, counts) for dummy in range(count)]


def anywhere(machine: Machine, ranks: int) -> Homes:
    """Ranks without a GPU that need more than one node each, or share cores: by the size of the nodes alone."""
    if ranks <= len(machine.nodes):
        return [(None, node.id) for node in _apart(machine.nodes, ranks)]
    ordered = [node.id for node in machine.nodes for dummy in node.cores]
    return [(None, ordered[rank * len(ordered) // ranks]) for rank in range(ranks)]


def _apart(nodes: Sequence[Node], count: int) -> List[Node]:
    """``count`` of the nodes, none of them smaller than one that is left out, as far from each other as numbers go."""
    smallest = sorted((len(node.cores) for node in nodes), reverse=True)[count - 1]
    fit = [node for node in nodes if len(node.cores) >= smallest]
    return [fit[place * len(fit) // count] for place in range(count)]
