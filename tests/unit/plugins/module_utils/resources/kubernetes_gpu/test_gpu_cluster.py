# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU nodes of a cluster: written through the real kubectl to a stand-in for the API, and through a stand-in for
helm."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused, Unfinished
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import result, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu import RESOURCE, Desired
from ansible_collections.trainyard.gpu_node.tests import kubernetes_api
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Fault, server

HELM = str(Path(kubernetes_api.__file__).parent / "helm.py")
OURS = "trainyard.io/gpu-node-marks"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
LOST = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
ON_HOST = {"host_driver": True, "host_toolkit": True}


def node(name, *taints, **labels):
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", **labels}},
        "spec": {"taints": list(taints)},
    }


def pod(name, on, *tolerations, owner="fluentd"):
    reference = {"kind": "DaemonSet", "name": owner, "controller": True}
    metadata = {"name": name, "namespace": "kube-system", "ownerReferences": [reference]}
    return {"metadata": metadata, "spec": {"nodeName": on, "tolerations": list(tolerations)}}


@pytest.fixture
def go(quick_api, tmp_path, monkeypatch):
    path = quick_api.kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("HELM_STAND_IN", str(tmp_path / "releases"))
    program = tmp_path / "helm"
    program.write_text('#!/bin/sh\nexec "{0}" "{1}" "$@"\n'.format(sys.executable, HELM))
    program.chmod(0o755)

    def converge(*nodes, check=False, **given):
        entries = [dict(ON_HOST, name=one) if isinstance(one, str) else one for one in nodes]
        asked = {"nodes": entries, "kubeconfig": path, "context": "test", "seconds": 30, "helm": str(program), **given}
        desired = of(Desired, asked)
        told = result(run(Host(), RESOURCE, desired, check), RESOURCE, desired)
        assert "a-token-of-a-test" not in str(told)
        return told

    return converge


def taints(api, name):
    return api.get("nodes", name)["spec"]["taints"]


def note(api, name):
    text = (api.get("nodes", name)["metadata"].get("annotations") or {}).get(OURS)
    return None if text is None else json.loads(text)


def test_check_real_again_and_back(api, go):
    api.add("nodes", node("n1", LOST))
    api.add("nodes", node("n2", team="x"))
    wanted = ["n1", dict(ON_HOST, name="n2", tainted=False, labels={"a": "b"}), "n3"]

    told = go(*wanted, check=True)
    assert told["changed"] and not api.written()
    assert (
        "node n1: node.kubernetes.io/unreachable:NoExecute nvidia.com/gpu=present:NoSchedule" in told["diff"]["after"]
    )
    assert "node n2: a=b" in told["diff"]["after"] and "node n2: -" in told["diff"]["before"]

    real = go(*wanted)
    assert real["changed"] and real["actions"] == told["actions"]
    assert taints(api, "n1") == [LOST, TAINT]  # with the fields that we do not know of
    assert taints(api, "n2") == [] and api.get("nodes", "n2")["metadata"]["labels"]["a"] == "b"
    assert note(api, "n1") == {"taint": "nvidia.com/gpu=present:NoSchedule"} and note(api, "n2") == {
        "labels": {"a": "b"}
    }
    assert [one["pending"] for one in real["nodes"]] == [False, False, True]
    assert "n3 is not registered in the cluster yet" in real["notes"][0]

    api.requests.clear()
    for check in (True, False):
        again = go(*wanted, check=check)
        assert not again["changed"] and not api.written() and again["diff"]["before"] == again["diff"]["after"]
        assert not [one for one in api.requests if one.endswith("/pods")]

    # Another taint, and no label any more: what was set before goes.
    go("n1", "n2", taint="node-role.kubernetes.io/gpu=true:NoSchedule")
    other = {"key": "node-role.kubernetes.io/gpu", "value": "true", "effect": "NoSchedule"}
    assert taints(api, "n1") == [LOST, other] and taints(api, "n2") == [other]
    assert "a" not in api.get("nodes", "n2")["metadata"]["labels"]

    assert go(state="absent")["changed"]
    assert taints(api, "n1") == [LOST] and taints(api, "n2") == []
    assert note(api, "n1") is None and api.get("nodes", "n2")["metadata"]["labels"]["team"] == "x"
    api.requests.clear()
    assert not go(state="absent")["changed"] and not api.written()


