# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a cluster with GPU nodes, as kubelets, GPU feature discovery and controllers would create them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from cluster import MERGE, Client

GPU = "nvidia.com/gpu"
IMAGE = "registry.k8s.io/pause:3.9"
_NODES = "/api/v1/nodes"


def names(number: int, first: int = 1) -> List[str]:
    return ["gpu{0:03d}".format(one) for one in range(first, first + number)]


def node(client: Client, name: str, gpus: int = 8, ready: bool = True) -> None:
    """A node with GPUs, registered and with a status."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5",
        GPU + ".present": "true",
        GPU + ".count": str(gpus),
        GPU + ".replicas": "1",
        GPU + ".product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/mig.strategy": "single",
    }
    client.must("POST", _NODES, {"metadata": {"name": name, "labels": labels}})
    # The taint not-ready: the admission plugin TaintNodesByCondition sets it, the node lifecycle controller removes it.
    client.must("PATCH", _NODES + "/" + name, {"spec": {"taints": None}}, MERGE)
    status(client, name, gpus, ready)


def status(
    client: Client, name: str, gpus: int = 8, ready: bool = True, more: Sequence[Mapping[str, str]] = ()
) -> None:
    """As its kubelet reports it."""
    offered = {"cpu": "96", "memory": "1900Gi", "pods": "110", GPU: str(gpus)}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown", "reason": "KubeletReady"}, *more]
    change = {"status": {"capacity": offered, "allocatable": offered, "conditions": conditions}}
    client.must("PATCH", "{0}/{1}/status".format(_NODES, name), change, MERGE)


def remove_all(client: Client, plural: str = "nodes") -> None:
    client.must("DELETE", "/api/v1/" + plural)


def pod(
    client: Client,
    name: str,
    node_name: str,
    gpus: int = 0,
    namespace: str = "default",
    owner: Optional[str] = "Job",
    labels: Optional[Mapping[str, str]] = None,
    **spec: Any,
) -> Dict[str, Any]:
    """A pod that runs on a node. ``owner``: the kind of its controller."""
    asked = {GPU: str(gpus)} if gpus else {"cpu": "1"}
    container = {"name": "main", "image": IMAGE, "resources": {"limits": asked}}
    metadata: Dict[str, Any] = {"name": name, "labels": dict(labels or {})}
    if owner:
        one = {"kind": owner, "name": "x", "controller": True, "uid": "0f7b2f0c-0000-4000-8000-000000000001"}
        metadata["ownerReferences"] = [dict(one, apiVersion="batch/v1" if owner == "Job" else "apps/v1")]
    body = {
        "metadata": metadata,
        # Nobody is asked how long its programs need to end, so the API server removes it at once.
        "spec": {"nodeName": node_name, "containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
    place = "/api/v1/namespaces/{0}/pods".format(namespace)
    made = client.must("POST", place, body)
    # A budget protects a pod only while it is ready.
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.must("PATCH", "{0}/{1}/status".format(place, name), {"status": running}, MERGE)
    return made


def budget(client: Client, name: str, labels: Mapping[str, str], allowed: int, healthy: int, **wish: Any) -> None:
    """A PodDisruptionBudget with the status that the disruption controller would give it."""
    place = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": dict(labels)}, **(wish or {"minAvailable": healthy})}
    made = client.must("POST", place, {"metadata": {"name": name}, "spec": spec})
    counted = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": healthy}
    counted.update(expectedPods=healthy, observedGeneration=made["metadata"]["generation"])
    client.must("PUT", "{0}/{1}/status".format(place, name), {**made, "status": counted})
