# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps."""

from __future__ import annotations

from typing import List, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.host import Host
from ...core.options import of
from ...core.resource import Action, NodeError, Step, Together, together
from ..kubectl import KubectlError
from . import changes
from .observe import client, helm, node
from .options import Desired, Node
from .types import MarkNode, UpgradeRelease, mark
from .values import values

# Kubelets write their node now and then; more conflicts than these are no accident.
_ATTEMPTS = 5


def mark_nodes(host: Host, actions: Tuple[Action, ...], desired: Desired) -> Optional[NodeError]:
    """Where some node fails, the others are marked all the same."""
    failed: List[NodeError] = []
    for action in actions:
        if isinstance(action, MarkNode):
            try:
                _mark(host, action, desired)
            except NodeError as error:
                failed.append(error)
    return together(failed) if failed else None


def _mark(host: Host, action: MarkNode, desired: Desired) -> None:
    """A node that changed since it was seen is looked at again, and what is to become of it decided again."""
    kubectl = client(host, desired)
    step: Optional[MarkNode] = action
    for attempt in range(_ATTEMPTS):
        if step is None:
            return
        try:
            kubectl.patch("node", action.node, step.patch())
            return
        except KubectlError as error:
            if error.kind != "Conflict" or attempt == _ATTEMPTS - 1:
                reason = "{0}: {1}".format(error.thing, error.reason)
                raise NodeError("node " + action.node, reason, error.remedy) from None
        found = kubectl.find("node", action.node)
        asked = next((one for one in desired.nodes if one.name == action.node), None)
        asked = asked or of(Node, {"name": action.node})
        step = None if found is None else mark(node(found), changes.wanted(asked, desired))


def upgrade(host: Host, action: UpgradeRelease, desired: Desired) -> None:
    helm(host, desired).upgrade(action.release, action.namespace, desired.chart, action.version, values(desired))


STEPS: Mapping[type, Step] = {**managed_files.STEPS, UpgradeRelease: upgrade}
TOGETHER = Together((MarkNode,), mark_nodes)
