# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifests of deploy/ and the commands of docs/kubernetes_health.md at a real API server.

Without kubelets no pod of them runs. Shown is that the server accepts them, and that their commands need no more rights
than they bring.
"""

from __future__ import annotations

import re

import fleet
import yaml
from plays import ROOT

FOLDER = ROOT / "deploy/kubernetes"
NODE = "/api/v1/nodes/gpu001"
NPD = FOLDER / "node_problem_detector"
TAINT = "trainyard.io/gpu-node-not-ready"
# The others are values of charts and patches.
MANIFESTS = [path for path in sorted(FOLDER.rglob("*.yaml")) if re.search(r"^kind:", path.read_text(), re.MULTILINE)]
BOARDS = ROOT / "roles/monitoring/files"
# Kinds of other projects, of which these tests define no more than the names.
FOREIGN = {
    ("monitoring.coreos.com/v1", "PrometheusRule"): "prometheusrules",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): "servicemonitors",
    ("monitoring.coreos.com/v1", "PodMonitor"): "podmonitors",
}


def definition(group, version, kind, plural):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "{0}.{1}".format(plural, group)},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


def documents(path):
    found = list(yaml.safe_load_all(path.read_text()))
    return [item for one in found if one for item in (one.get("items") or [one])]


def test_the_server_accepts_each_manifest(one_node, run, report, cluster):
    kinds = {(one["apiVersion"], one["kind"]) for path in MANIFESTS for one in documents(path)}
    for foreign in sorted(kinds & set(FOREIGN)):
        group, version = foreign[0].split("/")
        made = definition(group, version, foreign[1], FOREIGN[foreign])
        status, answer = one_node.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
        assert status in (201, 409), answer
        report("{0} {1}: not of Kubernetes; defined here without its fields".format(*foreign))
    for name in {one["metadata"].get("namespace") for path in MANIFESTS for one in documents(path)} - {None}:
        cluster.namespace(name)
    for path in MANIFESTS:
        accepted = run("apply", "-f", str(path))
        assert len(accepted.splitlines()) == len(documents(path)), accepted
        # Nothing in it is changed by the server, or a tool that compares would see it as drift.
        assert not run("diff", "-f", str(path))
        run("delete", "--wait=false", "-f", str(path))


def test_the_server_accepts_the_boards(run, cluster):
    cluster.namespace("monitoring")
    words = ("--namespace", "monitoring", "-k", str(BOARDS))
    accepted = run("apply", *words)
    assert len(accepted.splitlines()) == len(list((BOARDS / "boards").glob("*.json"))), accepted
    assert not run("diff", *words)
    run("delete", "--wait=false", *words)


def test_the_daemonset_sets_and_removes_its_taint_with_its_own_rights(one_node, run, cluster):
    run("apply", "-f", str(FOLDER / "daemonset.yaml"))
    try:
        (daemonset,) = [one for one in documents(FOLDER / "daemonset.yaml") if one["kind"] == "DaemonSet"]
        steps = daemonset["spec"]["template"]["spec"]["initContainers"]
        asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 600}}
        made = one_node.must("POST", "/api/v1/namespaces/kube-system/serviceaccounts/gpu-node/token", asked)
        token = made["status"]["token"]
        seen = []
        for name in ("keep-away", "let-in", "keep-away", "keep-away"):
            (command,) = [one["command"] for one in steps if one["name"] == name]
            run(*[word.replace("$(NODE_NAME)", "gpu001") for word in command[1:]], token=token)
            seen.append([one["key"] for one in one_node.must("GET", NODE)["spec"].get("taints") or ()])
        assert seen == [[TAINT], [], [TAINT], [TAINT]]
        assert "cannot delete resource" in run("delete", "node", "gpu001", token=token, fails=True)
    finally:
        run("delete", "--wait=false", "-f", str(FOLDER / "daemonset.yaml"))


def test_the_conditions_of_node_problem_detector_have_the_rights_that_each_cluster_has(one_node, cluster):
    """The page says: the ClusterRole system:node-problem-detector."""
    role = one_node.must("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node-problem-detector")
    given = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {("nodes/status", "patch"), ("events", "create"), ("events", "patch")} <= given
    name = "npd-" + str(len(given)) + "-" + one_node.must("GET", NODE)["metadata"]["resourceVersion"]
    client = cluster.client(cluster.account(name, role["rules"]))
    condition = {"type": "GpuUnhealthy", "status": "True", "reason": "X", "message": "GPU 3: it is lost"}
    client.must(
        "PATCH", NODE + "/status", {"status": {"conditions": [condition]}}, "application/strategic-merge-patch+json"
    )
    types = [one["type"] for one in one_node.must("GET", NODE)["status"]["conditions"]]
    assert types == ["GpuUnhealthy", "Ready"] or types == ["Ready", "GpuUnhealthy"]


def test_the_monitor_is_added_to_node_problem_detector_and_removed(one_node, run, tmp_path):
    """The commands of the page, with a DaemonSet of the form that node-problem-detector's own manifest has."""
    container = {"name": "node-problem-detector", "image": fleet.IMAGE, "command": ["/node-problem-detector"]}
    mounts = [{"name": "log", "mountPath": "/var/log", "readOnly": True}]
    volumes = [{"name": "log", "hostPath": {"path": "/var/log/"}}]
    labels = {"app": "node-problem-detector"}
    spec = {"containers": [{**container, "volumeMounts": mounts}], "volumes": volumes}
    made = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "node-problem-detector", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    place = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    one_node.must("POST", place, made)
    try:
        run("-n", "kube-system", "create", "configmap", "gpu-node-health", "--from-file=" + str(NPD / "config"))
        patch = (NPD / "daemonset.patch.json").read_text()
        run("-n", "kube-system", "patch", "daemonset", "node-problem-detector", "--type=json", "--patch", patch)
        found = one_node.must("GET", place + "/node-problem-detector")["spec"]["template"]["spec"]
        assert [one["name"] for one in found["volumes"]] == ["log", "gpu-node", "gpu-node-status"]
        assert len(found["containers"][0]["volumeMounts"]) == 3
        assert found["containers"][0]["command"][1].startswith("--config.custom-plugin-monitor=/gpu_node/node.json,")
        run("-n", "kube-system", "delete", "configmap", "gpu-node-health")
    finally:
        one_node.must("DELETE", place + "/node-problem-detector")


