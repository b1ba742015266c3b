# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a cluster with GPU nodes, and the steps."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...kubernetes.helm import Release
from ...kubernetes.node_patches import NodeStep
from . import marks

SECTION = "kubernetes_gpu"


@frozen
class SeenNode:
    """``taints``: as the API has them, with fields that we do not know of. ``version``: its resourceVersion."""

    name: str
    version: str
    marks: marks.Node
    taints: Tuple[Mapping[str, Any], ...] = ()


@frozen
class Cluster:
    """``pods``: those of the nodes that get a taint; None where none does. ``policy``: the spec of the operator's
    ClusterPolicy or GPUCluster; None: there is none, or it is not known, and ``policy_unread`` says why."""

    nodes: Tuple[SeenNode, ...] = ()
    pods: Optional[Tuple[Mapping[str, Any], ...]] = None
    policy: Optional[Mapping[str, Any]] = None
    policy_unread: str = ""

    def node(self, name: str) -> Optional[SeenNode]:
        return next((one for one in self.nodes if one.name == name), None)


@frozen
class State:
    """``cluster`` is None where none is asked; ``release`` where helm is not, or has none."""

    files: Files = Files()
    cluster: Optional[Cluster] = None
    release: Optional[Release] = None


@frozen
class MarkNode(NodeStep):
    """``taints``: all of the node after it; None: they stay. ``version``: only where the node is still the one that was
    seen. ``told``: the change in words."""

    version: str
    taints: Optional[Tuple[Mapping[str, Any], ...]]
    labels: Tuple[Tuple[str, Optional[str]], ...]
    note: Optional[str]
    told: Tuple[str, ...]

    def describe(self) -> str:
        return "node {0}: {1}".format(self.node, ", ".join(self.told))

    def patch(self) -> Dict[str, Any]:
        """The whole of it in one request, so that no mark is ever without the note of whose it is."""
        metadata: Dict[str, Any] = {"resourceVersion": self.version, "annotations": {marks.ANNOTATION: self.note}}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        found: Dict[str, Any] = {"metadata": metadata}
        if self.taints is not None:
            found["spec"] = {"taints": [dict(one) for one in self.taints]}
        return found


@frozen
class UpgradeRelease(Action):
    """``before``: its version, "" where there is none. ``keys``: values that change."""

    release: str
    namespace: str
    before: str
    version: str
    keys: Tuple[str, ...]

    def describe(self) -> str:
        if not self.before:
            return "install release {0} of the GPU operator {1} in namespace {2}".format(
                self.release, self.version, self.namespace
            )
        was = "" if self.before == self.version else " (was {0})".format(self.before)
        keys = " with other values of {0}".format(", ".join(self.keys)) if self.keys else ""
        return "upgrade release {0} of the GPU operator to {1}{2}{3}".format(self.release, self.version, was, keys)


def mark(seen: SeenNode, wanted: marks.Marks) -> Optional[MarkNode]:
    """Pure. The step that brings a node there; None: it is there."""
    change = marks.change(seen.marks, wanted)
    if change.taints == seen.marks.taints and not change.labels and change.note == marks.Marks.text(_noted(seen)):
        return None
    told: List[str] = ["remove taint {0}".format(one) for one in seen.marks.taints if one not in change.taints]
    told += ["add taint {0}".format(one) for one in change.taints if one not in seen.marks.taints]
    for key, value in change.labels:
        told.append("remove label {0}".format(key) if value is None else "set label {0}={1}".format(key, value))
    raw: Optional[Tuple[Mapping[str, Any], ...]] = None
    if change.taints != seen.marks.taints:
        known = dict(zip(seen.marks.taints, seen.taints))
        raw = tuple(known.get(one) or one.raw() for one in change.taints)
    return MarkNode(seen.name, seen.version, raw, change.labels, change.note, tuple(told) or ("renew our annotation",))


def _noted(seen: SeenNode) -> marks.Marks:
    return marks.remembered(seen.marks.note)
