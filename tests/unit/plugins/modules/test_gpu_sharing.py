# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_sharing as Ansible runs it, with the real kubectl and a stand-in for the API."""

from __future__ import annotations

import shutil

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_sharing import RESOURCE
from ansible_collections.trainyard.gpu_node.plugins.modules import gpu_sharing as module
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api, Fault
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import process, run_module

GPU = "nvidia.com/gpu"
LABEL = "nvidia.com/device-plugin.config"
TOKEN = "a-token-that-nobody-may-see"
NODE = {
    "metadata": {"name": "n1", "labels": {GPU + ".count": "8", GPU + ".replicas": "1"}},
    "status": {"capacity": {GPU: "8"}},
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    monkeypatch.setenv("HOME", str(tmp_path))
    with Api() as api:
        api.add("namespaces", {"metadata": {"name": "gpu-operator"}})
        api.add("nodes", NODE)
        given = {
            "configs": {"slice-4": {"time_slicing": {GPU: 4}}},
            "nodes": [{"name": "n1", "config": "slice-4"}, {"name": "n2", "config": "slice-4"}],
            "kubeconfig": api.kubeconfig(tmp_path / "kubeconfig", TOKEN),
            "seconds": 30,
        }

        def call(check=False, **more):
            # An ordinary user's: nothing of this machine is managed.
            return run_module("gpu_sharing", dict(given, **more), check=check, uid=1000)

        call.api, call.given = api, given
        yield call


def test_nodes_are_labelled_and_what_they_will_offer_is_told(run):
    told = run(check=True)
    assert told["changed"] and not run.api.written()
    told = run()
    assert [one["action"] for one in told["actions"]] == ["create_config_map", "label_node"]
    one, two = told["nodes"]
    assert one["capacity_expected"] == {GPU: 32} and one["capacity"] == {GPU: 8} and two["pending"]
    assert "n2 is not registered in the cluster yet" in " ".join(told["notes"]) and told["lines"][0].startswith(
        "n1: slice-4"
    )
    assert len(told["warnings"]) == len(told["notes"])
    assert told["operator_values"]["devicePlugin"]["config"]["name"] == "gpu-node-sharing"
    assert run.api.get("nodes", "n1")["metadata"]["labels"][LABEL] == "slice-4"
    assert not run()["changed"] and not run(check=True)["changed"]
    assert run(state="absent")["changed"] and LABEL not in run.api.get("nodes", "n1")["metadata"]["labels"]


@pytest.mark.parametrize(
    "given, words",
    [
        (
            {"nodes": [{"name": "n1", "config": "slice-8"}]},
            "option config: 'slice-8' is no config; did you mean 'slice-4'?",
        ),
        ({"configs": {"slice-4": {"time_slicing": {GPU: 1}}}}, "one replica shares nothing"),
        ({"configs": {"slice-4": {"mps": {"nvidia.com/mig-1g.5gb": 2}}}}, "which MPS does not share"),
        ({"kubectl": "kubectl-of-nobody"}, "kubectl-of-nobody: this program is not installed"),
        ({"context": "elsewhere"}, "check kubeconfig and context"),
    ],
)
def test_what_is_wrong_is_one_sentence(run, given, words):
    told = run(**given)
    assert told["failed"] and words in told["msg"] and not run.api.written()


def test_the_token_is_in_no_output(run):
    run.api.faults.append(Fault("GET /api/v1/nodes", 500, "the header was Bearer " + TOKEN))
    done = process("gpu_sharing", run.given, logged=True)
    assert done.returncode and "[hidden]" in done.stdout and TOKEN not in done.stdout + done.stderr


def test_the_documentation_names_what_is_returned(run):
    told = run()
    returned = yaml.safe_load(module.RETURN)
    assert set(told) - {"changed", "diff", "warnings", "invocation"} == set(returned)
    assert set(told["nodes"][0]) == set(returned["nodes"]["contains"])
    assert RESOURCE.remote and set(yaml.safe_load(module.DOCUMENTATION)["options"]) >= {
        "configs",
        "nodes",
        "kubeconfig",
    }
