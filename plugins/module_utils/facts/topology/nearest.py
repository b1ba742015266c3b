# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which partner is nearest to each device: by common PCIe ancestor, then NUMA node, then distance.

Many partners can be equally near (on Azure every device has a PCI domain of its own, so only the NUMA node tells
them apart). They are shared out in the order of PCI addresses: of four GPUs and four InfiniBand devices on one
node, the first goes with the first. That is how those machines are cabled, and what NCCL's topology files say.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..sysfs import InfinibandPort, pci_key
from .types import Infiniband, Nearest, Placement

Distances = Mapping[Tuple[int, int], int]
# Named devices: a device's name and where it sits.
Placed = Sequence[Tuple[str, Placement]]

# Larger than any distance (the kernel's are at most 254): the distance is not known.
_FAR = 1000


def pair(devices: Placed, partners: Placed, distances: Distances) -> Dict[str, Nearest]:
    """The nearest partner of every device; empty when there are no partners."""
    # A virtual function shares its port with the physical one, which is listed as well.
    physical = [one for one in partners if not one[1].virtual_function] or list(partners)
    ordered = sorted(physical, key=_order)
    chosen: Dict[str, Tuple[Tuple[int, int], Tuple[str, ...]]] = {}
    places = dict(ordered)
    for name, place in devices:
        keys = [(_closeness(place, partner, distances), other) for other, partner in ordered if other != name]
        if keys:
            best = min(key for key, dummy in keys)
            chosen[name] = (best, tuple(other for key, other in keys if key == best))
    # Devices that see the same equally near partners share them out among themselves.
    sharing: Dict[Tuple[str, ...], List[str]] = {}
    for name, _dummy in sorted(devices, key=_order):
        if name in chosen:
            sharing.setdefault(chosen[name][1], []).append(name)
    result = {}
    sits = dict(devices)
    for equals, names in sharing.items():
        for position, name in enumerate(names):
            partner = equals[position * len(equals) // len(names)]
            relation, distance = _relation(sits[name], places[partner], distances)
            result[name] = Nearest(partner, equals, relation, distance)
    return result


def fabric(devices: Sequence[Infiniband], near: Sequence[Placement]) -> List[Infiniband]:
    """The devices that the traffic of jobs goes over; ``near``: where the GPUs sit.

    A port that is down carries none: NCCL leaves it out, too (ncclIbInit in src/transport/net_ib). Accelerated Ethernet
    (mlx5_an0 on Azure) is none where InfiniBand is up, and a port slower than the fastest is one for management or
    storage, unless a PCIe bridge puts it beside a GPU: then it is this GPU's own, only slow. Where every port is down,
    all count as if they were up.
    """
    carry = {one.name: [port for port in one.ports if port.state in (None, "ACTIVE")] for one in devices}
    if not any(carry.values()):
        carry = {one.name: list(one.ports) for one in devices}
    up = [one for one in devices if carry[one.name]] or list(devices)
    chosen = [one for one in up if any(port.link_layer == "InfiniBand" for port in carry[one.name])] or up
    rates = {one.name: _rate(carry[one.name]) for one in chosen}
    fastest = max((rate for rate in rates.values() if rate is not None), default=0.0)
    return [
        one
        for one in chosen
        if (rates[one.name] or fastest) >= fastest or any(_common(one.placement, place) > 1 for place in near)
    ]


def _rate(ports: Sequence[InfinibandPort]) -> Optional[float]:
    return max((one.rate_gigabits_per_second for one in ports if one.rate_gigabits_per_second), default=None)


def _order(one: Tuple[str, Placement]) -> Tuple[Tuple[int, int, int, int], str]:
    return (pci_key(one[1].pci_address or ""), one[0])


def _common(first: Placement, second: Placement) -> int:
    """How many leading parts of their PCIe paths two devices share: 1 is the root complex, more are bridges."""
    count = 0
    for one, other in zip(first.pcie_path, second.pcie_path):
        if one != other:
            break
        count += 1
    return count


def _closeness(first: Placement, second: Placement, distances: Distances) -> Tuple[int, int]:
    distance = _distance(first, second, distances)
    same_node = first.numa_node is not None and first.numa_node == second.numa_node
    return (-_common(first, second), 0 if same_node else _FAR if distance is None else distance)


def _distance(first: Placement, second: Placement, distances: Distances) -> Optional[int]:
    if first.numa_node is None or second.numa_node is None:
        return None
    return distances.get((first.numa_node, second.numa_node))


def _relation(first: Placement, second: Placement, distances: Distances) -> Tuple[str, Optional[int]]:
    distance = _distance(first, second, distances)
    common = _common(first, second)
    if common > 1:
        return "pcie", distance
    if common == 1:
        return "root_complex", distance
    if first.numa_node is None or second.numa_node is None:
        return "unknown", None
    return ("numa_node" if first.numa_node == second.numa_node else "other_numa_node"), distance
