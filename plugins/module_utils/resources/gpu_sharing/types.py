# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a cluster for the sharing of its GPUs, and the steps."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...kubernetes.kubectl import MANAGED_BY, OURS
from ...kubernetes.node_patches import NodeStep

SECTION = "gpu_sharing"
#: By this label NVIDIA's device plugin chooses a node's config.
LABEL = "nvidia.com/device-plugin.config"
#: What we set the label to; changes.is_ours decides whose a label is.
ANNOTATION = "trainyard.io/gpu-sharing-config"


@frozen
class SeenNode:
    """``labels`` are those of nvidia.com, ``capacity`` its resources; ``label``, ``set_here``: the config that the node
    is labelled with, and the one that we labelled it with. ``version``: its resourceVersion."""

    name: str
    labels: Tuple[Tuple[str, str], ...] = ()
    capacity: Tuple[Tuple[str, int], ...] = ()
    label: Optional[str] = None
    set_here: Optional[str] = None
    version: str = ""


@frozen
class SeenMap:
    """The config map of our name. ``manifest`` is the whole object."""

    data: Mapping[str, str]
    manifest: Mapping[str, Any]

    @property
    def ours(self) -> bool:
        return bool((_metadata(self).get("labels") or {}).get(MANAGED_BY) == OURS)

    @property
    def version(self) -> str:
        return str(_metadata(self).get("resourceVersion") or "")


def _metadata(seen: SeenMap) -> Mapping[str, Any]:
    found = seen.manifest.get("metadata")
    return found if isinstance(found, dict) else {}


@frozen
class Cluster:
    """``nodes``: all of the cluster. ``readers``: DaemonSets of the namespace that mount the config map.
    ``used``: of each node and resource, what running pods hold; None where nobody asked."""

    nodes: Tuple[SeenNode, ...] = ()
    config_map: Optional[SeenMap] = None
    namespace: bool = True
    readers: Tuple[str, ...] = ()
    used: Optional[Mapping[str, Mapping[str, int]]] = None

    def node(self, name: str) -> Optional[SeenNode]:
        return next((one for one in self.nodes if one.name == name), None)


@frozen
class State:
    """``cluster`` is None where none is asked."""

    files: Files = Files()
    cluster: Optional[Cluster] = None


@frozen
class CreateConfigMap(Action):
    namespace: str
    name: str
    data: Mapping[str, str]

    def describe(self) -> str:
        return "create config map {0}/{1} with {2}".format(self.namespace, self.name, ", ".join(self.data))


@frozen
class ReplaceConfigMap(Action):
    """``version``: only where the object is still the one that was seen."""

    namespace: str
    name: str
    data: Mapping[str, str]
    version: str
    changed: Tuple[str, ...]

    def describe(self) -> str:
        return "change {2} in config map {0}/{1}".format(self.namespace, self.name, ", ".join(self.changed))


@frozen
class RemoveConfigMap(Action):
    namespace: str
    name: str

    def describe(self) -> str:
        return "remove config map {0}/{1}".format(self.namespace, self.name)


@frozen
class LabelNode(NodeStep):
    """``note``: what our annotation is then. None: no label, no annotation. ``version``: only where the node is still
    the one that was seen."""

    before: Optional[str]
    after: Optional[str]
    note: Optional[str]
    version: str = ""

    def describe(self) -> str:
        if self.after is None and self.before is not None:
            return "remove label {0}={1} of node {2}".format(LABEL, self.before, self.node)
        if self.before == self.after and self.note is not None:
            return "add our annotation to node {0}, which has label {1}={2}".format(self.node, LABEL, self.after)
        if self.before == self.after:
            return "remove our annotation of node {0}, which is true no longer".format(self.node)
        was = " (was {0})".format(self.before) if self.before is not None else ""
        return "label node {0} with {1}={2}{3}".format(self.node, LABEL, self.after, was)

    def patch(self) -> Dict[str, Any]:
        """Label and annotation in one request, so that no label is ever without the note of whose it is."""
        metadata: Dict[str, Any] = {"resourceVersion": self.version, "annotations": {ANNOTATION: self.note}}
        if self.before != self.after:
            metadata["labels"] = {LABEL: self.after}
        return {"metadata": metadata}


def manifest(namespace: str, name: str, data: Mapping[str, str]) -> Dict[str, Any]:
    """Pure. The config map as it is made."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: OURS}},
        "data": dict(data),
    }
