# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to tell beside the steps. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ...kubernetes import sharing_configs as configs
from ...kubernetes.objects import some
from . import capacity
from .changes import changed_configs, config_of, is_ours, labels, named, unmarked
from .options import Desired, Node
from .types import Cluster, SeenNode, State

_NOT_YET = (
    "node {0} offers {1}, and with config {2} it should be {3}; where the label is older than some minutes, run {4}"
)
_CROWDED = "pods on node {0} hold {1} of {2}, and it will offer {3}: they go on, and no other starts until they end"
_ADOPTED = (
    "{0} had the label that is asked for, without our annotation: it counts as set here from now on, and is removed "
    "with state absent"
)
_UNMARKED = (
    "{0} labelled with a config of ours and without our annotation, which is left: where a run that was cut off did "
    "it, name the node with its config to remove the label"
)
_NO_READER = (
    "no DaemonSet in namespace {0} mounts config map {1}, so no label has an effect; give the GPU operator "
    "devicePlugin.config.name={1} and devicePlugin.config.default={2}"
)


def are(names: Sequence[str]) -> str:
    return some(names) + (" is" if len(names) == 1 else " are")


def config_map(desired: Desired) -> str:
    return "config map {0}/{1}".format(desired.namespace, desired.config_map)


def notes(cluster: Cluster, desired: Desired) -> Iterator[str]:
    yield from _missing(cluster, desired)
    if not cluster.readers:
        yield _NO_READER.format(desired.namespace, desired.config_map, desired.default)
    changing = {action.node: action for action in labels(cluster, desired)}
    steps = [one for one in changing.values() if one.before is not None and not _ours(cluster, one.node)]
    replaced = [one.node for one in steps if one.before != one.after]
    if replaced:
        yield "the label of {0} was set by somebody else, and is replaced".format(", ".join(replaced))
    adopted = [one.node for one in steps if one.before == one.after and one.note is not None]
    if adopted:
        yield _ADOPTED.format(some(adopted))
    rest = [one for one in cluster.nodes if one.label is not None and one.name not in changing]
    for one in rest if cluster.readers else ():
        if one.label not in desired.configs:
            reason = "node {0} is labelled with {1}, which no config has, so the plugin cannot start there"
            yield reason.format(one.name, one.label)
    if cluster.readers and {one.label for one in rest} & set(changed_configs(cluster, desired)):
        reason = "a plugin reads its config when the label of its node changes or its pod starts; run {0}"
        yield reason.format(_restart(cluster, desired))
    for node in desired.nodes:
        seen = cluster.node(node.name)
        if seen is not None and node.config:
            yield from _of_node(cluster, desired, node, seen, node.name in changing)
    yield from _crowded(cluster, desired)


def _missing(cluster: Cluster, desired: Desired) -> Iterator[str]:
    asked = [node.name for node in desired.nodes if node.config]
    pending = [name for name in asked if cluster.node(name) is None]
    if pending:
        yield "{0} not registered in the cluster yet; run it again when the label can be set".format(are(pending))
    if pending and pending == asked:
        yield "no node that is to have a label is in this cluster; check kubeconfig, context and the names of the nodes"


def _ours(cluster: Cluster, name: str) -> bool:
    seen = cluster.node(name)
    return seen is not None and is_ours(cluster, seen)


def _restart(cluster: Cluster, desired: Desired) -> str:
    names = " ".join("daemonset/" + one for one in cluster.readers)
    return "'kubectl -n {0} rollout restart {1}'".format(desired.namespace, names)


def _of_node(cluster: Cluster, desired: Desired, node: Node, seen: SeenNode, changing: bool) -> Iterator[str]:
    config = config_of(cluster, desired, node)
    if capacity.invalid(seen):
        reason = "node {0} has unequal MIG instances under the MIG strategy single, and offers none of them"
        yield reason.format(node.name)
        return
    there, wanted = capacity.devices(seen, node.gpus), capacity.expected(seen, config, node.gpus)
    shared = [name for name, dummy in config.replicas]
    if there and shared and not set(there) & set(shared):
        yield "config {0} shares {1}, and node {2} has none".format(config.name, " and ".join(shared), node.name)
    offered = capacity.offered(seen)
    if not changing and cluster.readers and wanted is not None and offered != wanted:
        yield _NOT_YET.format(node.name, said(offered), config.name, said(wanted), _restart(cluster, desired))


