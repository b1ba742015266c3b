# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes and configs change, of a cluster as it was seen. Pure."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.options import of
from . import configs
from .options import Desired, Node
from .types import Cluster, LabelNode, SeenNode


def named(cluster: Cluster, desired: Desired) -> Tuple[Node, ...]:
    """The nodes that a run is about; ``absent`` without names is about all that were labelled here."""
    if desired.present or desired.nodes:
        return desired.nodes
    return tuple(of(Node, {"name": one.name}) for one in cluster.nodes if one.set_here is not None)


def labels(cluster: Cluster, desired: Desired) -> List[LabelNode]:
    """The nodes whose label or annotation changes."""
    found = []
    for node in named(cluster, desired):
        seen = cluster.node(node.name)
        if seen is None:
            continue
        label, note = _wanted(seen, node.config if desired.present else "")
        if (label, note) != (seen.label, seen.set_here):
            found.append(LabelNode(seen.name, seen.label, label, note))
    return found


def _wanted(seen: SeenNode, config: str) -> Tuple[Optional[str], Optional[str]]:
    """(label, annotation). A label that was there before us stays somebody else's."""
    if config and seen.label != config:
        return config, config
    if not config and seen.ours:
        return None, None
    return seen.label, seen.set_here if seen.ours else None


def changed_configs(cluster: Cluster, desired: Desired) -> Tuple[str, ...]:
    """Of a config map that is there: the configs that come, change or go."""
    if cluster.config_map is None or not desired.present:
        return ()
    seen, wanted = cluster.config_map.data, configs.data(desired.configs)
    return tuple(name for name in sorted({*seen, *wanted}) if seen.get(name) != wanted.get(name))


def config_of(cluster: Optional[Cluster], desired: Desired, node: Node) -> configs.Config:
    """The config that holds on the node when all is done: that of its label, or the default."""
    seen = None if cluster is None else cluster.node(node.name)
    label: Optional[str] = node.config if desired.present else ""
    if not label and seen is not None and not seen.ours:
        label = seen.label
    found = desired.configs.get(label or desired.default, desired.configs[configs.WHOLE])
    return found  # type: ignore[no-any-return]


def needs_pods(cluster: Cluster, desired: Desired) -> bool:
    """Whether a node may come to offer less, so that it matters what its pods hold."""
    return bool(labels(cluster, desired) or changed_configs(cluster, desired))
