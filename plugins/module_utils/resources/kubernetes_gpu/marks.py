# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints and labels of nodes: what is ours among them, and what becomes of a node. Pure.

What we set is remembered in one annotation of the node, as kubectl writes taints (``key=value:effect``) and as a JSON
object of labels. A taint or label that is not in it is somebody else's.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...kubernetes import objects

ANNOTATION = "trainyard.io/gpu-node-marks"


@frozen
class Taint:
    key: str
    value: str
    effect: str

    def raw(self) -> Dict[str, str]:
        """As the API takes it."""
        return {"key": self.key, "effect": self.effect, **({"value": self.value} if self.value else {})}

    def __str__(self) -> str:
        return objects.taint(self.raw())


def taint(text: str) -> Optional[Taint]:
    """``key=value:effect``, as kubectl writes one; None: it is none."""
    match = re.fullmatch(r"([^=:]+)(?:=([^=:]*))?:([A-Za-z]+)", text)
    return None if match is None else Taint(match.group(1), match.group(2) or "", match.group(3))


@frozen
class Marks:
    """What we set on a node, or are to set."""

    taint: Optional[Taint] = None
    labels: Tuple[Tuple[str, str], ...] = ()

    def text(self) -> Optional[str]:
        """The annotation; None: none."""
        content: Dict[str, Any] = {} if self.taint is None else {"taint": str(self.taint)}
        content.update({"labels": dict(self.labels)} if self.labels else {})
        return json.dumps(content, sort_keys=True) if content else None


def remembered(text: Optional[str]) -> Marks:
    """What the annotation says. One that cannot be read is of nobody."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return Marks()
    if not isinstance(found, dict):
        return Marks()
    labels = found.get("labels")
    pairs = labels.items() if isinstance(labels, dict) else ()
    return Marks(
        taint(str(found.get("taint") or "")),
        tuple(sorted((str(key), str(value)) for key, value in pairs)),
    )


@frozen
class Node:
    """A node as it is seen. ``note``: our annotation."""

    taints: Tuple[Taint, ...] = ()
    labels: Tuple[Tuple[str, str], ...] = ()
    note: Optional[str] = None


@frozen
class Change:
    """``taints``: all of the node after it, in their order; ``labels``: those that change, None for one that goes.
    ``replaces``: labels of others, with their values, that get another one; ``foreign``: a taint of the same key and
    effect that others set, which stays in place of ours."""

    taints: Tuple[Taint, ...]
    labels: Tuple[Tuple[str, Optional[str]], ...]
    note: Optional[str]
    replaces: Tuple[Tuple[str, str], ...] = ()
    foreign: Optional[Taint] = None


def change(seen: Node, wanted: Marks) -> Change:
    """What becomes of a node. Nothing of others goes: not a taint that is ours by its key alone, and not a label that
    was given another value since."""
    ours = remembered(seen.note)
    taints, own, foreign = _taints(seen.taints, ours.taint, wanted.taint)
    before, former, asked = dict(seen.labels), dict(ours.labels), dict(wanted.labels)
    labels: Dict[str, Optional[str]] = {}
    kept: Dict[str, str] = {}
    replaces = {}
    for key, value in asked.items():
        if before.get(key) != value:
            labels[key] = kept[key] = value
            if key in before and before[key] != former.get(key):
                replaces[key] = before[key]
        elif former.get(key) == value:
            kept[key] = value
    for key, value in former.items():
        if key not in asked and before.get(key) == value:
            labels[key] = None
    note = Marks(own, tuple(sorted(kept.items()))).text()
    return Change(taints, tuple(sorted(labels.items())), note, tuple(sorted(replaces.items())), foreign)


def _taints(
    seen: Tuple[Taint, ...], ours: Optional[Taint], wanted: Optional[Taint]
) -> Tuple[Tuple[Taint, ...], Optional[Taint], Optional[Taint]]:
    """(all taints after it, which of them is ours, which foreign one stands for ours)."""
    if wanted is not None and wanted in seen:
        rest = tuple(one for one in seen if one != ours or one == wanted)
        return rest, wanted if ours == wanted else None, None
    rest = tuple(one for one in seen if one != ours)
    if wanted is None:
        return rest, None, None
    # The API has one taint of a key and an effect.
    same = [one for one in rest if (one.key, one.effect) == (wanted.key, wanted.effect)]
    return (rest, None, same[0]) if same else ((*rest, wanted), wanted, None)


def tolerates(tolerations: Sequence[Mapping[str, Any]], one: Taint) -> bool:
    """Whether a pod with these comes to a node with this taint (Kubernetes, "Taints and Tolerations")."""
    return any(_matches(entry, one) for entry in tolerations)


def _matches(entry: Mapping[str, Any], one: Taint) -> bool:
    if entry.get("effect") not in (None, "", one.effect):
        return False
    key, operator = entry.get("key") or "", entry.get("operator") or "Equal"
    if not key:
        return bool(operator == "Exists")
    return bool(
        key == one.key and (operator == "Exists" or (operator == "Equal" and (entry.get("value") or "") == one.value))
    )


def stranded(pods: Sequence[Mapping[str, Any]], one: Taint, nodes: Sequence[str]) -> List[str]:
    """The pods on these nodes that go on beside the taint and would not come back to them, by what owns them, as
    ``DaemonSet kube-system/fluentd (12 pods)``. Static pods are not asked."""
    found: Dict[str, int] = {}
    for pod in pods:
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        if spec.get("nodeName") not in nodes or "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
            continue
        if tolerates([entry for entry in spec.get("tolerations") or () if isinstance(entry, dict)], one):
            continue
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        kind, name = ("pod", metadata.get("name")) if owner is None else (owner.get("kind"), owner.get("name"))
        told = "{0} {1}/{2}".format(kind, metadata.get("namespace"), name)
        found[told] = found.get(told, 0) + 1
    return [
        told if told.startswith("pod ") else "{0} ({1} pod{2})".format(told, number, "" if number == 1 else "s")
        for told, number in sorted(found.items())
    ]
