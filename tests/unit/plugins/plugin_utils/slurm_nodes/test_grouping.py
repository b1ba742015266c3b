# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The groups and variables of a host that is a node of Slurm, and which nodes are taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import nodes
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils.slurm_nodes import grouping
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.slurm.slurm_answers import (
    NODES,
)


def test_gpus_are_those_of_all_types():
    found = replaced(NODES[0], gres="gpu:a100:4,gpu:h100:2,mps:800")
    assert grouping.gpus_of(found) == 6 and grouping.variables(found)["gpus"] == 6


def test_groups():
    assert grouping.groups_of(NODES[0], "slurm_", "gpu_nodes") == [
        "slurm_partition_gpu",
        "slurm_partition_all",
        "slurm_feature_ndv4",
        "slurm_feature_a100",
        "slurm_state_idle",
        "slurm_gres_gpu",
        "slurm_gres_gpu_a100",
        "slurm_gres_nic",
        "gpu_nodes",
    ]
    assert grouping.groups_of(NODES[1], "", "gpu_nodes") == [
        "partition_all",
        "state_drained",
        "state_cloud",
        "state_powered_down",
    ]


@pytest.mark.parametrize("state, there", [("IDLE", 1), ("DOWN", 1), ("IDLE+CLOUD", 1), ("IDLE+POWERED_DOWN", 0)])
def test_a_node_without_a_machine_is_in_no_group_that_is_converged(state, there):
    found = nodes.record("gpu01", (state,), gres="gpu:8")
    assert grouping.groups_of(found, "slurm_", "gpu_nodes").count("gpu_nodes") == there
    assert "gpu_nodes" not in grouping.groups_of(found, "slurm_", "")


@given(st.text(max_size=20), st.text(max_size=20))
def test_every_group_has_the_name_of_a_variable(prefix, feature):
    found = replaced(NODES[0], features=(feature,))
    assert all(name.isidentifier() or not name[:1].isalpha() for name in grouping.groups_of(found, prefix, ""))


@pytest.mark.parametrize(
    "partitions, states, exclude_states, names",
    [
        ([], [], [], ["gpu01", "cloud-1"]),
        (["gpu"], [], [], ["gpu01"]),
        (["all"], ["idle"], [], ["gpu01"]),
        ([], ["drained", "idle"], ["powered_down"], ["gpu01"]),
        ([], ["down"], [], []),
    ],
)
def test_filters(partitions, states, exclude_states, names):
    assert [one.name for one in grouping.chosen(NODES, partitions, states, exclude_states)] == names


@pytest.mark.parametrize("given_, told", [((["gpuu"], [], []), "take one of: all, gpu"), (([], ["ilde"], []), "idle")])
def test_a_filter_with_a_slip_is_told(given_, told):
    with pytest.raises(NodeError, match=told):
        grouping.chosen(NODES, *given_)


def test_what_the_cache_keeps_is_the_same_node():
    kept = json.loads(json.dumps([grouping.stored(one) for one in NODES]))
    assert tuple(grouping.restored(one) for one in kept) == NODES
    with pytest.raises(TypeError):
        grouping.restored({"flags": [], "other": 1})
