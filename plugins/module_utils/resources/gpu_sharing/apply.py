# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps, through kubectl."""

from __future__ import annotations

import copy
from typing import Any, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.host import Host
from ...core.resource import Action, NodeError, Step, Together
from ...kubernetes.kubectl import MANAGED_BY, OURS, KubectlError
from ...kubernetes.node_patches import patch_nodes
from .changes import step_of
from .observe import client, node
from .options import Desired
from .types import LABEL, CreateConfigMap, LabelNode, RemoveConfigMap, ReplaceConfigMap, manifest


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
    """Where some node fails, the others are labelled all the same."""

    def again(step: LabelNode, found: Mapping[str, Any]) -> Optional[LabelNode]:
        seen = node(found)
        if seen.label not in (step.before, step.after):
            reason = "somebody else changed it to {0!r} at the same time".format(seen.label or "")
            raise KubectlError("label " + LABEL, reason, "run it again")
        return step_of(seen, step.after, step.note)

    steps = [action for action in actions if isinstance(action, LabelNode)]
    return patch_nodes(client(host, desired), steps, again)


STEPS: Mapping[type, Step] = {
    **managed_files.STEPS,
    CreateConfigMap: create,
    ReplaceConfigMap: replace,
    RemoveConfigMap: remove,
}
TOGETHER = Together((LabelNode,), label)
