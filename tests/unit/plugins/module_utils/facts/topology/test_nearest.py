# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nearest partners, and the totality of building a topology of any reading."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs, sysfs_numa, topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import Reading
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology.gpus import mask_cpus
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology.nearest import fabric, pair
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology.types import Infiniband, Placement
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples


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


def card(name, address, state="ACTIVE", rate=200.0, layer="Ethernet", path=()):
    ports = (sysfs.InfinibandPort(1, state, None, rate, layer),)
    return Infiniband(name, None, None, (), ports, place(address, 0, path))


def chosen(cards, gpus=()):
    return [one.name for one in fabric(cards, gpus)]


def test_a_port_that_is_down_carries_nothing():
    roce = [card("r{0}".format(n), "010{0}:00:00.0".format(n)) for n in range(4)]
    # One InfiniBand port that is down was the only fabric of a node with RoCE.
    assert chosen([card("ib", "0001:00:00.0", "DOWN", 400.0, "InfiniBand"), *roce]) == ["r0", "r1", "r2", "r3"]
    assert chosen([card("down", "0001:00:00.0", "DOWN"), *roce]) == ["r0", "r1", "r2", "r3"]
    assert chosen([card("ib", "0001:00:00.0", rate=100.0, layer="InfiniBand"), *roce]) == ["ib"]
    # Where nothing is up (a node before its fabric), the pairs are those of a node where everything is.
    down = [card("r{0}".format(n), "010{0}:00:00.0".format(n), "DOWN") for n in range(2)]
    assert chosen([card("ib", "0001:00:00.0", "DOWN", 400.0, "InfiniBand"), *down]) == ["ib"]
    unknown = [card("u", "0001:00:00.0", None, None)]
    assert chosen(unknown) == ["u"] and chosen([]) == []


def test_a_slow_port_is_for_management_or_storage_unless_a_bridge_puts_it_beside_a_gpu():
    fast = [card("f{0}".format(n), "010{0}:00:00.0".format(n), rate=400.0) for n in range(2)]
    assert chosen([card("mgmt", "0001:00:00.0", rate=25.0), card("store", "0002:00:00.0", rate=200.0), *fast]) == [
        "f0",
        "f1",
    ]
    path = ("pci0000:00", "0000:00:01.0")
    mine = card("mine", "0000:02:00.0", rate=200.0, path=path)
    assert chosen([mine, *fast], [place("0000:03:00.0", 0, path)]) == ["mine", "f0", "f1"]
    assert chosen([mine, *fast], [place("0000:03:00.0", 0, ("pci0000:00",))]) == ["f0", "f1"]


def test_the_gpus_of_a_node_take_no_management_port():
    reading = Reading(
        cpus=sysfs_numa.Cpus((0, 1), (0, 1), (), (), (), ()),
        nodes=(sysfs_numa.NodeReading(0, (0, 1), 1 << 30, ((0, 10),)),),
        memory_bytes=1 << 30,
        gpus=tuple(function("000{0}:00:00.0".format(n), 0x030200) for n in (1, 2)),
        nvswitches=(),
        infiniband=tuple(
            sysfs.InfinibandDevice(
                name, None, None, (), 0, function(address, 0x020000),
                (sysfs.InfinibandPort(1, state, None, rate, "Ethernet"),),
            )
            for name, address, state, rate in (
                ("mlx5_0", "0100:00:00.0", "ACTIVE", 25.0),
                ("mlx5_1", "0101:00:00.0", "ACTIVE", 400.0),
                ("mlx5_2", "0102:00:00.0", "DOWN", 400.0),
                ("mlx5_3", "0103:00:00.0", "ACTIVE", 400.0),
            )
        ),
        nvme=(),
    )  # fmt: skip
    found = topology.build(reading, (), "NVML was not asked")
    assert [gpu.nearest_infiniband.name for gpu in found.gpus] == ["mlx5_1", "mlx5_3"]
    assert {one.name: one.nearest_gpu.name for one in found.infiniband} == {
        "mlx5_0": "0001:00:00.0",
        "mlx5_1": "0001:00:00.0",
        "mlx5_2": "0002:00:00.0",
        "mlx5_3": "0002:00:00.0",
    }


def function(address, code):
    return sysfs.PciFunction(address, 0x10DE, 1, code, 0, (), (), "nvidia" if code >> 16 == 3 else None, None)


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


@examples(100)
@given(readings, gpu_readings, texts)
def test_no_reading_stops_the_builder(reading, gpus, reason):
    found = topology.build(reading, gpus, reason)
    assert len(found.gpu_numa()) == len(found.gpus) >= len(gpus)
    for device in found.gpus + found.infiniband + found.nvme:
        # A node, or a reason: never neither, never both.
        assert (device.placement.numa_node is None) == (device.placement.numa_reason is not None)
    json.dumps(topology.to_dict(found))
