# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to tell beside the steps. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ...kubernetes.objects import some
from . import changes, chart, files, marks, policy
from .options import Desired
from .types import Cluster, State
from .values import unsettled, values

_STRANDED = (
    "pods without a toleration of {0} go on where they run, and would not come back to these nodes: {1}; give them the "
    "toleration, or the nodes tainted: false"
)


def of_values(desired: Desired) -> Iterator[str]:
    if desired.chart_version != chart.VERSION:
        for error in chart.wrong(desired.values):
            yield "{0} (the keys are those of {1}, and the chart is {2})".format(
                error.reason, chart.VERSION, desired.chart_version
            )
    labelled = [one.name for one in desired.nodes if "nvidia.com/mig.config" in one.labels]
    if labelled and not desired.mig_manager:
        reason = "{0} labelled with nvidia.com/mig.config, and the MIG manager that reads it is off (mig_manager)"
        yield reason.format(_are(labelled))


def _are(names: Sequence[str]) -> str:
    return some(names) + (" is" if len(names) == 1 else " are")


def notes(cluster: Cluster, desired: Desired) -> Iterator[str]:
    missing = [node.name for node in desired.nodes if cluster.node(node.name) is None]
    if missing:
        yield "{0} not registered in the cluster yet; run it again when the node can be marked".format(_are(missing))
    if missing and len(missing) == len(desired.nodes):
        yield "no node of this run is in this cluster; check kubeconfig, context and the names of the nodes"
    for node in desired.nodes:
        seen = cluster.node(node.name)
        if seen is not None:
            change = marks.change(seen.marks, changes.wanted(node, desired))
            if change.foreign is not None:
                yield "node {0} has the taint {1} of others, which stays in place of ours".format(
                    node.name, change.foreign
                )
            for key, value in change.replaces:
                yield "node {0}: the label {1}={2} of others is replaced".format(node.name, key, value)
    yield from _stranded(cluster, desired)
    yield from _policy(cluster, desired)


def stranded(cluster: Cluster, desired: Desired) -> List[str]:
    asked, nodes = desired.wanted_taint, changes.newly_tainted(cluster, desired)
    return marks.stranded(cluster.pods or (), asked, nodes) if asked is not None and nodes else []


def _stranded(cluster: Cluster, desired: Desired) -> Iterator[str]:
    found = stranded(cluster, desired)
    if found:
        yield _STRANDED.format(desired.taint, some(found, 20))


def _policy(cluster: Cluster, desired: Desired) -> Iterator[str]:
    """An operator that runs with other values. helm is told of them in the same run."""
    if desired.apply == "helm":
        return
    if cluster.policy_unread:
        yield "the GPU operator is not compared with the values: {0}".format(cluster.policy_unread)
    if cluster.policy is None or not_compared(cluster, desired):
        return
    sections = policy.DRA_SECTIONS if desired.stack == "dra" else policy.SECTIONS
    other = policy.differences(values(desired), cluster.policy, sections)
    if other:
        path = "{0}/{1}".format(desired.folder, files.VALUES) if desired.folder else files.VALUES + " of option folder"
        reason = "the GPU operator runs with other values of {0}; bring it there by apply: helm, or by '{1}'"
        yield reason.format(", ".join(sorted(other)), files.command(desired, path))


def not_compared(cluster: Optional[Cluster], desired: Desired) -> str:
    """Why the operator that runs is not compared with the values; "": it is, or helm does it."""
    if not desired.present or desired.apply == "helm":
        return ""
    if cluster is None:
        return "no cluster is asked"
    if cluster.policy_unread:
        return cluster.policy_unread
    if cluster.policy is None:
        return "no GPU operator is in the cluster"
    return next((str(one) for one in unsettled(desired, changes.others(cluster, desired))), "")


def of_nodes(state: State, desired: Desired) -> List[Dict[str, Any]]:
    """Of each node, what it comes to."""
    found = []
    for node in desired.nodes if desired.present else ():
        seen = None if state.cluster is None else state.cluster.node(node.name)
        wanted = changes.wanted(node, desired)
        foreign = None if seen is None else marks.change(seen.marks, wanted).foreign
        found.append(
            {
                "name": node.name,
                "pending": state.cluster is not None and seen is None,
                "taint": desired.taint if wanted.taint is not None and foreign is None else None,
                "taints": None if seen is None else [str(one) for one in seen.marks.taints],
                "labels": dict(node.labels),
            }
        )
    return found


def lines(nodes: Sequence[Mapping[str, Any]]) -> List[str]:
    """A line for each node that :func:`of_nodes` tells."""
    found = []
    for one in nodes:
        words = [one["taint"] or "no taint of ours"]
        words += ["{0}={1}".format(key, value) for key, value in sorted(one["labels"].items())]
        words += ["waits until it is registered"] if one["pending"] else []
        found.append("{0}: {1}".format(one["name"], ", ".join(words)))
    return found
