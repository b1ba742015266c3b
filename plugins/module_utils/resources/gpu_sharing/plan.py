# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Iterator, List

from ...core import managed_files
from ...core.resource import Action, Plan, Refusal
from ...kubernetes import sharing_configs as configs
from . import capacity, files, told
from .changes import changed_configs, labels
from .options import Desired
from .types import Cluster, CreateConfigMap, RemoveConfigMap, ReplaceConfigMap, State


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state, desired)
    wanted = files.wanted(desired)
    refusals = managed_files.refusals(state.files, wanted, "move it away, or give another folder")
    if state.cluster is not None:
        refusals += tuple(_refusals(state.cluster, desired))
    if refusals:
        return Plan(refusals=refusals)
    actions = managed_files.write(state.files, wanted)
    if state.cluster is None:
        return Plan(tuple(actions))
    # The configs first: a plugin that finds none for its node's label ends with an error, again and again.
    actions += [*_config_map(state.cluster, desired), *labels(state.cluster, desired)]
    return Plan(tuple(actions), notes=tuple(told.notes(state.cluster, desired)))


def _refusals(cluster: Cluster, desired: Desired) -> Iterator[Refusal]:
    seen = cluster.config_map
    if seen is None and not cluster.namespace:
        remedy = "install the GPU operator first, or name the namespace of the device plugin"
        yield Refusal("namespace " + desired.namespace, "there is none in the cluster", remedy)
    if seen is not None and not seen.ours:
        remedy = "name another config_map, or remove it yourself"
        yield Refusal(told.config_map(desired), "it is there and was not made here", remedy)
    elif seen is not None:
        yield from _in_use(cluster, desired)
    for node in desired.nodes:
        there, config = cluster.node(node.name), desired.configs.get(node.config)
        error = None if there is None or config is None else capacity.unfit(there, config)
        if error is not None:
            yield Refusal(error.thing, error.reason, error.remedy)


def _in_use(cluster: Cluster, desired: Desired) -> Iterator[Refusal]:
    """Configs that would go under the feet of nodes: the plugin there would not start again."""
    after = {one.name: one.label for one in cluster.nodes}
    after.update((action.node, action.after) for action in labels(cluster, desired))
    for name in changed_configs(cluster, desired):
        users = [node for node, label in after.items() if label == name]
        if name not in desired.configs and users:
            reason = "config {0} would go, and {1} labelled with it".format(name, told.are(users))
            yield Refusal(told.config_map(desired), reason, "keep the config, or give these nodes another one")


def _config_map(cluster: Cluster, desired: Desired) -> List[Action]:
    seen, wanted = cluster.config_map, configs.data(desired.configs)
    if seen is None:
        return [CreateConfigMap(desired.namespace, desired.config_map, wanted)]
    changed = changed_configs(cluster, desired)
    if not changed:
        return []
    return [ReplaceConfigMap(desired.namespace, desired.config_map, wanted, seen.version, changed)]


def _absent(state: State, desired: Desired) -> Plan:
    paths, cluster = files.paths(desired), state.cluster
    actions: List[Action] = managed_files.remove(state.files, paths)
    notes = managed_files.foreign_notes(state.files, paths)
    if cluster is None:
        return Plan(tuple(actions), notes=notes)
    actions += labels(cluster, desired)
    stays = told.why_it_stays(cluster, desired)
    if cluster.config_map is not None and stays is None:
        actions.append(RemoveConfigMap(desired.namespace, desired.config_map))
    return Plan(tuple(actions), notes=notes + tuple(told.notes_of_absent(cluster, desired)))
