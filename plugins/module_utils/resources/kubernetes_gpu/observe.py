# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files, through kubectl at the cluster, and through helm at the operator's release."""

from __future__ import annotations

from typing import Any, FrozenSet, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.frozen import replaced
from ...core.host import Host
from ...kubernetes import options
from ...kubernetes.helm import Helm
from ...kubernetes.kubectl import Kubectl, KubectlError
from ...kubernetes.objects import mapping
from . import changes, files, marks
from .options import Desired
from .types import Cluster, SeenNode, State

# The operator's own object; there is one in a cluster.
# What the operator makes its parts of, by option stack.
_KINDS = {"device_plugin": "clusterpolicies.nvidia.com", "dra": "gpuclusters.nvidia.com"}


def client(host: Host, desired: Desired) -> Kubectl:
    return options.client(host, desired, "docs/kubernetes.md")


def helm(host: Host, desired: Desired) -> Helm:
    return Helm(host, desired.helm, desired.kubeconfig, desired.context, desired.helm_seconds)


def observe(host: Host, desired: Desired) -> State:
    """:raises NodeError: the cluster or helm does not answer, or not this account."""
    seen = managed_files.observe(host, files.paths(desired), {})
    if desired.apply == "files":
        return State(seen)
    kubectl = client(host, desired)
    policy, unread = _policy(kubectl, _KINDS[desired.stack]) if desired.present else (None, "")
    cluster = Cluster(tuple(node(one) for one in kubectl.nodes()), policy=policy, policy_unread=unread)
    tainted = changes.newly_tainted(cluster, desired)
    if tainted:
        cluster = replaced(cluster, pods=_pods(kubectl, frozenset(tainted)))
    asks_helm = desired.present and desired.apply == "helm"
    release = helm(host, desired).find(desired.release, desired.namespace) if asks_helm else None
    return State(seen, cluster, release)


def _pods(kubectl: Kubectl, nodes: FrozenSet[str]) -> Tuple[Mapping[str, Any], ...]:
    """The pods of these nodes, with what decides whether they come back. Of all other fields nothing is kept."""
    kept = []
    for one in kubectl.pods():
        metadata, spec = mapping(one.get("metadata")), mapping(one.get("spec"))
        if spec.get("nodeName") in nodes:
            names = ("name", "namespace", "annotations", "ownerReferences")
            about = {name: metadata[name] for name in names if name in metadata}
            kept.append({"metadata": about, "spec": {name: spec.get(name) for name in ("nodeName", "tolerations")}})
    return tuple(kept)


def _policy(kubectl: Kubectl, kind: str) -> Tuple[Optional[Mapping[str, Any]], str]:
    """(spec, why it is not known)."""
    try:
        found = kubectl.list(kind)
    except KubectlError as error:
        if error.kind == "Forbidden":
            return None, "this account may not list {0}".format(kind)
        if error.kind in ("NotFound", "NoKind"):
            return None, "the cluster does not have the CRD {0}".format(kind)
        raise
    spec = found[0].get("spec") if found else None
    return (spec, "") if isinstance(spec, dict) else (None, "")


def node(found: Mapping[str, Any]) -> SeenNode:
    metadata, spec = mapping(found.get("metadata")), mapping(found.get("spec"))
    taints = [one for one in spec.get("taints") or () if isinstance(one, dict)]
    return SeenNode(
        name=str(metadata.get("name")),
        version=str(metadata.get("resourceVersion") or ""),
        marks=marks.Node(
            tuple(
                marks.Taint(str(one.get("key")), str(one.get("value") or ""), str(one.get("effect"))) for one in taints
            ),
            tuple(sorted((str(key), str(value)) for key, value in mapping(metadata.get("labels")).items())),
            mapping(metadata.get("annotations")).get(marks.ANNOTATION),
        ),
        taints=tuple(taints),
    )
