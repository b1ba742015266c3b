# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and requests out of hypothesis."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs, sysfs_numa, topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Refused, Request, place

GPU, INFINIBAND = 0x030200, 0x020700


@st.composite
def machines(draw):
    """Any number of sockets, NUMA nodes, caches, cores and threads; CPUs offline; devices anywhere or nowhere."""
    threads = draw(st.integers(1, 2))
    per_package = draw(st.integers(1, 3))
    caches = [
        (package, package * per_package + node, draw(st.integers(1, 4)))
        for package in range(draw(st.integers(1, 2)))
        for node in range(per_package)
        for _cache in range(draw(st.integers(0, 3)))
    ] or [(0, 0, 1)]
    cores = sum(size for dummy, dummy, size in caches)
    beside = draw(st.booleans())  # CPU 0 and 1 share a core, or 0 and the one half way on
    order = list(range(cores))
    if draw(st.booleans()):
        order = order[::2] + order[1::2]  # sockets numbered in turns
    places, groups, node_cpus = [], [], {}
    number = 0
    online = set(range(cores * threads)) - set(draw(st.sets(st.integers(0, cores * threads - 1), max_size=3)))
    online = online or {0}
    for package, node, size in caches:
        members = []
        for _core in range(size):
            first = order[number]
            number += 1
            cpus = [first * threads + t if beside else first + t * cores for t in range(threads)]
            cpus = tuple(sorted(cpu for cpu in cpus if cpu in online))
            members += cpus
            places += [sysfs_numa.CpuPlace(cpu, package, first, cpus) for cpu in cpus]
        node_cpus.setdefault(node, []).extend(members)
        if members and draw(st.integers(0, 9)):
            groups.append(sysfs_numa.CacheGroup(draw(st.sampled_from([None, len(groups)])), tuple(sorted(members)), 1))
    nodes = sorted(node_cpus)
    if draw(st.integers(0, 4)) == 0:
        nodes.append(nodes[-1] + 2)  # memory of a device
    readings = [
        sysfs_numa.NodeReading(
            node,
            tuple(sorted(node_cpus.get(node, ()))),
            draw(st.sampled_from([1 << 30, 1 << 30, 0])),
            tuple((other, 10 if other == node else 12 if abs(other - node) == 1 else 32) for other in nodes),
        )
        for node in nodes
    ]
    numa = draw(st.integers(0, 9)) > 0
    where = st.sampled_from([*nodes, None])
    gpus = [_function(place, GPU, draw(where)) for place in range(draw(st.integers(0, 6)))]
    cards = [_function(16 + place, INFINIBAND, draw(where)) for place in range(draw(st.integers(0, 3)))]
    port = sysfs.InfinibandPort(1, "ACTIVE", "LinkUp", 200.0, "InfiniBand")
    reading = topology.Reading(
        cpus=sysfs_numa.Cpus(
            present=tuple(range(cores * threads)),
            online=tuple(sorted(online)),
            offline=tuple(sorted(set(range(cores * threads)) - online)),
            isolated=(),
            places=tuple(sorted(places, key=lambda place: place.cpu)),
            l3_groups=tuple(groups),
        ),
        nodes=tuple(readings) if numa else (),
        memory_bytes=1 << 30,
        gpus=tuple(gpus),
        nvswitches=(),
        infiniband=tuple(
            sysfs.InfinibandDevice("mlx5_{0}".format(place), None, None, (), one.numa_node, one, (port,))
            for place, one in enumerate(cards)
        ),
        nvme=(),
    )
    return topology.build(reading, (), "NVML was not asked")


def _function(place, code, node):
    return sysfs.PciFunction("{0:04x}:00:00.0".format(place + 1), 0x10DE, 1, code, node, (), (), "nvidia", None)


#: Anything that can be asked for, most of it in vain.
requests = st.builds(
    Request,
    ranks=st.integers(-1, 14),
    threads=st.one_of(st.none(), st.none(), st.integers(-1, 9)),
    gpus=st.one_of(st.sampled_from([None, "each", "none", "both"]), st.lists(st.integers(0, 6), max_size=4).map(tuple)),
    bind=st.sampled_from(["core", "core", "numa", "socket"]),
    order=st.sampled_from(["gpu", "numa"]),
    smt=st.booleans(),
    share_cores=st.integers(0, 4).map(lambda number: number == 0),
    whole_share=st.booleans(),
    allowed_cpus=st.one_of(st.none(), st.none(), st.sets(st.integers(0, 40)).map(lambda cpus: tuple(sorted(cpus)))),
    allowed_memory_nodes=st.one_of(st.none(), st.sets(st.integers(0, 4)).map(tuple)),
)


@st.composite
def cases(draw, gpus=None):
    """A machine, and a request that can be placed on it: as it was drawn, or with what the refusal offered."""
    machine = draw(machines())
    online = machine.cpus.online
    most = min(len(online), len(machine.gpus) if gpus == "each" else 14)
    if gpus == "each" and not machine.gpus:
        gpus, most = None, min(len(online), 14)
    choices = [gpus] if gpus else [None, "none", "list"]
    chosen = draw(st.sampled_from(choices))
    request = Request(
        ranks=draw(st.integers(1, most)),
        threads=draw(st.one_of(st.none(), st.integers(1, 4))),
        gpus=chosen,
        bind=draw(st.sampled_from(["core", "core", "numa"])),
        order=draw(st.sampled_from(["gpu", "numa"])),
        smt=draw(st.booleans()),
        share_cores=draw(st.integers(0, 4)) == 0,
        whole_share=draw(st.booleans()),
        allowed_cpus=draw(
            st.one_of(
                st.none(), st.none(), st.sets(st.sampled_from(online), min_size=1).map(lambda one: tuple(sorted(one)))
            )
        ),
        allowed_memory_nodes=draw(st.one_of(st.none(), st.sets(st.integers(0, 4)).map(tuple))),
    )
    if chosen == "list":
        numbers = st.lists(
            st.integers(0, max(len(machine.gpus) - 1, 0)), min_size=request.ranks, max_size=request.ranks
        )
        request = dataclasses.replace(request, gpus=tuple(draw(numbers)) if machine.gpus else None)
    try:
        place(machine, request)
    except Refused as refusal:
        request = refusal.alternatives[0] if refusal.alternatives else Request(ranks=1, gpus="none")
    return machine, request
