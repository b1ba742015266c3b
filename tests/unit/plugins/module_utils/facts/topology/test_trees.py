# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured trees: Azure's sizes and the odd machines. What is expected stands here by hand, from the makers' tables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import GpuReading
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import FOLDER, names, shared

NDV4_GPUS = ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
NDV5_GPUS = ["0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"]


@pytest.fixture
def observe():
    return lambda name, gpus=(), reason=None: topology.observe(Host(shared(name)), gpus, reason)


def by_name(devices):
    return {device.name: device for device in devices}


def pairs(devices, kind):
    return {one.name: getattr(one, "nearest_" + kind) and getattr(one, "nearest_" + kind).name for one in devices}


def test_the_trees_are_what_their_generator_writes(tmp_path):
    shutil.copy(os.path.join(FOLDER, "make_trees.py"), str(tmp_path))
    subprocess.run([sys.executable, str(tmp_path / "make_trees.py")], check=True)
    for name in names():
        with open(os.path.join(FOLDER, name + ".tree"), encoding="utf-8") as stream:
            assert (tmp_path / (name + ".tree")).read_text() == stream.read(), name


@pytest.mark.parametrize("name", names())
def test_every_tree_becomes_plain_data(observe, name):
    content = topology.to_dict(observe(name))
    assert json.loads(json.dumps(content)) == content


# Azure's sizes ----------------------------------------------------------------------------------------


def test_ndv4_has_the_vector_that_azure_documents(observe):
    found = observe("ndv4")
    assert [gpu.placement.pci_address for gpu in found.gpus] == [domain + ":00:00.0" for domain in NDV4_GPUS]
    assert found.gpu_numa() == (1, 1, 0, 0, 3, 3, 2, 2)
    assert [(node.id, topology.to_dict(found)["numa_nodes"][node.id]["cpu_list"]) for node in found.numa_nodes] == [
        (0, "0-23"),
        (1, "24-47"),
        (2, "48-71"),
        (3, "72-95"),
    ]
    assert [node.packages for node in found.numa_nodes] == [(0,), (0,), (1,), (1,)]
    assert [package.numa_nodes for package in found.packages] == [(0, 1), (2, 3)]
    # Rome: four cores share a level-3 cache.
    assert [len(node.l3_groups) for node in found.numa_nodes] == [6, 6, 6, 6]
    assert found.numa_nodes[1].l3_groups[0].cpus == (24, 25, 26, 27)
    assert found.numa_nodes[1].l3_groups[0].size_bytes == 16 * 1024 * 1024
    assert found.cpus.threads_per_core == 1 and found.cpus.cores == 96
    assert found.memory_bytes == 928858388 * 1024


def test_ndv4_pairs_gpu_i_with_infiniband_i(observe):
    found = observe("ndv4")
    wanted = {domain + ":00:00.0": "mlx5_ib{0}".format(number) for number, domain in enumerate(NDV4_GPUS)}
    assert pairs(found.gpus, "infiniband") == wanted
    infiniband = pairs(found.infiniband, "gpu")
    infiniband.pop("mlx5_an0")
    assert infiniband == {card: gpu for gpu, card in wanted.items()}
    nearest = found.gpus[0].nearest_infiniband
    assert (nearest.relation, nearest.distance, nearest.equally_near) == ("numa_node", 10, ("mlx5_ib0", "mlx5_ib1"))


def test_ndv4_shares_out_the_disks_of_each_node(observe):
    found = observe("ndv4")
    assert list(pairs(found.gpus, "nvme").values()) == [
        "nvme2",
        "nvme3",
        "nvme0",
        "nvme1",
        "nvme6",
        "nvme7",
        "nvme4",
        "nvme5",
    ]
    assert {disk.model for disk in found.nvme} == {"Microsoft NVMe Direct Disk"}
    assert [disk.serial for disk in found.nvme][:2] == ["SERIAL0000", "SERIAL0001"]
    assert found.nvme[0].placement.pci_address == "a000:00:00.0"
    assert found.nvme[0].namespaces[0].size_bytes == 1875385008 * 512


