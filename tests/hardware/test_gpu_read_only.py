# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_info on real GPUs, read only, against what nvidia-smi tells. Skipped without an NVIDIA driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import normalise_pci_address

# Reads everything, in a process of its own, and notes every function of NVML that is called.
CODE = """
import json, sys, tempfile, os
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.gpu_info import Options, gather
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml import call

log = tempfile.mkstemp()[1]
plain = call.Nvml.call_limited

def noted(self, limit, thing, name, *arguments):
    with open(log, "a") as stream:
        stream.write(name + "\\n")
    return plain(self, limit, thing, name, *arguments)

call.Nvml.call_limited = noted
result = gather(Options.from_mapping({"call_timeout": 60})).to_dict()
with open(log) as stream:
    result["calls"] = sorted(set(stream.read().split()))
os.unlink(log)
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def result(nvidia_smi):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=600,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_gpu_answers(result):
    assert result["status"] == "ok", result["message"]
    assert result["gpu_count"] == len(result["gpus"]) > 0
    assert all(gpu["fault"] is None for gpu in result["gpus"])


def test_count_uuid_and_pci_address_agree_with_nvidia_smi(result, nvidia_smi):
    told = {row["uuid"]: normalise_pci_address(row["pci.bus_id"]) for row in nvidia_smi("uuid", "pci.bus_id")}
    assert {gpu["uuid"]: gpu["pci_address"] for gpu in result["gpus"]} == told


def test_the_pci_bus_has_every_gpu(result):
    assert {gpu["pci_address"] for gpu in result["gpus"]} <= set(result["pci_gpus"])


def test_names_memory_and_highest_clocks_agree_with_nvidia_smi(result, nvidia_smi):
    of = {gpu["uuid"]: gpu for gpu in result["gpus"]}
    for row in nvidia_smi("uuid", "name", "memory.total", "clocks.max.graphics", "clocks.max.memory", "driver_version"):
        gpu = of[row["uuid"]]
        assert gpu["name"] == row["name"]
        assert gpu["memory"]["total_bytes"] // 2**20 == int(row["memory.total"])
        for clock, column in (("max_graphics_mhz", "clocks.max.graphics"), ("max_memory_mhz", "clocks.max.memory")):
            if row[column].isdigit():
                assert gpu["clocks"][clock] == int(row[column])
        assert result["driver_version"] == row["driver_version"]


def test_supported_clocks_reach_the_highest_clock(result):
    for gpu in result["gpus"]:
        supported = gpu["clocks"]["supported_graphics"]
        if supported is None:
            assert gpu["absent"]["clocks.supported_graphics"]
        else:
            assert supported["min_mhz"] < supported["max_mhz"] <= gpu["clocks"]["max_graphics_mhz"]
            assert supported["memory_mhz"] == gpu["clocks"]["supported_memory_mhz"][0]


def test_figures_make_sense(result):
    for gpu in result["gpus"]:
        memory = gpu["memory"]
        assert 0 < memory["free_bytes"] <= memory["total_bytes"]
        power = gpu["power"]
        if power["limit_watts"] is not None:
            assert power["min_limit_watts"] <= power["limit_watts"] <= power["max_limit_watts"]
        assert 0 < gpu["temperature"]["gpu_celsius"] < 110
        assert gpu["pcie"]["current_width_lanes"] <= gpu["pcie"]["max_width_lanes"]


def test_no_null_is_without_a_reason(result):
    def nulls(value, path=""):
        if value is None:
            yield path
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from nulls(item, path + "." + name if path else name)
        elif isinstance(value, list):
            for item in value:
                yield from nulls(item, path + ".*")

    for gpu in result["gpus"]:
        values = {name: value for name, value in gpu.items() if name not in ("absent", "fault")}
        bare = [
            path
            for path in set(nulls(values))
            if not any(path == one or path.startswith(one + ".") for one in gpu["absent"])
        ]
        assert bare == []


def test_no_setter_is_ever_called(result):
    assert len(result["calls"]) > 30
    reading = ("nvmlInit", "nvmlDeviceGet", "nvmlSystemGet")
    assert [name for name in result["calls"] if not name.startswith(reading)] == []
