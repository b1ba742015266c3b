# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the steps."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core import managed_files
from ...core.host import Host
from ...core.options import of
from ...core.resource import Action, NodeError, Step, Together
from ...kubernetes.node_patches import patch_nodes
from . import changes
from .observe import client, helm, node
from .options import Desired, Node
from .types import MarkNode, UpgradeRelease, mark
from .values import values


def mark_nodes(host: Host, actions: Tuple[Action, ...], desired: Desired) -> Optional[NodeError]:
    """Where some node fails, the others are marked all the same."""
    asked = {one.name: one for one in desired.nodes}

    def again(step: MarkNode, found: Mapping[str, Any]) -> Optional[MarkNode]:
        one = asked.get(step.node) or of(Node, {"name": step.node})
        return mark(node(found), changes.wanted(one, desired))

    steps = [action for action in actions if isinstance(action, MarkNode)]
    return patch_nodes(client(host, desired), steps, again)


def upgrade(host: Host, action: UpgradeRelease, desired: Desired) -> None:
    helm(host, desired).upgrade(action.release, action.namespace, desired.chart, action.version, values(desired))


STEPS: Mapping[type, Step] = {**managed_files.STEPS, UpgradeRelease: upgrade}
TOGETHER = Together((MarkNode,), mark_nodes)
