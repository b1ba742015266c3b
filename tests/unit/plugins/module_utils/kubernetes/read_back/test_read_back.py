# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster says of its nodes: each way to differ from what is on them is told, and a healthy node is silent."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import read_back
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.read_back import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.read_back.devices import Devices
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Fault

GPU = "nvidia.com/gpu"
LABELS = {
    GPU + ".count": "8",
    GPU + ".replicas": "1",
    GPU + ".product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/cuda.driver-version.full": "570.148.08",
    "team": "x",
}
NODE = {
    "metadata": {"name": "n1", "labels": LABELS},
    "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "96", GPU: "8"},
        "allocatable": {"cpu": "95", GPU: "8"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "GpuNodeUnhealthy", "status": "False"}],
    },
}
PLUGIN = {
    "metadata": {"name": "plugin-x", "namespace": "gpu-operator", "labels": {"app": "nvidia-device-plugin-daemonset"}},
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"restartCount": 2}],
    },
}
GPUS = [{"settings": {"mig_current": False}}] * 8
FACTS = {"gpu_count": 8, "gpus": GPUS, "driver_version": "570.148.08", "pci_gpus": ["x"] * 8}


def node(name, seen, pods, facts, devices=None):
    return compare.node(name, seen, pods, facts, devices or Devices({}))


def changed(**changes):
    found = copy.deepcopy(NODE)
    for path, value in changes.items():
        place = found
        *way, last = path.split("__")
        for key in way:
            place = place[key]
        place[last] = value
    return found


def told(seen=None, pods=(PLUGIN,), **facts):
    return node("n1", NODE if seen is None else seen, pods, dict(FACTS, **facts) if facts is not None else {})


def test_a_healthy_node_is_silent():
    found = told()
    assert found["findings"] == [] and found["compared"] and found["offers"] == {GPU: 8}
    assert found["taints"] == ["nvidia.com/gpu=present:NoSchedule"] and "team" not in found["labels"]
    assert found["pods"] == [{"name": "plugin-x", "namespace": "gpu-operator", "state": "Running", "restarts": 2}]
    sliced = changed(
        metadata__labels=dict(LABELS, **{GPU + ".replicas": "4"}),
        status__capacity={GPU + ".shared": "32"},
        status__allocatable={GPU + ".shared": "32"},
    )
    assert told(sliced)["findings"] == []
    mixed = changed(
        metadata__labels=dict(LABELS, **{"nvidia.com/mig-1g.5gb.count": "14"}),
        status__capacity={GPU: "6", "nvidia.com/mig-1g.5gb": "14"},
        status__allocatable={GPU: "6", "nvidia.com/mig-1g.5gb": "14"},
    )
    divided = [{"settings": {"mig_current": True}}] * 2 + GPUS[:6]
    assert told(mixed, gpus=divided)["findings"] == []
    assert node("n1", NODE, [PLUGIN], {})["findings"] == []  # nobody asked NVML
    done = dict(PLUGIN, metadata=dict(PLUGIN["metadata"], name="validator"), status={"phase": "Succeeded"})
    assert told(pods=(PLUGIN, done))["findings"] == []


