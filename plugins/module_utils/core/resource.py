# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one shape of every managed resource: observe, plan, apply, observe again.

A resource supplies three functions. ``observe()`` returns an immutable state and changes nothing.
``plan(state)`` is pure: no I/O, same answer for the same state. ``apply(action)`` is the only place with
effects. :func:`converge` runs them in order and fails when the plan against the new state is not empty.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Generic, List, Optional, Tuple, TypeVar

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


def converge(
    observe: Callable[[], State],
    plan: Callable[[State], Plan],
    apply: Callable[[Action], None],
    check_mode: bool = False,
) -> Outcome[State]:
    """Bring one resource to its desired state and prove it.

    :raises Refused: when the plan refuses; nothing was changed.
    :raises NodeError: when an action fails, or when the state afterwards still needs actions.
    """
    before = observe()
    first = plan(before)
    if first.refusals:
        raise Refused(first.refusals)
    if check_mode or not first.actions:
        return Outcome(before, before, first, changed=bool(first.actions))
    for action in first.actions:
        apply(action)
    after = observe()
    rest = plan(after)
    if rest.refusals:
        raise Refused(rest.refusals)
    if rest.actions:
        raise NodeError(
            "after {0} action(s)".format(len(first.actions)),
            "the node still differs from what was asked: " + "; ".join(a.describe() for a in rest.actions),
            "run it again, and report this as a bug if it stays",
        )
    notes = first.notes + tuple(note for note in rest.notes if note not in first.notes)
    return Outcome(before, after, replaced(first, notes=notes), changed=True)
