# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of kubectl: the real one, and what it says of servers that fail."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import (
    Kubectl,
    KubectlError,
    without_secrets,
)
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Fault

TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture
def kubectl(api, tmp_path):
    path = api.kubeconfig(tmp_path / "kubeconfig", TOKEN)

    def made(**rest):
        return Kubectl(Host(), **{"kubeconfig": path, "context": "test", "seconds": 20, **rest})

    return made


def refusal(call, *arguments):
    with pytest.raises(KubectlError) as told:
        call(*arguments)
    assert TOKEN not in str(told.value) and "kubeconfig=" not in str(told.value)
    return told.value


def test_objects_come_change_and_go(api, kubectl):
    one = kubectl()
    assert one.find("configmap", "a", "gpu-operator") is None and one.list("nodes") == []
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "gpu-operator"},
        "data": {"x": "1"},
    }
    one.create(made)
    found = one.find("configmap", "a", "gpu-operator")
    assert found["data"] == {"x": "1"}
    one.replace(dict(found, data={"x": "2"}))
    assert api.get("configmaps", "a", "gpu-operator")["data"] == {"x": "2"}
    assert refusal(one.replace, found).kind == "Conflict"
    assert refusal(one.create, made).kind == "AlreadyExists"
    one.delete("configmap", "a", "gpu-operator")
    one.delete("configmap", "a", "gpu-operator")
    assert api.get("configmaps", "a", "gpu-operator") is None


def test_labels_and_annotations_of_several(api, kubectl):
    for name in ("n1", "n2"):
        api.add("nodes", {"metadata": {"name": name, "labels": {"a": "b"}}})
    one = kubectl()
    one.label("node", ["n1", "n2"], "trainyard.io/x", "1", False)
    one.annotate("node", ["n1"], "trainyard.io/y", "2")
    assert api.get("nodes", "n2")["metadata"]["labels"] == {"a": "b", "trainyard.io/x": "1"}
    assert api.get("nodes", "n1")["metadata"]["annotations"] == {"trainyard.io/y": "2"}
    assert "already has a value" in refusal(one.label, "node", ["n1"], "trainyard.io/x", "3", False).reason
    one.label("node", ["n1"], "trainyard.io/x", None, True)
    assert api.get("nodes", "n1")["metadata"]["labels"] == {"a": "b"}
    assert refusal(one.label, "node", ["n7"], "trainyard.io/x", "1", False).kind == "NotFound"


@pytest.mark.parametrize(
    "status, told, kind, words",
    [
        (403, "no", "Forbidden", "this account may not do it (no"),
        (500, "Internal error occurred: no", "InternalError", "no"),
        # Of these there is no reason: it is the database that is away.
        (500, "etcdserver: leader changed", "InternalError", "leader changed"),
        (500, "rpc error: code = Unavailable desc = transport is closing", "InternalError", "is closing"),
        (500, "etcdserver: request timed out", "Timeout", "run it again when the API server answers"),
        (500, "no", "", "run kubectl by hand"),
        (401, "no", "Unauthorized", "renew the credentials"),
        (404, "no", "NotFound", "no"),
    ],
)
def test_what_a_server_answers_is_one_sentence_without_secrets(api, kubectl, status, told, kind, words):
    api.faults.append(Fault("GET /api/v1/nodes", status, told + "\n, the header was Bearer " + TOKEN))
    error = refusal(kubectl().list, "nodes")
    assert error.kind == kind and words in str(error) and str(error).startswith("kubectl get nodes: "), str(error)


def test_a_server_that_hangs_and_one_that_is_not_there(api, kubectl, tmp_path):
    api.faults.append(Fault("GET /api/v1/nodes", hang=True))
    began = time.monotonic()
    error = refusal(kubectl(seconds=2).list, "nodes")
    assert error.kind == "Timeout" and "context test" in str(error) and time.monotonic() - began < 15, str(error)
    nobody = tmp_path / "nobody"
    nobody.write_text((tmp_path / "kubeconfig").read_text().replace(api.url, "http://127.0.0.1:1"))
    assert refusal(kubectl(kubeconfig=str(nobody)).list, "nodes").kind == "Unreachable"


def test_a_kubeconfig_or_a_program_that_is_not_there(kubectl):
    assert refusal(kubectl(context="training").list, "nodes").kind == "Config"
    assert refusal(kubectl(kubeconfig="/nowhere/config").list, "nodes").kind in ("Config", "Unreachable")
    error = refusal(kubectl(program="kubectl-of-nobody").list, "nodes")
    assert "kubectl-of-nobody: this program is not installed" in str(error)
    error = refusal(kubectl(program="true").list, "nodes")
    assert "it did not print an object as JSON" in str(error)


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"env": [{"name": "AWS_PROFILE", "value": "training"}, {"name": "LOGIN_TOKEN", "value": "s3cret-1"}]}},
        {"exec": {"args": ["get-token", "--oidc-client-secret=s3cret-1"]}},
        {"exec": {"args": ["get-token", "--client-secret", "s3cret-1", "--tenant-id", "training"]}},
        {"auth-provider": {"config": {"refresh-token": "s3cret-1"}}},
    ],
)
@pytest.mark.parametrize("written", [json.dumps, lambda one: json.dumps(one, indent=1), yaml.safe_dump])
def test_what_a_plugin_for_credentials_gets_is_in_no_sentence(tmp_path, user, written):
    config = tmp_path / "config"
    config.write_text(written({"users": [{"name": "x", "user": user}]}))
    told = without_secrets(Host(), str(config), "login failed: s3cret-1 in training, see get-token --tenant-id")
    assert told == "login failed: [hidden] in training, see get-token --tenant-id"
