# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of many nodes: one request for each node, which changes all of it or nothing."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar

from ..core.frozen import frozen
from ..core.resource import Action, NodeError, together
from .kubectl import AT_ONCE, Kubectl, KubectlError, at_once
from .objects import some

# Kubelets write their node now and then; more conflicts than these are no accident.
_ATTEMPTS = 5
# With as many errors of these in a row as calls run at the same time, the API is taken to be away.
_AWAY = ("Timeout", "Unreachable", "Unauthorized", "Config")


@frozen
class NodeStep(Action):
    """A step that is one patch of one node."""

    node: str

    def patch(self) -> Dict[str, Any]:
        """A JSON merge patch with the resourceVersion that was seen."""
        raise NotImplementedError


_Step = TypeVar("_Step", bound=NodeStep)


def patch_nodes(
    kubectl: Kubectl, steps: Sequence[_Step], again: Callable[[_Step, Mapping[str, Any]], Optional[_Step]]
) -> Optional[NodeError]:
    """Where some node fails, the others are done all the same.

    ``again``: the step for a node that somebody wrote since it was seen, as it is now; None: it needs none.
    """
    away: List[KubectlError] = []

    def work(step: _Step) -> None:
        errors = list(away)
        if len(errors) >= AT_ONCE:
            raise _of(step, errors[0])
        try:
            _patch(kubectl, step, again)
        except KubectlError as error:
            away.extend([error] if error.kind in _AWAY else [])
            raise _of(step, error) from None
        away.clear()

    failed = _by_kind(at_once(work, steps))
    return together(failed) if failed else None


def _patch(kubectl: Kubectl, step: _Step, again: Callable[[_Step, Mapping[str, Any]], Optional[_Step]]) -> None:
    now: Optional[_Step] = step
    for attempt in range(_ATTEMPTS):
        if now is None:
            return
        try:
            kubectl.patch("node", step.node, now.patch())
            return
        except KubectlError as error:
            if error.kind != "Conflict" or attempt == _ATTEMPTS - 1:
                raise
        found = kubectl.find("node", step.node)
        now = None if found is None else again(step, found)


def _of(step: NodeStep, error: KubectlError) -> KubectlError:
    reason = "{0}: {1}".format(error.thing, error.reason)
    return KubectlError(step.node, reason, error.remedy, error.kind)


def _by_kind(errors: Sequence[NodeError]) -> List[NodeError]:
    """One error for all nodes that fail in the same way, with the reason of the first one."""
    alike: Dict[str, List[NodeError]] = {}
    for error in errors:
        kind = error.kind if isinstance(error, KubectlError) else ""
        alike.setdefault(kind or error.reason.replace(error.thing, ""), []).append(error)
    found = []
    for group in alike.values():
        word = "node " if len(group) == 1 else "nodes "
        found.append(NodeError(word + some([one.thing for one in group]), group[0].reason, group[0].remedy))
    return found
