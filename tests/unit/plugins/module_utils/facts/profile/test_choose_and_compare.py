# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing a profile and comparing with it, on the captured trees."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs, topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile import cloud
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.choose import choose
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.compare import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.types import Evidence, Metadata
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import GpuReading
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

FOLDER = pathlib.Path(__file__).resolve().parents[6] / "roles" / "node_profile" / "files" / "profiles"
PROFILES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.yml")}
PRODUCTS = {
    "ndv2": ("Tesla V100-SXM2-32GB", 34359738368),
    "ndv4": ("NVIDIA A100-SXM4-40GB", 42949672960),
    "ndv5": ("NVIDIA H100 80GB HBM3", 85520809984),
}
SILENT = Metadata(None, "it did not answer")


@pytest.fixture(scope="module")
def machines():
    """Evidence of each Azure tree, with and without NVML."""
    found = {}
    for name, (product, memory) in PRODUCTS.items():
        host = Host(shared(name))
        bare = topology.observe(host, (), "The driver is not loaded.")
        readings = [
            GpuReading(place, "GPU-{0}".format(place), product, gpu.name, memory) for place, gpu in enumerate(bare.gpus)
        ]
        dmi = tuple(sorted(sysfs.dmi(host).items()))
        found[name] = Evidence(dmi, SILENT, topology.observe(host, readings))
        found[name + " without NVML"] = Evidence(dmi, SILENT, bare)
    for name in ("laptop", "gb200"):
        host = Host(shared(name))
        found[name] = Evidence(tuple(sorted(sysfs.dmi(host).items())), SILENT, topology.observe(host))
    return found


def without_gpus(evidence, count):
    return dataclasses.replace(
        evidence, topology=dataclasses.replace(evidence.topology, gpus=evidence.topology.gpus[:-count])
    )


# Choosing ---------------------------------------------------------------------------------------------


def test_an_explicit_name_wins_over_everything(machines):
    evidence = dataclasses.replace(machines["ndv5"], metadata=Metadata("Standard_ND40rs_v2", None))
    found = choose("nd96asr_v4", PROFILES, evidence)
    assert (found.name, found.source) == ("nd96asr_v4", "explicit")
    assert choose("unknown", PROFILES, evidence).name == "unknown"


@pytest.mark.parametrize("name, near", [("nd96asr_v5", "nd96asr_v4"), ("virtuel", "virtual"), ("", None)])
def test_an_unknown_name_lists_those_there_are(machines, name, near):
    with pytest.raises(NodeError) as caught:
        choose(name, PROFILES, machines["ndv4"])
    for known in PROFILES:
        assert known in str(caught.value)
    assert near is None or "did you mean '{0}'?".format(near) in str(caught.value)


@pytest.mark.parametrize(
    "size, name",
    [
        ("Standard_ND96asr_v4", "nd96asr_v4"),
        ("standard_nd96asr_v4", "nd96asr_v4"),
        ("ND96amsr_A100_v4", "nd96amsr_a100_v4"),
        ("Standard_ND40rs_v2", "nd40rs_v2"),
        ("Standard_ND96isr_H100_v5", "nd96isr_h100_v5"),
        ("Standard_ND96isr_H200_v5", "nd96isr_h200_v5"),
        ("Standard_ND96isrf_H200_v5", "nd96isrf_h200_v5"),
        ("Standard_ND96is_H100_v5", "nd96is_h100_v5"),
        ("Standard_ND96is_H200_v5", "nd96is_h200_v5"),
        ("Standard_NC24ads_A100_v4", "nc24ads_a100_v4"),
        ("Standard_NC48ads_A100_v4", "nc48ads_a100_v4"),
        ("Standard_NC96ads_A100_v4", "nc96ads_a100_v4"),
        ("Standard_NC40ads_H100_v5", "nc40ads_h100_v5"),
        ("Standard_NC80adis_H100_v5", "nc80adis_h100_v5"),
        ("Standard_ND128isr_NDR_GB200_v6", "nd128isr_ndr_gb200_v6"),
        ("Standard_ND128isr_GB300_v6", "nd128isr_gb300_v6"),
        ("Standard_ND128isrG5_GB300_v6", "nd128isr_gb300_v6"),
        ("p4d.24xlarge", "aws_p4d_24xlarge"),
        ("p5.48xlarge", "aws_p5_48xlarge"),
        ("p5en.48xlarge", "aws_p5en_48xlarge"),
        ("a3-highgpu-8g", "gcp_a3_highgpu_8g"),
        ("a3-megagpu-8g", "gcp_a3_megagpu_8g"),
        ("a3-ultragpu-8g", "gcp_a3_ultragpu_8g"),
        ("BM.GPU.H100.8", "oci_bm_gpu_h100_8"),
    ],
)
def test_the_vm_size_chooses(machines, size, name):
    found = choose("auto", PROFILES, dataclasses.replace(machines["laptop"], metadata=Metadata(size, None)))
    assert (found.name, found.source) == (name, "metadata")


