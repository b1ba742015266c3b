# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode labels`` on simulated machines, read as Node Feature Discovery reads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.metrics.labels import labels_reader

GPUNODE = Path(__file__).resolve().parents[2] / "command" / "gpunode_on.py"
FILE = "/etc/kubernetes/node-feature-discovery/features.d/trainyard"
# The labels of a node of CERN's cloud with a T4, as its GPU feature discovery wrote them.
T4 = {
    "cuda.driver-version.full": "550.54.15",
    "cuda.driver-version.major": "550",
    "cuda.driver-version.minor": "54",
    "cuda.driver-version.revision": "15",
    "cuda.driver.major": "550",
    "cuda.driver.minor": "54",
    "cuda.driver.rev": "15",
    "cuda.runtime-version.full": "12.4",
    "cuda.runtime-version.major": "12",
    "cuda.runtime-version.minor": "4",
    "cuda.runtime.major": "12",
    "cuda.runtime.minor": "4",
    "gfd.timestamp": "1728992460",
    "gpu.compute.major": "7",
    "gpu.compute.minor": "5",
    "gpu.count": "1",
    "gpu.family": "turing",
    "gpu.machine": "OpenStack-Compute",
    "gpu.memory": "15360",
    "gpu.mode": "compute",
    "gpu.product": "Tesla-T4",
    "gpu.replicas": "1",
    "gpu.sharing-strategy": "none",
    "mig.capable": "false",
    "mig.strategy": "mixed",
    "mps.capable": "false",
    "vgpu.present": "false",
}


