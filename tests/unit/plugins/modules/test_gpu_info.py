# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_info: run as Ansible runs it, on simulated machines; and its documentation against its results."""

from __future__ import annotations

import dataclasses
import json
import typing

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import GROUPS, names, types
from ansible_collections.trainyard.gpu_node.plugins.modules import gpu_info as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")


NONE = type(None)


def run(machine, check=False, **arguments):
    return run_module("gpu_info", arguments, check=check, environment=machine.environment())


def test_a_whole_machine(nvml_simulator):
    result = run(nvml_simulator("nd96asr_v4"))
    assert (result["changed"], result["status"], result["gpu_count"], len(result["gpus"])) == (False, "ok", 8, 8)
    assert "ansible_facts" not in result and not result.get("warnings")


def test_check_mode_tells_the_same(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4", "gpu.count=1")
    wanted = {"gather": ["board", "numa"]}
    first, second = run(machine, **wanted), run(machine, check=True, **wanted)
    assert first["gpus"] == second["gpus"] and first["changed"] is second["changed"] is False


def test_a_lost_gpu_is_a_warning_and_no_failure(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "2", "lost")
    result = run(machine, gather=["minimum"])
    assert result["status"] == "partial" and not result.get("failed")
    (warning,) = result["warnings"]
    assert "GPU 2 (PCI address unknown): the GPU is lost" in str(warning)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpus": ["9"]}, "GPU '9': this machine has no such GPU; choose among 0 = 0001:00:00.0 = GPU-"),
        ({"gather": ["clock"]}, "option gather: there is no group 'clock'; choose among all, minimum, "),
        ({"call_timeout": 0}, "option call_timeout: 0 s is outside 0.1 to 600 s; "),
        ({"call_timeout": "soon"}, "argument 'call_timeout' is of type"),
        ({"gpu": ["0"]}, "Unsupported parameters for"),
    ],
)
def test_wrong_arguments_fail_in_one_sentence(nvml_simulator, arguments, message):
    result = run(nvml_simulator("nd96asr_v4", "gpu.count=1"), **arguments)
    assert result["failed"] is True and message in result["msg"]
    assert "Traceback" not in json.dumps(result)


# Documentation ----------------------------------------------------------------------------------------------------

RETURNED = yaml.safe_load(module.RETURN)
OF_GPU = RETURNED["gpus"]["contains"]
DATACLASSES = {
    "board": types.Board,
    "numa": types.Numa,
    "memory": types.Memory,
    "settings": types.Settings,
    "clocks": types.Clocks,
    "power": types.Power,
    "temperature": types.Temperature,
    "load": types.Load,
    "processes": types.Processes,
    "ecc": types.Ecc,
    "repair": types.Repair,
    "pcie": types.Pcie,
    "topology": types.Topology,
    "nvlink": types.NvLinks,
    "fabric": types.Fabric,
}
DOCUMENTED_AS = {int: "int", float: "float", str: "str", bool: "bool"}


def compare(dataclass, documented, path):
    """Every field of a dataclass is documented with its type, and nothing else is."""
    hints = typing.get_type_hints(dataclass)
    assert set(documented) == {field.name for field in dataclasses.fields(dataclass)}, path
    for name, hint in hints.items():
        entry = documented[name]
        inner = [part for part in typing.get_args(hint) if part is not NONE]
        if typing.get_origin(hint) is typing.Union:
            (hint,) = inner
        if typing.get_origin(hint) is tuple:
            assert entry["type"] == "list", path + "." + name
            hint = typing.get_args(hint)[0]
            if not dataclasses.is_dataclass(hint):
                assert entry["elements"] == DOCUMENTED_AS[hint], path + "." + name
                continue
            assert entry["elements"] == "dict", path + "." + name
        if dataclasses.is_dataclass(hint):
            compare(hint, entry["contains"], path + "." + name)
        elif hint in DOCUMENTED_AS:
            assert entry["type"] == DOCUMENTED_AS[hint], path + "." + name
        else:  # the health of the fabric is a mapping
            assert set(entry["contains"]) == set(names.fabric_health(0)), path + "." + name


def test_every_group_is_documented_field_by_field():
    assert set(DATACLASSES) == set(GROUPS)
    for name, dataclass in DATACLASSES.items():
        compare(dataclass, OF_GPU[name]["contains"], name)


def test_everything_beside_the_groups_is_documented(nvml_simulator):
    result = run(nvml_simulator("nd96asr_v4", "gpu.count=1"))
    assert set(result) - {"changed", "invocation", "warnings", "deprecations"} == set(RETURNED)
    assert set(result["gpus"][0]) == set(OF_GPU)


def test_every_group_is_named_in_the_option_gather():
    text = json.dumps(yaml.safe_load(module.DOCUMENTATION)["options"]["gather"])
    assert [name for name in GROUPS if "V({0})".format(name) not in text] == []
