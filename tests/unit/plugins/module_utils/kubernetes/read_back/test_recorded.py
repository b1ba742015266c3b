# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the API of a cluster answers as clusters have answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tests import kubernetes_api
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Budget, EvictingApi, Fault, server

RECORDED = json.loads((Path(kubernetes_api.__file__).parent / "recorded.json").read_text(encoding="utf-8"))
ANSWERS = {one["name"]: one["answer"] for one in RECORDED["answers"]}
# What the stand-in has not, of a resource that discovery names.
LESS = {"shortNames", "categories", "storageVersionHash"}


@pytest.fixture
def api():
    with EvictingApi() as made:
        made.add("namespaces", {"metadata": {"name": "default"}})
        yield made


def answer(api, method, path, body=None, **query):
    given = {key: [value] for key, value in query.items()}
    try:
        return api.answer(method, path, given, "application/merge-patch+json", json.dumps(body or {}).encode())
    except server.Refused as error:
        return error.answer


def pod(api, name="a", uid="new"):
    api.add("pods", {"metadata": {"name": name, "namespace": "default", "uid": uid, "labels": {"app": "web"}}})


def evicted(api, name="a", **body):
    made = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
    return answer(api, "POST", "/api/v1/namespaces/default/pods/{0}/eviction".format(name), made)


def test_each_has_its_source():
    for one in RECORDED["answers"] + RECORDED["objects"]:
        assert one["source"].startswith("https://") and one["version"] and one["answer"]
    assert len(ANSWERS) == len(RECORDED["answers"])


@pytest.mark.parametrize(
    "status, name", [(401, "unauthorized"), (403, "forbidden"), (500, "etcd"), (500, "internal_error")]
)
def test_a_fault(api, status, name):
    api.faults.append(Fault("GET /api/v1/nodes", status, ANSWERS[name]["message"]))
    assert answer(api, "GET", "/api/v1/nodes") == ANSWERS[name]


def test_what_is_not_there(api):
    told = ANSWERS["node_not_found"]
    for method in ("GET", "PATCH", "DELETE", "PUT"):
        assert answer(api, method, "/api/v1/nodes/" + told["details"]["name"]) == told
    assert answer(api, "GET", "/api/v1/services/x") == ANSWERS["path_not_found"]
    gone = {**told, "message": 'pods "b" not found', "details": {"name": "b", "kind": "pods"}}
    assert evicted(api, "b") == gone
    other = {**told, "message": 'namespaces "x" not found', "details": {"name": "x", "kind": "namespaces"}}
    made = {"metadata": {"name": "conf"}}
    assert answer(api, "POST", "/api/v1/namespaces/x/configmaps", made) == other


def test_conflicts(api, monkeypatch):
    monkeypatch.setitem(server.KINDS, "replicationsources", ("volsync.backube", "ReplicationSource", False))
    api.add("replicationsources", {"metadata": {"name": "test-0"}})
    stale = {"metadata": {"name": "test-0", "resourceVersion": "1"}}
    for method in ("PUT", "PATCH"):
        told = answer(api, method, "/apis/volsync.backube/v1/replicationsources/test-0", stale)
        assert told == ANSWERS["conflict"]
    made = {"metadata": {"name": "conf", "namespace": "default"}}
    api.add("configmaps", made)
    assert answer(api, "POST", "/api/v1/namespaces/default/configmaps", made) == ANSWERS["already_exists"]


def test_evictions_that_are_refused(api):
    pod(api)
    api.budgets = [Budget("my-app-pdb", {"app": "web"}, healthy=3)]
    assert evicted(api) == ANSWERS["disruption_budget"]
    api.budgets *= 2
    assert evicted(api) == ANSWERS["two_budgets"]
    pod(api, "db-0")
    assert evicted(api, "db-0", deleteOptions={"preconditions": {"uid": "old"}}) == ANSWERS["other_uid"]


def listed(api, plural="nodes", **query):
    found = answer(api, "GET", "/api/v1/" + plural, **query)
    return [one["metadata"]["name"] for one in found["items"]] if "items" in found else found["message"]


def test_a_list_has_what_a_server_would_choose(api):
    """As kube-apiserver 1.20.2 answered (tests/real_kubernetes)."""
    for name, cordoned in (("n1", True), ("n2", False), ("n3", False)):
        spec = {"unschedulable": True} if cordoned else {}
        api.add("nodes", {"metadata": {"name": name, "labels": {"role": "gpu", "pool": name}}, "spec": spec})
    pod(api)
    for query, names in (
        ({"fieldSelector": "spec.unschedulable=true"}, ["n1"]),
        ({"fieldSelector": "spec.unschedulable!=true,metadata.name!=n2"}, ["n3"]),
        ({"fieldSelector": "status.phase=x"}, "field label not supported: status.phase"),
        ({"labelSelector": "role=gpu,pool!=n1"}, ["n2", "n3"]),
        ({"labelSelector": "pool in (n1, n3),role"}, ["n1", "n3"]),
        ({"labelSelector": "!role"}, []),
        ({"labelSelector": "pool notin (n1)"}, ["n2", "n3"]),
        ({"labelSelector": "pool===n1"}, "unable to parse requirement: pool===n1"),
    ):
        assert listed(api, **query) == names, query
    assert listed(api, "pods", fieldSelector="spec.nodeName=") == ["a"]
    assert listed(api, "configmaps", fieldSelector="data=x") == "field label not supported: data"


