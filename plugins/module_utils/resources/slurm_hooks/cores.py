# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's numbers of cores. Pure.

gres.conf wants the logical number of a core as hwloc counts them (``Core L#`` of ``lstopo -l``), not the kernel's
number of a CPU: cores are counted socket by socket, within a socket NUMA node by NUMA node and cache by cache, and in
each of these by their lowest CPU. SMT siblings are one core. Machines that number CPUs round robin over the sockets,
or SMT siblings next to each other, differ from the kernel's order.
"""

from __future__ import annotations

from typing import Dict, Iterable, Sequence, Tuple

from ...facts.sysfs_numa import Cpus, NodeReading


def logical_cores(cpus: Cpus, nodes: Sequence[NodeReading]) -> Dict[int, int]:
    """Each online CPU with the logical number of its core."""
    groups = [node.cpus for node in nodes if node.cpus] + [group.cpus for group in cpus.l3_groups]
    levels: Dict[int, Tuple[int, ...]] = {}
    packages = _first_cpus([(place.package, place.cpu) for place in cpus.places])
    for place in cpus.places:
        # hwloc nests the smaller in the larger: a cache may span NUMA nodes, or a NUMA node have many caches.
        inner = sorted({(-len(group), min(group)) for group in groups if place.cpu in group})
        levels[place.cpu] = (packages[place.package], *(first for dummy, first in inner), min(place.siblings))
    order = sorted({(levels[min(place.siblings)], place.siblings) for place in cpus.places})
    return {cpu: number for number, (dummy, siblings) in enumerate(order) for cpu in siblings}


def _first_cpus(pairs: Iterable[Tuple[object, int]]) -> Dict[object, int]:
    first: Dict[object, int] = {}
    for package, cpu in pairs:
        first[package] = min(cpu, first.get(package, cpu))
    return first
