# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU nodes of a Kubernetes cluster: values of NVIDIA's GPU operator, taints and labels.

Not of a node but of its cluster: it runs once, where kubectl is.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

from ...core import managed_files
from ...core.resource import Action, NodeError, Outcome, Plan, Resource
from ...kubernetes import yaml
from ...kubernetes.helm import summary
from ...kubernetes.objects import taint
from . import changes, told
from .apply import STEPS, TOGETHER
from .observe import observe
from .options import Desired
from .plan import plan
from .types import SECTION, MarkNode, State, UpgradeRelease
from .values import unsettled, values

__all__ = ["RESOURCE", "Desired", "State"]


def _values(state: State, desired: Desired) -> Dict[str, Any]:
    """None where they depend on what is on the nodes, and nobody looked."""
    known = desired.present and not any(unsettled(desired, changes.others(state.cluster, desired)))
    return values(desired) if known else {}


def _facts(outcome: Outcome[State], desired: Desired) -> Dict[str, Any]:
    nodes = told.of_nodes(outcome.after, desired)
    before = outcome.before.cluster
    return {
        "nodes": nodes,
        "lines": told.lines(nodes),
        "operator_values": _values(outcome.before, desired),
        "operator_not_compared": told.not_compared(before, desired),
        "release": summary(outcome.after.release),
        "stranded": told.stranded(before, desired) if before is not None else [],
        # What a person has to know stands in the output of the run, too.
        "warnings": list(outcome.plan.notes),
    }


def _shown(outcome: Outcome[State], desired: Desired, planned: bool) -> str:
    actions = outcome.plan.actions if planned else ()
    text = managed_files.text(managed_files.after(outcome.before.files, actions))
    text += "".join(_nodes(outcome, desired, actions))
    release = outcome.before.release
    upgraded = any(isinstance(each, UpgradeRelease) for each in actions)
    if upgraded or release is not None:
        version = desired.chart_version if upgraded or release is None else release.version
        given = values(desired) if upgraded or release is None else release.values
        text += "==> release {0}, chart {1} <==\n{2}".format(desired.release, version, yaml.dump(given))
    return text


def _nodes(outcome: Outcome[State], desired: Desired, actions: Tuple[Action, ...]) -> Iterator[str]:
    """A line for each node of the run, with its taints and the labels that the run is about."""
    cluster = outcome.before.cluster
    steps = {one.node: one for one in actions if isinstance(one, MarkNode)}
    planned = {one.node: one for one in outcome.plan.actions if isinstance(one, MarkNode)}
    for node in changes.named(cluster, desired) if cluster is not None else ():
        seen = cluster.node(node.name) if cluster is not None else None
        if seen is None:
            continue
        labels: Dict[str, Optional[str]] = dict(seen.marks.labels)
        keys = (
            {*node.labels, *(key for key, dummy in planned[node.name].labels)} if node.name in planned else node.labels
        )
        taints = [str(one) for one in seen.marks.taints]
        if node.name in steps:
            step = steps[node.name]
            labels.update(step.labels)
            taints = taints if step.taints is None else [taint(one) for one in step.taints]
        told_labels = ["{0}={1}".format(key, labels[key]) for key in sorted(keys) if labels.get(key) is not None]
        yield "node {0}: {1}\n".format(node.name, " ".join([*taints, *told_labels]) or "-")


def _ending(state: State, rest: Plan, desired: Desired, failed: Optional[NodeError]) -> str:
    """A node that could not be marked fails the run when the others are."""
    if failed is None:
        return ""
    left = [one.node for one in changes.of_nodes(state.cluster, desired)] if state.cluster is not None else []
    return "{0} Not marked: {1}.".format(failed, ", ".join(left)) if left else str(failed)


RESOURCE = Resource(
    name=SECTION,
    options=Desired,
    observe=observe,
    plan=plan,
    steps=STEPS,
    facts=_facts,
    shown=_shown,
    title="GPU nodes in Kubernetes",
    remote=True,
    together=TOGETHER,
    ending=_ending,
)
