# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether processes have cores enough for their threads, and which do not: a maximum flow from processes to cores.

Masks that overlap are no fault by themselves: two ranks on the whole of a NUMA node of 24 cores find a core each. They
are crowded when no assignment gives every thread a core of its own. The flow finds the largest assignment; what it
leaves over names the processes and the cores (Hall's theorem: a crowded group has fewer cores than threads).
"""

from __future__ import annotations

import collections
from typing import Dict, FrozenSet, List, Mapping, Sequence, Set, Tuple

from ...core.frozen import frozen


@frozen
class Crowd:
    """Processes that have fewer cores together than threads that want one."""

    pids: Tuple[int, ...]
    threads: int
    cores: FrozenSet[int]


def crowds(wants: Mapping[int, Tuple[int, FrozenSet[int]]]) -> List[Crowd]:
    """``wants``: process → how many cores its threads need, and the cores they may run on."""
    groups: Dict[FrozenSet[int], List[int]] = {}
    for pid, (count, cores) in sorted(wants.items()):
        if count and cores:
            groups.setdefault(cores, []).append(pid)
    sets = sorted(groups, key=lambda cores: (len(cores), sorted(cores)))
    demand = [sum(wants[pid][0] for pid in groups[cores]) for cores in sets]
    holder: Dict[int, int] = {}  # core → the group that has it
    left = list(demand)
    for group in range(len(sets)):
        while left[group] and _augment(group, sets, holder):
            left[group] -= 1
    reached: Set[int] = set()
    for group in range(len(sets)):
        if left[group]:
            reached |= _reach(group, sets, holder)
    return [_crowd(cluster, sets, demand, groups) for cluster in _clusters(reached, sets)]


def _augment(start: int, sets: Sequence[FrozenSet[int]], holder: Dict[int, int]) -> bool:
    """Find one more core for a group; others move on to other cores of theirs where that helps."""
    came_from: Dict[int, Tuple[int, int]] = {}  # group → (group before it, the core it would give up)
    queue = collections.deque([start])
    while queue:
        group = queue.popleft()
        for core in sets[group]:
            owner = holder.get(core)
            if owner is None:
                while True:
                    holder[core] = group
                    if group == start:
                        return True
                    group, core = came_from[group]
            if owner != start and owner not in came_from:
                came_from[owner] = (group, core)
                queue.append(owner)
    return False


def _reach(start: int, sets: Sequence[FrozenSet[int]], holder: Mapping[int, int]) -> Set[int]:
    """The groups whose cores are all taken from the point of view of one that got too few."""
    seen = {start}
    queue = collections.deque([start])
    while queue:
        group = queue.popleft()
        for core in sets[group]:
            owner = holder.get(core, group)
            if owner not in seen:
                seen.add(owner)
                queue.append(owner)
    return seen


def _clusters(groups: Set[int], sets: Sequence[FrozenSet[int]]) -> List[Set[int]]:
    """Groups that share cores belong together."""
    clusters: List[Set[int]] = []
    for group in sorted(groups):
        joined = {group}
        for cluster in [one for one in clusters if any(sets[group] & sets[other] for other in one)]:
            clusters.remove(cluster)
            joined |= cluster
        clusters.append(joined)
    return sorted(clusters, key=min)


def _crowd(
    cluster: Set[int],
    sets: Sequence[FrozenSet[int]],
    demand: Sequence[int],
    groups: Mapping[FrozenSet[int], Sequence[int]],
) -> Crowd:
    pids = sorted(pid for group in cluster for pid in groups[sets[group]])
    cores = frozenset(core for group in cluster for core in sets[group])
    return Crowd(tuple(pids), sum(demand[group] for group in cluster), cores)