def test_a_vm_size_without_profile_is_unknown_even_where_the_hardware_is_alike(machines):
    # A size that was never heard of may look like one that is known.
    evidence = dataclasses.replace(machines["ndv5"], metadata=Metadata("Standard_ND96isrx_H100_v5", None))
    found = choose("auto", PROFILES, evidence)
    assert (found.name, found.known) == ("unknown", False)
    assert "Standard_ND96isrx_H100_v5" in found.reason


def test_what_the_firmware_tells_chooses_and_is_told_so(machines):
    def told(size):
        return choose(
            "auto", PROFILES, dataclasses.replace(machines["ndv5"], metadata=Metadata(size, None, "firmware"))
        )

    found = told("p5.48xlarge")
    assert (found.name, found.source) == ("aws_p5_48xlarge", "metadata")
    assert found.reason == "The firmware says that this is a p5.48xlarge."
    found = told("p5e.48xlarge")
    assert (found.name, found.source) == ("unknown", "metadata") and "no profile is for it" in found.reason


def test_a_machine_that_lost_its_infiniband_is_not_taken_for_the_size_without(machines):
    topology_ = dataclasses.replace(machines["ndv5"].topology, infiniband=())
    found = choose("auto", PROFILES, dataclasses.replace(machines["ndv5"], topology=topology_))
    assert found.name == "unknown"
    assert "nd96isr_h100_v5 would fit but for infiniband_count" in found.reason


def test_aws_is_chosen_by_its_firmware_and_only_its_instance_stores_are_local():
    host = Host(shared("p4d"))
    bare = topology.observe(host)
    seen = topology.observe(
        host, [GpuReading(n, "GPU-x", *PRODUCTS["ndv4"][:1], gpu.name, 42949672960) for n, gpu in enumerate(bare.gpus)]
    )
    dmi = sysfs.dmi(host)
    evidence = Evidence(tuple(sorted(dmi.items())), cloud.read("auto", dmi), seen)
    assert choose("auto", PROFILES, evidence).name == "aws_p4d_24xlarge"
    # The EBS volume is the ninth NVMe disk, and EFA is no InfiniBand: neither is counted.
    assert len(seen.nvme) == 9 and len(seen.infiniband) == 4
    assert compare(PROFILES["aws_p4d_24xlarge"], seen) == ()
    (lost,) = compare(PROFILES["aws_p4d_24xlarge"], dataclasses.replace(seen, nvme=seen.nvme[:-1]))
    assert (lost.subject, lost.expected, lost.found) == ("local NVMe disks", 8, 7)


