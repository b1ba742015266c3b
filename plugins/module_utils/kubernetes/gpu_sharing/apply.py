# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps, through kubectl."""

from __future__ import annotations

import copy
from typing import Dict, List, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.host import Host
from ...core.resource import Action, NodeError, Step, Together, together
from ..kubectl import MANAGED_BY, OURS, KubectlError
from .observe import client
from .options import Desired
from .types import ANNOTATION, LABEL, CreateConfigMap, LabelNode, RemoveConfigMap, ReplaceConfigMap, manifest

# So many names are in one command line.
_AT_ONCE = 200


def create(host: Host, action: CreateConfigMap, desired: Desired) -> None:
    client(host, desired).create(manifest(action.namespace, action.name, action.data))


def replace(host: Host, action: ReplaceConfigMap, desired: Desired) -> None:
    """What others keep on the object (labels of their own) stays; where it is not the one that was seen, it fails."""
    kubectl = client(host, desired)
    found = kubectl.find("configmap", action.name, action.namespace)
    if found is None or (found["metadata"].get("labels") or {}).get(MANAGED_BY) != OURS:
        reason = "somebody else removed or replaced it at the same time"
        raise NodeError("config map {0}/{1}".format(action.namespace, action.name), reason, "run it again")
    wanted = copy.deepcopy(found)
    wanted["metadata"]["resourceVersion"] = action.version
    wanted["data"] = dict(action.data)
    kubectl.replace(wanted)


def remove(host: Host, action: RemoveConfigMap, desired: Desired) -> None:
    client(host, desired).delete("configmap", action.name, action.namespace)


def label(host: Host, actions: Tuple[Action, ...], desired: Desired) -> Optional[NodeError]:
    """The annotation first, and last of what goes: a run that is cut off between leaves no label that nobody owns.

    Where some node fails, the others are labelled all the same.
    """
    kubectl = client(host, desired)
    failed: List[NodeError] = []

    def attempt(names: List[str], key: str, value: Optional[str], overwrite: bool) -> None:
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            try:
                if key == ANNOTATION:
                    kubectl.annotate("node", some, key, value)
                else:
                    kubectl.label("node", some, key, value, overwrite)
            except KubectlError as error:
                failed.append(error)

    steps = [action for action in actions if isinstance(action, LabelNode)]
    for note, names in _by({one.node: one.note for one in steps if one.note is not None}).items():
        attempt(names, ANNOTATION, note, True)
    moved = [one for one in steps if one.after != one.before]
    for before in (True, False):  # a node that had no label is not overwritten: it may have got one meanwhile
        chosen = {one.node: one.after for one in moved if (one.before is not None) == before}
        for after, names in _by(chosen).items():
            attempt(names, LABEL, after, before)
    if not failed:  # a label that stayed is still known to be ours
        attempt([one.node for one in steps if one.note is None], ANNOTATION, None, True)
    return together(failed) if failed else None


def _by(values: Mapping[str, Optional[str]]) -> Dict[Optional[str], List[str]]:
    found: Dict[Optional[str], List[str]] = {}
    for name, value in values.items():
        found.setdefault(value, []).append(name)
    return found


STEPS: Mapping[type, Step] = {
    **managed_files.STEPS,
    CreateConfigMap: create,
    ReplaceConfigMap: replace,
    RemoveConfigMap: remove,
}
TOGETHER = Together((LabelNode,), label)
