# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is expected to offer, by the labels of GPU feature discovery and what the kubelet says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import sharing_configs as configs
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing import capacity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing.types import SeenNode

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
MADE = configs.read(
    {
        "four": {"time_slicing": {GPU: 4}},
        "renamed": {"time_slicing": {GPU: 4}, "rename": True},
        "instances": {"time_slicing": {SLICE: 3}},
        "mps": {"mps": {GPU: 20}},
    }
)


def node(offers=(), **labels):
    """Labels by their last part: gpu_count is nvidia.com/gpu.count."""
    named = {"nvidia.com/" + key.replace("__", "-").replace("_", "."): str(value) for key, value in labels.items()}
    return SeenNode("n1", tuple(sorted(named.items())), tuple(sorted(dict(offers).items())))


EIGHT = node({GPU: 8}, gpu_count=8, gpu_replicas=1, gpu_product="NVIDIA-A100-SXM4-40GB", gpu_memory=40960)
# Two of eight GPUs are divided into seven each: the label counts all eight.
MIXED = SeenNode(
    "n1",
    ((GPU + ".count", "8"), (GPU + ".replicas", "4"), (SLICE + ".count", "14"), ("nvidia.com/mig.strategy", "mixed")),
    ((GPU, 24), (SLICE, 14)),
)


@pytest.mark.parametrize(
    "seen, config, gpus, expected",
    [
        (EIGHT, "whole", None, {GPU: 8}),
        (EIGHT, "four", None, {GPU: 32}),
        (EIGHT, "renamed", None, {GPU + ".shared": 32}),
        (EIGHT, "instances", None, {GPU: 8}),
        # It offers replicas already: the label counts GPUs.
        (node({GPU: 32}, gpu_count=8, gpu_replicas=4), "whole", None, {GPU: 8}),
        # The label is believed and not the option, which is of use before there is one.
        (EIGHT, "four", 4, {GPU: 32}),
        (None, "four", 8, {GPU: 32}),
        (node(), "four", 8, {GPU: 32}),
        (None, "four", None, None),
        (node({GPU: 8}), "four", None, None),
        (MIXED, "instances", None, {GPU: 6, SLICE: 42}),
        (MIXED, "four", None, {GPU: 24, SLICE: 14}),
        # Two of eight GPUs, or all of them, are in MIG mode and have no instances yet.
        (node({GPU: 6}, gpu_count=8, gpu_replicas=1, mig_strategy="mixed"), "whole", None, {GPU: 6}),
        (node({GPU: 24}, gpu_count=8, gpu_replicas=4, mig_strategy="mixed"), "whole", None, {GPU: 6}),
        (node({}, gpu_count=8, gpu_replicas=0, mig_strategy="mixed"), "four", None, {}),
        (node({GPU: 8}, gpu_count=8, gpu_replicas=1, mig_strategy="mixed"), "four", None, {GPU: 32}),
        # The plugin has not started, or is about to offer something else.
        (node({}, gpu_count=8, gpu_replicas=1, mig_strategy="mixed"), "four", None, None),
        (node({GPU: 32}, gpu_count=8, gpu_replicas=2, mig_strategy="mixed"), "four", None, None),
        (node({}, gpu_count=8, mig_strategy="mixed"), "four", None, {GPU: 32}),
        # All GPUs are divided.
        (node({SLICE: 56}, gpu_count=8, gpu_replicas=0, mig__1g_10gb_count=56), "instances", None, {SLICE: 168}),
        # A capacity that does not fit the replicas is one that is about to change.
        (node({GPU: 7, SLICE: 7}, gpu_count=8, gpu_replicas=4, mig__1g_10gb_count=7), "whole", None, None),
        (node({SLICE: 7}, gpu_count=8, mig__1g_10gb_count=7), "whole", None, None),
        # Unequal instances under the strategy single.
        (node({}, gpu_count=0, gpu_product="NVIDIA-A100-MIG-INVALID"), "four", 8, {}),
        (node({GPU: 8}, gpu_count="many"), "four", None, None),
    ],
)
def test_expected_capacity(seen, config, gpus, expected):
    assert capacity.expected(seen, MADE[config], gpus) == expected


@given(st.integers(1, 16), st.integers(2, 64), st.booleans(), st.integers(1, 64))
def test_what_is_expected_does_not_depend_on_how_the_node_is_shared_now(gpus, replicas, rename, now):
    config = configs.read({"x": {"time_slicing": {GPU: replicas}, "rename": rename}})["x"]
    seen = node({GPU: gpus * now}, gpu_count=gpus, gpu_replicas=now)
    (total,) = capacity.expected(seen, config, None).values()
    assert total == gpus * replicas


@pytest.mark.parametrize(
    "product, config, told",
    [
        ("NVIDIA-A100", "four", "NVIDIA-A100-SHARED"),
        ("NVIDIA-A100", "whole", "NVIDIA-A100"),
        ("NVIDIA-A100-SHARED", "four", "NVIDIA-A100-SHARED"),
        ("NVIDIA-A100-SHARED", "whole", "NVIDIA-A100"),
        ("NVIDIA-A100-SHARED", "renamed", "NVIDIA-A100"),
        ("NVIDIA-A100", "instances", "NVIDIA-A100"),
    ],
)
def test_product_label(product, config, told):
    assert capacity.product(node(gpu_product=product), MADE[config]) == told
    assert capacity.product(node(), MADE[config]) is None and capacity.product(None, MADE[config]) is None


def test_memory_of_a_replica():
    assert capacity.memory_mib(EIGHT, MADE["four"]) == 10240
    assert capacity.memory_mib(EIGHT, MADE["whole"]) is None and capacity.memory_mib(None, MADE["four"]) is None


@pytest.mark.parametrize(
    "seen, words",
    [
        (node(mig_strategy="mixed"), "which the plugin refuses under the MIG strategy mixed"),
        (node(mig__1g_10gb_count=7), "GPUs of this node are in MIG mode"),
        (node(gpu_product="NVIDIA-A100-MIG-1g.5gb"), "GPUs of this node are in MIG mode"),
        (node(gpu_compute_major=7, gpu_compute_minor=0), "has at most 16 clients; give at most 16 replicas"),
        (node(gpu_compute_major=7, gpu_compute_minor=5, mig_strategy="single"), None),
        (node(), None),
    ],
)
def test_mps_where_the_plugin_would_not_start(seen, words):
    error = capacity.unfit(seen, MADE["mps"])
    assert error is None if words is None else words in str(error)
    assert capacity.unfit(seen, MADE["four"]) is None