@pytest.mark.parametrize(
    "product, pci_id, name",
    [
        ("NVIDIA GB200", "10de:2941", "nd128isr_ndr_gb200_v6"),
        ("NVIDIA GB300", "10de:31c2", "nd128isr_gb300_v6"),
    ],
)
def test_grace_machines_are_told_apart_and_their_memory_nodes_are_no_places_for_cpus(product, pci_id, name):
    seen = topology.observe(Host(shared("gb200")))
    gpus = tuple(
        dataclasses.replace(gpu, nvml=True, index=place, product=product, pci_id=pci_id, memory_bytes=300 * 10**9)
        for place, gpu in enumerate(seen.gpus)
    )
    seen = dataclasses.replace(seen, gpus=gpus, gpus_reason=None)
    azure = (("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),)
    assert choose("auto", PROFILES, Evidence(azure, SILENT, seen)).name == name
    # The tree has no disks; all the rest is as the profile says.
    assert [one.subject for one in compare(PROFILES[name], seen)] == ["local NVMe disks"]


def test_disks_that_are_namespaces_of_one_controller_are_counted(machines):
    """GCP shows its local SSDs so; on the others each disk is a controller."""
    one = machines["ndv4"].topology.nvme[0]
    spaces = tuple(dataclasses.replace(one.namespaces[0], name="nvme0n{0}".format(n)) for n in range(1, 17))
    local = dataclasses.replace(one, model="nvme_card", namespaces=spaces)
    boot = dataclasses.replace(one, name="nvme1", model="nvme_card-pd", serial="BOOT")
    wanted = {"nvme": PROFILES["gcp_a3_megagpu_8g"]["nvme"]}
    assert compare(wanted, dataclasses.replace(machines["ndv4"].topology, nvme=(local, boot))) == ()
    fewer = dataclasses.replace(local, namespaces=spaces[:15])
    (found,) = compare(wanted, dataclasses.replace(machines["ndv4"].topology, nvme=(fewer, boot)))
    assert (found.subject, found.expected, found.found) == ("local NVMe disks", 16, 15)


@pytest.mark.parametrize("tree, name", [("ndv2", "nd40rs_v2"), ("ndv4", "nd96asr_v4"), ("ndv5", "nd96isr_h100_v5")])
@pytest.mark.parametrize("nvml", ["", " without NVML"])
def test_the_hardware_chooses_where_the_cloud_is_silent(machines, tree, name, nvml):
    found = choose("auto", PROFILES, machines[tree + nvml])
    assert (found.name, found.source) == (name, "hardware")
    assert "did not answer" in found.reason


def test_the_product_tells_the_two_a100_sizes_apart(machines):
    topology_80 = dataclasses.replace(
        machines["ndv4"].topology,
        gpus=tuple(dataclasses.replace(gpu, product="NVIDIA A100-SXM4-80GB") for gpu in machines["ndv4"].topology.gpus),
    )
    found = choose("auto", PROFILES, dataclasses.replace(machines["ndv4"], topology=topology_80))
    assert found.name == "nd96amsr_a100_v4"


def test_the_virtual_node_is_told_from_the_machine_it_imitates(machines):
    guest = dataclasses.replace(machines["ndv4"], dmi=(("sys_vendor", "QEMU"),))
    assert choose("auto", PROFILES, guest).name == "virtual"
    assert choose("auto", PROFILES, dataclasses.replace(guest, dmi=())).name == "unknown"


@pytest.mark.parametrize("tree", ["laptop", "gb200"])
def test_a_machine_without_profile_is_unknown_with_a_reason(machines, tree):
    found = choose("auto", PROFILES, machines[tree])
    assert (found.name, found.source) == ("unknown", "none")
    assert "No profile describes" in found.reason


def test_a_machine_that_misses_a_gpu_is_unknown_and_told_what_it_would_be(machines):
    found = choose("auto", PROFILES, without_gpus(machines["ndv4"], 1))
    assert found.name == "unknown"
    assert "nd96asr_v4 would fit but for gpu_count" in found.reason


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("nvml", ["", " without NVML"])
def test_a_machine_that_lost_gpus_keeps_the_profile_that_it_had(machines, nvml, count):
    found = choose("auto", PROFILES, without_gpus(machines["ndv4" + nvml], count), "nd96asr_v4")
    assert (found.name, found.source) == ("nd96asr_v4", "declared")
    assert "only devices are missing" in found.reason and "did not answer" in found.reason


def test_a_profile_that_only_the_size_tells_stays_when_the_cloud_is_silent_for_once(machines):
    def chosen(evidence, declared):
        return choose("auto", PROFILES, evidence, declared).name

    def seen(**parts):
        return dataclasses.replace(machines["ndv5"], topology=dataclasses.replace(machines["ndv5"].topology, **parts))

    h200 = seen(
        gpus=tuple(
            dataclasses.replace(gpu, product="NVIDIA H200", pci_id="10de:2335")
            for gpu in machines["ndv5"].topology.gpus
        )
    )
    assert chosen(h200, "unknown") == "nd96isr_h200_v5"
    assert choose("auto", PROFILES, h200, "nd96isrf_h200_v5").source == "declared"
    assert chosen(h200, "nd96isrf_h200_v5") == "nd96isrf_h200_v5"
    assert chosen(without_gpus(h200, 1), "nd96isrf_h200_v5") == "nd96isrf_h200_v5"
    assert chosen(seen(infiniband=()), "nd96is_h100_v5") == "nd96is_h100_v5"
    # Not on a machine that shows something else, as one that boots an image with this declaration.
    assert chosen(machines["ndv5"], "nd96is_h100_v5") == "nd96isr_h100_v5"
    assert chosen(machines["ndv5"], "nd96isrf_h200_v5") == "nd96isr_h100_v5"
    assert chosen(machines["ndv5 without NVML"], "nd96isrf_h200_v5") == "nd96isr_h100_v5"
    assert chosen(machines["ndv4"], "gcp_a3_highgpu_8g") == "nd96asr_v4"


def test_a_declared_profile_is_that_of_this_machine_only(machines):
    lost = without_gpus(machines["ndv4"], 8)
    # An image that carries the declaration to another cloud or another size, or one with other GPUs.
    elsewhere = dataclasses.replace(lost, dmi=())
    assert choose("auto", PROFILES, elsewhere, "nd96asr_v4").name == "unknown"
    assert choose("auto", PROFILES, without_gpus(machines["ndv2"], 8), "nd96asr_v4").name == "unknown"
    assert choose("auto", PROFILES, without_gpus(machines["ndv4"], 1), "nd96amsr_a100_v4").name == "unknown"
    assert choose("auto", PROFILES, lost, "of_a_site").name == "unknown"
    weak = {"rack7": {"match": {"gpu_products": ["NVIDIA A100-SXM4-40GB"], "gpu_count": 8}}}
    assert choose("auto", weak, lost, "rack7").name == "unknown"
    assert choose("auto", weak, without_gpus(machines["ndv4"], 1), "rack7").source == "declared"
    # More than there were is no loss, and the cloud knows better.
    more = dataclasses.replace(
        lost, topology=dataclasses.replace(lost.topology, gpus=machines["ndv4"].topology.gpus * 2)
    )
    assert choose("auto", PROFILES, more, "nd96asr_v4").name == "unknown"
    told = dataclasses.replace(lost, metadata=Metadata("Standard_D96s_v5", None))
    assert choose("auto", PROFILES, told, "nd96asr_v4").name == "unknown"
    assert choose("auto", PROFILES, machines["ndv4"], "nd40rs_v2").name == "nd96asr_v4"


def test_two_fitting_profiles_are_no_choice(machines):
    twice = dict(PROFILES, copy_of_it=dict(PROFILES["nd96asr_v4"], name="copy_of_it"))
    found = choose("auto", twice, machines["ndv4"])
    assert found.name == "unknown" and "copy_of_it, nd96asr_v4" in found.reason
    sized = dataclasses.replace(machines["ndv4"], metadata=Metadata("Standard_ND96asr_v4", None))
    assert choose("auto", twice, sized).name == "unknown"


def test_without_profiles_every_machine_is_unknown(machines):
    assert choose("auto", {}, machines["ndv4"]).name == "unknown"


# Comparing --------------------------------------------------------------------------------------------


def differences(profile, evidence):
    return {
        one.subject: (one.expected, one.found, one.severity) for one in compare(PROFILES[profile], evidence.topology)
    }


@pytest.mark.parametrize("tree, name", [("ndv2", "nd40rs_v2"), ("ndv4", "nd96asr_v4"), ("ndv5", "nd96isr_h100_v5")])
def test_a_machine_as_it_should_be_has_no_differences(machines, tree, name):
    assert compare(PROFILES[name], machines[tree].topology) == ()


def test_without_driver_the_rest_is_compared_all_the_same(machines):
    found = differences("nd96asr_v4", machines["ndv4 without NVML"])
    assert list(found) == ["GPUs that NVML reports"]
    assert found["GPUs that NVML reports"][2] == "warn"


def test_a_missing_gpu_and_one_that_nvml_lost_are_two_differences(machines):
    seven = without_gpus(machines["ndv4"], 1)
    assert differences("nd96asr_v4", seven) == {
        "GPUs on the PCI bus": (8, 7, "fail"),
        "GPUs that NVML reports": (8, 7, "fail"),
    }
    gpus = machines["ndv4"].topology.gpus
    lost = dataclasses.replace(
        machines["ndv4"].topology, gpus=(dataclasses.replace(gpus[0], nvml=False, product=None),) + gpus[1:]
    )
    assert [one.subject for one in compare(PROFILES["nd96asr_v4"], lost)] == ["GPUs that NVML reports"]


def test_another_machine_differs_everywhere(machines):
    found = differences("nd96asr_v4", machines["ndv5"])
    assert found["NUMA nodes of the GPUs"] == ([1, 1, 0, 0, 3, 3, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1], "fail")
    assert found["NUMA nodes with CPUs"] == (4, 2, "fail")
    assert found["product of GPU 0001:00:00.0"] == ("NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3", "fail")
    assert found["memory"] == ("885.8 GiB ± 3 %", "1.8 TiB", "warn")
    # Faster than asked for is odd, and no fault.
    assert found["rate of mlx5_ib0 port 1 in Gb/s"] == (200, 400.0, "warn")


def test_drivers_that_leave_the_maker_out_of_the_name_are_understood(machines):
    old = dataclasses.replace(
        machines["ndv4"].topology,
        gpus=tuple(dataclasses.replace(gpu, product="A100-SXM4-40GB") for gpu in machines["ndv4"].topology.gpus),
    )
    assert compare(PROFILES["nd96asr_v4"], old) == ()


def test_an_unknown_numa_node_is_a_warning_and_a_wrong_one_a_failure(machines):
    def moved(node):
        gpus = machines["ndv4"].topology.gpus
        place = dataclasses.replace(gpus[0].placement, numa_node=node)
        changed = (dataclasses.replace(gpus[0], placement=place),) + gpus[1:]
        return compare(PROFILES["nd96asr_v4"], dataclasses.replace(machines["ndv4"].topology, gpus=changed))

    assert [one.severity for one in moved(None)] == ["warn"]
    assert [one.severity for one in moved(0)] == ["fail"]


def test_disks_are_counted_by_model_and_must_live(machines):
    nvme = machines["ndv4"].topology.nvme
    remote = dataclasses.replace(nvme[0], name="nvme8", model="MSFT NVMe Accelerator v1.0", serial="REMOTE")
    dead = dataclasses.replace(nvme[1], state="dead")
    found = compare(
        PROFILES["nd96asr_v4"],
        dataclasses.replace(
            machines["ndv4"].topology, nvme=(dead, dataclasses.replace(nvme[2], namespaces=()), remote)
        ),
    )
    assert [(one.subject, one.expected, one.found) for one in found] == [
        ("local NVMe disks", 8, 2),
        ("state of NVMe disk SERIAL0001", "live", "dead"),
        ("namespaces of NVMe disk SERIAL0002", 1, 0),
    ]


def test_a_port_that_is_down_or_slow_fails(machines):
    cards = machines["ndv4"].topology.infiniband

    def changed(**port):
        one = dataclasses.replace(cards[1], ports=(dataclasses.replace(cards[1].ports[0], **port),))
        return dataclasses.replace(machines["ndv4"].topology, infiniband=(cards[0], one) + cards[2:])

    name = cards[1].name
    down = compare(PROFILES["nd96asr_v4"], changed(state="DOWN"))
    assert [(one.subject, one.found, one.severity) for one in down] == [
        ("state of {0} port 1".format(name), "DOWN", "fail")
    ]
    slow = compare(PROFILES["nd96asr_v4"], changed(rate_gigabits_per_second=100.0))
    assert [(one.found, one.severity) for one in slow] == [(100.0, "fail")]


def test_a_profile_that_says_little_compares_little(machines):
    assert compare({"name": "x", "description": "x", "match": {}}, machines["laptop"].topology) == ()
