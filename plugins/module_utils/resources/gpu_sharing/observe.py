# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files, and through kubectl at the cluster."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.frozen import replaced
from ...core.host import Host
from ...kubernetes import options
from ...kubernetes.kubectl import Kubectl, KubectlError
from ...kubernetes.objects import NVIDIA, numbers, texts
from . import changes, files
from .options import Desired
from .types import ANNOTATION, LABEL, Cluster, SeenMap, SeenNode, State


def client(host: Host, desired: Desired) -> Kubectl:
    return options.client(host, desired, "docs/sharing.md")


def observe(host: Host, desired: Desired) -> State:
    """:raises KubectlError: the cluster does not answer, or not this account."""
    seen = managed_files.observe(host, files.paths(desired), {})
    if desired.apply == "files":
        return State(seen)
    kubectl = client(host, desired)
    found = kubectl.find("configmap", desired.config_map, desired.namespace)
    cluster = Cluster(
        nodes=tuple(node(one) for one in kubectl.nodes()),
        config_map=None if found is None else SeenMap(texts(found.get("data")), found),
        namespace=found is not None or _namespace(kubectl, desired.namespace),
        readers=_readers(kubectl.list("daemonsets.apps", desired.namespace), desired.config_map),
    )
    if changes.needs_pods(cluster, desired):
        cluster = replaced(cluster, used=used(kubectl.pods()))
    return State(seen, cluster)


def _namespace(kubectl: Kubectl, name: str) -> bool:
    """One that this account may not ask about is there, until something fails in it."""
    try:
        return kubectl.find("namespace", name) is not None
    except KubectlError as error:
        if error.kind != "Forbidden":
            raise
        return True


def node(found: Mapping[str, Any]) -> SeenNode:
    metadata = found.get("metadata") or {}
    labels = texts(metadata.get("labels"))
    capacity = (found.get("status") or {}).get("capacity")
    return SeenNode(
        name=str(metadata.get("name")),
        labels=tuple(sorted((key, value) for key, value in labels.items() if key.startswith(NVIDIA))),
        capacity=tuple(sorted(numbers(capacity).items())),
        label=labels.get(LABEL),
        set_here=texts(metadata.get("annotations")).get(ANNOTATION),
        version=str(metadata.get("resourceVersion") or ""),
    )


def _readers(daemon_sets: Iterable[Mapping[str, Any]], config_map: str) -> Tuple[str, ...]:
    found: List[str] = []
    for one in daemon_sets:
        spec = ((one.get("spec") or {}).get("template") or {}).get("spec") or {}
        volumes = [volume.get("configMap") or {} for volume in spec.get("volumes") or ()]
        if any(volume.get("name") == config_map for volume in volumes):
            found.append(str((one.get("metadata") or {}).get("name")))
    return tuple(sorted(found))


def used(pods: Iterable[Mapping[str, Any]]) -> Dict[str, Dict[str, int]]:
    """What the pods of each node hold of NVIDIA's resources: all their containers together, or the one that came before
    them and took more."""
    found: Dict[str, Dict[str, int]] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        node: Optional[str] = spec.get("nodeName")
        if not node:
            continue
        first = spec.get("initContainers") or ()
        # An init container that is restarted goes on beside the others.
        beside = [*(spec.get("containers") or ()), *(one for one in first if one.get("restartPolicy") == "Always")]
        together = _sum(_limits(one) for one in beside)
        for one in first:
            together = {
                name: max(number, together.get(name, 0)) for name, number in {**together, **_limits(one)}.items()
            }
        found[node] = _sum([found.get(node, {}), together])
    return found


def _limits(container: Mapping[str, Any]) -> Dict[str, int]:
    return numbers((container.get("resources") or {}).get("limits"))


def _sum(each: Iterable[Mapping[str, int]]) -> Dict[str, int]:
    total: Dict[str, int] = {}
    for one in each:
        for name, number in one.items():
            total[name] = total.get(name, 0) + number
    return total
