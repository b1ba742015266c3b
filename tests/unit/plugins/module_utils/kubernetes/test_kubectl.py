# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of kubectl: the real one, and what it says of servers that fail."""

from __future__ import annotations

import _thread
import json
import threading
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import kubectl as module
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import (
    AT_ONCE,
    Kubectl,
    KubectlError,
    at_once,
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


def test_a_list_is_read_in_pages(api, kubectl, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 2)
    for number in range(5):
        made = {"metadata": {"name": "p{0}".format(number), "namespace": "x" if number % 2 else "y"}}
        api.add("pods", dict(made, spec={"nodeName": "n1"}, status={"phase": "Failed" if number == 4 else "Running"}))
        api.add("nodes", {"metadata": {"name": "n{0}".format(number)}})
    one = kubectl()
    assert [each["metadata"]["name"] for each in one.pods()] == ["p1", "p3", "p0", "p2"]
    assert [each["metadata"]["name"] for each in one.nodes()] == ["n0", "n1", "n2", "n3", "n4"]
    assert [each["metadata"]["name"] for each in one.pods_in("y")] == ["p0", "p2", "p4"]
    assert [len(list(one.pods("spec.nodeName=" + name))) for name in ("n1", "n2")] == [4, 0]
    lists = [each for each in api.requests if each.endswith(("/pods", "/nodes"))]
    assert (
        lists
        == ["GET /api/v1/pods"] * 2
        + ["GET /api/v1/nodes"] * 3
        + ["GET /api/v1/namespaces/y/pods"] * 2
        + ["GET /api/v1/pods"] * 3
    )


def test_a_page_that_has_expired(api, kubectl, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 1)
    for number in range(2):
        api.add("nodes", {"metadata": {"name": "n{0}".format(number)}})
    pages = kubectl().nodes()
    assert next(pages)["metadata"]["name"] == "n0"
    api.faults.append(Fault("GET /api/v1/nodes", 410, "The provided continue parameter is too old"))
    error = refusal(next, pages)
    assert (error.kind, error.thing, error.remedy) == ("Expired", "kubectl get nodes", "run it again")


def test_writes_have_a_field_manager_of_their_own(api, kubectl):
    api.add("nodes", {"metadata": {"name": "n1"}})
    one, metadata = kubectl(), {"name": "a", "namespace": "gpu-operator"}
    one.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    one.replace({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    one.patch("node", "n1", {"metadata": {"labels": {"a": "b"}}})
    assert api.managers == ["trainyard-gpu-node"] * 3


def test_at_once_is_a_few_and_each_error_is_kept():
    lock, now, most = threading.Lock(), [0], [0]

    def work(number):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        if number % 10 == 3:
            raise NodeError("n{0}".format(number), "no", "none")

    assert [one.thing for one in at_once(work, range(30))] == ["n3", "n13", "n23"] and 2 <= most[0] <= AT_ONCE
    with pytest.raises(ZeroDivisionError):
        at_once(lambda number: 1 / number, [1, 0])
    assert at_once(work, []) == []


def test_an_interrupt_begins_no_further_call():
    begun = []

    def work(number):
        begun.append(number)
        if number == 20:
            _thread.interrupt_main()
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        at_once(work, range(400))
    assert 20 <= len(begun) < 200


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


def test_a_value_that_the_server_does_not_take(api, kubectl):
    """kubectl prints no "Error from server" there: 'The DaemonSet "x" is invalid: ...'."""
    api.add("daemonsets", {"metadata": {"name": "x", "namespace": "default"}})
    api.faults.append(Fault("PATCH .*", 422, 'spec.template.spec.containers[0].image: Invalid value: "": no'))
    error = refusal(kubectl().patch, "daemonset", "x", {"metadata": {"labels": {"a": "b"}}})
    assert error.kind == "Invalid" and error.remedy == "correct the value that it names"
    assert error.reason.startswith(
        'The DaemonSet "x" is invalid: spec.template.spec.containers[0].image: Invalid value'
    )


@pytest.mark.parametrize(
    "text, kind",
    [
        ("The request is invalid: the server rejected our request due to an error in our request", "Invalid"),
        ('The Node "n1" is invalid: \n* metadata.labels: Invalid value: "-"\n* spec.taints: Required value', "Invalid"),
        ('Error from server (Invalid): Node "n1" is invalid: spec.taints: Required value', "Invalid"),
        ('error: the server doesn\'t have a resource type "clusterpolicies"', "NoKind"),
        ("The daemon is invalid", ""),
        ("", ""),
    ],
)
def test_what_kubectl_says_in_words_of_its_own(text, kind):
    assert module._judged(text)[0] == kind


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
