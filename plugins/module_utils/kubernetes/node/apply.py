# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to a node of Kubernetes and to its pods."""

from __future__ import annotations

import urllib.parse
from typing import Any, Dict, Optional

from ...core.resource import Action, NodeError
from ..kubectl import Kubectl, KubectlError
from .types import ANNOTATION, Cordon, Pod, Release

# The next attempt may fare otherwise. 500 is also what two budgets for one pod are answered with.
_LATER = (
    "TooManyRequests",
    "Conflict",
    "InternalError",
    "ServiceUnavailable",
    "ServerTimeout",
    "Timeout",
    "Unreachable",
    "",
)


def mark(kubectl: Kubectl, name: str, version: str, action: Action) -> None:
    """Cordon and annotation in one request, which fails where somebody has changed the node since.

    :raises KubectlError: its kind is Conflict then.
    """
    metadata: Dict[str, Any] = {"resourceVersion": version, "annotations": {ANNOTATION: None}}
    change: Dict[str, Any] = {"metadata": metadata}
    if isinstance(action, Cordon):
        metadata["annotations"][ANNOTATION] = action.reason
        change["spec"] = {"unschedulable": True}
    elif isinstance(action, Release) and not action.cordoned:
        change["spec"] = {"unschedulable": None}
    kubectl.patch("node", name, change)


def eviction(kubectl: Kubectl) -> str:
    """The version of an eviction that this API takes: policy/v1 from 1.22 on, policy/v1beta1 before."""
    resources = kubectl.raw("/api/v1").get("resources")
    for one in resources if isinstance(resources, list) else ():
        if isinstance(one, dict) and one.get("name") == "pods/eviction" and one.get("version"):
            return "{0}/{1}".format(one.get("group") or "policy", one["version"])
    remedy = "drain the node by hand, or set gpu_node_rolling_busy to another value"
    raise NodeError(kubectl.cluster, "its API takes no evictions of pods", remedy)


def evict(kubectl: Kubectl, pod: Pod, version: str) -> Optional[str]:
    """Why the API does not evict it now; None where it does. Only the pod that was seen: a StatefulSet makes another
    one of its name.

    :raises KubectlError: it never will.
    """
    place = [urllib.parse.quote(one, safe="") for one in (pod.namespace, pod.name)]
    body: Dict[str, Any] = {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    if pod.uid:
        body["deleteOptions"] = {"preconditions": {"uid": pod.uid}}
    try:
        kubectl.post("/api/v1/namespaces/{0}/pods/{1}/eviction".format(*place), body)
    except KubectlError as error:
        if error.kind == "NotFound":
            return None
        if error.kind not in _LATER:
            raise
        return error.reason
    return None