class Node:
    """A folder as the node, with the GPUs of a simulator on its PCI bus."""

    def __init__(self, simulator, root):
        self.simulator, self.root = simulator, root
        self.write("sys/class/dmi/id/product_name", "OpenStack Compute\n")
        for number in range(2):
            self.write("sys/devices/system/node/node{0}/cpulist".format(number), "{0}\n".format(number))
        self.write("sys/devices/system/node/node2/cpulist", "\n")  # memory of a GPU
        self.write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
        self.features = root / os.path.dirname(FILE).lstrip("/")

    def write(self, path, content):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            target.write_bytes(content)
        else:
            target.write_text(content)
        return target

    def on_bus(self, address, pci_class="0x030200", config=bytes(256)):
        folder = "sys/bus/pci/devices/" + address
        self.write(folder + "/vendor", "0x10de\n")
        self.write(folder + "/class", pci_class + "\n")
        self.write(folder + "/config", config)

    def port(self, device, state="4: ACTIVE", rate="400 Gb/sec (4X NDR)", layer="InfiniBand"):
        folder = "sys/class/infiniband/{0}/ports/1/".format(device)
        for name, text in (("state", state), ("rate", rate), ("link_layer", layer)):
            self.write(folder + name, text + "\n")

    def run(self, *words, **how):
        return forked.run(
            [sys.executable, str(GPUNODE), str(self.root), *how.get("uid", ()), "--", "labels", *words],
            env=self.simulator.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def told(self, *words, status=0):
        """The labels of the node by a file that it wrote, with what it said on standard error."""
        self.features.mkdir(parents=True, exist_ok=True)
        done = self.run("-o", FILE, *words)
        assert done.returncode == status and "Traceback" not in done.stderr and not done.stdout, done.stderr
        found = labels_reader.read(self.features, time.time())
        assert found.dropped == [] and found.doubled == []
        return found.labels, done.stderr


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return lambda machine, *settings: Node(nvml_simulator(machine, *settings), tmp_path / "node")


def of_nvidia(labels):
    return {name[len("nvidia.com/") :]: text for name, text in labels.items() if name.startswith("nvidia.com/")}


def ours(labels):
    return {name[len("trainyard.io/") :]: text for name, text in labels.items() if name.startswith("trainyard.io/")}


def test_a_t4_has_the_labels_that_gpu_feature_discovery_gave_one(node):
    machine = node("openstack_t4")
    machine.on_bus("0000:00:05.0")
    labels, said = machine.told("--gfd", "--mig-strategy", "mixed")
    found = of_nvidia(labels)
    assert abs(int(found["gfd.timestamp"]) - time.time()) < 120
    assert dict(found, **{"gfd.timestamp": T4["gfd.timestamp"]}) == T4 and said == ""
    assert ours(labels) == {"numa-nodes": "2", "infiniband-ports": "0"}
    # Without --gfd nothing of NVIDIA is told.
    assert of_nvidia(machine.told()[0]) == {}


def test_what_is_printed_is_what_is_written(node):
    machine = node("openstack_t4")
    machine.on_bus("0000:00:05.0")
    before = set(machine.root.rglob("*"))
    printed = machine.run("--gfd", "--valid", "120").stdout
    assert set(machine.root.rglob("*")) == before
    document = json.loads(machine.run("--gfd", "--json").stdout)
    assert document["notes"] == [] and 600 < document["expires"] - time.time() <= 750
    done = machine.run("--gfd", "--json", "-o", str(machine.features / "none"))
    assert done.returncode == 1 and "there is no folder" in json.loads(done.stdout)["error"]["message"]
    labels, dummy = machine.told("--gfd")
    same = {name: text for name, text in labels.items() if name != "nvidia.com/gfd.timestamp"}
    assert same == {name: text for name, text in document["labels"].items() if name != "nvidia.com/gfd.timestamp"}
    machine.features.joinpath("trainyard").write_text(printed)
    assert labels_reader.read(machine.features, time.time() + 60).labels
    assert not labels_reader.read(machine.features, time.time() + 121).labels


def test_a_second_run_changes_nothing_but_the_time_of_expiry(node):
    machine = node("openstack_t4")
    machine.on_bus("0000:00:05.0")
    first = machine.told("--gfd")[0]
    path = machine.features / "trainyard"
    path.write_text(path.read_text().replace(first["nvidia.com/gfd.timestamp"], "1728992460"))
    before = path.read_text()
    labels = machine.told("--gfd", "--valid", "9999")[0]
    assert labels == dict(first, **{"nvidia.com/gfd.timestamp": "1728992460"})
    changed = set(before.splitlines()) ^ set(path.read_text().splitlines())
    assert len(changed) == 2 and all(line.startswith("# +expiry-time=") for line in changed)
    assert path.stat().st_mode & 0o777 == 0o644 and os.listdir(machine.features) == ["trainyard"]


# MIG --------------------------------------------------------------------------------------------------


def divide(machine, gpu, *kinds):
    """GPU instances of these kinds, each whole in one compute instance: (number in the description, start)."""
    machine.simulator.control("set", "gpu.{0}.mig_mode".format(gpu), "1")
    machine.simulator.control("set", "gpu.{0}.latched.mig_mode".format(gpu), "1")
    whole = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 7: 0, 9: 0}
    for number, (kind, start) in enumerate(kinds, 1):
        machine.simulator.control("set", "gpu.{0}.gi.{1}".format(gpu, number), "{0} {1}".format(kind, start))
        machine.simulator.control("set", "gpu.{0}.ci.{1}.0".format(gpu, number), "{0} 0".format(whole[kind]))


SEVEN = [(0, start) for start in range(7)]


@pytest.fixture
def h100(node):
    machine = node("nd96isr_h100_v5", "gpu.count=2")
    for number in (1, 2):
        machine.on_bus("000{0}:00:00.0".format(number))
    return machine