def _crowded(cluster: Cluster, desired: Desired) -> Iterator[str]:
    """Pods that run while what a node offers becomes less: they stay, and the node shows less than none."""
    for node in named(cluster, desired):
        seen = cluster.node(node.name)
        wanted = capacity.expected(seen, config_of(cluster, desired, node), node.gpus)
        held = (cluster.used or {}).get(node.name, {})
        if seen is None or wanted is None:
            continue
        for name in sorted(held):
            if held[name] > wanted.get(name, 0):
                yield _CROWDED.format(node.name, held[name], name, wanted.get(name, 0))


def said(numbers: Mapping[str, int]) -> str:
    return ", ".join("{0} {1}".format(number, name) for name, number in sorted(numbers.items())) or "nothing"


def why_it_stays(cluster: Cluster, desired: Desired) -> Optional[str]:
    """Why the config map is not removed."""
    seen = cluster.config_map
    gone = {action.node for action in labels(cluster, desired)}
    others = [one.name for one in cluster.nodes if one.label is not None and _ours(cluster, one.name)]
    others = [name for name in others if name not in gone]
    if seen is None:
        return None
    if not seen.ours:
        return "it was not made here"
    if cluster.readers:
        reason = "{0} mount it; take devicePlugin.config out of the GPU operator's values, then run it again"
        return reason.format(", ".join(cluster.readers))
    return "{0} labelled for it".format(are(others)) if others else None


def notes_of_absent(cluster: Cluster, desired: Desired) -> Iterator[str]:
    removed = {one.node for one in labels(cluster, desired) if one.after is None}
    foreign = [one for one in named(cluster, desired) if one.name not in removed]
    left = [one.name for one in foreign if getattr(cluster.node(one.name), "label", None) is not None]
    if left:
        yield "{0} labelled by somebody else, which is left".format(are(left))
    others = [] if desired.nodes else unmarked(cluster)
    if others:
        yield _UNMARKED.format(are(others))
    stays = why_it_stays(cluster, desired)
    if stays is not None:
        yield "{0} stays: {1}".format(config_map(desired), stays)
    yield from _crowded(cluster, desired)


def of_nodes(state: State, desired: Desired) -> List[Dict[str, Any]]:
    """Of each node, what it comes to."""
    found = []
    for node in desired.nodes if desired.present else ():
        seen = None if state.cluster is None else state.cluster.node(node.name)
        config = config_of(state.cluster, desired, node)
        wanted = capacity.expected(seen, config, node.gpus)
        offered = None if seen is None else capacity.offered(seen)
        found.append(
            {
                "name": node.name,
                "label": node.config or None,
                "pending": bool(node.config) and state.cluster is not None and seen is None,
                "strategy": config.strategy,
                "capacity_expected": wanted,
                "capacity": offered,
                "in_force": None if offered is None or wanted is None else offered == wanted,
                "product_label": capacity.product(seen, config),
                "memory_per_replica_mib": capacity.memory_mib(seen, config),
                "memory_enforced": config.strategy == configs.MPS,
            }
        )
    return found


_UNTOLD = "what cannot be told yet (gpu_sharing_gpus says how many GPUs it has)"


def lines(nodes: Sequence[Mapping[str, Any]]) -> List[str]:
    """A line for each node that :func:`of_nodes` tells."""
    found = []
    for one in nodes:
        expected, offered = one["capacity_expected"], one["capacity"]
        told = "{0}: {1}".format(one["name"], one["label"] or "no label of ours")
        told += ", waits until it is registered" if one["pending"] else ""
        told += ", will offer {0}".format(_UNTOLD if expected is None else said(expected))
        if offered is not None and not one["in_force"]:
            told += ", offers {0} now".format(said(offered))
        found.append(told)
    return found
