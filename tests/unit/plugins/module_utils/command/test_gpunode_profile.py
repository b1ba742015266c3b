# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode profile suggest`` on captured machines with simulated GPUs.

The VM size is always given, or the firmware names no cloud: nobody is asked over a network.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile import schema, suggest
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.choose import choose
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.compare import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.types import Evidence, Metadata
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.topology import GpuReading
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

FOLDER = pathlib.Path(__file__).resolve().parents[5] / "roles" / "node_profile" / "files" / "profiles"
MACHINES = {
    "ndv2": ("nd40rs_v2", "Standard_ND40rs_v2"),
    "ndv4": ("nd96asr_v4", "Standard_ND96asr_v4"),
    "ndv5": ("nd96isr_h100_v5", "Standard_ND96isr_H100_v5"),
}


@pytest.fixture
def node(nvml_simulator, tmp_path):
    """A machine whose firmware names nobody, unless ``firmware`` says what it says."""

    def make(tree, firmware=None):
        simulator = nvml_simulator(MACHINES[tree][0])
        root = pathlib.Path(unpack(tree, tmp_path / tree))
        for field in (root / "sys/class/dmi/id").iterdir():
            field.unlink()
        for field, content in (firmware or {}).items():
            (root / "sys/class/dmi/id" / field).write_text(content + "\n")

        def run(*words):
            return forked.run(
                [sys.executable, gpunode_on.__file__, str(root), "--", "profile", "suggest", *words],
                env=simulator.environment(),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        run.simulator, run.root = simulator, root
        return run

    return make


def looked(run):
    """The machine as NVML and sysfs show it, for comparing."""
    host = Host(str(run.root))
    bare = topology.observe(host)
    given = yaml.safe_load((FOLDER / (MACHINES[run.root.name][0] + ".yml")).read_text())["gpus"]
    product = given["products"][0].rstrip("*")
    return topology.observe(
        host,
        [GpuReading(n, "GPU-x", product, gpu.name, given["memory_bytes_min"] * 2) for n, gpu in enumerate(bare.gpus)],
    )


def suggested(run, *words):
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout, yaml.safe_load(done.stdout)


@pytest.mark.parametrize("tree", sorted(MACHINES))
def test_what_is_suggested_is_valid_and_says_what_the_known_profile_says(node, tree):
    known_name, size = MACHINES[tree]
    text, profile = suggested(node(tree), "--vm-size", size)
    assert schema.problems(profile, known_name) == ()
    known = yaml.safe_load((FOLDER / (known_name + ".yml")).read_text(encoding="utf-8"))
    assert profile["match"] == {"vm_sizes": [size]}
    for key in ("gpu_numa", "cpus", "numa_nodes", "infiniband"):
        assert profile[key] == known[key], key
    for key in ("count", "graphics_clock_max_mhz", "memory_clock_max_mhz", "nvlinks"):
        assert profile["gpus"][key] == known["gpus"][key], key
    assert profile["gpus"]["memory_bytes_min"] >= known["gpus"]["memory_bytes_min"]
    assert abs(profile["memory"]["bytes"] - known["memory"]["bytes"]) < known["memory"]["bytes"] // 100
    assert "thresholds" not in profile and "nccl" not in profile


@pytest.mark.parametrize("tree", sorted(MACHINES))
def test_the_machine_matches_what_was_suggested_for_it_and_is_chosen_by_it(node, tree):
    run = node(tree, {"sys_vendor": "Maker [EU]", "product_name": "Rack*7"})
    dummy, profile = suggested(run, "--name", "rack7")
    seen = looked(run)
    dmi = (("product_name", "Rack*7"), ("sys_vendor", "Maker [EU]"))
    chosen = choose("auto", {"rack7": profile}, Evidence(dmi, Metadata(None, "silent"), seen))
    assert (chosen.name, chosen.source) == ("rack7", "hardware")
    assert compare(profile, seen) == ()
    # The name of the product is a pattern that fits itself and no other.
    other = (("product_name", "Rack27"), ("sys_vendor", "Maker [EU]"))
    assert not choose("auto", {"rack7": profile}, Evidence(other, Metadata(None, "silent"), seen)).known


@pytest.mark.parametrize("product", [b"Rack\xff\xfe", "Rack\U0001f600".encode(), b"Rack\x7f\x1b[31m # x: y"])
def test_whatever_the_firmware_says_the_file_can_be_read_and_fits(node, product):
    run = node("ndv4")
    (run.root / "sys/class/dmi/id/product_name").write_bytes(product + b"\n")
    text, profile = suggested(run, "--name", "rack7")
    assert text.isascii() and json.dumps(profile, ensure_ascii=False).encode("utf-8")
    told = product.decode("utf-8", "surrogateescape")
    seen = Evidence((("product_name", told),), Metadata(None, "silent"), looked(run))
    assert choose("auto", {"rack7": profile}, seen).name == "rack7"


def test_each_figure_is_marked_and_nothing_of_this_machine_alone_is_in_it(node):
    run = node("ndv4")
    text, dummy = suggested(run)
    body = text.partition("\nname:")[2]
    for line in body.splitlines():
        if re.search(r"\d", line.partition(":")[2]) and not line.startswith(("description", ' "')):
            assert line.endswith(("  # measured", "  # unverified")) or line.startswith(' "'), line
    assert re.findall(r"(\w+): \d+  # unverified", body) == ["tolerance_percent"]
    for secret in ("SERIAL", "GPU-", "0001:00:00.0", "0015:5dff", "eui."):
        assert secret not in text
    assert max(len(line) for line in text.partition("\nname:")[0].splitlines()) <= 80


def test_it_is_the_same_each_time(node):
    run = node("ndv5")
    assert run().stdout == run().stdout


def test_as_json_for_programs(node):
    done = node("ndv4")("--json", "--vm-size", "Standard_ND96asr_v4")
    found = json.loads(done.stdout)
    assert found["profile"]["name"] == "nd96asr_v4" and schema.problems(found["profile"]) == ()
    assert found["unverified"] == ["memory.tolerance_percent"]
    assert any("gpunode health" in one for one in found["checks"])
    assert found["checks"][-1].startswith("Save it as nd96asr_v4.yml")


@pytest.mark.parametrize(
    "firmware, models",
    [
        ({}, None),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, None),
        ({"sys_vendor": "Amazon EC2", "product_name": "p9.48xlarge"}, None),
        (
            {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
            ["Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"],
        ),
    ],
)
def test_only_the_local_disks_of_this_machines_own_cloud_are_named_as_scratch(node, firmware, models):
    """The tree's disks are Azure's. Elsewhere nobody said that they may be erased."""
    text, profile = suggested(node("ndv4", firmware), "--vm-size", "x")
    if models is None:
        assert "nvme" not in profile
        assert "Here are also: Microsoft NVMe Direct Disk." in " ".join(re.sub(r"\n#\s+", " ", text).split())
    else:
        assert profile["nvme"] == {"models": models, "count": 8}


def test_the_local_models_are_those_of_the_profiles():
    named = {tuple(models) for dummy, dummy, models in suggest.LOCAL_DISKS}
    kept = set()
    for path in FOLDER.glob("*.yml"):
        nvme = yaml.safe_load(path.read_text(encoding="utf-8")).get("nvme", {})
        if nvme.get("count") and path.stem != "virtual":
            kept.add(tuple(nvme["models"]))
    assert named == kept


def test_the_instance_type_of_aws_comes_from_the_firmware(node):
    firmware = {"sys_vendor": "Amazon EC2", "product_name": "p4d.24xlarge"}
    dummy, profile = suggested(node("ndv4", firmware))
    assert (profile["name"], profile["match"]) == ("p4d_24xlarge", {"vm_sizes": ["p4d.24xlarge"]})


# What is refused ----------------------------------------------------------------------------------------


def refused(run, *words):
    done = run(*words)
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.returncode, done.stderr


def test_a_machine_whose_gpus_do_not_answer_is_refused(node):
    run = node("ndv4")
    run.simulator.control("fault", "driver", "not-loaded")
    status, sentence = refused(run)
    assert status == 1 and "the GPUs of this machine" in sentence and "put that right" in sentence


def test_a_machine_with_one_lost_gpu_is_refused_and_the_gpu_named(node):
    run = node("ndv4")
    run.simulator.control("fault", "gpu", "3", "lost")
    status, sentence = refused(run)
    assert status == 1 and "GPU 0004:00:00.0" in sentence and "would become the rule" in sentence


def test_a_machine_whose_cpus_cannot_be_read_is_refused(nvml_simulator, tmp_path):
    run = forked.run(
        [sys.executable, gpunode_on.__file__, str(tmp_path), "--", "profile", "suggest"],
        env=nvml_simulator("nd96asr_v4").environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1 and run.stdout == ""
    assert "the CPUs of this machine: they could not be read" in run.stderr, run.stderr


def test_a_memory_that_cannot_be_is_no_memory(node):
    run = node("ndv4")
    for gpu in range(8):
        run.simulator.control("set", "gpu.{0}.memory.total_mib".format(gpu), "17592186044415")
    text, profile = suggested(run)
    assert "memory_bytes_min" not in profile["gpus"] and "gpus.memory_bytes_min is left out" in text


def test_a_machine_without_gpus_is_refused(tmp_path):
    root = unpack("hb176", tmp_path / "hb176")
    (pathlib.Path(root) / "sys/class/dmi/id/chassis_asset_tag").unlink()
    done = forked.run(
        [sys.executable, gpunode_on.__file__, root, "--", "profile", "suggest"],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "this machine: it has no NVIDIA GPU; run it on a GPU node." in done.stderr


@pytest.mark.parametrize("name", ["Rack7", "auto", "unknown", "../x", "a b"])
def test_a_name_that_no_profile_may_have_is_wrong_use(node, name):
    status, sentence = refused(node("ndv4"), "--name", name)
    assert status == 2 and "--name {0}".format(name) in sentence


def test_a_vm_size_that_is_no_name_of_a_profile_asks_for_one(node):
    status, sentence = refused(node("ndv4"), "--vm-size", "unknown")
    assert status == 2 and "VM size unknown: " in sentence and "--name" in sentence and "bug" not in sentence


def test_parts_that_differ_or_are_down_are_left_out_and_named(node):
    run = node("ndv4")
    ports = sorted((run.root / "sys/class/infiniband").glob("mlx5_ib*/ports/1/state"))
    ports[2].write_text("1: DOWN\n")
    text, profile = suggested(run)
    assert profile["infiniband"] == {"count": 8}
    assert "infiniband.rate is left out: mlx5_ib2 port 1 not active." in text


@pytest.mark.parametrize("links, told", [(range(12), None), ([3], 11)])
def test_nvlinks_that_are_down_on_every_gpu_are_named(node, links, told):
    run = node("ndv4")
    assert "NVLinks" not in suggested(run)[0]
    for gpu in range(8):
        for link in links:
            run.simulator.control("nvlink", str(gpu), str(link), "down")
    text, profile = suggested(run)
    assert profile["gpus"].get("nvlinks") == told
    assert "Only {0} of 12 NVLinks of a GPU are active: make sure".format(told or 0) in text


def test_a_machine_whose_driver_tells_no_product_is_refused(node):
    run = node("ndv4")
    run.simulator.control("fault", "call", "nvmlDeviceGetName", "gpu", "2", "return", "UNKNOWN")
    status, sentence = refused(run)
    assert status == 1 and "GPU 0003:00:00.0" in sentence and "product" in sentence


def test_an_unknown_numa_node_is_left_out_and_named(node):
    run = node("ndv4")
    dummy, known = suggested(run)
    assert "gpu_numa" in known
    # Node 3 is gone: two GPUs sit on a node that has no CPUs any more.
    (run.root / "sys/devices/system/node/node3/cpulist").write_text("\n")
    text, profile = suggested(run)
    assert "gpu_numa" not in profile and "numa_nodes" not in profile
    assert "gpu_numa is left out" in text and "numa_nodes is left out" in text


def test_the_cloud_is_asked_only_where_the_size_is_not_given(monkeypatch, capsys):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import profile

    asked = []

    def read(mode, dmi):
        asked.append(mode)
        return Metadata(None, "silent")

    monkeypatch.setattr(profile.cloud, "read", read)
    monkeypatch.setattr(profile.suggest, "suggest", lambda *given: given)
    monkeypatch.setattr(profile.suggest, "text", lambda found, wrap: "{0}\n".format(found[3:]))
    monkeypatch.setattr(profile.gpu_info, "gather", lambda options: None)
    monkeypatch.setattr(profile.topology, "look", lambda host: None)

    class Given:
        json, name, vm_size = False, None, "Standard_X"

    assert profile.run(Host(), Given) == 0 and asked == []
    assert "Standard_X" in capsys.readouterr().out
    Given.vm_size = None
    assert profile.run(Host(), Given) == 0 and asked == ["auto"]