def test_equal_layouts(h100):
    divide(h100, 0, *SEVEN)
    divide(h100, 1, *SEVEN)
    labels, said = h100.told("--gfd", "--mig-strategy", "single")
    found = of_nvidia(labels)
    assert said == "" and ours(labels)["mig-layout"] == "1g.10gb-x7"
    assert (found["gpu.count"], found["gpu.replicas"]) == ("14", "1")
    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    # The figures of profile 19 of the simulated GPU.
    figures = {"memory": 9984, "multiprocessors": 16, "slices.gi": 1, "slices.ci": 1}
    engines = {"copy": 1, "decoder": 1, "encoder": 0, "jpeg": 1, "ofa": 0}
    for name, number in {**figures, **{"engines." + one: number for one, number in engines.items()}}.items():
        assert found["gpu." + name] == str(number), name
    assert found["gpu.family"] == "hopper" and found["mig.strategy"] == "single" and found["mig.capable"] == "true"

    mixed = of_nvidia(
        h100.told("--gfd", "--mig-strategy", "mixed", "--sharing", "time-slicing:nvidia.com/mig-1g.10gb=2")[0]
    )
    assert (mixed["gpu.count"], mixed["gpu.replicas"], mixed["gpu.memory"]) == ("2", "0", "81559")
    assert (mixed["mig-1g.10gb.count"], mixed["mig-1g.10gb.replicas"]) == ("14", "2")
    assert mixed["mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED"
    none = of_nvidia(h100.told("--gfd")[0])
    assert none["gpu.count"] == "2" and "mig.strategy" not in none and "mig-1g.10gb.count" not in none


def test_unequal_layouts_and_a_gpu_without_instances(h100):
    divide(h100, 0, (2, 0), (7, 4))
    labels, said = h100.told("--gfd", "--mig-strategy", "single")
    found = of_nvidia(labels)
    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID" and found["gpu.count"] == "0"
    assert found["gpu.sharing-strategy"] == "" and "others are whole" in said
    assert ours(labels)["mig-layout"] == "3g.40gb-x1_1g.10gb.me-x1-on-1_off-on-1"
    mixed = of_nvidia(h100.told("--gfd", "--mig-strategy", "mixed")[0])
    assert mixed["mig-3g.40gb.count"] == mixed["mig-1g.10gb.me.count"] == "1" and mixed["gpu.count"] == "2"
    assert mixed["mig-3g.40gb.engines.copy"] == "3" and mixed["gpu.replicas"] == "1"
    divide(h100, 1)
    assert "has no instance" in h100.told("--gfd", "--mig-strategy", "single")[1]
    assert ours(h100.told()[0])["mig-layout"] == "3g.40gb-x1_1g.10gb.me-x1-on-1_empty-on-1"


def test_compute_instances_are_the_devices(h100):
    divide(h100, 0, (2, 0), (1, 4))
    h100.simulator.control("set", "gpu.0.ci.1.0", "0 0")
    h100.simulator.control("set", "gpu.0.ci.1.1", "1 1")
    h100.simulator.control("unset", "gpu.0.ci.2.0")
    labels = h100.told("--gfd", "--mig-strategy", "mixed")[0]
    found = of_nvidia(labels)
    assert found["mig-1c.3g.40gb.slices.ci"] == "1" and found["mig-2c.3g.40gb.slices.ci"] == "2"
    assert found["mig-1c.3g.40gb.slices.gi"] == "3" and "mig-2g.20gb.count" not in found
    assert ours(labels)["mig-layout"] == "2c.3g.40gb-x1_1c.3g.40gb-x1_2g.20gb-bare-x1-on-1_off-on-1"


def test_instances_that_cannot_be_read_cost_their_own_labels(h100):
    divide(h100, 0, *SEVEN)
    h100.simulator.control("fault", "call", "nvmlDeviceGetAttributes_v2", "gpu", "0", "return", "UNKNOWN")
    labels, said = h100.told("--gfd", "--mig-strategy", "mixed")
    found = of_nvidia(labels)
    assert found["gpu.count"] == "2" and not [name for name in found if name.startswith("mig-")]
    assert "mig-layout" not in ours(labels) and ours(labels)["numa-nodes"] == "2"
    assert "GPU 0" in said and "were not told" in said


# What is not well -------------------------------------------------------------------------------------


def test_a_gpu_that_is_lost_costs_the_labels_of_gpus_and_no_others(h100):
    h100.simulator.control("fault", "gpu", "1", "lost")
    labels, said = h100.told("--gfd", "--mig-strategy", "mixed")
    found = of_nvidia(labels)
    assert "gpu.count" not in found and "gpu.product" not in found and "mig.capable" not in found
    assert found["cuda.driver.major"] == "580" and found["vgpu.present"] == "false"
    assert "mig-layout" not in ours(labels) and ours(labels)["infiniband-ports"] == "0" and "GPU 1" in said


@pytest.mark.parametrize("fault", ["not-loaded", "version-mismatch"])
def test_a_driver_that_does_not_answer_is_told(h100, fault):
    h100.simulator.control("fault", "driver", fault)
    labels, said = h100.told("--gfd", status=1)
    assert ours(labels) == {"numa-nodes": "2", "infiniband-ports": "0"} and said.startswith("gpunode: ")
    assert not [name for name in labels if "gpu" in name.rpartition("/")[2].split(".")[0] and "vgpu" not in name]


def test_the_labels_of_gpu_feature_discovery_are_not_written_twice(h100):
    theirs = "nvidia.com/gpu.count=2\n"
    h100.write(os.path.dirname(FILE) + "/gfd", theirs)
    done = h100.run("-o", FILE, "--gfd")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "features.d/gfd: GPU feature discovery has its file there" in done.stderr
    found = labels_reader.read(h100.features, time.time())
    assert found.doubled == [] and found.labels["nvidia.com/gpu.count"] == "2" and ours(found.labels)
    assert (h100.features / "gfd").read_text() == theirs
    # Ours of an earlier run may be called so.
    (h100.features / "gfd").unlink()
    (h100.features / "trainyard").unlink()
    assert h100.run("-o", os.path.dirname(FILE) + "/gfd", "--gfd").returncode == 0
    assert h100.run("-o", os.path.dirname(FILE) + "/gfd", "--gfd").returncode == 0


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("H100\nnvidia.com/gpu.count=99", "H100nvidia.comgpu.count99"),
        ("Z" * 90, "Z" * 63),
        ("NVIDIA A100 (odd) /x", "NVIDIA-A100-odd-x"),
    ],
)
def test_names_of_others_cannot_write_labels(node, name, product):
    machine = node("openstack_t4")
    machine.on_bus("0000:00:05.0")
    if "\n" not in name:  # its description is a text of lines
        machine.simulator.control("set", "gpu.0.name", name)
    machine.write("sys/class/dmi/id/product_name", name + "\n")
    found = of_nvidia(machine.told("--gfd")[0])
    assert found["gpu.machine"] == product and found["gpu.count"] == "1"
    assert found["gpu.product"] == ("Tesla-T4" if "\n" in name else product)


