# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processors, caches and NUMA nodes from sysfs: what is there, what is off, what shares what."""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, List, Optional, Set, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from .sysfs import parse_cpulist, parse_int, parse_size

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"
# Arm calls its system-level cache level 3 or 4 as the maker likes; level 3 is what x86 shares per core complex.
L3 = 3


@frozen
class CpuPlace:
    """Where one online CPU sits: its package (socket), its core's number there, and the CPUs of the same core."""

    cpu: int
    package: Optional[int]
    core: Optional[int]
    siblings: Tuple[int, ...]


@frozen
class CacheGroup:
    """Online CPUs that share one level-3 cache. ``id`` is None where the kernel gives none."""

    id: Optional[int]
    cpus: Tuple[int, ...]
    size_bytes: Optional[int]


@frozen
class Cpus:
    present: Tuple[int, ...]
    online: Tuple[int, ...]
    offline: Tuple[int, ...]
    isolated: Tuple[int, ...]
    places: Tuple[CpuPlace, ...]
    l3_groups: Tuple[CacheGroup, ...]


@frozen
class NodeReading:
    """One folder /sys/devices/system/node/nodeN. ``distances`` maps the number of a node to the distance to it."""

    id: int
    cpus: Tuple[int, ...]
    memory_bytes: Optional[int]
    distances: Tuple[Tuple[int, int], ...]


def cpus(host: Host) -> Cpus:
    """What /sys/devices/system/cpu says; an offline CPU has no topology, so it has no place here."""
    present = parse_cpulist(host.read_line(CPUS + "/present")) or _cpu_folders(host)
    online = parse_cpulist(host.read_line(CPUS + "/online")) or present
    running = frozenset(online)
    places: Dict[int, CpuPlace] = {}
    groups: List[CacheGroup] = []
    grouped: Set[int] = set()
    for cpu in online:
        if cpu not in places:
            for place in _core(host, cpu, running):
                places[place.cpu] = place
        if cpu not in grouped:
            group = _l3(host, cpu, running)
            if group is not None:
                groups.append(group)
                grouped.update(group.cpus)
    return Cpus(
        present=present,
        online=online,
        offline=tuple(cpu for cpu in present if cpu not in running),
        isolated=parse_cpulist(host.read_line(CPUS + "/isolated")),
        places=tuple(places[cpu] for cpu in online),
        l3_groups=tuple(groups),
    )


def _cpu_folders(host: Host) -> Tuple[int, ...]:
    return tuple(sorted(int(name[3:]) for name in host.names(CPUS) if re.fullmatch(r"cpu\d+", name)))


def _core(host: Host, cpu: int, online: FrozenSet[int]) -> List[CpuPlace]:
    """The places of all CPUs of one core: they are read once, for the first of them."""
    folder = "{0}/cpu{1}/topology".format(CPUS, cpu)
    # core_cpus_list is the newer name (5.3) of thread_siblings_list.
    text = host.read_line(folder + "/core_cpus_list") or host.read_line(folder + "/thread_siblings_list")
    siblings = tuple(one for one in parse_cpulist(text) if one in online) or (cpu,)
    if cpu not in siblings:
        siblings = (cpu,)
    package = parse_int(host.read_line(folder + "/physical_package_id"))
    package = None if package is not None and package < 0 else package
    core = parse_int(host.read_line(folder + "/core_id"))
    return [CpuPlace(one, package, core, siblings) for one in siblings]


def _l3(host: Host, cpu: int, online: FrozenSet[int]) -> Optional[CacheGroup]:
    folder = "{0}/cpu{1}/cache".format(CPUS, cpu)
    # The highest level has the highest index, nearly always; the order only saves reads.
    for name in sorted((name for name in host.names(folder) if name.startswith("index")), reverse=True):
        index = "{0}/{1}".format(folder, name)
        if parse_int(host.read_line(index + "/level")) != L3:
            continue
        shared = tuple(one for one in parse_cpulist(host.read_line(index + "/shared_cpu_list")) if one in online)
        if cpu not in shared:
            shared = (cpu,)
        return CacheGroup(parse_int(host.read_line(index + "/id")), shared, parse_size(host.read_line(index + "/size")))
    return None


def nodes(host: Host) -> Tuple[NodeReading, ...]:
    """All NUMA nodes that are online; empty when the kernel was built without NUMA."""
    numbers = tuple(sorted(int(name[4:]) for name in host.names(NODES) if re.fullmatch(r"node\d+", name)))
    online = parse_cpulist(host.read_line(NODES + "/online")) or numbers
    return tuple(_node(host, number, online) for number in numbers if number in set(online))


def _node(host: Host, number: int, online: Tuple[int, ...]) -> NodeReading:
    folder = "{0}/node{1}".format(NODES, number)
    found = re.search(r"MemTotal:\s*(\d+ kB)", host.read(folder + "/meminfo") or "")
    row = [parse_int(part) for part in (host.read_line(folder + "/distance") or "").split()]
    # One column an online node. Another count means that a node came or went between the two reads.
    columns = zip(online, row) if len(row) == len(online) else ()
    return NodeReading(
        id=number,
        cpus=parse_cpulist(host.read_line(folder + "/cpulist")),
        memory_bytes=parse_size(found.group(1)) if found else None,
        distances=tuple((other, value) for other, value in columns if value is not None),
    )


def memory_bytes(host: Host) -> Optional[int]:
    """MemTotal of /proc/meminfo: what the kernel manages, a few percent under what is installed."""
    found = re.search(r"^MemTotal:\s*(\d+ kB)", host.read("/proc/meminfo") or "", re.MULTILINE)
    return parse_size(found.group(1)) if found else None