def test_ndv4_accelerated_ethernet_is_listed_and_is_no_partner(observe):
    found = observe("ndv4")
    ethernet = by_name(found.infiniband)["mlx5_an0"]
    assert ethernet.ports[0].link_layer == "Ethernet" and ethernet.netdevs == ("eth1",)
    assert "mlx5_an0" not in pairs(found.gpus, "infiniband").values()


def test_ndv5_has_eight_gpus_beside_its_four_nvswitches(observe):
    found = observe("ndv5")
    assert [gpu.placement.pci_address for gpu in found.gpus] == [domain + ":00:00.0" for domain in NDV5_GPUS]
    assert found.gpu_numa() == (0, 0, 0, 0, 1, 1, 1, 1)
    assert found.nvswitches == ("000d:00:00.0", "000e:00:00.0", "000f:00:00.0", "0010:00:00.0")
    assert [len(node.cpus) for node in found.numa_nodes] == [48, 48]
    assert list(pairs(found.gpus, "infiniband").values()) == ["mlx5_ib{0}".format(number) for number in range(8)]
    port = by_name(found.infiniband)["mlx5_ib7"].ports[0]
    assert (port.rate_gigabits_per_second, port.state, port.physical_state) == (400.0, "ACTIVE", "LinkUp")


def test_ndv2_has_one_port_for_eight_gpus_and_no_disk(observe):
    found = observe("ndv2")
    assert [gpu.placement.pci_address[:4] for gpu in found.gpus] == ["000{0}".format(number) for number in range(1, 9)]
    assert found.gpu_numa() == (0, 0, 0, 0, 1, 1, 1, 1)
    assert [node.cpus for node in found.numa_nodes] == [tuple(range(20)), tuple(range(20, 40))]
    assert [gpu.nearest_infiniband.relation for gpu in found.gpus] == ["numa_node"] * 4 + ["other_numa_node"] * 4
    assert found.gpus[7].nearest_infiniband.distance == 21
    assert found.nvme == () and found.gpus[0].nearest_nvme is None
    assert found.infiniband[0].placement.pci_address == "0101:00:00.0"


# Odd machines -----------------------------------------------------------------------------------------


def test_a_kernel_without_numa_is_one_node(observe):
    found = observe("laptop")
    (node,) = found.numa_nodes
    assert (node.id, node.inferred, node.cpus, node.memory_bytes) == (0, True, tuple(range(8)), 16121988 * 1024)
    assert found.cpus.threads_per_core == 2 and found.cpus.cores == 4
    # The audio function of the card and the processor's own graphics are no NVIDIA GPUs.
    (gpu,) = found.gpus
    assert (gpu.name, gpu.placement.numa_node, gpu.placement.numa_source) == ("0000:01:00.0", 0, "only_node")
    assert gpu.placement.pcie_path == ("pci0000:00", "0000:00:01.0")
    assert gpu.nearest_nvme.relation == "root_complex"
    assert any("no NUMA" in note for note in found.notes)


def test_a_disk_under_multi_path_has_the_name_of_its_block_device(observe):
    (disk,) = observe("laptop").nvme
    assert [one.name for one in disk.namespaces] == ["nvme0n1"]
    assert disk.namespaces[0].size_bytes == 2000409264 * 512


def test_numa_node_minus_one_is_inferred_or_null_with_a_reason(observe):
    gpus = by_name(observe("minus_one", (), "not asked").gpus)
    assert (gpus["0000:11:00.0"].placement.numa_node, gpus["0000:11:00.0"].placement.numa_source) == (
        0,
        "local_cpulist",
    )
    lost = gpus["0000:81:00.0"].placement
    assert (lost.numa_node, lost.numa_source) == (None, None)
    assert "-1" in lost.numa_reason


