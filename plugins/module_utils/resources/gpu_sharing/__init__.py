# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time-slicing and MPS in a Kubernetes cluster: configs of NVIDIA's device plugin, and a label for each node.

Not of a node but of its cluster: it runs once, where kubectl is.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ...core import managed_files
from ...core.resource import NodeError, Outcome, Plan, Resource
from ...kubernetes import sharing_configs as configs
from . import files, told
from .apply import STEPS, TOGETHER
from .changes import labels
from .observe import observe
from .options import Desired
from .plan import plan
from .types import LABEL, SECTION, CreateConfigMap, LabelNode, RemoveConfigMap, ReplaceConfigMap, State

__all__ = ["RESOURCE", "Desired", "State"]


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    nodes = told.of_nodes(outcome.after, desired)
    return {
        "nodes": nodes,
        "lines": told.lines(nodes),
        "configs": configs.data(desired.configs) if desired.present else {},
        "operator_values": files.operator_values(desired.config_map, desired.default) if desired.present else {},
        # What a person has to know stands in the output of the run, too.
        "warnings": list(outcome.plan.notes),
    }


def _shown(outcome: Outcome[State], desired: Desired, planned: bool) -> str:
    actions = outcome.plan.actions if planned else ()
    text = managed_files.text(managed_files.after(outcome.before.files, actions))
    cluster = outcome.before.cluster
    if cluster is None:
        return text
    data = None if cluster.config_map is None else dict(cluster.config_map.data)
    nodes = {one.name: one.label for one in cluster.nodes if one.label is not None or one.name in _names(desired)}
    for action in actions:
        if isinstance(action, (CreateConfigMap, ReplaceConfigMap)):
            data = dict(action.data)
        elif isinstance(action, RemoveConfigMap):
            data = None
        elif isinstance(action, LabelNode):
            nodes[action.node] = action.after
    for name, content in sorted((data or {}).items()):
        text += "==> {0}, {1} <==\n{2}".format(told.config_map(desired), name, content)
    return text + "".join(
        "node {0}: {1}={2}\n".format(name, LABEL, label) for name, label in sorted(nodes.items()) if label is not None
    )


def _names(desired: Desired) -> Any:
    return {node.name for node in desired.nodes}


def _ending(state: State, rest: Plan, desired: Desired, failed: Optional[NodeError]) -> str:
    """A node that could not be labelled fails the run when the others are."""
    if failed is None:
        return ""
    left = [one.node for one in labels(state.cluster, desired)] if state.cluster is not None else []
    return "{0} The label of {1} could not be changed.".format(failed, ", ".join(left)) if left else str(failed)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="sharing of GPUs",
    remote=True,
    together=TOGETHER,
    ending=_ending,
)