def test_a_vgpu_tells_the_driver_below_it(node):
    machine = node("openstack_t4")
    config = bytearray(256)
    config[6], config[0x34] = 0x10, 0xD0
    config[0xD0:0xEB] = b"\x09\0\x1bVF\0\x16460.16\0\0\0\0r460_00\0\0\0"
    machine.on_bus("0000:00:05.0", "0x030000", bytes(config))
    found = of_nvidia(machine.told("--gfd")[0])
    assert (found["vgpu.present"], found["gpu.mode"]) == ("true", "graphics")
    assert (found["vgpu.host-driver-version"], found["vgpu.host-driver-branch"]) == ("460.16", "r460_00")
    machine.on_bus("0000:00:05.0", "0x030000", bytes(config)[:64])  # as the kernel gives it to others than root
    labels, said = machine.told("--gfd")
    assert "vgpu.present" not in of_nvidia(labels) and "whether the GPUs are virtual" in said
    shutil.rmtree(machine.root / "sys/bus")
    labels, said = machine.told("--gfd")
    assert (
        "vgpu.present" not in of_nvidia(labels) and of_nvidia(labels)["gpu.mode"] == "unknown" and "PCI class" in said
    )


# The node ---------------------------------------------------------------------------------------------


def declare(machine, **section):
    machine.write("etc/gpu_node/node.json", json.dumps({"nvme_scratch": section}))