def test_nvml_tells_the_node_where_sysfs_does_not(observe):
    reading = GpuReading(0, "GPU-1", "NVIDIA A100-SXM4-80GB", "00000000:81:00.0", cpus=tuple(range(8, 16)))
    gpus = by_name(observe("minus_one", [reading]).gpus)
    assert (gpus["0000:81:00.0"].placement.numa_node, gpus["0000:81:00.0"].placement.numa_source) == (1, "nvml")
    assert gpus["0000:81:00.0"].nvml and gpus["0000:81:00.0"].index == 0


def test_gpus_that_nvml_does_not_report_are_told_apart(observe):
    reading = GpuReading(0, "GPU-1", "NVIDIA A100-SXM4-80GB", "0000:81:00.0")
    gpus = by_name(observe("minus_one", [reading]).gpus)
    assert not gpus["0000:11:00.0"].nvml and "does not report" in gpus["0000:11:00.0"].fault
    assert not gpus["0000:91:00.0"].nvml and "vfio-pci" in gpus["0000:91:00.0"].fault


def test_a_port_that_is_down_is_said_to_be_down(observe):
    (device,) = observe("minus_one").infiniband
    assert (device.ports[0].state, device.ports[0].physical_state) == ("DOWN", "Disabled")


def test_domains_above_ffff_and_disks_without_pci_address(observe):
    disks = by_name(observe("minus_one").nvme)
    assert disks["nvme0"].placement.pci_address == "10000:01:00.0"
    assert disks["nvme0"].placement.pcie_path == ("pci0000:10", "0000:10:05.5", "pci10000:00", "10000:00:02.0")
    assert (disks["nvme1"].transport, disks["nvme1"].placement.pci_address) == ("tcp", None)
    assert disks["nvme1"].namespaces[0].name == "nvme1n1"
    assert (disks["nvme2"].transport, disks["nvme2"].state, disks["nvme2"].namespaces) == ("loop", "connecting", ())
    assert "no PCI device" in disks["nvme2"].placement.numa_reason


def test_offline_and_isolated_cpus_are_told(observe):
    found = observe("offline")
    assert found.cpus.present == tuple(range(8))
    assert found.cpus.online == (0, 1, 4, 5, 6)
    assert found.cpus.offline == (2, 3, 7)
    assert found.cpus.isolated == (5,)
    assert found.numa_nodes[0].cpus == (0, 1, 4, 5, 6)
    # CPU 7 is off, so core 6-7 has one thread left; the cache of 0-3 serves 0 and 1 only.
    assert found.cpus.sibling_groups == ((0, 1), (4, 5), (6,))
    assert [group.cpus for group in found.numa_nodes[0].l3_groups] == [(0, 1), (4, 5, 6)]


def test_memory_only_and_empty_nodes_are_no_place_for_a_device(observe):
    found = observe("cxl")
    assert [node.kind for node in found.numa_nodes] == ["cpus_and_memory", "cpus_and_memory", "memory_only", "empty"]
    assert dict(found.numa_nodes[2].distances) == {0: 14, 1: 24, 2: 10, 3: 255}


def test_a_common_pcie_switch_is_nearer_than_the_same_numa_node(observe):
    found = observe("cxl")
    (gpu,) = found.gpus
    # mlx5_0 is on the GPU's node, mlx5_1 behind its switch, mlx5_2 is a virtual function of mlx5_1.
    assert gpu.nearest_infiniband.name == "mlx5_1"
    assert gpu.nearest_infiniband.relation == "pcie"
    assert gpu.nearest_infiniband.equally_near == ("mlx5_1",)
    assert by_name(found.infiniband)["mlx5_2"].placement.virtual_function
    assert gpu.nearest_nvme.relation == "other_numa_node" and gpu.nearest_nvme.distance == 21


def test_smt_and_sub_numa_clustering(observe):
    found = observe("nps4")
    assert found.cpus.threads_per_core == 2 and found.cpus.cores == 16
    assert found.numa_nodes[3].cpus == (6, 7, 22, 23)
    assert (6, 22) in found.cpus.sibling_groups
    assert [package.numa_nodes for package in found.packages] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert [package.cores for package in found.packages] == [8, 8]
    assert found.gpu_numa() == (1, 3, 5, 7)
    # No card on the GPU's own node: one of the same socket (12) is nearer than one of the other (32).
    assert list(pairs(found.gpus, "infiniband").values()) == ["mlx5_0", "mlx5_0", "mlx5_3", "mlx5_3"]
    assert {gpu.nearest_infiniband.distance for gpu in found.gpus} == {12}


