# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kubernetes_node: the whole way through the real kubectl, to a stand-in for the API."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import node as library
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import Kubectl
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node.types import ANNOTATION, Busy
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Budget, EvictingApi, Fault, quick
from ansible_collections.trainyard.gpu_node.tests.unit import forked

# The module, with shorter pauses.
RUNNER = """
import importlib, json, sys
from ansible.module_utils import basic
from ansible_collections.trainyard.gpu_node.plugins.modules import kubernetes_node as module

run = importlib.import_module("ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node.run")
run.SETTLE_SECONDS = run.EVICT_SECONDS = 0.1
arguments = dict(json.loads(sys.argv[2]), _ansible_check_mode=sys.argv[1] == "check")
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
basic._ANSIBLE_PROFILE = "legacy"
module.main()
"""
OURS = "gpu_node: rolling: being converged"
RUN, OTHER = "3f2a9c1b", "0badcafe"
PATCH, EVICT = "PATCH /api/v1/nodes/n1", "POST .*/eviction"


class Clock:
    """Time that a pause costs nothing of. ``pauses``: their lengths. What others do :meth:`after` a while they do at
    the end of the pause in which they would."""

    def __init__(self):
        self.pauses, self._later = [], []

    def monotonic(self):
        return time.monotonic() + sum(self.pauses)

    def after(self, seconds, act, *arguments):
        self._later.append((self.monotonic() + seconds, act, arguments))

    def pause(self, length):
        assert length > 0
        self.pauses.append(length)
        due = [one for one in self._later if one[0] <= self.monotonic()]
        for one in due:
            self._later.remove(one)
            one[1](*one[2])