LESS = changed(status__capacity={GPU: "7"}, status__allocatable={GPU: "7"})
CRASH = dict(
    PLUGIN,
    status={"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
)


@pytest.mark.parametrize(
    "seen, pods, facts, words",
    [
        (None, (), {}, "node n1: it is not registered in the cluster"),
        (
            LESS,
            (PLUGIN,),
            {},
            "the kubelet has 7 nvidia.com/gpu, and NVML sees 8 GPUs; restart the device plugin's pod",
        ),
        (changed(status__allocatable={GPU: "7"}), (PLUGIN,), {}, "has 8 nvidia.com/gpu and offers 7"),
        (LESS, (PLUGIN,), {"gpu_count": 7, "gpus": GPUS[:7]}, "NVML sees 7 GPUs, and 8 are on the PCI bus"),
        (NODE, (PLUGIN,), {"driver_version": "580.1"}, "labelled with driver 570.148.08, and 580.1 is loaded"),
        (
            NODE,
            (CRASH,),
            {},
            "pod plugin-x of the operator is CrashLoopBackOff; look at 'kubectl logs -n gpu-operator plugin-x'",
        ),
        (changed(status__capacity={}, status__allocatable={}), (), {}, "no pod of the device plugin is on it"),
        (
            changed(status__conditions=[{"type": "Ready", "status": "Unknown"}]),
            (PLUGIN,),
            {},
            "its kubelet is not ready",
        ),
        (
            changed(
                status__conditions=[*NODE["status"]["conditions"][:1], {"type": "GpuNodeUnhealthy", "status": "True"}]
            ),
            (PLUGIN,),
            {},
            "its condition GpuNodeUnhealthy is True",
        ),
        (
            changed(
                metadata__labels=dict(
                    LABELS, **{"nvidia.com/mig.config": "all", "nvidia.com/mig.config.state": "failed"}
                )
            ),
            (PLUGIN,),
            {},
            "node n1, MIG layout all: it could not be made",
        ),
        (
            changed(metadata__labels=dict(LABELS, **{"nvidia.com/mig-1g.5gb.count": "7"})),
            (PLUGIN,),
            {"gpus": GPUS},
            "the kubelet has 0 nvidia.com/mig-1g.5gb, and GPU feature discovery sees 7",
        ),
        (
            changed(metadata__labels=dict(LABELS, **{GPU + ".product": "NVIDIA-A100-MIG-INVALID"})),
            (PLUGIN,),
            {},
            "its instances are unequal under the MIG strategy single",
        ),
    ],
)
def test_each_difference_is_told(seen, pods, facts, words):
    findings = node("n1", seen, pods, dict(FACTS, **facts))["findings"]
    assert any(words in one for one in findings), findings


def labelled(status=None, **labels):
    """With labels of NVIDIA, dots as __."""
    more = {"nvidia.com/" + key.replace("__", ".").replace("mig_", "mig-"): value for key, value in labels.items()}
    found = changed(metadata__labels={key: value for key, value in {**LABELS, **more}.items() if value is not None})
    found["status"].update({} if status is None else {"capacity": status, "allocatable": status})
    return found


MIG = [{"settings": {"mig_current": True}}]
OLD = {"cuda__driver-version__full": None, "cuda__driver__major": "570", "cuda__driver__minor": "148"}


@pytest.mark.parametrize(
    "seen, facts",
    [
        (labelled(mig__config="all", mig__config__state="success"), {}),
        (labelled(mig__config="all"), {}),
        (labelled(mig__config__state="failed"), {}),
        (labelled(mig_1g__count="many"), {}),
        (labelled({GPU: "7", "nvidia.com/mig-1g.shared": "14"}, mig_1g__count="7", **{"mig_1g__replicas": "2"}), MIG),
        (labelled({GPU: "7"}), [{"mig_current": True}]),
        (labelled({GPU: "16"}, mig__strategy="single"), {"gpus": MIG * 8}),
        (labelled({GPU: "8"}, mig__strategy="none"), MIG),
        (labelled({GPU: "8"}, mig__strategy=None), MIG),
        (labelled(gpu__replicas="0"), {}),
        (NODE, {"pci_gpus": []}),
        (NODE, {"driver_version": None}),
        (labelled(**OLD, cuda__driver__rev="08"), {}),
        (labelled(**{**OLD, "cuda__driver__major": None}), {}),
    ],
)
def test_what_is_as_it_should_be_is_not_told(seen, facts):
    facts = {"gpus": facts + GPUS[1:]} if isinstance(facts, list) else facts
    assert node("n1", seen, [PLUGIN], dict(FACTS, **facts))["findings"] == []


@pytest.mark.parametrize(
    "seen, facts, words",
    [
        (changed(status__allocatable={}), {}, "has 8 nvidia.com/gpu and offers 0"),
        (labelled({GPU: "7"}, mig__strategy="single"), {}, "the kubelet has 7 nvidia.com/gpu, and NVML sees 8 GPUs;"),
        (labelled({GPU: "8"}), {"gpus": MIG + GPUS[1:]}, "NVML sees 8 GPUs, 1 of them in MIG mode;"),
        (labelled(gpu__replicas="4"), {}, "has 8 nvidia.com/gpu (4 replicas of each), and NVML sees 8 GPUs"),
        (labelled(**OLD, cuda__driver__rev="08"), {"driver_version": "580.1"}, "driver 570.148.08, and 580.1 is"),
        (labelled(**OLD), {"driver_version": "580.1"}, "driver 570.148, and 580.1 is"),
    ],
)
def test_this_and_nothing_else_is_told(seen, facts, words):
    (finding,) = node("n1", seen, [PLUGIN], dict(FACTS, **facts))["findings"]
    assert words in finding


@pytest.mark.parametrize(
    "status, state, restarts",
    [
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}]},
            "Pending",
            0,
        ),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "Error"}}}]}, "Error", 0),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, "not ready", 0),
        ({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}, "Succeeded", 0),
        (
            {"phase": "Running", **{key + "Statuses": [{"restartCount": 2}] for key in ("initContainer", "container")}},
            "Running",
            4,
        ),
        ({}, "Unknown", 0),
    ],
)
def test_the_state_of_a_pod(status, state, restarts):
    found = told(pods=(dict(PLUGIN, status=status),))
    (one,) = found["pods"]
    assert (one["state"], one["restarts"]) == (state, restarts)
    assert bool(found["findings"]) == (state not in ("Running", "Succeeded"))


