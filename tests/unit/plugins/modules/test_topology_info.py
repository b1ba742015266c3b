# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module topology_info as Ansible runs it."""

from __future__ import annotations

import os

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import topology_info as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module


def run(environment=None, **arguments):
    return run_module("topology_info", arguments, environment=environment)


def check(documented, value, path):
    """Every key that is returned is documented, with its type."""
    for key, entry in value.items():
        assert key in documented, "{0}.{1} is not documented".format(path, key)
        kind = {"str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict}[
            documented[key]["type"]
        ]
        assert entry is None or isinstance(entry, kind), "{0}.{1} is {2!r}".format(path, key, entry)
        inner = documented[key].get("contains")
        if inner:
            for one in entry if isinstance(entry, list) else [entry or {}]:
                check(inner, one, "{0}.{1}".format(path, key))


@pytest.mark.parametrize("tree", ["ndv4", "minus_one", "laptop"])
def test_all_that_is_returned_is_documented(nvml_simulator, tree):
    simulator = nvml_simulator("nd96asr_v4")
    result = run(simulator.environment(), root=shared(tree), gpus=tree == "ndv4")
    assert not result["changed"]
    for extra in ("changed", "invocation", "warnings", "deprecations"):
        result.pop(extra, None)
    documented = yaml.safe_load(module.RETURN)
    assert set(result) == set(documented)
    check(documented, result, "")


def test_a_captured_tree_is_read_without_nvml():
    result = run(root=shared("ndv4"))
    assert result["gpu_numa"] == [1, 1, 0, 0, 3, 3, 2, 2]
    assert result["gpus_reason"] == "NVML was not asked"
    assert [one["nearest_infiniband"]["name"] for one in result["gpus"]][:2] == ["mlx5_ib0", "mlx5_ib1"]


def test_the_machine_of_this_test_is_read():
    result = run()
    assert len(result["cpus"]["online"]) == os.cpu_count()
    assert sorted(cpu for node in result["numa_nodes"] for cpu in node["cpus"]) == result["cpus"]["online"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"root": "/nowhere"}, "root /nowhere: there is no folder sys in it"),
        ({"call_timeout": 0}, "call_timeout 0: it is out of range"),
        ({"gpus": "perhaps"}, "gpus"),
        ({"unheard_of": 1}, "Unsupported parameters"),
    ],
)
def test_a_wrong_argument_ends_in_one_sentence(arguments, words):
    result = run(**arguments)
    assert result["failed"] and words in result["msg"]