class Cluster:
    def __init__(self, api, kubeconfig, clock):
        self.api, self.kubeconfig, self.clock = api, kubeconfig, clock

    def node(self, name="n1", cordoned=False, annotation=None, ready=True):
        metadata = {"name": name, "annotations": {"theirs": "x", **({ANNOTATION: annotation} if annotation else {})}}
        spec = {"unschedulable": True} if cordoned else {}
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        self.api.add("nodes", {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}})

    def pod(self, name, gpus=1, kind="ReplicaSet", node="n1", volumes=(), labels=(), **metadata):
        owners = [{"kind": kind, "name": "x", "controller": True}] if kind else []
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
        made = {"name": name, "namespace": "default", "ownerReferences": owners, "labels": dict(labels), **metadata}
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": limits}}]}
        spec["volumes"] = [dict(one, name="v") for one in volumes]
        self.api.add("pods", {"metadata": made, "spec": spec, "status": {"phase": "Running"}})

    def seen(self, name="n1"):
        """(whether it is cordoned, our annotation)"""
        found = self.api.get("nodes", name)
        assert found["metadata"]["annotations"]["theirs"] == "x"
        return bool(found["spec"].get("unschedulable")), found["metadata"]["annotations"].get(ANNOTATION)

    def __call__(self, busy="leave", state="drained", seconds=20, **wish):
        """The library alone, in this process, by the clock of the test. What it reads it reads without kubectl."""
        self.clock.pauses.clear()
        desired = library.Desired("n1", drained=state == "drained", busy=Busy(busy), **wish)
        kubectl = Kubectl(Host(), kubeconfig=self.kubeconfig, context="test", seconds=seconds)
        told = library.run(kubectl, desired, pause=self.clock.pause).to_dict()
        assert "a-token-of-a-test" not in str(told)
        return told

    def module(self, check=False, **arguments):
        given = {"name": "n1", "kubeconfig": self.kubeconfig, "context": "test", "seconds": 20, **arguments}
        done = forked.run(
            [sys.executable, "-c", RUNNER, "check" if check else "real", json.dumps(given)],
            timeout=120,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        assert "a-token-of-a-test" not in done.stdout + done.stderr
        told = json.loads(done.stdout)
        told.pop("invocation")
        return told


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(importlib.import_module(library.__name__ + ".run"), "time", made)
    return made


@pytest.fixture
def cluster(tmp_path, monkeypatch, clock):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    monkeypatch.setenv("HOME", str(tmp_path))  # where kubectl keeps what it learnt of a server
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with EvictingApi(clock=clock.monotonic) as api:
        monkeypatch.setattr(Kubectl, "_run", quick(api, Kubectl._run))
        yield Cluster(api, api.kubeconfig(tmp_path / "kubeconfig"), clock)


def test_check_real_check_real_and_back(cluster):
    cluster.node()
    cluster.pod("dns", gpus=0)
    cluster.pod("plugin", kind="DaemonSet")
    planned = cluster.module(check=True, run=RUN)
    assert planned["changed"] and planned["outcome"] == "ready" and not cluster.api.written()
    made = cluster.module(run=RUN)
    assert made["changed"] and (made["outcome"], made["owner"]) == ("ready", "rolling")
    assert made["diff"] == planned["diff"] and made["actions"] == planned["actions"]
    text = OURS + " (run 3f2a9c1b)"
    assert "unschedulable: true\n" + ANNOTATION + ": " + text in made["diff"]["after"]
    assert cluster.seen() == (True, text) and made["node_state"] == ["cordoned", "ready"]
    # One request cordons and tells whose it is.
    assert cluster.api.written() == [PATCH] and cluster.api.get("pods", "dns", "default")
    for check in (True, False):
        again = cluster.module(check=check, run=RUN)
        assert not again["changed"] and again["actions"] == [] and again["outcome"] == "ready"
    back = cluster.module(check=True, state="in_service", run=RUN)
    assert back["changed"] and back["outcome"] == "in_service" and cluster.seen() == (True, text)
    assert cluster.module(state="in_service", run=RUN)["diff"] == back["diff"]
    assert cluster.seen() == (False, None)
    assert not cluster.module(state="in_service", run=RUN)["changed"]
    assert len(cluster.api.written()) == 2


def test_what_others_cordoned_stays(cluster):
    cluster.node(cordoned=True)
    told = cluster()
    assert (told["outcome"], told["why"], told["owner"]) == ("left", "somebody else cordoned it", "somebody")
    assert cluster(state="in_service")["outcome"] == "left" and not cluster.api.written()
    assert cluster(others=True, run=RUN)["outcome"] == "ready"
    held = OURS + " (run 3f2a9c1b); before: cordoned by somebody else"
    assert cluster.seen() == (True, held)
    assert cluster(state="in_service", run=RUN)["outcome"] == "left" and cluster.seen() == (True, None)


def test_a_node_that_is_not_there_or_does_not_report(cluster):
    told = cluster()
    assert (told["outcome"], told["why"]) == ("left", "it is not registered in the cluster")
    assert told["node_state"] == ["unregistered"] and cluster(state="in_service")["outcome"] == "left"
    cluster.node(ready=False)
    assert cluster()["why"] == "its kubelet does not report (NotReady)" and not cluster.api.written()
    assert cluster(others=True)["outcome"] == "ready"
    changed = cluster.api.get("nodes", "n1")
    changed["status"]["conditions"][0]["status"] = "True"
    cluster.clock.after(20, cluster.api.add, "nodes", changed)
    changed["metadata"].pop("resourceVersion")
    assert cluster(state="in_service")["outcome"] == "in_service"


def test_pods_that_hold_gpus(cluster):
    cluster.node()
    cluster.pod("train")
    told = cluster()
    assert (told["outcome"], told["pods"]) == ("busy", ["default/train"]) and not cluster.api.written()
    assert told["why"] == "pods hold it (default/train)"
    assert cluster(busy="drain", run=RUN)["owner"] == "rolling"
    assert cluster.seen() == (True, "gpu_node: rolling: waits for its pods")
    assert cluster(run=OTHER)["owner"] == "nobody" and cluster.seen() == (False, None)
    cluster.api.ends("train", 20)
    told = cluster(wait_seconds=60)
    assert told["outcome"] == "ready" and not cluster.api.evicted
    # For the scheduler, which may not have heard of the cordon, and for the pod.
    assert cluster.clock.pauses == [2, 15, 15]


def test_a_pod_that_comes_between_the_look_and_the_cordon(cluster):
    cluster.node()
    cluster.api.faults.append(Fault(PATCH, first=lambda: cluster.pod("late"), times=1))
    told = cluster()
    assert told["outcome"] == "busy" and [one["action"] for one in told["actions"]] == ["cordon", "release"]
    assert cluster.seen() == (False, None)
    assert not cluster.module()["changed"]


def test_evict_all_as_kubectl_drain_does(cluster):
    cluster.node()
    for name in ("train", "dns"):
        cluster.pod(name, gpus=name == "train")
    cluster.pod("plugin", kind="DaemonSet")
    cluster.pod("static", kind="Node", annotations={"kubernetes.io/config.mirror": "x"})
    cluster.pod("away", node="n2")
    cluster.api.lasts = 0.5
    planned = cluster.module(check=True, busy="evict")
    assert planned["evicted"] == ["default/dns", "default/train"] and not cluster.api.evicted
    told = cluster.module(busy="evict")
    assert told["outcome"] == "ready" and told["evicted"] == planned["evicted"] and told["diff"] == planned["diff"]
    assert sorted(cluster.api.evicted) == ["default/dns", "default/train"]
    assert "evicted: default/train" in told["diff"]["after"] and not cluster.module(busy="evict")["changed"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_kubectl_drain_evicts_the_same(tmp_path, monkeypatch, clock, version):
    """What the real one leaves, and what it refuses, is what we do."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    monkeypatch.setenv("HOME", str(tmp_path))
    wanted = []
    for given in ({}, {"kind": None}, {"volumes": [{"emptyDir": {"medium": "Memory"}}]}):
        left = []
        for ours in (False, True):
            with EvictingApi(version) as api:
                cluster = Cluster(api, api.kubeconfig(tmp_path / "kubeconfig"), clock)
                cluster.node()
                api.add("daemonsets", {"metadata": {"name": "x", "namespace": "default"}})
                cluster.pod("a")
                cluster.pod("b", gpus=0, **given)
                cluster.pod("c", kind="DaemonSet")
                cluster.pod("d", kind="Node", annotations={"kubernetes.io/config.mirror": "x"})
                if ours:
                    cluster(busy="evict", evict_seconds=10)
                else:
                    words = ["kubectl", "--kubeconfig=" + cluster.kubeconfig, "drain", "n1", "--ignore-daemonsets"]
                    done = subprocess.run([*words, "--timeout=20s"], capture_output=True, text=True, check=False)
                    assert (done.returncode == 0) == (not given), done.stderr
                left.append([name for name in "abcd" if api.get("pods", name, "default")])
        assert left[0] == left[1]
        wanted.append(left[1])
    assert wanted == [["c", "d"], ["a", "b", "c", "d"], ["a", "b", "c", "d"]]


@pytest.mark.parametrize(
    "given, option, words",
    [
        ({"kind": None}, "evict_unmanaged", "declares no controller"),
        ({"volumes": [{"emptyDir": {}}]}, "delete_emptydir_data", "would lose data in an emptyDir"),
    ],
)
def test_what_would_be_lost_is_evicted_only_where_it_is_asked_for(cluster, given, option, words):
    cluster.node()
    cluster.pod("a")
    cluster.pod("b", **given)
    told = cluster(busy="evict")
    assert told["outcome"] == "busy" and "default/b " + words in told["why"] and option in told["why"], told
    assert not cluster.api.evicted and cluster.seen() == (True, OURS)
    assert cluster(busy="evict", **{option: True})["outcome"] == "ready"
    assert sorted(cluster.api.evicted) == ["default/a", "default/b"]


def test_a_budget_is_waited_for_and_told(cluster):
    cluster.node()
    for name in ("a", "b"):
        cluster.pod(name, labels={"app": "web"})
    cluster.api.budgets.append(Budget("web", {"app": "web"}, allowed=1))
    told = cluster(busy="evict", evict_seconds=3, run=RUN)
    assert told["outcome"] == "busy" and cluster.api.evicted == ["default/a"]
    assert "default/b: Cannot evict pod as it would violate the pod's disruption budget." in told["why"], told
    assert [one["action"] for one in told["actions"]] == ["cordon", "evict", "cordon"]
    assert cluster.seen() == (True, "gpu_node: rolling: waits for its pods")
    cluster.clock.after(12, setattr, cluster.api.budgets[0], "allowed", 1)
    assert cluster(busy="evict", evict_seconds=60)["outcome"] == "ready"


def test_a_pod_of_the_same_name_elsewhere_is_not_evicted(cluster):
    cluster.node()
    cluster.pod("db-0", kind="StatefulSet", uid="old")
    again = {"kind": "StatefulSet", "node": "n2", "uid": "new"}
    cluster.api.faults.append(Fault(EVICT, first=lambda: cluster.pod("db-0", **again), times=1))
    assert cluster(busy="evict")["outcome"] == "ready"
    assert not cluster.api.evicted and cluster.api.get("pods", "db-0", "default")


def test_two_controllers_at_once(cluster):
    cluster.node()
    theirs = OURS + " (run 0badcafe)"
    cluster.api.faults.append(Fault(PATCH, first=lambda: cluster.node("n1", True, theirs), times=1))
    told = cluster(run=RUN)
    assert told["outcome"] == "left" and "another run (0badcafe)" in told["why"] and told["actions"] == []
    assert cluster.seen() == (True, theirs)
    assert cluster(run=RUN, state="in_service")["outcome"] == "left" and cluster.seen() == (True, theirs)
    assert cluster(run=RUN, take_over=True)["outcome"] == "ready"
    # A kubelet that writes its status at that moment.
    cluster.node()
    cluster.api.faults.append(Fault(PATCH, first=cluster.node, times=3))
    assert cluster(run=RUN)["outcome"] == "ready" and cluster.seen() == (True, OURS + " (run 3f2a9c1b)")
    cluster.node()
    cluster.api.faults.append(Fault(PATCH, first=cluster.node))
    with pytest.raises(NodeError, match="somebody else changes it all the time"):
        cluster(run=RUN)


def test_what_the_account_may_not_do(cluster):
    cluster.node()
    cluster.pod("a")
    cluster.api.faults = [Fault(PATCH, 403, "nodes is forbidden")]
    told = cluster.module(busy="drain")
    assert told["failed"] and "the rights that docs/rolling.md lists" in told["msg"] and not told["drained"]
    cluster.api.faults = [Fault(EVICT, 403, "pods/eviction is forbidden")]
    told = cluster.module(busy="evict")
    # Nothing was done to it: it goes on as before.
    assert "forbidden" in told["msg"] and not told["drained"] and cluster.seen() == (False, None)
    forbid = Fault(PATCH, 403, "no")
    cluster.api.faults = [Fault(EVICT, 403, "no", first=lambda: cluster.api.faults.append(forbid))]
    told = cluster.module(busy="evict")
    assert told["drained"] and "our cordon of the node may stand" in told["msg"] and cluster.seen() == (True, OURS)
    cluster.api.faults = [Fault("GET /api/v1/pods", 403, "pods is forbidden")]
    assert "this account may not do it" in cluster.module()["msg"]


def test_an_api_that_fails_or_hangs(cluster):
    cluster.node()
    cluster.pod("a")
    cluster.api.faults = [Fault(EVICT, 500, "two budgets", times=1), Fault(EVICT, hang=True, times=1)]
    assert cluster(busy="evict", evict_seconds=60, seconds=2)["outcome"] == "ready"
    cluster.node()
    cluster.pod("a")
    cluster.api.faults = [Fault(EVICT, 500, "This pod has more than one PodDisruptionBudget")]
    told = cluster(busy="evict", evict_seconds=1)
    assert told["outcome"] == "busy" and "default/a: This pod has more than one" in told["why"]
    cluster.node()
    # Away for a moment while pods are waited for.
    cluster.api.ends("a", 0.5)
    later = Fault("GET /api/v1/pods", 500, "etcdserver: leader changed", times=1)
    cluster.api.faults = [Fault(PATCH, first=lambda: cluster.api.faults.append(later), times=1)]
    assert cluster(wait_seconds=60)["outcome"] == "ready" and later.times == 0
    cluster.api.faults = [Fault("GET .*/nodes/n1", hang=True)]
    assert "it did not end within 1 s" in cluster.module(seconds=1)["msg"]
    cluster.api.faults = [Fault("GET .*/nodes/n1", 500, "no etcd")]
    assert "kubectl get node: no etcd" in cluster.module()["msg"]


def test_a_cordon_whose_answer_was_lost_is_taken_back(cluster):
    cluster.node()

    def done():
        cluster.node("n1", True, OURS)

    cluster.api.faults = [Fault(PATCH, 500, "the answer was lost", first=done, times=1)]
    told = cluster.module()
    assert "the answer was lost" in told["msg"] and not told["drained"] and cluster.seen() == (False, None)


def test_a_node_that_failed_keeps_the_reason(cluster):
    cluster.node()
    assert cluster(run=RUN)["outcome"] == "ready"
    cluster(run=RUN, busy="drain", reason="failed: GPU 3 is 'lost'\n")
    assert cluster.seen() == (True, "gpu_node: rolling: failed: GPU 3 is lost")
    cluster.pod("a")
    assert cluster(run=OTHER)["outcome"] == "busy" and "failed" in cluster.seen()[1]
    cluster.api.remove("pods", "a", "default")
    assert cluster(run=OTHER)["outcome"] == "ready" and "failed" not in cluster.seen()[1]
    owed = cluster(run=OTHER, state="in_service", owes="gpu_node: health: reset_gpu: GPU 3 is lost")
    assert owed["outcome"] == "left"
    assert cluster.seen() == (True, "gpu_node: rolling: waits for a proof: reset_gpu: GPU 3 is lost")
    # Uncordoned by hand: nothing of ours stays.
    cluster.node("n1", False, "gpu_node: rolling: failed: x")
    assert cluster(state="in_service")["outcome"] == "in_service" and cluster.seen() == (False, None)


@pytest.mark.parametrize(
    "wish, told",
    [
        ({"name": "--all"}, "this is not the name of one node"),
        ({"name": "n1,n2"}, "this is not the name of one node"),
        ({"reason": " "}, "it is empty"),
        ({"run": "mine"}, "not 8 hexadecimal digits"),
        ({"wait_seconds": -1}, "between 0 and a week"),
        ({"evict_seconds": 1e9}, "evict_seconds 1e+09: it is not between 0 and a week"),
        ({"seconds": 0}, "0 seconds is out of range; give 1 to 3600 seconds"),
        ({"busy": "kill"}, "must be one of"),
        ({"context": "other"}, "check kubeconfig and context"),
        ({"kubectl": "no-such-program"}, "this program is not installed"),
    ],
)
def test_bad_input_is_one_sentence(cluster, wish, told):
    assert told in cluster.module(**wish)["msg"] and not cluster.api.requests