def test_what_others_set_stays(api, go):
    theirs = dict(TAINT, value="reserved")
    api.add("nodes", node("n1", theirs, a="theirs"))
    api.add("nodes", node("n2", TAINT))
    told = go(dict(ON_HOST, name="n1", labels={"a": "ours"}), "n2")
    assert taints(api, "n1") == [theirs] and taints(api, "n2") == [TAINT] and note(api, "n2") is None
    assert "node n1 has the taint nvidia.com/gpu=reserved:NoSchedule of others" in " ".join(told["notes"])
    assert told["lines"] == ["n1: no taint of ours, a=ours", "n2: nvidia.com/gpu=present:NoSchedule"]
    assert "the label a=theirs of others is replaced" in " ".join(told["notes"])
    go(state="absent")
    assert taints(api, "n1") == [theirs] and taints(api, "n2") == [TAINT]


def test_pods_that_would_not_come_back_are_told_before(api, go):
    for name in ("n1", "n2"):
        api.add("nodes", node(name))
    for at, on in enumerate(["n1", "n1", "n2", "n9"]):
        api.add("pods", pod("fluentd-{0}".format(at), on))
    api.add("pods", pod("plugin", "n1", {"key": "nvidia.com/gpu", "operator": "Exists"}, owner="plugin"))
    told = go("n1", "n2", check=True)
    assert told["stranded"] == ["DaemonSet kube-system/fluentd (3 pods)"]
    assert "would not come back to these nodes: DaemonSet kube-system/fluentd (3 pods)" in " ".join(told["warnings"])
    told = go("n1", "n2", taint="nvidia.com/gpu=present:PreferNoSchedule", check=True)
    assert told["stranded"] == []


def test_who_acts_at_the_same_time_loses_nothing(api, go):
    """The kubelet and a second controller write the node between our look and our patch."""
    api.add("nodes", node("n1"))

    def others():
        seen = api.get("nodes", "n1")
        seen["spec"]["taints"].append(LOST)
        seen["metadata"]["labels"]["theirs"] = "1"
        api.add("nodes", seen)

    api.faults.append(Fault("PATCH .*/nodes/n1", first=others, times=1))
    go("n1")
    assert taints(api, "n1") == [LOST, TAINT] and api.get("nodes", "n1")["metadata"]["labels"]["theirs"] == "1"
    assert len([one for one in api.requests if one.startswith("PATCH")]) == 2

    # One that never rests ends in an error, and the other node is done all the same.
    api.add("nodes", node("n2"))
    api.add("nodes", node("n3"))

    def never():
        seen = api.get("nodes", "n2")
        api.add("nodes", seen)

    api.faults[:] = [Fault("PATCH .*/nodes/n2", first=never)]
    with pytest.raises(Unfinished) as failed:
        go("n2", "n3")
    assert "node n2" in str(failed.value) and "Not marked: n2." in str(failed.value)
    assert taints(api, "n3") == [TAINT] and taints(api, "n2") == []


@pytest.mark.parametrize("status, words", [(403, "the rights that docs/kubernetes.md lists"), (500, "no")])
def test_a_server_that_refuses_is_told_and_the_others_go_on(api, go, status, words):
    for name in ("n1", "n2"):
        api.add("nodes", node(name))
    api.faults.append(Fault("PATCH .*/nodes/n1", status, "no"))
    with pytest.raises(Unfinished) as failed:
        go("n1", "n2")
    assert words in str(failed.value) and "Not marked: n1." in str(failed.value) and taints(api, "n2") == [TAINT]
    assert api.requests.count("PATCH /api/v1/nodes/n1") == 1


def test_what_is_not_needed_is_not_asked_for(api, go):
    api.add("nodes", node("n1"))
    api.faults.append(Fault("GET .*/clusterpolicies", 403, "no"))
    assert go("n1")["changed"]  # an account that may not read the operator's object
    api.requests.clear()
    assert go(state="absent", apply="helm", helm="helm-of-nobody")["changed"]
    assert not [one for one in api.requests if "clusterpolicies" in one] and taints(api, "n1") == []


