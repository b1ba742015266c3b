# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that read a cluster without kubectl read what kubectl reads."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import Kubectl, KubectlError
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Fault, quick

CALLS = [
    ("find", "node", "n1"),
    ("find", "node", "n9"),
    ("find", "namespace", "gpu-operator"),
    ("find", "configmap", "a", "gpu-operator"),
    ("find", "configmap", "a"),
    ("list", "nodes"),
    ("list", "pods"),
    ("nodes",),
    ("pods",),
    ("pods", "spec.nodeName=n1"),
    ("pods_in", "gpu-operator"),
    ("list", "daemonsets.apps", "gpu-operator"),
    ("list", "clusterpolicies.nvidia.com"),
    ("list", "jobs"),
]


@pytest.fixture
def filled(api):
    for name in ("n1", "n2"):
        api.add("nodes", {"metadata": {"name": name, "labels": {"a": "b"}}})
    for at, (namespace, phase) in enumerate([("default", "Running"), ("gpu-operator", "Failed"), ("x", "Succeeded")]):
        made = {"metadata": {"name": "p{0}".format(at), "namespace": namespace}, "status": {"phase": phase}}
        api.add("pods", made)
    api.add("configmaps", {"metadata": {"name": "a", "namespace": "gpu-operator"}, "data": {"x": "1"}})
    api.add("daemonsets", {"metadata": {"name": "d", "namespace": "gpu-operator"}})
    api.add("clusterpolicies", {"metadata": {"name": "cluster-policy"}})
    return api


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("status", [0, 403, 500])
def test_both_read_the_same(filled, tmp_path, monkeypatch, call, status):
    verb, *words = call
    one = Kubectl(Host(), kubeconfig=filled.kubeconfig(tmp_path / "kubeconfig"), context="test")
    if status:
        filled.faults.append(
            Fault("GET .*/(nodes|namespaces|pods|configmaps|daemonsets)(/.*)?", status, 'it "may" not\nbe')
        )

    def seen():
        filled.requests.clear()
        try:
            found = getattr(one, verb)(*words)
            found = found if found is None or isinstance(found, dict) else list(found)
        except KubectlError as error:
            found = (str(error), error.kind)
        discovery = ("GET /version", "GET /api", "GET /apis")
        return found, [one for one in filled.requests if one not in discovery and not one.endswith("/v1")]

    real = seen()
    monkeypatch.setattr(Kubectl, "_run", quick(filled, Kubectl._run))
    assert seen() == real


def test_kubectl_is_asked_nothing_that_is_read_without_it(filled, tmp_path, monkeypatch):
    def never(*dummy):
        raise AssertionError(dummy)

    one = Kubectl(Host(), kubeconfig=filled.kubeconfig(tmp_path / "kubeconfig"), context="test")
    monkeypatch.setattr(Kubectl, "_run", quick(filled, never))
    for verb, *words in CALLS[:-1]:
        found = getattr(one, verb)(*words)
        assert found is None or isinstance(found, dict) or list(found) is not None
    for other in (Kubectl(Host(), context="test"), Kubectl(Host(), kubeconfig=one.kubeconfig, context="x")):
        with pytest.raises(AssertionError):
            other.list("nodes")