def test_the_preflight_is_patched_into_a_deployment(one_node, run):
    labels = {"app": "train"}
    spec = {"containers": [{"name": "train", "image": fleet.IMAGE, "resources": {"limits": {fleet.GPU: "8"}}}]}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "train"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    place = "/apis/apps/v1/namespaces/default/deployments"
    one_node.must("POST", place, made)
    try:
        run("patch", "deployment", "train", "--patch-file", str(FOLDER / "preflight.patch.yaml"))
        found = one_node.must("GET", place + "/train")["spec"]["template"]["spec"]
        assert [one["name"] for one in found["initContainers"]] == ["gpu-preflight"]
        assert [one["name"] for one in found["containers"]] == ["train"]
    finally:
        one_node.must("DELETE", place + "/train")


def test_groups_that_this_server_does_not_serve(one_node, report):
    """They are named, so that nobody takes this release for proof of them."""
    served = {
        version["groupVersion"] for group in one_node.must("GET", "/apis")["groups"] for version in group["versions"]
    }
    used = {
        "policy/v1": "evictions and budgets are tried as policy/v1beta1",
        "resource.k8s.io/v1": "ResourceSlices and DeviceClasses are tried at the stand-in only",
        "resource.k8s.io/v1beta1": "as v1",
    }
    assert not served & set(used)
    for name, instead in used.items():
        report("{0}: not served by 1.20.2; {1}".format(name, instead))
