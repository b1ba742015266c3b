# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one shape of every managed resource: observe, plan, apply, observe again.

A :class:`Resource` supplies three things. ``observe(host, desired)`` returns an immutable state and changes nothing.
``plan(state, desired)`` is pure: no I/O, same answer for the same state. ``steps`` has a function for each kind of
action, the only places with effects. :func:`run` goes through them under the resource's lock, and fails when the plan
against the new state is not empty.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Tuple, TypeVar

from .frozen import frozen, replaced

State = TypeVar("State")


class NodeError(Exception):
    """A failure told in one sentence: the thing, the reason and the remedy.

    ``thing`` names what it is about (a disk by serial, a GPU by address, a file by path), ``reason`` says
    what is wrong with it, ``remedy`` says what the reader can do.
    """

    def __init__(self, thing: str, reason: str, remedy: str) -> None:
        super().__init__(thing, reason, remedy)
        self.thing = thing
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)


class Misuse(NodeError):
    """What the caller wrote means nothing, here or anywhere: wrong use, and no failure of this node."""


def sentence(thing: str, reason: str, remedy: str) -> str:
    """Join the three parts of an error into one line of text."""
    return printable(
        "{0}: {1}; {2}.".format(*(" ".join(part.split()).rstrip(".;") for part in (thing, reason, remedy)))
    )


def printable(text: str) -> str:
    """One line for a terminal or a log, whatever a user of the machine wrote into it (names of processes, of files)."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@frozen
class Refusal:
    """A plan outcome: why this node is left as it is, and what would change that."""

    thing: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)


@frozen
class Action:
    """One small step that is safe to repeat. Subclasses are frozen dataclasses whose fields say all of it."""

    def then_look(self) -> bool:
        """Whether what comes after it is only known when the node was looked at again: a package brings files."""
        return False

    def describe(self) -> str:
        """Tell the step in the present tense, for the plan that check mode prints."""
        raise NotImplementedError

    def to_dict(self) -> Dict[str, Any]:
        import dataclasses  # not wanted before a job

        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return dict(dataclasses.asdict(self), action=name, description=self.describe())


@frozen
class Plan:
    """What is to be done, or why nothing may be done.

    ``actions`` in the order they are applied; ``refusals`` stop the whole resource on this node, so a plan
    has one or the other; ``notes`` are facts for the reader (a needed reset, a value that was snapped);
    ``skipped`` says why there is nothing to manage here at all (no local disk, no GPU).
    """

    actions: Tuple[Action, ...] = ()
    refusals: Tuple[Refusal, ...] = ()
    notes: Tuple[str, ...] = ()
    skipped: Optional[str] = None

    def __post_init__(self) -> None:
        if self.actions and (self.refusals or self.skipped):
            raise ValueError("a plan that refuses or skips has no actions")


@frozen
class Outcome(Generic[State]):
    """What a convergence found, planned and left behind."""

    before: State
    after: State
    plan: Plan
    changed: bool

    def notes(self) -> List[str]:
        return list(self.plan.notes)


class Refused(NodeError):
    """Raised by :func:`converge` when the plan refuses; carries every refusal."""

    def __init__(self, refusals: Tuple[Refusal, ...]) -> None:
        first = refusals[0]
        super().__init__(first.thing, first.reason, first.remedy)
        self.refusals = refusals

    def __str__(self) -> str:
        return " ".join(str(refusal) for refusal in self.refusals)


class Unfinished(NodeError):
    """Part of it could not be done, on some GPU; the rest was. ``outcome`` is what there is to tell."""

    def __init__(self, message: str, outcome: Outcome[Any]) -> None:
        super().__init__(message, "", "")
        self.message = message
        self.outcome = outcome

    def __str__(self) -> str:
        return self.message


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


#: Carries out one kind of action: the host, the action, and the options of the resource.
Step = Callable[[Any, Any, Any], Any]


@frozen
class Together:
    """Steps that one call carries out when they follow each other, as all GPUs are set in one session.

    What ``apply(host, actions, desired)`` returns could not be done on some GPU; the run goes on, and fails at its end.
    """

    types: Tuple[type, ...]
    apply: Callable[[Any, Tuple[Action, ...], Any], Optional[NodeError]]


@frozen
class Resource:
    """One managed thing, whole. ``options`` is its class of options (:mod:`.options`).

    ``facts(outcome, desired)`` is what a run returns beside its actions; ``shown(outcome, desired, planned)`` the text
    that diff mode compares, of before, or (``planned``) of what it will be. ``title`` heads that text. A run waits
    ``lock_seconds`` for another one. ``needs_command``: what it sets up runs ``gpunode``. ``lent`` (of what reads GPUs)
    takes the binding of NVML that a controller lends, or None, and says whether one is wanted. ``of_cluster``: nodes
    share what it writes, so one of them is enough. ``together``: steps that are carried out in one go, in place of
    ``steps``. ``predict(state, actions, desired)`` is what check mode has as the state after these. With
    ``ending(state, rest, desired, failed)`` a run ends as :class:`Unfinished` where not all is well although nothing
    was refused: it tells what is wrong, in sentences, or "". ``rest`` is the plan that is left, ``failed`` what
    ``together`` could not do.
    """

    name: str
    options: type
    observe: Callable[[Any, Any], Any]
    plan: Callable[[Any, Any], Plan]
    steps: Mapping[type, Step]
    facts: Callable[[Outcome[Any], Any], Dict[str, Any]]
    shown: Callable[[Outcome[Any], Any, bool], str]
    title: str
    lock_seconds: float = 120.0
    needs_command: bool = False
    lent: Optional[Callable[[Optional[str]], bool]] = None
    of_cluster: bool = False
    together: Together = Together((), lambda host, actions, desired: None)
    predict: Optional[Callable[[Any, Tuple[Action, ...], Any], Any]] = None
    ending: Optional[Callable[[Any, Plan, Any, Optional[NodeError]], str]] = None


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
