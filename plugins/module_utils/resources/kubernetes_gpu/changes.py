# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes change, of a cluster as it was seen. Pure."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.options import of
from .marks import Marks, Taint
from .options import Desired, Node
from .types import Cluster, MarkNode, SeenNode, mark


def named(cluster: Cluster, desired: Desired) -> Tuple[Node, ...]:
    """The nodes that a run is about; ``absent`` without names is about all that were marked here."""
    if desired.present or desired.nodes:
        return desired.nodes
    return tuple(of(Node, {"name": one.name}) for one in cluster.nodes if one.marks.note is not None)


def others(cluster: Optional[Cluster], desired: Desired) -> List[str]:
    """The GPU nodes of the cluster that a run is not about, as with --limit; the operator's values are of them, too."""
    names = {node.name for node in desired.nodes}
    nodes = () if cluster is None else cluster.nodes
    return [one.name for one in nodes if one.name not in names and (one.marks.note is not None or _has_gpus(one))]


def _has_gpus(node: SeenNode) -> bool:
    return ("nvidia.com/gpu.present", "true") in node.marks.labels


def wanted(node: Node, desired: Desired) -> Marks:
    if not desired.present:
        return Marks()
    return Marks(desired.wanted_taint if node.tainted else None, tuple(sorted(node.labels.items())))


def of_nodes(cluster: Cluster, desired: Desired) -> List[MarkNode]:
    found = []
    for node in named(cluster, desired):
        seen = cluster.node(node.name)
        step = None if seen is None else mark(seen, wanted(node, desired))
        found += [] if step is None else [step]
    return found


def newly_tainted(cluster: Cluster, desired: Desired) -> List[str]:
    """The nodes that get a taint that keeps pods away."""
    asked: Optional[Taint] = desired.wanted_taint
    if not desired.present or asked is None or asked.effect != "NoSchedule":
        return []
    return [step.node for step in of_nodes(cluster, desired) if step.taints is not None and _adds(cluster, step, asked)]


def _adds(cluster: Cluster, step: MarkNode, asked: Taint) -> bool:
    seen: Optional[SeenNode] = cluster.node(step.node)
    return seen is not None and asked not in seen.marks.taints