def test_a_node_without_the_plugin():
    none, words = changed(status__capacity={}, status__allocatable={}), "no pod of the device plugin"
    assert told(pods=())["findings"] == []  # another one than the operator's offers them
    assert words in " ".join(told(none, pods=())["findings"])
    assert words not in " ".join(told(none)["findings"])
    none["metadata"]["labels"] = dict(LABELS, **{"nvidia.com/gpu.deploy.device-plugin": "false"})
    assert words not in " ".join(told(none, pods=())["findings"])
    assert node("n1", changed(status__capacity={}, status__allocatable={}), (), {})["findings"] == []


def test_lines_for_a_person():
    cordoned = told(changed(spec__unschedulable=True))
    assert not cordoned["schedulable"] and not node("n1", None, (), FACTS)["compared"]
    empty = changed(status__capacity={}, status__allocatable={})
    asked = [cordoned, told(), node("n1", empty, [PLUGIN], {})]
    assert read_back._lines(asked) == [
        "n1: offers 8 nvidia.com/gpu, cordoned, as NVML has it",
        "n1: offers 8 nvidia.com/gpu, as NVML has it",
        "n1: offers no GPU",
    ]


def test_it_is_asked_of_the_cluster(api, tmp_path):
    api.add("nodes", copy.deepcopy(LESS))
    api.add("nodes", {"metadata": {"name": "cpu"}})
    api.add("pods", copy.deepcopy(PLUGIN))
    given = {"kubectl": "kubectl", "kubeconfig": api.kubeconfig(tmp_path / "k"), "context": "test", "seconds": 20}
    given["namespace"] = "gpu-operator"
    found = read_back.gather(Host(), dict(given, nodes=[{"name": "n1", "facts": FACTS}, {"name": "n7", "facts": None}]))
    assert len(found["findings"]) == 2 and not api.written()
    assert found["lines"][0] == "n1: offers 7 nvidia.com/gpu" and found["lines"][1].startswith(
        "  node n1: the kubelet has 7"
    )
    assert found["lines"][2] == "n7: is not registered"
    # Without names: all nodes with GPUs, compared with themselves.
    found = read_back.gather(Host(), dict(given, nodes=[]))
    assert [one["name"] for one in found["nodes"]] == ["n1"] and not found["findings"]
    api.faults.append(Fault("GET .*/pods", 403, "no"))
    with pytest.raises(NodeError, match="the rights that docs/kubernetes.md lists"):
        read_back.gather(Host(), dict(given, nodes=[]))


@pytest.mark.parametrize(
    "facts",
    [
        {"gpu_count": "x"},
        {"gpu_count": [1]},
        {"gpu_count": True},
        {"gpu_count": -1},
        {"gpu_count": 8, "pci_gpus": 5},
        {"gpu_count": 8, "gpus": 7},
        {"gpu_count": 8, "gpus": ["x"]},
        {"gpu_count": 8, "gpus": [{"settings": 3}]},
        {"gpu_count": 8, "driver_version": {"a": 1}},
    ],
    ids=str,
)
def test_an_answer_of_another_form_costs_the_comparison_of_its_node_alone(facts):
    found = node("n1", NODE, [], facts)
    assert not found["compared"]
    assert any("its answer to gpu_info is not used" in one for one in found["findings"])
