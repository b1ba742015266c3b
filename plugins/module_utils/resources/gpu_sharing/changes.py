# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes and configs change, of a cluster as it was seen. Pure."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.options import of
from ...kubernetes import sharing_configs as configs
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
        step = None if seen is None else step_of(seen, *_wanted(cluster, seen, node.config, desired.present))
        found += [] if step is None else [step]
    return found


def step_of(seen: SeenNode, label: Optional[str], note: Optional[str]) -> Optional[LabelNode]:
    """The step after which a node has this label and this annotation; None: it has them."""
    if (label, note) == (seen.label, seen.set_here):
        return None
    return LabelNode(seen.name, seen.label, label, note, seen.version)


def _wanted(cluster: Cluster, seen: SeenNode, config: str, present: bool) -> Tuple[Optional[str], Optional[str]]:
    """(label, annotation)."""
    if present and config:
        return config, config
    return (None, None) if is_ours(cluster, seen, config) else (seen.label, None)


def is_ours(cluster: Cluster, seen: SeenNode, config: str = "") -> bool:
    """Whether we set the label, or what we set is all that is left. ``config``: what the run asks for on the node.

    Earlier versions wrote annotation and label in two requests, and one that was cut off left either of them alone, or
    the annotation of one of our configs beside the label of another. Whoever else labels a node gives it none of our
    annotations.
    """
    if seen.set_here is None:
        return bool(config) and seen.label == config
    return seen.label in (None, seen.set_here, config) or seen.label in _our_configs(cluster)


def unmarked(cluster: Cluster) -> List[str]:
    """The nodes that are labelled with a config of our config map and have no annotation of ours."""
    known = _our_configs(cluster)
    return [one.name for one in cluster.nodes if one.set_here is None and one.label in known]


def _our_configs(cluster: Cluster) -> Tuple[str, ...]:
    seen = cluster.config_map
    return tuple(seen.data) if seen is not None and seen.ours else ()


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
    if not label and cluster is not None and seen is not None and not is_ours(cluster, seen, node.config):
        label = seen.label
    found = desired.configs.get(label or desired.default, desired.configs[configs.WHOLE])
    return found  # type: ignore[no-any-return]


def needs_pods(cluster: Cluster, desired: Desired) -> bool:
    """Whether a node may come to offer less, so that it matters what its pods hold."""
    return bool(labels(cluster, desired) or changed_configs(cluster, desired))