def test_the_scratch_is_ready_where_it_is_mounted_and_may_be_written(node):
    machine = node("openstack_t4")
    assert "scratch-ready" not in ours(machine.told()[0])
    declare(machine, mount_point="/mnt/a b")
    assert ours(machine.told()[0])["scratch-ready"] == "false"
    (machine.root / "mnt/a b").mkdir(parents=True)
    # Its source is called as a user of the machine, or of another one, liked it.
    mount = "2 1 9:0 / /mnt/a\\040b {0} - xfs /dev/x\\012trainyard.io/scratch-gib=9 {0}\n"
    machine.write("proc/self/mountinfo", mount.format("rw"))
    found = ours(machine.told()[0])
    size = os.statvfs(machine.root)
    assert found["scratch-ready"] == "true" and found["scratch-gib"] == str(size.f_blocks * size.f_frsize >> 30)
    machine.write("proc/self/mountinfo", mount.format("ro"))
    found = ours(machine.told()[0])
    assert found["scratch-ready"] == "false" and "scratch-gib" not in found
    declare(machine, mount_point="/mnt/a b", state="absent")
    assert "scratch-ready" not in ours(machine.told()[0])


def test_what_cannot_be_read_of_the_node_is_left_out_and_told(node):
    machine = node("openstack_t4")
    declare(machine)
    machine.features.mkdir(parents=True)
    (machine.root / "proc/self/mountinfo").unlink()
    shutil.rmtree(machine.root / "sys/devices/system/node")
    shutil.rmtree(machine.root / "sys/class")
    done = machine.run("--json", "-o", FILE)
    assert done.stderr == "" and len(json.loads(done.stdout)["notes"]) == 3
    assert json.loads(done.stdout)["file"] == FILE
    labels, said = machine.told()
    assert labels == {} and said.count("\n") == 3
    machine.write("etc/gpu_node/node.json", "{")
    assert "it is not valid JSON" in machine.told()[1]


def test_ports_of_infiniband(node):
    machine = node("openstack_t4")
    machine.port("mlx5_0")
    machine.port("mlx5_1", rate="200 Gb/sec (4X HDR)")
    machine.port("mlx5_2", state="1: DOWN", rate="10 Gb/sec")
    machine.port("mlx5_3", layer="Ethernet", rate="100 Gb/sec")
    found = ours(machine.told()[0])
    assert (found["infiniband-ports"], found["infiniband-rate-gbps"]) == ("2", "200")
    machine.port("mlx5_1", rate="fast")
    labels, said = machine.told()
    assert ours(labels)["infiniband-ports"] == "2" and "infiniband-rate-gbps" not in ours(labels) and "rate" in said
    (machine.root / "sys/class/infiniband/mlx5_2/ports/1/state").unlink()
    labels, said = machine.told()
    assert "infiniband-ports" not in ours(labels) and "port 1 of mlx5_2" in said


# Wrong usage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-o", "/none/x"], "there is no folder /none"),
        (["-o", FILE + "/"], "trainyard"),
        (["--valid", "5"], "option --valid 5: it is out of range; give 60 to 604800 seconds"),
        (["--valid", "nan"], "give 60 to 604800 seconds"),
        (["--valid", "x"], "--valid"),
        (["--mig-strategy", "both"], "choose among none, single, mixed"),
        (["--sharing", "mps=2"], "give --gfd"),
        (["--renamed"], "option --renamed: it only counts for the labels of --gfd"),
        (["--gfd", "--sharing", "mps"], "option --sharing mps: 'mps' tells no way to share"),
        (["--gfd", "--sharing", "mps=2", "--sharing", "time-slicing=2"], "choose one"),
        (["--gfd", "--sharing", "mps=many"], "no whole number"),
        (["--gfd", "--renamed"], "option --renamed: "),
        (["--gfd", "--renamed"], "shares nothing"),
    ],
)
def test_wrong_words_are_one_sentence(node, words, sentence):
    machine = node("openstack_t4")
    done = machine.run(*words)
    assert done.returncode == (1 if words[0] == "-o" else 2) and not done.stdout and "Traceback" not in done.stderr
    assert sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not machine.features.exists()