def test_the_operator_that_runs_is_compared_with_the_values(api, go):
    api.add("nodes", node("n1"))
    assert not go("n1")["notes"]  # no operator
    spec = {
        "driver": {"enabled": True},
        "mig": {"strategy": "single"},
        "toolkit": {"enabled": False},
        "cdi": {"enabled": True},
    }
    api.add("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "spec": spec})
    (told,) = go("n1")["notes"]
    assert "the GPU operator runs with other values of" in told and "driver.enabled" in told and "mig.strategy" in told
    assert "toolkit.enabled" not in told and "'helm upgrade --install gpu-operator" in told
    # Where it is not known what is on the nodes, nothing is compared.
    assert not go({"name": "n1"})["notes"]
    # Drivers by the CRD, for which the object has another key and no version.
    spec.update(driver={"enabled": False, "useNvidiaDriverCRD": True})
    api.add("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "spec": spec})
    (told,) = go("n1", values={"driver": {"nvidiaDriverCRD": {"enabled": True}, "version": "1"}})["notes"]
    assert "driver" not in told.partition("bring it")[0] and "mig.strategy" in told


def test_why_the_operator_is_not_compared_is_told(api, go, monkeypatch):
    api.add("nodes", node("n1"))
    assert go("n1")["operator_not_compared"] == "no GPU operator is in the cluster"
    api.add("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "spec": {"cdi": {"enabled": False}}})
    told = go("n1")
    assert told["operator_not_compared"] == "" and "the GPU operator runs with other values" in told["notes"][0]
    assert "it is not known whether NVIDIA's driver is on n1" in go({"name": "n1"})["operator_not_compared"]
    api.faults.append(Fault("GET .*/clusterpolicies", 403, "no"))
    told = go("n1")
    assert told["operator_not_compared"] == "this account may not list clusterpolicies.nvidia.com"
    assert told["warnings"] == ["the GPU operator is not compared with the values: " + told["operator_not_compared"]]
    assert go(state="absent")["operator_not_compared"] == ""


def test_a_cluster_without_the_crd_of_the_operator(api, go, monkeypatch):
    """kubectl finds out by discovery, and no server answers."""
    monkeypatch.delitem(server.KINDS, "clusterpolicies")
    monkeypatch.delitem(server.KINDS, "gpuclusters")
    api.add("nodes", node("n1"))
    told = go("n1")
    assert told["operator_not_compared"] == "the cluster does not have the CRD clusterpolicies.nvidia.com"
    assert told["operator_not_compared"] in told["warnings"][0] and taints(api, "n1") == [TAINT]


def test_an_operator_of_the_dra_stack_is_compared_with_its_gpu_cluster(api, go):
    api.add("nodes", node("n1"))
    wanted = {"stack": "dra", "values": {"draDriver": {"featureGates": {"MPSSupport": True}}}}
    made = go("n1", check=True, **wanted)["operator_values"]
    exporter = {key: value for key, value in made["dcgmExporter"].items() if key != "config"}
    exporter["config"] = {"name": made["dcgmExporter"]["config"]["name"]}
    spec = {"draDriver": {"featureGates": {"MPSSupport": True}, "computeDomains": {"enabled": True}}}
    spec.update(dcgmExporter=exporter, daemonsets=made["daemonsets"])
    api.add("gpuclusters", {"metadata": {"name": "gpu-cluster"}, "spec": spec})
    told = go("n1", **wanted)
    assert told["operator_not_compared"] == "" and told["notes"] == []
    (note_,) = go("n1", stack="dra", values={"draDriver": {"featureGates": {"MPSSupport": False}}})["notes"]
    assert "runs with other values of draDriver.featureGates.MPSSupport;" in note_


def test_files_for_a_repository(api, go, tmp_path):
    folder = str(tmp_path / "files")
    told = go("n1", apply="files", folder=folder, taint="a/b=c:NoSchedule")
    assert (
        told["changed"]
        and not api.requests
        and sorted(os.listdir(folder))
        == [
            "gpu-node-marks.sh",
            "gpu-operator-values.yaml",
        ]
    )
    marks = Path(folder, "gpu-node-marks.sh").read_text()
    assert "taint node n1 a/b=c:NoSchedule --overwrite" in marks
    assert not go("n1", apply="files", folder=folder, taint="a/b=c:NoSchedule")["changed"]
    with pytest.raises(Refused, match="it is not known whether NVIDIA's driver is on n1"):
        go({"name": "n1"}, apply="files", folder=folder)
    go(apply="files", folder=folder, state="absent")
    assert not Path(folder, "gpu-operator-values.yaml").exists()


def test_a_run_of_some_nodes_decides_nothing_for_the_others(api, go, tmp_path):
    """With --limit: what is on one node is no reason to give the operator of all of them a second driver."""
    blank = {"name": "n1", "host_driver": False, "host_toolkit": False}
    api.add("nodes", node("n1"))
    api.add("nodes", node("n2", **{"nvidia.com/gpu.present": "true"}))
    api.add("nodes", node("cpu"))
    told = go(blank)
    assert taints(api, "n1") == [TAINT] and told["operator_values"] == {}
    for given in ({"folder": str(tmp_path / "files")}, {"apply": "helm"}):
        with pytest.raises(Refused) as refused:
            go(blank, **given)
        reason = "it is not known whether NVIDIA's {0} is on n2, in this cluster and not in this run; run it for all"
        assert "option driver: " + reason.format("driver") in str(refused.value)
        assert "option toolkit: " + reason.format("container toolkit") in str(refused.value)
        with pytest.raises(Refused, match="option rdma: .* OFED is on n2, .* or give host_ofed or none"):
            go(blank, driver="operator", toolkit="operator", **given)
        assert go(blank, driver="operator", toolkit="operator", rdma="none", **given)["changed"]
    assert go(blank, dict(blank, name="n2"), apply="helm", check=True)["operator_values"]["driver"]["enabled"]


def test_what_a_person_is_to_run_names_the_cluster(api, go, tmp_path):
    api.add("nodes", node("n1"))
    api.add("clusterpolicies", {"metadata": {"name": "cluster-policy"}, "spec": {"cdi": {"enabled": False}}})
    folder = tmp_path / "files"
    (told,) = go(dict(ON_HOST, name="n1", labels={"a": "b"}), folder=str(folder))["notes"]
    assert "--kubeconfig {0} --kube-context test'".format(tmp_path / "kubeconfig") in told
    marks = (folder / "gpu-node-marks.sh").read_text()
    assert "kubectl --context test taint node n1 " in marks and "kubectl --context test label node n1 a=b" in marks
    values = (folder / "gpu-operator-values.yaml").read_text()
    assert "-f gpu-operator-values.yaml --kube-context test\n" in values and "kubeconfig" not in values


def test_helm_installs_upgrades_and_rests(api, go, tmp_path):
    api.add("nodes", node("n1"))
    assert go("n1", apply="helm", check=True)["actions"][0]["action"] == "upgrade_release"
    assert not (tmp_path / "releases").exists()
    told = go("n1", apply="helm")
    # The tolerations come before the taint.
    assert [one["action"] for one in told["actions"]] == ["upgrade_release", "mark_node"]
    assert told["release"] == {"version": "v26.7.0", "state": "deployed", "ours": True}
    again = go("n1", apply="helm")
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    (step,) = go("n1", apply="helm", mig_strategy="single")["actions"]
    assert step["keys"] == ["mig.strategy"]
    # What is no longer asked goes: it was ours.
    assert go("n1", apply="helm", values={"operator": {"upgradeCRD": False}})["changed"]
    assert go("n1", apply="helm")["changed"]
    kept = json.loads((tmp_path / "releases").read_text())["gpu-operator/gpu-operator"]
    assert "operator" not in kept["values"] and kept["revision"] == 4


def test_a_release_of_others_keeps_its_values(api, go, tmp_path):
    api.add("nodes", node("n1"))
    listed = {"chart": "gpu-operator-v25.3.0", "status": "deployed"}
    release = {
        "revision": 7,
        "listed": listed,
        "description": "Upgrade complete",
        "values": {"driver": {"version": "9"}},
    }
    (tmp_path / "releases").write_text(json.dumps({"gpu-operator/gpu-operator": release}))
    with pytest.raises(Refused) as told:
        go("n1", apply="helm")
    assert "somebody else made it, and these values of it would be lost: driver.version" in str(told.value)
    assert taints(api, "n1") == []
    (step, dummy) = go("n1", apply="helm", values={"driver": {"version": "9"}}, check=True)["actions"]
    assert step["before"] == "v25.3.0"
    assert go("n1", apply="helm", take_over=True)["release"]["ours"]
    release["listed"]["status"] = "pending-upgrade"
    (tmp_path / "releases").write_text(json.dumps({"gpu-operator/gpu-operator": release}))
    with pytest.raises(Refused, match="it is pending-upgrade, so another helm is at work"):
        go("n1", apply="helm", take_over=True)


def test_helm_that_fails_or_is_not_there(api, go):
    api.add("nodes", node("n1"))
    with pytest.raises(NodeError) as told:
        go("n1", apply="helm", chart="broken")
    assert "helm upgrade: UPGRADE FAILED: execution error" in str(told.value) and taints(api, "n1") == []
    with pytest.raises(NodeError, match="helm-of-nobody: this program is not installed"):
        go("n1", apply="helm", helm="helm-of-nobody")
