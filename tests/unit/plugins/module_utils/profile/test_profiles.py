# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles that come with the collection, and what a profile may hold."""

from __future__ import annotations

import copy
import pathlib
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.profile import schema

FOLDER = pathlib.Path(__file__).resolve().parents[5] / "roles" / "node_profile" / "files" / "profiles"
FILES = sorted(FOLDER.glob("*.yml"))
NAMES = [path.stem for path in FILES]


def load(name):
    return yaml.safe_load((FOLDER / (name + ".yml")).read_text(encoding="utf-8"))


def test_there_is_a_profile_for_each_size_and_for_the_virtual_node():
    assert NAMES == sorted(
        ["nd40rs_v2", "nd96asr_v4", "nd96amsr_a100_v4", "nd96isr_h100_v5", "nd96isr_h200_v5", "virtual"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_profile_is_valid(name):
    assert schema.problems(load(name), name) == ()


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_names_a_source_that_the_file_explains(name):
    text = (FOLDER / (name + ".yml")).read_text(encoding="utf-8")
    explained = set(re.findall(r"^#   \[(\w+)\]", text, re.MULTILINE))
    used = set()
    for line in text.splitlines():
        content, dummy, comment = line.partition("  # ")
        value = content.partition(":")[2] if ":" in content else content
        if content.startswith(("#", "description", "name:")) or not re.search(r"\d", value):
            continue
        source = re.match(r"\[(\w+)\]", comment)
        assert source or "every Azure VM" in comment, "{0}: no source for {1!r}".format(name, line)
        used.add(source.group(1) if source else None)
    assert used - {None} == explained, "sources named and sources explained differ"


# What the tables of the Azure sizes say, written down again by hand.
@pytest.mark.parametrize(
    "name, cpus, nodes, numa, nvme, ports, rate",
    [
        ("nd40rs_v2", 40, [20, 20], [0, 0, 0, 0, 1, 1, 1, 1], 0, 1, 100),
        ("nd96asr_v4", 96, [24, 24, 24, 24], [1, 1, 0, 0, 3, 3, 2, 2], 8, 8, 200),
        ("nd96amsr_a100_v4", 96, [24, 24, 24, 24], [1, 1, 0, 0, 3, 3, 2, 2], 8, 8, 200),
        ("nd96isr_h100_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], 8, 8, 400),
        ("nd96isr_h200_v5", 96, [48, 48], [0, 0, 0, 0, 1, 1, 1, 1], 8, 8, 400),
    ],
)
def test_the_shape_of_the_azure_sizes(name, cpus, nodes, numa, nvme, ports, rate):
    profile = load(name)
    assert profile["gpus"]["count"] == 8
    assert profile["cpus"] == cpus and [node["cpus"] for node in profile["numa_nodes"]] == nodes
    assert profile["gpu_numa"] == numa
    assert profile["nvme"]["count"] == nvme
    assert (profile["infiniband"]["count"], profile["infiniband"]["rate_gigabits_per_second"]) == (ports, rate)


@pytest.mark.parametrize(
    "name, h2d, allreduce",
    [
        ("nd40rs_v2", 9, 110),
        ("nd96asr_v4", 21, 228),
        ("nd96amsr_a100_v4", 21, 228),
        ("nd96isr_h100_v5", 48, 460),
        ("nd96isr_h200_v5", 48, 431),
    ],
)
def test_the_limits_are_those_of_azures_health_checks(name, h2d, allreduce):
    thresholds = load(name)["thresholds"]
    assert thresholds["host_to_device_gigabytes_per_second"]["fail"] == h2d
    assert thresholds["nccl_allreduce_busbw_gigabytes_per_second"]["fail"] == allreduce


@pytest.mark.parametrize("name", NAMES)
def test_no_profile_takes_azures_remote_disk_for_a_local_one(name):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.profile.compare import is_local

    assert not is_local(load(name)["nvme"], "MSFT NVMe Accelerator v1.0", "any")


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