def test_coherent_gpu_memory_is_not_taken_for_the_gpus_own_node(observe):
    readings = [
        GpuReading(number, "GPU-{0}".format(number), "NVIDIA GB200", domain + ":01:00.0", memory_numa_node=node)
        for number, (domain, node) in enumerate([("0008", 2), ("0009", 10), ("0018", 18), ("0019", 26)])
    ]
    found = observe("gb200", readings)
    assert found.gpu_numa() == (0, 0, 1, 1)
    assert [gpu.memory_numa_node for gpu in found.gpus] == [2, 10, 18, 26]
    assert [node.id for node in found.numa_nodes] == [0, 1, 2, 10, 18, 26]
    assert [node.kind for node in found.numa_nodes[2:]] == ["memory_only"] * 4
    assert list(pairs(found.gpus, "infiniband").values()) == ["mlx5_ib0", "mlx5_ib1", "mlx5_ib2", "mlx5_ib3"]
    # Arm's kernel gives its caches no number.
    assert [group.id for group in found.numa_nodes[0].l3_groups] == [None]


def test_a_lost_gpu_keeps_its_place_and_its_fault(observe):
    readings = [
        GpuReading(number, "GPU-{0}".format(number), "NVIDIA A100-SXM4-40GB", "0000" + domain + ":00:00.0")
        for number, domain in enumerate(NDV4_GPUS)
    ]
    readings[5] = GpuReading(5, None, None, "000c:00:00.0", fault="the GPU is lost")
    found = observe("ndv4", readings)
    assert [gpu.nvml for gpu in found.gpus] == [True] * 5 + [False] + [True] * 2
    assert found.gpu_numa() == (1, 1, 0, 0, 3, 3, 2, 2)
    assert found.notes == ("GPU 000c:00:00.0: the GPU is lost.",)


# NVML -------------------------------------------------------------------------------------------------

LOOK = """
import json, sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
print(json.dumps(topology.to_dict(topology.look(Host(sys.argv[1]), call_timeout=2))))
"""


@pytest.mark.parametrize("machine, tree", [("nd96asr_v4", "ndv4"), ("nd40rs_v2", "ndv2"), ("nd96isr_h100_v5", "ndv5")])
def test_nvml_and_sysfs_meet_by_pci_address(nvml_simulator, machine, tree):
    found = nvml_simulator(machine).python(LOOK, shared(tree))
    assert [gpu["index"] for gpu in found["gpus"]] == list(range(8))
    assert all(gpu["nvml"] and gpu["product"] and gpu["uuid"] and gpu["memory_bytes"] > 30e9 for gpu in found["gpus"])
    assert all(gpu["numa_source"] == "sysfs" for gpu in found["gpus"])
    assert found["gpus_reason"] is None and found["notes"] == []


def test_a_gpu_that_nvml_lost_is_still_listed(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4")
    simulator.control("fault", "gpu", "2", "lost")
    found = simulator.python(LOOK, shared("ndv4"))
    assert [gpu["nvml"] for gpu in found["gpus"]] == [True, True, False] + [True] * 5
    assert found["gpus"][2]["fault"] and found["gpus"][2]["pci_address"] == "0003:00:00.0"
    assert found["gpu_numa"] == [1, 1, 0, 0, 3, 3, 2, 2]


def test_without_driver_the_pci_bus_tells_the_gpus(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4")
    simulator.control("fault", "driver", "not-loaded")
    found = simulator.python(LOOK, shared("ndv4"))
    assert len(found["gpus"]) == 8 and not any(gpu["nvml"] for gpu in found["gpus"])
    assert "driver" in found["gpus_reason"]
    assert found["gpu_numa"] == [1, 1, 0, 0, 3, 3, 2, 2]
