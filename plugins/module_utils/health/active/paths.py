# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which copies share a path, so that those that share none run side by side. Pure.

A path is a set of names: the PCIe bridges and the root complex above a GPU, and the memory of its NUMA node. Two copies
share a path when their sets have a name in common. Where the machine does not show a path, as for a GPU without a NUMA
node, the set has every name: then copies take turns, which takes longer and is never wrong.
"""

from __future__ import annotations

from typing import Callable, FrozenSet, List, Optional, Sequence, Set, Tuple, TypeVar

from ...facts.topology.types import Placement, Topology

Path = FrozenSet[str]
Pair = Tuple[int, int]
Item = TypeVar("Item")
_MEMORY = "memory of NUMA node {0}"
_BETWEEN = "link between processors"


def host_paths(addresses: Sequence[str], topology: Topology) -> Tuple[Path, ...]:
    """For each GPU (PCI address), the path of a copy between it and the memory of its NUMA node."""
    places = {gpu.placement.pci_address: gpu.placement for gpu in topology.gpus}
    memories = frozenset(_MEMORY.format(node.id) for node in topology.numa_nodes)
    every = memories.union(*(place.pcie_path for place in places.values()))
    return tuple(_host_path(places.get(address), memories, every) for address in addresses)


def _host_path(place: Optional[Placement], memories: Path, every: Path) -> Path:
    if place is None or not place.pcie_path:
        return every
    own = memories if place.numa_node is None else frozenset([_MEMORY.format(place.numa_node)])
    return own.union(place.pcie_path)


def waits_for(paths: Sequence[Path]) -> Tuple[Tuple[int, ...], ...]:
    """For each GPU, the earlier ones that share its path: it copies after all of them."""
    return tuple(tuple(other for other in range(one) if paths[one] & paths[other]) for one in range(len(paths)))


def sharers(paths: Sequence[Path]) -> Tuple[Tuple[int, int], ...]:
    """For each GPU: how many GPUs, itself included, share its PCIe path, and how many its memory."""
    pcie = [frozenset(name for name in path if not name.startswith(_MEMORY[:-3])) for path in paths]
    memory = [path - buses for path, buses in zip(paths, pcie)]
    return tuple(
        (
            sum(1 for other in pcie if one & other or one is other),
            sum(1 for other in memory if own & other or own is other),
        )
        for one, own in zip(pcie, memory)
    )


def pair_path(pair: Pair, linked: bool, paths: Sequence[Path]) -> Path:
    """What a copy between two GPUs passes. NVLinks, to the other GPU or to NVSwitches, belong to one GPU each; without
    them it goes over PCIe, and from one processor to another where the two are not near to the same."""
    one, other = pair
    gpus = frozenset("GPU {0}".format(gpu) for gpu in pair)
    if linked:
        return gpus
    between = frozenset() if paths[one] & paths[other] else frozenset([_BETWEEN])
    return gpus.union(paths[one], paths[other], between)


def tournament(count: int) -> Tuple[Pair, ...]:
    """Every ordered pair of that many GPUs once, in the order of a round-robin tournament: first one way of all pairs
    of a round, then the other way."""
    first, *others = range(count + count % 2)
    half = (1 + len(others)) // 2
    order: List[Pair] = []
    for turn in range(len(others)):
        places = [first, *others[turn:], *others[:turn]]
        pairs = [pair for pair in zip(places[:half], reversed(places[half:])) if max(pair) < count]
        order += pairs
        order += [(other, one) for one, other in pairs]
    return tuple(order)


def rounds(items: Sequence[Item], path: Callable[[Item], Path]) -> Tuple[Tuple[Item, ...], ...]:
    """Each item in the first round where no other one shares its path."""
    made: List[Tuple[List[Item], Set[str]]] = []
    for item in items:
        wanted = path(item)
        fitting = next((one for one in made if not one[1] & wanted), None)
        if fitting is None:
            fitting = ([], set())
            made.append(fitting)
        fitting[0].append(item)
        fitting[1].update(wanted)
    return tuple(tuple(members) for members, dummy in made)


def shifted(count: int) -> Tuple[Tuple[Pair, ...], ...]:
    """Rounds in which all GPUs copy at once, each (source, target): every GPU sends to one and receives from another,
    and meets each other one once."""
    return tuple(tuple(((one + step) % count, one) for one in range(count)) for step in range(1, count))
