# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of the library, which runs kubectl: pages, and each kind of error in the words of a real server."""

from __future__ import annotations

import time

import fleet
import pytest
from cluster import ADMIN, started

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes import kubectl as library
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import Kubectl, KubectlError

NODES = "/api/v1/nodes"
_COMPACTED_SECONDS = 40.0


@pytest.fixture
def make(tmp_path, kubectl, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where kubectl keeps what it learned about a server
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def client(cluster, token=ADMIN):
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig", token)
        return Kubectl(Host(), program=kubectl, kubeconfig=kubeconfig, context="test", seconds=30)

    return client


@pytest.fixture
def names(cluster, monkeypatch):
    made = fleet.names(7)
    for name in made:
        fleet.node(cluster.admin, name)
    monkeypatch.setattr(library, "PAGE", 3)
    yield made
    fleet.remove_all(cluster.admin)


def refusal(call, *arguments):
    with pytest.raises(KubectlError) as caught:
        call(*arguments)
    return caught.value


def test_pages(make, cluster, names):
    assert [one["metadata"]["name"] for one in make(cluster).nodes()] == names
    fleet.pod(cluster.admin, "ended", names[0])
    change = {"status": {"phase": "Succeeded"}}
    cluster.admin.must("PATCH", "/api/v1/namespaces/default/pods/ended/status", change, fleet.MERGE)
    for number in range(5):
        fleet.pod(cluster.admin, "p{0}".format(number), names[number % 2])
    try:
        on_first = make(cluster).pods("spec.nodeName=" + names[0])
        assert [one["metadata"]["name"] for one in on_first] == ["p0", "p2", "p4"]
    finally:
        cluster.admin.must("DELETE", "/api/v1/namespaces/default/pods")


def test_kinds_of_errors(make, cluster, names):
    client = make(cluster)
    seen = client.find("node", names[0])
    assert client.find("node", "none") is None
    client.patch("node", names[0], {"metadata": {"labels": {"a": "b"}}})
    managed = cluster.admin.must("GET", NODES + "/" + names[0])["metadata"]["managedFields"]
    assert "trainyard-gpu-node" in {one["manager"] for one in managed}
    stale = {"metadata": {"labels": {"a": "c"}, "resourceVersion": seen["metadata"]["resourceVersion"]}}
    assert refusal(client.patch, "node", names[0], stale).kind == "Conflict"
    invalid = refusal(client.patch, "node", names[0], {"metadata": {"labels": {"a": "no value"}}})
    assert invalid.kind == "Invalid" and "a valid label must be" in str(invalid)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
    client.create(manifest)
    assert refusal(client.create, manifest).kind == "AlreadyExists"
    client.delete("configmap", "one", "default")
    client.delete("configmap", "one", "default")
    assert refusal(client.patch, "node", "none", {"metadata": {"labels": {"a": "b"}}}).kind == "NotFound"
    assert refusal(client.raw, "/apis/resource.k8s.io/v1/resourceslices").kind == "NotFound"
    assert refusal(make(cluster, "a-token-that-nobody-has").find, "node", names[0]).kind == "Unauthorized"
    nobody = make(cluster, cluster.account("nobody-" + seen["metadata"]["resourceVersion"], ()))
    forbidden = refusal(list, nobody.nodes())
    assert forbidden.kind == "Forbidden" and forbidden.thing == "kubectl get nodes"


def test_a_list_whose_version_was_removed_meanwhile(make, built, monkeypatch):
    """etcd forgets old versions after a while; a server does it each 5 minutes, this one each second."""
    monkeypatch.setattr(library, "PAGE", 1)
    with started(built, "--etcd-compaction-interval", "1s") as cluster:
        for name in ("n1", "n2"):
            fleet.node(cluster.admin, name)
        pages = make(cluster).nodes()
        assert next(pages)["metadata"]["name"] == "n1"
        # What is the newest version is kept.
        deadline = time.monotonic() + _COMPACTED_SECONDS
        path = NODES + "?limit=1&continue=" + cluster.admin.must("GET", NODES + "?limit=1")["metadata"]["continue"]
        while cluster.admin.ask("GET", path)[0] != 410:
            assert time.monotonic() < deadline, "nothing was compacted"
            fleet.status(cluster.admin, "n1", gpus=int(time.monotonic()) % 100)
            time.sleep(0.5)
        error = refusal(list, pages)
        assert (error.kind, error.thing, error.remedy) == ("Expired", "kubectl get nodes", "run it again")
