# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module health_check: run as Ansible runs it, on simulated machines; and its documentation against its results."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import module as command
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import record
from ansible_collections.trainyard.gpu_node.plugins.modules import health_check as module
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

# Of this machine itself nothing is asked: it is not the one that is simulated.
GPUS = {"only": ["gpu_*"], "without": ["gpu_count", "gpu_xid", "gpu_processes", "gpu_inforom"]}


def run(machine, check=False, **arguments):
    return run_module("health_check", arguments, check=check, environment=machine.environment())


def test_healthy_gpus_pass(nvml_simulator):
    result = run(nvml_simulator("nd96asr_v4"), **GPUS)
    assert (result["outcome"], result["findings"], result["changed"]) == ("pass", [], False)
    verdict = result["verdict"]
    assert verdict["schema"] == types.SCHEMA and verdict["level"] == "passive"
    assert all(one["id"].startswith("gpu_") for one in verdict["results"])


@pytest.mark.parametrize(
    ("fail_on", "failed"), [("never", False), ("fail", True), ("unknown", True), ("warn", True), (None, False)]
)
def test_a_lost_gpu_is_an_answer_and_an_error_where_it_is_to_be(nvml_simulator, fail_on, failed):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "gpu", "2", "lost")
    wanted = {} if fail_on is None else {"fail_on": fail_on}
    result = run(machine, **dict(GPUS, **wanted))
    assert result.get("failed", False) is failed
    assert result["outcome"] == "fail" and "GPU 2" in result["findings"][0]
    if failed:
        assert result["msg"].startswith("fail: GPU 2") and "Traceback" not in result["msg"]


def test_the_least_that_is_unknown_passes_only_where_it_may(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    machine.control("fault", "call", "nvmlDeviceGetTotalEccErrors", "gpu", "3", "return", "UNKNOWN")
    result = run(machine, fail_on="fail", level="quick", only=["gpu_ecc"])
    assert result["outcome"] == "unknown" and not result.get("failed")
    assert run(machine, fail_on="unknown", level="quick", only=["gpu_ecc"])["failed"]


def test_a_budget_bounds_active_checks_only_and_one_below_all_of_them_is_an_error(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    result = run(machine, level="active", seconds=0.5, only=["gpu_memory_test", "gpu_ecc"])
    assert (
        result["failed"] and "0.5 seconds for the active checks" in result["msg"] and "give at least" in result["msg"]
    )
    assert run(machine, level="quick", seconds=0.5, only=["gpu_ecc"])["outcome"] == "pass"


def test_a_profile_that_is_not_declared_yet_is_compared_with(nvml_simulator):
    machine = nvml_simulator("nd96asr_v4")
    only = {"level": "passive", "only": ["profile", "gpu_product"]}
    assert "no profile was declared" in run(machine, **only)["findings"][0]
    fits = {"name": "mine", "data": {"gpus": {"count": 8, "products": ["NVIDIA A100-SXM4-40GB"]}}}
    result = run(machine, profile=fits, **only)
    assert (result["outcome"], result["verdict"]["profile"], result["findings"]) == ("pass", "mine", [])
    larger = {"name": "mine", "data": {"gpus": {"count": 8, "memory_bytes_min": 80 * 1024**3}}}
    findings = run(machine, profile=larger, **only)["findings"]
    assert (
        len(findings) == 8 and "it has 40.0 GiB of memory, and the profile mine says at least 80.0 GiB" in findings[0]
    )
    assert "missing required arguments: data" in run(machine, profile={"name": "mine"}, **only)["msg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"only": ["gpu_nonsense"]},
            "check 'gpu_nonsense': there is none of this name; ",
        ),
        ({"level": "thorough"}, "value of level must be one of: quick, passive, active"),
        ({"call_timeout": 0}, "call_timeout 0: it is out of range; give 0.1 to 600 seconds."),
    ],
)
def test_a_wrong_argument_ends_in_a_sentence(nvml_simulator, arguments, message):
    result = run(nvml_simulator("nd96asr_v4"), **arguments)
    assert result["failed"] and message in result["msg"]


def test_the_documentation_has_every_field():
    told = yaml.safe_load(module.RETURN)["verdict"]["contains"]
    fields = {field.name for field in dataclasses.fields(types.Verdict)} | {"schema"}
    assert set(told) == fields
    results = told["results"]["contains"]
    assert set(results) == {field.name for field in dataclasses.fields(types.Result)}
    assert set(results["findings"]["contains"]) == {field.name for field in dataclasses.fields(types.Finding)}
    assert set(results["measured"]["contains"]) == {field.name for field in dataclasses.fields(types.Measured)}
    words = str(results["findings"]["contains"]["action"])
    assert all("V({0})".format(one.value) in words for one in types.Remedy)


def test_a_verdict_that_is_stored_is_a_change_and_one_that_would_be_too(monkeypatch, tmp_path):
    stored = []
    monkeypatch.setattr(record, "keep", lambda host, verdict: stored.append(verdict) or ())
    given = {"level": "passive", "only": ["profile"], "without": [], "fail_on": "never", "call_timeout": 10}

    def main(check=False, **arguments):
        told = command.result(
            Host(str(tmp_path)), "health_check", dict(given, profile=None, proof=False, **arguments), check
        )
        return told["changed"], len(stored)

    assert main(record=False) == (False, 0)
    assert main(check=True, record=True) == (True, 0)
    assert main(record=True) == (True, 1)
