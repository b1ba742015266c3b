# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles that come with the collection, and what a profile may hold."""

from __future__ import annotations

import copy
import fnmatch
import pathlib
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile import schema
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.compare import is_local
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.disks import REMOTE_MODELS

FOLDER = pathlib.Path(__file__).resolve().parents[6] / "roles" / "node_profile" / "files" / "profiles"
FILES = sorted(FOLDER.glob("*.yml"))
NAMES = [path.stem for path in FILES]


def load(name):
    return yaml.safe_load((FOLDER / (name + ".yml")).read_text(encoding="utf-8"))


def test_there_is_a_profile_for_each_size_and_for_the_virtual_node():
    assert NAMES == sorted(
        ["nd40rs_v2", "nd96asr_v4", "nd96amsr_a100_v4", "virtual"]
        + ["nd96isr_h100_v5", "nd96isr_h200_v5", "nd96isrf_h200_v5", "nd96is_h100_v5", "nd96is_h200_v5"]
        + ["nc24ads_a100_v4", "nc48ads_a100_v4", "nc96ads_a100_v4", "nc40ads_h100_v5", "nc80adis_h100_v5"]
        + ["nd128isr_ndr_gb200_v6", "nd128isr_gb300_v6", "oci_bm_gpu_h100_8"]
        + ["aws_p4d_24xlarge", "aws_p5_48xlarge", "aws_p5en_48xlarge"]
        + ["gcp_a3_highgpu_8g", "gcp_a3_megagpu_8g", "gcp_a3_ultragpu_8g"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_profile_is_valid(name):
    assert schema.problems(load(name), name) == ()


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_names_a_source_that_the_file_explains(name):
    """``unverified`` is what no source gives: said beside the figure."""
    text = (FOLDER / (name + ".yml")).read_text(encoding="utf-8")
    explained = set(re.findall(r"^#   \[(\w+)\]", text, re.MULTILINE))
    used = set()
    for line in text.splitlines():
        content, dummy, comment = line.partition("  # ")
        value = content.partition(":")[2] if ":" in content else content
        if content.startswith(("#", "description", "name:")) or not re.search(r"\d", value):
            continue
        source = re.match(r"\[(\w+)\]|unverified\b", comment)
        assert source or "every Azure VM" in comment, "{0}: no source for {1!r}".format(name, line)
        used.update(re.findall(r"\[(\w+)\]", comment))
    assert used == explained, "sources named and sources explained differ"


# What the tables of the clouds say, written down again by hand; None is what no source gives.
@pytest.mark.parametrize(
    "name, cpus, nodes, numa, nvme, ports, rate",
    [
        ("nd40rs_v2", 40, [20, 20], [0, 0, 0, 0, 1, 1, 1, 1], 0, 1, 100),
        ("nd96asr_v4", 96, [24, 24, 24, 24], [1, 1, 0, 0, 3, 3, 2, 2], 8, 8, 200),
        ("nd96amsr_a100_v4", 96, [24, 24, 24, 24], [1, 1, 0, 0, 3, 3, 2, 2], 8, 8, 200),
        ("nd96isr_h100_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], 8, 8, 400),
        ("nd96isr_h200_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], 8, 8, 400),
        ("nd96isrf_h200_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], None, 8, 400),
        ("nd96is_h100_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], None, 0, None),
        ("nd96is_h200_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], None, 0, None),
        ("nc24ads_a100_v4", 24, None, None, 1, 0, None),
        ("nc48ads_a100_v4", 48, None, None, 2, 0, None),
        ("nc96ads_a100_v4", 96, [24, 24, 24, 24], [0, 1, 2, 3], 4, 0, None),
        ("nc40ads_h100_v5", 40, None, None, None, 0, None),
        ("nc80adis_h100_v5", 80, None, None, None, 0, None),
        ("nd128isr_ndr_gb200_v6", 128, [None, None], None, 4, 4, 400),
        ("nd128isr_gb300_v6", 128, [None, None], None, 4, 4, None),
        ("aws_p4d_24xlarge", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], 8, 0, None),
        ("aws_p5_48xlarge", 192, None, None, 8, 0, None),
        ("aws_p5en_48xlarge", 192, None, None, 8, 0, None),
        ("gcp_a3_highgpu_8g", 208, None, None, 16, 0, None),
        ("gcp_a3_megagpu_8g", 208, None, None, 16, 0, None),
        ("gcp_a3_ultragpu_8g", 224, None, None, 32, 0, None),
        ("oci_bm_gpu_h100_8", 224, [112, 112], [0, 0, 0, 0, 1, 1, 1, 1], None, 0, None),
    ],
)
def test_the_shape_of_each_size(name, cpus, nodes, numa, nvme, ports, rate):
    profile = load(name)
    assert profile["cpus"] == cpus
    assert [node.get("cpus") for node in profile["numa_nodes"]] == nodes if nodes else "numa_nodes" not in profile
    assert profile.get("gpu_numa") == numa
    assert profile.get("nvme", {}).get("count") == nvme
    assert (profile["infiniband"]["count"], profile["infiniband"].get("rate_gigabits_per_second")) == (ports, rate)


@pytest.mark.parametrize(
    "name, count, product, gigabytes",
    [
        ("nc24ads_a100_v4", 1, "NVIDIA A100 80GB PCIe", 80),
        ("nc48ads_a100_v4", 2, "NVIDIA A100 80GB PCIe", 80),
        ("nc96ads_a100_v4", 4, "NVIDIA A100 80GB PCIe", 80),
        ("nc40ads_h100_v5", 1, "NVIDIA H100 NVL", 94),
        ("nc80adis_h100_v5", 2, "NVIDIA H100 NVL", 94),
        ("nd96is_h100_v5", 8, "NVIDIA H100 80GB HBM3", 80),
        ("nd96is_h200_v5", 8, "NVIDIA H200", 141),
        ("nd96isrf_h200_v5", 8, "NVIDIA H200", 141),
        ("nd128isr_ndr_gb200_v6", 4, "NVIDIA GB200", 192),
        ("nd128isr_gb300_v6", 4, "NVIDIA GB300", 288),
        ("aws_p4d_24xlarge", 8, "NVIDIA A100-SXM4-40GB", 40),
        ("aws_p5_48xlarge", 8, "NVIDIA H100 80GB HBM3", 80),
        ("aws_p5en_48xlarge", 8, "NVIDIA H200", 141),
        ("gcp_a3_highgpu_8g", 8, "NVIDIA H100 80GB HBM3", 80),
        ("gcp_a3_megagpu_8g", 8, "NVIDIA H100 80GB HBM3", 80),
        ("gcp_a3_ultragpu_8g", 8, "NVIDIA H200", 141),
        ("oci_bm_gpu_h100_8", 8, "NVIDIA H100 80GB HBM3", 80),
    ],
)
def test_the_gpus_of_each_size(name, count, product, gigabytes):
    gpus = load(name)["gpus"]
    assert (gpus["count"], gpus["products"], gpus["memory_bytes_min"]) == (count, [product], gigabytes * 10**9)


@pytest.mark.parametrize("name", NAMES)
def test_the_hardware_that_chooses_is_the_hardware_that_is_compared(name):
    profile = load(name)
    match = profile["match"]
    for here, there in (
        (match.get("gpu_count"), profile["gpus"]["count"]),
        (match.get("gpu_products"), profile["gpus"]["products"]),
        (match.get("cpus"), profile.get("cpus")),
        (match.get("infiniband_count"), profile["infiniband"]["count"]),
    ):
        assert here in (None, there)


@pytest.mark.parametrize(
    "name, h2d, allreduce",
    [
        ("nd40rs_v2", 9, 110),
        ("nd96asr_v4", 21, 228),
        ("nd96amsr_a100_v4", 21, 228),
        ("nd96isr_h100_v5", 48, 460),
        ("nd96isr_h200_v5", 48, 431),
        ("nd96isrf_h200_v5", 48, 432),
        ("nd96is_h200_v5", 48, 432),
        ("nd96is_h100_v5", 48, 460),
        ("nc48ads_a100_v4", 21, 193),
        ("nc96ads_a100_v4", 21, 25),
        ("nc80adis_h100_v5", 48, 208),
    ],
)
def test_the_limits_are_those_of_azures_health_checks(name, h2d, allreduce):
    thresholds = load(name)["thresholds"]
    assert thresholds["host_to_device_gigabytes_per_second"]["fail"] == h2d
    assert thresholds["nccl_allreduce_busbw_gigabytes_per_second"]["fail"] == allreduce


# Which disks may be erased ------------------------------------------------------------------------------

# Disks of the clouds' storage, and others that hold data: models as the kernel shows them.
REMOTE = [
    "MSFT NVMe Accelerator v1.0",
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "Virtual_Disk",
    "SAMSUNG MZWLR3T8HBLS-00AU3",
    "SAMSUNG MZQL23T8HCLS-00A07",
    "",
    None,
]
# What is like a local disk's model, and is none.
NEARLY = [
    "Microsoft NVMe Direct Disk v3",
    "Microsoft NVMe Direct",
    "Amazon EC2 NVMe",
    "Amazon EC2 NVMe Instance Storage 2",
    "amazon ec2 nvme instance storage",
    "nvme_card-",
    "nvme_card-pd0",
    "nvme_card0-pd",
    "nvme_cards",
    "nvme_card100",
    "my nvme_card",
]
LOCAL = {
    "aws": ["Amazon EC2 NVMe Instance Storage"],
    "gcp": ["nvme_card", "nvme_card0", "nvme_card9", "nvme_card15", "nvme_card31"],
    "n": ["Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2"],
}


def cloud_of(name):
    return "n" if name.startswith("n") else name.partition("_")[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", REMOTE + NEARLY)
def test_no_profile_takes_a_disk_that_may_hold_data_for_a_local_one(name, model):
    assert not is_local(load(name).get("nvme", {}), model, "any")


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_takes_the_local_disks_of_its_own_cloud_and_of_no_other(name):
    wanted = load(name).get("nvme", {})
    if not wanted.get("count") or name == "virtual":
        return
    for cloud, models in LOCAL.items():
        for model in models:
            assert is_local(wanted, model, "any") == (cloud == cloud_of(name)), model


def test_what_the_scratch_refuses_is_what_no_profile_takes():
    """Two belts: a pattern that is too wide still ends at the models that the scratch never touches."""
    for model in ("MSFT NVMe Accelerator v1.0", "Amazon Elastic Block Store", "nvme_card-pd"):
        assert any(fnmatch.fnmatchcase(model, one) for one in REMOTE_MODELS)
    for models in LOCAL.values():
        for model in models:
            assert not any(fnmatch.fnmatchcase(model, one) for one in REMOTE_MODELS)


# What is wrong with a profile --------------------------------------------------------------------------


def broken(**changes):
    profile = load("nd96asr_v4")
    for path, value in changes.items():
        *folders, key = path.split("__")
        inner = profile
        for folder in folders:
            inner = inner[folder]
        if value is None:
            del inner[key]
        else:
            inner[key] = value
    return profile


@pytest.mark.parametrize(
    "profile, words",
    [
        ("text", "a profile must be a mapping"),
        (None, "a profile must be a mapping"),
        ({}, "name is missing"),
        (broken(gpuss={"count": 8}), "gpuss is no key of a profile"),
        (broken(gpus__count="eight"), "gpus.count must be a whole number"),
        (broken(gpus__count=True), "gpus.count must be a whole number"),
        (broken(gpus__count=None), "gpus.count is missing"),
        (broken(gpu_numa=[0, 1]), "one NUMA node for each of the 8 GPUs"),
        (broken(gpu_numa=[0, 0, 0, 0, 1, 1, 1, 4]), "NUMA node that numa_nodes does not have"),
        (broken(cpus=95), "96 CPUs together"),
        (broken(nvme__models=[]), "nvme needs models or serials"),
        (broken(match={}), "match needs at least one"),
        (broken(match__gpu_pci_ids=["20b0"]), "a PCI id such as"),
        (broken(match__dmi={"vendor": "x"}), "match.dmi.vendor is no key"),
        (broken(name="Nd96"), "lower-case letters"),
        (broken(name="other"), "the name that it is filed under"),
        (broken(thresholds={"x": {"better": "higher"}}), "needs warn, fail or both"),
        (broken(thresholds={"x": {"better": "higher", "warn": 1, "fail": 2}}), "warn must be reached before"),
        (broken(thresholds={"x": {"better": "lower", "warn": 2, "fail": 1}}), "warn must be reached before"),
        (broken(thresholds={"x": {"better": "more", "warn": 2}}), "one of higher, lower"),
        (broken(thresholds={"x": {"better": "lower", "warn": float("nan")}}), "a number, 0 or more"),
        (broken(nccl__settings={"A": [1]}), "a text or a number"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(profile, words):
    problems = schema.problems(profile, "nd96asr_v4")
    assert any(words in problem for problem in problems), problems
    assert all(problem.endswith(".") and "\n" not in problem for problem in problems)


def test_the_names_with_a_meaning_are_no_names_of_profiles():
    assert schema.problems(broken(name="auto"), "auto")
    assert schema.problems(broken(name="unknown"), "unknown")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(list(schema.PROFILE) + ["count", "x"]) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(junk, st.sampled_from(sorted(schema.PROFILE)))
def test_no_content_stops_the_validation(value, key):
    profile = copy.deepcopy(load("nd96asr_v4"))
    profile[key] = value
    schema.problems(profile, "nd96asr_v4")
    schema.problems(value, "nd96asr_v4")
