# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes plays over 200 nodes of a real API server, by both releases of kubectl, each with an account that has
the rights of its documentation and no others."""

from __future__ import annotations

import json

import fleet
import pytest
import rights
from plays import Play

NUMBER = 200
CONFIG = "nvidia.com/device-plugin.config"
MARKS = "trainyard.io/gpu-node-marks"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
CONFIGS = {"slice-4": {"time_slicing": {"nvidia.com/gpu": 4}}, "mps-8": {"mps": {"nvidia.com/gpu": 8}}}
# kubectl patch of a release gets the object first, or does not. A node is got where it changed meanwhile.
SPARE = {("get", "nodes")}
POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
# Of the operator's own definition only the names: the fields of a policy are not checked.
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"plural": "clusterpolicies", "singular": "clusterpolicy", "kind": "ClusterPolicy"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def admin(cluster):
    client = cluster.admin
    yield client
    fleet.remove_all(client)
    for name in ("default", "kube-system", "gpu-operator"):
        client.must("DELETE", "/api/v1/namespaces/{0}/pods".format(name))


@pytest.fixture
def nodes(admin):
    names = fleet.names(NUMBER)
    for name in names:
        fleet.node(admin, name)
    return names


@pytest.fixture
def account(cluster, tmp_path, request):
    """A kubeconfig with these rights; ``account.name``."""
    name = "".join(one if one.isalnum() else "-" for one in request.node.name.lower()).strip("-")

    def make(given):
        token = cluster.account(name, given.everywhere, "gpu-operator", given.inside)
        return cluster.kubeconfig(tmp_path / "kubeconfig", token)

    make.name = name
    return make


def served(admin):
    """The groups of this server; "" is the core."""
    return {"", *(one["name"] for one in admin.must("GET", "/apis")["groups"])}


def seen(admin, key, part="labels"):
    items = admin.must("GET", "/api/v1/nodes")["items"]
    return {one["metadata"]["name"]: (one["metadata"].get(part) or {}).get(key) for one in items}


def test_sharing(admin, nodes, account, kubectl, tmp_path, report, cluster):
    given = rights.of_table("sharing.md")
    play = Play(tmp_path, kubectl, account(given))
    hosts = {name: {"gpu_sharing_config": "slice-4" if number else "mps-8"} for number, name in enumerate(nodes)}
    wanted = {name: one["gpu_sharing_config"] for name, one in hosts.items()}
    fleet.pod(admin, "train", nodes[0], gpus=8)
    checked = play("sharing.yml", hosts, "--check", "--diff", gpu_sharing_configs=CONFIGS)
    assert checked.changed and set(seen(admin, CONFIG).values()) == {None}
    done = play("sharing.yml", hosts, gpu_sharing_configs=CONFIGS)
    assert seen(admin, CONFIG) == wanted and done.changed, done.short
    assert play("sharing.yml", hosts, gpu_sharing_configs=CONFIGS).changed == 0
    # Somebody else relabels a node; it is replaced, as the inventory wants another value. A config changes, too.
    change = {"metadata": {"labels": {CONFIG: "theirs"}}}
    admin.must("PATCH", "/api/v1/nodes/" + nodes[7], change, fleet.MERGE)
    again = play("sharing.yml", hosts, gpu_sharing_configs={**CONFIGS, "slice-2": {"time_slicing": {fleet.GPU: 2}}})
    assert again.changed and seen(admin, CONFIG) == wanted
    gone = play("sharing.yml", hosts, "-e", "gpu_sharing_state=absent", gpu_sharing_configs=CONFIGS)
    assert set(seen(admin, CONFIG).values()) == {None}, gone.short
    for part in ("annotations", "labels"):
        items = admin.must("GET", "/api/v1/nodes")["items"]
        assert not [one for one in items for key in one["metadata"].get(part) or {} if key.startswith("trainyard.io")]
    assert admin.ask("GET", "/api/v1/namespaces/gpu-operator/configmaps/gpu-node-sharing")[0] == 404
    # The page lists no right that nothing uses. A namespace is asked for before its config map exists.
    assert given.pairs(served(admin)) - cluster.used(account.name) <= SPARE
    report(
        "sharing.yml, {0} nodes, {1}: check {2:.0f} s, apply {3:.0f} s, undo {4:.0f} s".format(
            NUMBER, kubectl.rpartition("-")[2], checked.seconds, done.seconds, gone.seconds
        )
    )


def test_kubernetes(admin, nodes, account, kubectl, tmp_path, report, cluster):
    rules = rights.of_table("kubernetes.md")
    play = Play(tmp_path, kubectl, account(rules))
    hosts = {name: {} for name in nodes}
    given = {
        "gpu_node_kubernetes_look": False,
        "kubernetes_gpu_labels": {"example.org/pool": "train"},
        "kubernetes_gpu_folder": str(tmp_path / "files"),
        "kubernetes_gpu_driver": "host",
        "kubernetes_gpu_toolkit": "host",
    }
    admin.must(
        "PATCH", "/api/v1/nodes/" + nodes[3], {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, fleet.MERGE
    )
    fleet.pod(admin, "stays", nodes[0], labels={"app": "web"}, owner="ReplicaSet")
    checked = play("kubernetes.yml", hosts, "--check", "--diff", **given)
    assert checked.changed and set(seen(admin, "example.org/pool").values()) == {None}
    assert "default/x" in checked.told or "stays" in checked.told, checked.short
    done = play("kubernetes.yml", hosts, **given)
    assert set(seen(admin, "example.org/pool").values()) == {"train"}
    taints = {one["metadata"]["name"]: one["spec"]["taints"] for one in admin.must("GET", "/api/v1/nodes")["items"]}
    assert taints[nodes[0]] == [TAINT] and {"key": "a", "effect": "NoExecute"} in taints[nodes[3]]
    assert "{0}: offers 8 nvidia.com/gpu".format(nodes[0]) in done.told, done.short
    assert play("kubernetes.yml", hosts, **given).changed == 0
    gone = play("kubernetes.yml", hosts, "-e", "kubernetes_gpu_state=absent", **given)
    items = admin.must("GET", "/api/v1/nodes")["items"]
    assert [one["metadata"]["name"] for one in items if one["spec"].get("taints")] == [nodes[3]], gone.short
    assert set(seen(admin, MARKS, "annotations").values()) == {None}
    assert rules.pairs(served(admin)) - cluster.used(account.name) <= SPARE
    report(
        "kubernetes.yml, {0} nodes, {1}: check {2:.0f} s, apply {3:.0f} s, undo {4:.0f} s".format(
            NUMBER, kubectl.rpartition("-")[2], checked.seconds, done.seconds, gone.seconds
        )
    )


def test_the_operator_is_compared(admin, account, kubectl, tmp_path):
    """With a ClusterPolicy, whose definition is not the operator's."""
    fleet.node(admin, "gpu001")
    admin.must("POST", _DEFINITIONS, CRD)
    try:
        policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
        policy["spec"] = {"driver": {"enabled": True}}
        make(admin, POLICIES, policy)
        play = Play(tmp_path, kubectl, account(rights.of_table("kubernetes.md")))
        given = {"gpu_node_kubernetes_look": False, "kubernetes_gpu_driver": "host", "kubernetes_gpu_toolkit": "host"}
        done = play("kubernetes.yml", {"gpu001": {}}, **given)
        assert "driver.enabled" in done.told, done.short
    finally:
        admin.must("DELETE", _DEFINITIONS + "/clusterpolicies.nvidia.com")


