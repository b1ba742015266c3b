# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nearest partners, and the totality of building a topology of any reading."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils import sysfs, sysfs_numa, topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.topology.gpus import mask_cpus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.topology.nearest import pair
from ansible_collections.trainyard.gpu_node.plugins.module_utils.topology.types import Placement


def place(address, node=None, path=(), virtual=False):
    return Placement(address, path, node, None if node is None else "sysfs", None, virtual)


def test_equal_partners_are_shared_out_in_the_order_of_addresses():
    gpus = [("g{0}".format(n), place("000{0}:00:00.0".format(n), 0)) for n in (2, 1, 4, 3)]
    two = [("a", place("0101:00:00.0", 0)), ("b", place("0102:00:00.0", 0))]
    found = pair(gpus, two, {(0, 0): 10})
    assert {name: one.name for name, one in found.items()} == {"g1": "a", "g2": "a", "g3": "b", "g4": "b"}


def test_without_numa_nodes_the_order_of_addresses_decides():
    gpus = [("g{0}".format(n), place("000{0}:00:00.0".format(n))) for n in (1, 2)]
    cards = [("c{0}".format(n), place("010{0}:00:00.0".format(n))) for n in (2, 1)]
    found = pair(gpus, cards, {})
    assert [(found[name].name, found[name].relation) for name in ("g1", "g2")] == [("c1", "unknown"), ("c2", "unknown")]


def test_no_partner_is_no_answer():
    assert pair([("g", place("0001:00:00.0", 0))], [], {}) == {}


def test_nvml_affinity_masks_have_words_of_64_bits():
    assert mask_cpus([0xFFFFFF000000, 0]) == tuple(range(24, 48))
    assert mask_cpus([0, 1]) == (64,)
    assert mask_cpus([]) == ()


addresses = st.sampled_from([None, "0000:01:00.0", "0001:00:00.0", "10000:02:00.1", "odd"])
numbers = st.lists(st.integers(-1, 9), max_size=6, unique=True).map(lambda found: tuple(sorted(found)))
nodes = st.one_of(st.none(), st.integers(0, 9))
functions = st.builds(
    sysfs.PciFunction,
    address=addresses.filter(bool),
    vendor=st.just(0x10DE),
    device=st.integers(0, 0xFFFF),
    class_code=st.integers(0, 0xFFFFFF),
    numa_node=nodes,
    local_cpus=numbers,
    path=st.lists(st.sampled_from(["pci0000:00", "0000:00:01.0", "0000:01:00.0"]), max_size=3).map(tuple),
    driver=st.sampled_from([None, "nvidia", "vfio-pci"]),
    physical_function=st.sampled_from([None, "0000:01:00.0"]),
)
maybe_function = st.one_of(st.none(), functions)
cpu_readings = st.builds(
    sysfs_numa.Cpus,
    present=numbers,
    online=numbers,
    offline=numbers,
    isolated=numbers,
    places=st.lists(st.builds(sysfs_numa.CpuPlace, st.integers(0, 9), nodes, nodes, numbers), max_size=4).map(tuple),
    l3_groups=st.lists(st.builds(sysfs_numa.CacheGroup, nodes, numbers, nodes), max_size=3).map(tuple),
)
node_readings = st.builds(
    sysfs_numa.NodeReading,
    id=st.integers(0, 9),
    cpus=numbers,
    memory_bytes=nodes,
    distances=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 255)), max_size=4).map(tuple),
)
texts = st.one_of(st.none(), st.text(max_size=3))
disks = st.builds(
    sysfs.NvmeController,
    name=st.sampled_from(["nvme0", "nvme1", "nvme10"]),
    model=texts,
    serial=texts,
    firmware=texts,
    transport=texts,
    state=texts,
    numa_node=nodes,
    function=maybe_function,
    namespaces=st.just(()),
)
cards = st.builds(
    sysfs.InfinibandDevice,
    name=st.sampled_from(["mlx5_0", "rxe0"]),
    node_guid=texts,
    firmware=texts,
    netdevs=st.just(()),
    numa_node=nodes,
    function=maybe_function,
    ports=st.lists(
        st.builds(
            sysfs.InfinibandPort, st.just(1), texts, texts, st.none(), st.sampled_from([None, "InfiniBand", "Ethernet"])
        ),
        max_size=2,
    ).map(tuple),
)
readings = st.builds(
    topology.Reading,
    cpus=cpu_readings,
    nodes=st.lists(node_readings, max_size=4).map(tuple),
    memory_bytes=nodes,
    gpus=st.lists(functions, max_size=4).map(tuple),
    nvswitches=st.just(()),
    infiniband=st.lists(cards, max_size=3).map(tuple),
    nvme=st.lists(disks, max_size=3).map(tuple),
)
gpu_readings = st.lists(
    st.builds(
        topology.GpuReading,
        index=st.integers(0, 7),
        uuid=texts,
        name=texts,
        pci_address=addresses,
        cpus=numbers,
        memory_numa_node=nodes,
        fault=texts,
    ),
    max_size=4,
)


@settings(max_examples=100, deadline=None)
@given(readings, gpu_readings, texts)
def test_no_reading_stops_the_builder(reading, gpus, reason):
    found = topology.build(reading, gpus, reason)
    assert len(found.gpu_numa()) == len(found.gpus) >= len(gpus)
    for device in found.gpus + found.infiniband + found.nvme:
        # A node, or a reason: never neither, never both.
        assert (device.placement.numa_node is None) == (device.placement.numa_reason is not None)
    json.dumps(topology.to_dict(found))
