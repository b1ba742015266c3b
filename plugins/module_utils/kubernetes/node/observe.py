# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as the API has it, and its pods."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

from ..kubectl import Kubectl
from ..objects import NVIDIA, mapping
from .types import ANNOTATION, Pod, State

# Of a pod that the kubelet made of a file on its node; the API can delete its mirror alone.
_MIRROR = "kubernetes.io/config.mirror"


def look(kubectl: Kubectl, name: str) -> State:
    """:raises KubectlError: the cluster does not answer, or not this account."""
    found = kubectl.find("node", name)
    if found is None:
        return State(registered=False)
    return state(found, kubectl.pods("spec.nodeName=" + name))


def state(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> State:
    """Pure. The answers of the API, of any form."""
    metadata, spec, status = (mapping(node.get(key)) for key in ("metadata", "spec", "status"))
    conditions = [mapping(one) for one in _list(status.get("conditions"))]
    annotation = mapping(metadata.get("annotations")).get(ANNOTATION)
    seen = (pod(one) for one in pods)
    return State(
        cordoned=spec.get("unschedulable") is True,
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions),
        annotation=None if annotation is None else str(annotation),
        version=str(metadata.get("resourceVersion") or ""),
        pods=tuple(sorted((one for one in seen if one is not None), key=lambda one: one.label)),
    )


def pod(found: Mapping[str, Any]) -> Optional[Pod]:
    """None: it is of a DaemonSet or of the kubelet's own, or has ended, and is in nobody's way."""
    metadata, spec, status = (mapping(found.get(key)) for key in ("metadata", "spec", "status"))
    owners = [mapping(one) for one in _list(metadata.get("ownerReferences"))]
    controllers = [one for one in owners if one.get("controller") is True]
    if any(one.get("kind") == "DaemonSet" for one in controllers) or _MIRROR in mapping(metadata.get("annotations")):
        return None
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    containers = [mapping(one) for key in ("containers", "initContainers") for one in _list(spec.get(key))]
    # A claim may be for a GPU by dynamic resource allocation; which device it is says another object.
    gpus = bool(_list(spec.get("resourceClaims"))) or any(_has_gpus(one) for one in containers)
    return Pod(
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid") or ""),
        gpus=gpus,
        managed=bool(controllers),
        local=any("emptyDir" in mapping(one) for one in _list(spec.get("volumes"))),
        leaving=metadata.get("deletionTimestamp") is not None,
    )


def _has_gpus(container: Mapping[str, Any]) -> bool:
    resources = mapping(container.get("resources"))
    asked = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
    return any(str(name).startswith(NVIDIA) and str(number) != "0" for name, number in asked.items())


def _list(value: Any) -> Any:
    return value if isinstance(value, list) else []