def test_what_the_cluster_says_of_its_nodes(admin, account, kubectl, tmp_path):
    """The module kubernetes_gpu_info without a list of nodes."""
    for name in ("gpu001", "gpu002", "gpu003"):
        fleet.node(admin, name, ready=name != "gpu003")
    offered = {"status": {"allocatable": {fleet.GPU: "7"}}}
    admin.must("PATCH", "/api/v1/nodes/gpu002/status", offered, fleet.MERGE)
    admin.must("POST", "/api/v1/nodes", {"metadata": {"name": "cpu001"}})
    fleet.pod(admin, "nvidia-device-plugin-x", "gpu001", namespace="gpu-operator", owner="DaemonSet")
    waiting = {"name": "main", "ready": False, "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    change = {"status": {"containerStatuses": [{**waiting, "image": fleet.IMAGE, "imageID": ""}]}}
    place = "/api/v1/namespaces/gpu-operator/pods/nvidia-device-plugin-x/status"
    admin.must("PATCH", place, change, fleet.MERGE)
    kubeconfig = account(rights.of_table("kubernetes.md"))
    ask = {"trainyard.gpu_node.kubernetes_gpu_info": {"kubectl": kubectl, "kubeconfig": kubeconfig}, "register": "it"}
    show = {"ansible.builtin.debug": {"msg": "{{ it['lines'] }}"}}
    (tmp_path / "play.json").write_text(
        json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": [ask, show]}])
    )
    done = Play(tmp_path, kubectl, kubeconfig)(str(tmp_path / "play.json"), {"localhost": {}})
    for words in (
        "gpu001: offers 8 nvidia.com/gpu",
        "pod nvidia-device-plugin-x of the operator is CrashLoopBackOff",
        "the kubelet has 8 nvidia.com/gpu and offers 7",
        "node gpu003: its kubelet is not ready",
    ):
        assert words in done.told, (words, done.short)
    assert "cpu001" not in done.told


def make(client, place, body):
    """A definition is served a moment after it was made."""
    for _dummy in range(100):
        status, answer = client.ask("POST", place, body)
        if status == 201:
            return
    raise AssertionError(answer)


@pytest.mark.parametrize("playbook", ["kubernetes.yml", "sharing.yml"])
def test_an_account_without_rights_is_told_which_page_lists_them(admin, cluster, built, tmp_path, playbook, request):
    fleet.node(admin, "gpu001")
    token = cluster.account(playbook.partition(".")[0] + "-none", ())
    play = Play(tmp_path, str(built.kubectl["newest"]), cluster.kubeconfig(tmp_path / "kubeconfig", token))
    done = play(playbook, {"gpu001": {}}, fails=True, gpu_node_kubernetes_look=False, gpu_sharing_configs=CONFIGS)
    assert "this account may not do it" in done.told and "docs/" + playbook.partition(".")[0] + ".md" in done.told


def test_a_node_is_kept_by_its_budget_and_then_evicted(admin, account, kubectl, tmp_path, cluster):
    """The module kubernetes_node through a play, as people write it."""
    fleet.node(admin, "gpu001")
    fleet.pod(admin, "train", "gpu001", gpus=8, labels={"app": "train"})
    fleet.pod(admin, "agent", "gpu001", gpus=1, owner="DaemonSet")
    fleet.pod(admin, "web", "gpu001", owner="ReplicaSet")
    fleet.budget(admin, "train", {"app": "train"}, 0, 1)
    kubeconfig = account(rights.of_yaml("rolling.md"))
    play = Play(tmp_path, kubectl, kubeconfig)
    module = {"name": "gpu001", "busy": "evict", "evict_seconds": 2, "kubectl": kubectl, "kubeconfig": kubeconfig}
    ask = {"trainyard.gpu_node.kubernetes_node": module, "register": "it"}
    show = {"ansible.builtin.debug": {"msg": "{{ it.outcome }}: {{ it.why }} {{ it.evicted }}"}}
    (tmp_path / "play.json").write_text(
        json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": [ask, show]}])
    )
    held = play(str(tmp_path / "play.json"), {"localhost": {}})
    assert "busy: " in held.told and "violate the pod's disruption budget" in held.told, held.short
    place = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    assert admin.must("GET", "/api/v1/nodes/gpu001")["spec"]["unschedulable"] is True
    admin.must("DELETE", place + "/train")
    done = play(str(tmp_path / "play.json"), {"localhost": {}})
    pods = admin.must("GET", "/api/v1/namespaces/default/pods")["items"]
    assert "ready: " in done.told and [one["metadata"]["name"] for one in pods] == ["agent"], done.short
    module.update(state="in_service")
    (tmp_path / "play.json").write_text(
        json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": [ask, show]}])
    )
    back = play(str(tmp_path / "play.json"), {"localhost": {}})
    node = admin.must("GET", "/api/v1/nodes/gpu001")
    assert "in_service" in back.told and "unschedulable" not in node["spec"], back.short
    assert not [key for key in node["metadata"].get("annotations") or {} if key.startswith("trainyard.io")]
