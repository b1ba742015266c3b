# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_settings as Ansible runs it, on a simulated machine; only the root of the file system is a folder."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import gpu_settings as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

UNIT = "etc/systemd/system/gpu-node-gpu_settings.service"


@pytest.fixture
def run(nvml_simulator, tmp_path):
    simulator = nvml_simulator("nd96asr_v4")
    (tmp_path / "node").mkdir()

    def call(**arguments):
        check = arguments.pop("_ansible_check_mode", False)
        environment = simulator.environment()
        return run_module("gpu_settings", arguments, tmp_path / "node", check, environment=environment)

    call.simulator = simulator
    call.root = tmp_path / "node"
    return call


def documented(options):
    """The names in RETURN, with those inside lists and mappings as a.b."""
    found = set()
    for name, entry in options.items():
        found.add(name)
        for inner in documented(entry.get("contains", {})):
            found.add(name + "." + inner)
    return found


def returned(value):
    found = set()
    for name, inner in value.items():
        found.add(name)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                found |= {name + "." + deeper for deeper in returned(one)}
    return found


def test_check_then_run_then_check_then_run(run):
    wish = {"persistence": True, "clocks": "max", "power_limit_watts": 350}
    foreseen = run(_ansible_check_mode=True, _ansible_diff=True, **wish)
    done = run(_ansible_diff=True, **wish)
    assert foreseen["changed"] and done["changed"]
    assert foreseen["actions"] == done["actions"]
    assert foreseen["diff"] == done["diff"] and '"graphics_mhz": 1410' in done["diff"]["after"]
    assert '"graphics_mhz": null' in done["diff"]["before"] and "ExecStart" not in done["diff"]["before"]
    assert "ExecStart=/usr/local/bin/gpunode apply gpu_settings\n" in done["diff"]["after"]
    assert run(_ansible_check_mode=True, **wish)["changed"] is False
    assert run(**wish)["changed"] is False


def test_what_is_returned_is_documented_and_the_other_way_round(run):
    result = run(persistence=True, clocks="max")
    promised = documented(yaml.safe_load(module.RETURN))
    plain = returned({name: value for name, value in result.items() if name not in ("invocation", "changed", "diff")})
    own_fields = {name for name in plain if name.startswith("actions.")}
    assert plain - own_fields <= promised
    refused = run(clocks={"graphics_mhz": 1})["refusals"][0]
    lost = {"failed_gpus." + name for name in ("index", "uuid", "pci_address", "message")}
    assert promised - plain <= lost | {"refusals"} | {"refusals." + name for name in refused}


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"clocks": "fast"}, "option clocks: 'fast' names no clock"),
        ({"clocks": {"graphics_mhz": "many"}}, "option clocks.graphics_mhz: 'many' is not a clock"),
        ({"power_limit_watts": [300]}, "option power_limit_watts: [300] is not a power limit"),
        ({"compute_mode": "shared"}, "value of compute_mode must be one of"),
        ({"gpus": []}, "option gpus: the list is empty"),
        ({"overrides": [{"clocks": "max"}]}, "missing required arguments: gpu"),
        ({"overrides": [{"gpu": "all", "ecc": True}]}, "option overrides[0].gpu: all is not one GPU"),
        (
            {"call_timeout_seconds": 0},
            "option call_timeout_seconds: 0 seconds is out of range; give 0.1 to 600 seconds",
        ),
        ({"clocks": {"graphics_mhz": 1000}}, "1000 MHz is not a supported graphics clock"),
        ({"gpus": ["GPU-none"], "ecc": True}, "GPU 'GPU-none': this machine has no such GPU"),
    ],
)
def test_wrong_arguments_end_in_one_message_and_no_change(run, arguments, words):
    result = run(**arguments)
    assert result["failed"] and words in result["msg"] and "\n" not in result["msg"]
    assert not (run.root / "etc").exists() and not (run.root / "var").exists()


def test_a_lost_gpu_fails_the_run_and_the_result_tells_what_was_done(run):
    run.simulator.control("fault", "gpu", "5", "lost")
    result = run(persistence=True, clocks="max")
    assert result["failed"] and result["changed"] and "the GPU is lost" in result["msg"]
    assert sum(gpu["clocks"]["graphics_mhz"] == 1410 for gpu in result["gpus"]) == 7
    assert [gpu["index"] for gpu in result["failed_gpus"]] == [5]
    assert (run.root / UNIT).exists()  # the next boot sets it, if it answers then
    foreseen = run(_ansible_check_mode=True, persistence=True, clocks="max")
    assert foreseen["failed"] and not foreseen["changed"] and foreseen["msg"] == result["msg"]


def test_state_default_undoes_it_whatever_the_other_options_are(run):
    run(persistence=True, clocks="max", ecc=False)
    assert (run.root / UNIT).exists()
    wish = {"clocks": "fast", "gpus": ["all", "7"], "overrides": [{"gpu": "all"}], "power_limit_watts": "much"}
    result = run(state="default", **wish)
    assert result["changed"] and {gpu["persistence"] for gpu in result["gpus"]} == {False}
    assert result["actions"][0]["description"] == "remove the boot unit gpu-node-gpu_settings.service"
    assert run(state="default")["changed"] is False
    assert not (run.root / UNIT).exists() and not (run.root / "etc/gpu_node").exists()


def test_a_node_without_gpus_is_skipped_with_the_reason(run):
    run.simulator.control("fault", "driver", "not-loaded")
    result = run(clocks="max")
    assert result["changed"] is False and "no NVIDIA GPU" in result["skipped_reason"]
    assert not (run.root / UNIT).exists()