def test_a_list_in_pages(api):
    for name in ("n1", "n2", "n3"):
        api.add("nodes", {"metadata": {"name": name}})
    first = answer(api, "GET", "/api/v1/nodes", limit="2")
    assert [one["metadata"]["name"] for one in first["items"]] == ["n1", "n2"]
    assert first["metadata"]["remainingItemCount"] == 1
    following = {"limit": "2", "continue": first["metadata"]["continue"]}
    last = answer(api, "GET", "/api/v1/nodes", **following)
    assert [one["metadata"]["name"] for one in last["items"]] == ["n3"] and "continue" not in last["metadata"]
    assert answer(api, "GET", "/api/v1/nodes", **{"continue": "x"})["code"] == 400


def test_what_changes_nothing_and_a_dry_run_make_no_new_version(api):
    api.add("nodes", {"metadata": {"name": "n1", "labels": {"a": "b"}}})
    before = api.get("nodes", "n1")
    assert answer(api, "PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}}) == before
    dry = answer(api, "PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"a": "c"}}}, dryRun="All")
    assert dry["metadata"]["labels"] == {"a": "c"} and api.get("nodes", "n1") == before
    place = "/api/v1/namespaces/default/configmaps"
    made = answer(api, "POST", place, {"metadata": {"name": "conf"}}, dryRun="All")
    assert made["kind"] == "ConfigMap" and api.get("configmaps", "conf", "default") is None


def test_what_is_deleted_and_what_cannot_be(api):
    api.add("nodes", {"metadata": {"name": "n1", "uid": "one"}})
    pod(api)
    assert answer(api, "DELETE", "/api/v1/nodes/n1", dryRun="All")["status"] == "Success"
    gone = answer(api, "DELETE", "/api/v1/nodes/n1")
    assert gone["details"] == {"name": "n1", "kind": "nodes", "uid": "one"} and api.get("nodes", "n1") is None
    assert answer(api, "DELETE", "/api/v1/namespaces/default/pods/a")["kind"] == "Pod"
    nameless = answer(api, "POST", "/api/v1/namespaces/default/configmaps", {"data": {}})
    assert (nameless["code"], nameless["reason"]) == (422, "Invalid")


def shape(value):
    """The names and types, without the values."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


def test_discovery(api):
    assert shape(answer(api, "GET", "/api")) == shape(ANSWERS["versions"])
    assert shape(answer(api, "GET", "/version")) == shape(ANSWERS["version"])
    groups = answer(api, "GET", "/apis")
    ours = [one for one in groups["groups"] if one["name"] != "nvidia.com"]
    assert dict(groups, groups=ours) == ANSWERS["groups"]
    for path, name in (("/api/v1", "core"), ("/apis/apps/v1", "apps"), ("/apis/policy/v1", "policy")):
        found, real = answer(api, "GET", path), ANSWERS[name]
        assert set(found) == set(real) and found["groupVersion"] == real["groupVersion"]
        known = {one["name"]: one for one in real["resources"]}
        assert [one["name"] for one in found["resources"]] and {one["name"] for one in found["resources"]} == set(known)
        for one in found["resources"]:
            real_one = known[one["name"]]
            assert set(one["verbs"]) <= set(real_one["verbs"]) and set(real_one) - set(one) <= LESS
            assert {key: one[key] for key in one if key != "verbs"} == {
                key: real_one[key] for key in one if key != "verbs"
            }


def test_a_list(api):
    real = ANSWERS["node_list"]
    (item,) = real["items"]
    api.add("nodes", {**item, "metadata": {key: item["metadata"][key] for key in ("name", "labels", "annotations")}})
    found = answer(api, "GET", "/api/v1/nodes")
    assert shape(found) == shape(real) and (found["kind"], found["apiVersion"]) == (real["kind"], real["apiVersion"])
    assert set(answer(api, "GET", "/api/v1/nodes/" + item["metadata"]["name"])) == {"kind", "apiVersion", *item}


@pytest.mark.parametrize("one", RECORDED["objects"], ids=lambda one: one["name"])
def test_an_object(api, one):
    """It comes back as it was sent, and with the fields that a server sets."""
    sent = {key: value for key, value in one["answer"].items() if key not in ("kind", "apiVersion")}
    sent["metadata"] = {"name": "nameValue", "namespace": "namespaceValue"}
    namespace = "/namespaces/namespaceValue" if server.KINDS[one["name"]][2] else ""
    api.add("namespaces", {"metadata": {"name": "namespaceValue"}})
    if not namespace:
        del sent["metadata"]["namespace"]
    place = "/api/v1{0}/{1}".format(namespace, one["name"])
    answer(api, "POST", place, sent)
    found = answer(api, "GET", place + "/nameValue")
    metadata = found["metadata"]
    assert {**found, "metadata": 0} == {**one["answer"], "metadata": 0}
    assert set(metadata) - set(sent["metadata"]) == {"uid", "resourceVersion", "creationTimestamp"}
    assert shape(metadata) == {key: shape(one["answer"]["metadata"][key]) for key in metadata}


@pytest.mark.parametrize(
    "plural, wrong, told",
    [
        ("nodes", {"spec": {"unschedulabel": True}}, "spec.unschedulabel is in no recorded object"),
        ("nodes", {"spec": {"unschedulable": "true"}}, "spec.unschedulable"),
        ("nodes", {"status": {"capacity": {"nvidia.com/gpu": 8}}}, "capacity.nvidia.com/gpu"),
        (
            "pods",
            {"spec": {"containers": [{"resources": {"limit": {"nvidia.com/gpu": "8"}}}]}},
            "resources.limit is in no recorded object",
        ),
        ("pods", {"spec": {"containers": {}}}, "spec.containers"),
        ("nodes", {"spec": {"taints": [{"key": "a", "efect": "NoSchedule"}]}}, "taints.efect is in no recorded object"),
    ],
)
def test_a_test_makes_no_object_that_no_server_has(api, plural, wrong, told):
    with pytest.raises(AssertionError, match=told):
        api.add(plural, {"metadata": {"name": "a"}, **wrong})
