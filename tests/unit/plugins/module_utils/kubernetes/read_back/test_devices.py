# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose GPUs are given by dynamic resource allocation: a healthy one is silent, each difference is told."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import read_back
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import Kubectl
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import DeviceApi, Fault, quick
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api.devices import gpu, mig

NODE = {
    "metadata": {
        "name": "n1",
        "labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.dra-driver": "true"},
    },
    "status": {"capacity": {"cpu": "96"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
POD = {
    "metadata": {"name": "dra-x", "namespace": "gpu-operator", "labels": {"app": "nvidia-dra-driver-kubelet-plugin"}},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
FACTS = {"gpu_count": 8, "driver_version": "570.148.08", "pci_gpus": ["x"] * 8}
FACTS["gpus"] = [{"uuid": "GPU-{0}".format(at), "settings": {"mig_current": False}} for at in range(8)]
EIGHT = [gpu(at) for at in range(8)]


def divided(*numbers):
    return [dict(one, settings={"mig_current": at in numbers}) for at, one in enumerate(FACTS["gpus"])]


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Ask a cluster with such slices: each is (devices, pool)."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def go(*slices, version="v1", classes=("gpu.nvidia.com", "mig.nvidia.com"), facts=FACTS, faults=(), node=NODE):
        with DeviceApi(version) as api:
            api.add("namespaces", {"metadata": {"name": "gpu-operator"}})
            api.add("nodes", node)
            api.add("pods", POD)
            for devices, pool in slices:
                api.publish_gpus("n1", devices, **pool)
            for name in classes:
                api.publish("deviceclasses", {"metadata": {"name": name}})
            api.faults += faults
            monkeypatch.setattr(Kubectl, "_run", quick(api, REAL))
            given = {"kubectl": "kubectl", "kubeconfig": api.kubeconfig(tmp_path / "k"), "context": "test"}
            nodes = [{"name": "n1", "facts": facts}] if facts else []
            return read_back.gather(Host(), dict(given, seconds=20, namespace="gpu-operator", nodes=nodes))

    return go


REAL = Kubectl._run


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_healthy_node_of_the_dra_stack_is_silent(look, version):
    found = look((EIGHT, {}), version=version)
    assert found["findings"] == [] and found["not_read"] == []
    assert found["device_classes"] == ["gpu.nvidia.com", "mig.nvidia.com"]
    assert found["lines"] == ["n1: offers 8 gpu of gpu.nvidia.com, as NVML has it"]
    assert found["nodes"][0]["devices"] == {"gpu": 8} and found["nodes"][0]["compared"]
    # Without names it is one of the nodes with GPUs, and nothing is compared.
    assert look((EIGHT, {}), facts=None)["lines"] == ["n1: offers 8 gpu of gpu.nvidia.com"]


@pytest.mark.parametrize(
    "slices, gpus",
    [
        ([(EIGHT[:4], {"resourceSliceCount": 2}), (EIGHT[4:], {"resourceSliceCount": 2})], ()),
        ([(EIGHT[:4], {"generation": 1}), (EIGHT, {"generation": 2})], ()),
        ([([*EIGHT[1:], mig(0, 1), mig(0, 2)], {})], (0,)),
        # A taint without an effect informs, and pods get the device all the same.
        ([([*EIGHT[:7], gpu(7, taints=[{"key": "gpu.nvidia.com/note", "effect": "None"}])], {})], ()),
        # Instances that the driver makes when they are claimed.
        ([([*EIGHT, mig(0, 1, made=False)], {})], (0,)),
        ([([*EIGHT[1:], mig(0, 1, made=False)], {})], (0,)),
    ],
)
def test_slices_generations_and_instances(look, slices, gpus):
    assert look(*slices, facts=dict(FACTS, gpus=divided(*gpus)))["findings"] == []


@pytest.mark.parametrize(
    "slices, more, words",
    [
        ([(EIGHT[:7], {})], {}, "gpu.nvidia.com has 7 devices of the type gpu, and NVML sees 8 GPUs; GPU-7 is missing"),
        (
            [(EIGHT, {})],
            {"facts": dict(FACTS, gpus=divided(0))},
            "has 8 devices of the type gpu, and NVML sees 8 GPUs, 1",
        ),
        ([], {}, "node n1: it has no ResourceSlice of the driver gpu.nvidia.com, so it offers no GPU"),
        ([(EIGHT, {"resourceSliceCount": 2})], {}, "published a part of its ResourceSlices"),
        (
            [([*EIGHT[:7], gpu(7, taints=[{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}])], {})],
            {},
            "gpu-7 of gpu.nvidia.com have a taint (gpu.nvidia.com/xid), and no new pod gets them",
        ),
        (
            [(EIGHT, {})],
            {"classes": ("mig.nvidia.com",)},
            "the cluster: it has devices of the driver gpu.nvidia.com and no",
        ),
        ([(EIGHT, {})], {"facts": dict(FACTS, pci_gpus=["x"] * 9)}, "NVML sees 8 GPUs, and 9 are on the PCI bus"),
    ],
)
def test_this_and_nothing_else_is_told(look, slices, more, words):
    (finding,) = look(*slices, **more)["findings"]
    assert words in finding


@pytest.mark.parametrize("labelled", [True, False])
def test_what_this_account_may_not_read_is_told_and_the_node_is_not_called_healthy_or_broken(look, labelled):
    node = NODE if labelled else {**NODE, "metadata": {"name": "n1"}}
    found = look((EIGHT, {}), faults=[Fault("GET .*/resourceslices", 403, "you may not")], node=node)
    (finding,) = found["findings"]
    assert "whether it has devices of gpu.nvidia.com is not known (kubectl get resourceslices: this account" in finding
    assert "the rights that docs/kubernetes.md lists" in finding and len(found["not_read"]) == 1
    # A node of the device plugin needs none of it.
    plugin = {"metadata": {"name": "n1"}, "status": dict(NODE["status"], capacity={"nvidia.com/gpu": "8"})}
    plugin["status"]["allocatable"] = {"nvidia.com/gpu": "8"}
    found = look(faults=[Fault("GET .*/resourceslices", 403, "you may not")], node=plugin)
    assert found["findings"] == [] and found["lines"][1].startswith("not read: kubectl get resourceslices")
    found = look((EIGHT, {}), faults=[Fault("GET .*/deviceclasses", 403, "you may not")])
    assert found["findings"] == [] and "deviceclasses" in found["not_read"][0]


def test_an_api_that_is_too_old_and_one_that_fails(look):
    found = look(version="v1alpha3")
    assert found["not_read"] == ["the API serves v1alpha3 of resource.k8s.io alone"] and len(found["findings"]) == 1
    with pytest.raises(NodeError, match="kubectl get resourceslices: no"):
        look((EIGHT, {}), faults=[Fault("GET .*/resourceslices", 500, "no")])
