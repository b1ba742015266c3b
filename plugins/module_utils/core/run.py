# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go through a resource: observe, plan, apply, observe again; under its lock, and once only where nodes share it."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from .frozen import replaced
from .resource import Action, NodeError, Outcome, Plan, Refused, Resource, Unfinished

State = TypeVar("State")
# A plan goes on after packages were installed, and a second time for what depended on those.
_ROUNDS = 3
#: Carries out these steps in one go; what it returns could not be done, and keeps nothing else from being done.
Batch = Callable[[Tuple[Action, ...]], Optional[NodeError]]
#: What is wrong in the end, in sentences, or "": of the state, what is still to do, and what a batch could not do.
Ending = Callable[[Any, Plan, Optional[NodeError]], str]


def converge(
    observe: Callable[[], State],
    plan: Callable[[State], Plan],
    apply: Callable[[Action], None],
    check_mode: bool = False,
) -> Outcome[State]:
    """Bring one resource to its desired state and prove it.

    :raises Refused: when the plan refuses; nothing was changed unless by steps that had to be looked at in between.
    :raises NodeError: when an action fails, or when the state afterwards still needs actions.
    """
    return _converge(observe, plan, lambda actions: apply(actions[0]), (), check_mode, None, lambda *dummy: "")


def _converge(
    observe: Callable[[], State],
    plan: Callable[[State], Plan],
    apply: Batch,
    together: Tuple[type, ...],
    check_mode: bool,
    predict: Optional[Callable[[State, Tuple[Action, ...]], State]],
    ending: Ending,
) -> Outcome[State]:
    before = after = observe()
    first = rest = plan(before)
    if first.refusals:
        raise Refused(first.refusals)
    if check_mode or not first.actions:
        foreseen = before if predict is None or not first.actions else predict(before, first.actions)
        return _told(Outcome(before, foreseen, first, changed=bool(first.actions)), ending(foreseen, Plan(), None))
    done: List[Action] = []
    failed: Optional[NodeError] = None
    for left in reversed(range(_ROUNDS)):
        notes = rest.notes
        for actions in _batches(rest.actions, together):
            failed = apply(actions) or failed
            done += actions
            if actions[-1].then_look():
                notes = ()  # they may be about what this brought
                break
        after = observe()
        rest = plan(after)
        if rest.refusals and failed is None:
            raise Refused(rest.refusals)
        if failed is not None or not (rest.actions and left and done[-1].then_look()):
            break
    notes += tuple(note for note in rest.notes if note not in notes)
    outcome = Outcome(before, after, replaced(first, actions=tuple(done), notes=notes), changed=True)
    _told(outcome, ending(after, rest, failed))
    if rest.actions:
        raise NodeError(
            "after {0} action(s)".format(len(done)),
            "the node still differs from what was asked: " + "; ".join(a.describe() for a in rest.actions),
            "run it again, and report this as a bug if it stays",
        )
    return outcome


def _told(outcome: Outcome[State], message: str) -> Outcome[State]:
    if message:
        raise Unfinished(message, outcome)
    return outcome


def _batches(actions: Tuple[Action, ...], together: Tuple[type, ...]) -> List[Tuple[Action, ...]]:
    """Neighbours of these types are one batch, every other action is one by itself."""
    found: List[Tuple[Action, ...]] = []
    for action in actions:
        joined = bool(found) and isinstance(action, together) and isinstance(found[-1][-1], together)
        found.append((*found.pop(), action) if joined else (action,))
    return found


def run(host: Any, resource: Resource, desired: Any, check_mode: bool = False) -> Outcome[Any]:
    """Bring one resource of this node to what is desired. Two runs at once take turns.

    :raises Refused: the plan refuses; nothing was changed.
    :raises Unfinished: part of it could not be done.
    :raises NodeError: one sentence.
    """
    predict, ending, together = resource.predict, resource.ending, resource.together

    def converged() -> Outcome[Any]:
        return _converge(
            lambda: resource.observe(host, desired),
            lambda state: known(resource.plan(state, desired)),
            applied,
            together.types,
            check_mode,
            None if predict is None else lambda state, actions: predict(state, actions, desired),
            lambda state, rest, failed: ending(state, rest, desired, failed) if ending is not None else "",
        )

    def applied(actions: Tuple[Action, ...]) -> Optional[NodeError]:
        if isinstance(actions[0], together.types):
            return together.apply(host, actions, desired)
        resource.steps[type(actions[0])](host, actions[0], desired)
        return None

    def known(plan: Plan) -> Plan:
        for action in plan.actions:
            if type(action) not in resource.steps and not isinstance(action, together.types):
                what = "its plan has a step that nothing carries out ({0})".format(type(action).__name__)
                raise NodeError(resource.name, what, "report this as a bug")
        return plan

    if not os.path.isdir(host.root):  # a lock would make it
        raise NodeError("root {0}".format(host.root), "there is no such folder", "give the top of a captured tree")
    if check_mode:
        return converged()
    if os.geteuid() != 0 and host.root == "/":
        raise NodeError(resource.name, "only root may change it", "run it as root (become: true)")
    with host.lock(resource.name, timeout_seconds=resource.lock_seconds):
        if resource.shared is None:
            return converged()
        from . import mounts, shared_folder  # few resources have one

        folders = mounts.on_network(host, resource.shared(desired))
        if not folders:
            return converged()

        def steps() -> List[str]:
            actions = resource.plan(resource.observe(host, desired), desired).actions
            paths = [str(getattr(action, "path", "")) for action in actions]
            return [path for path in paths if path.startswith(tuple(one + "/" for one in folders))]

        with shared_folder.turn(host, folders[0], resource.lock_seconds, shared_folder.watched(host, steps)):
            return converged()


def result(outcome: Outcome[Any], resource: Resource, desired: Any) -> Dict[str, Any]:
    """What a run tells: a module's result, and a section of the node's."""
    return dict(
        resource.facts(outcome, desired),
        changed=outcome.changed,
        actions=[action.to_dict() for action in outcome.plan.actions],
        notes=list(outcome.plan.notes),
        skipped_reason=outcome.plan.skipped,
        diff={
            "before": resource.shown(outcome, desired, False),
            "after": resource.shown(outcome, desired, True),
            "before_header": resource.title,
            "after_header": resource.title,
        },
    )
