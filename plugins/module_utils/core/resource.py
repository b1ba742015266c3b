# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one shape of every managed resource: observe, plan, apply, observe again.

A :class:`Resource` supplies three things. ``observe(host, desired)`` returns an immutable state and changes nothing.
``plan(state, desired)`` is pure: no I/O, same answer for the same state. ``steps`` has a function for each kind of
action, the only places with effects. :mod:`.run` goes through them under the resource's lock, and fails when the plan
against the new state is not empty.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar

from .frozen import frozen, plain

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
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return dict(plain(self), action=name, description=self.describe())


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
    """Raised when the plan refuses; carries every refusal."""

    def __init__(self, refusals: Tuple[Refusal, ...]) -> None:
        first = refusals[0]
        super().__init__(first.thing, first.reason, first.remedy)
        self.refusals = refusals

    def __str__(self) -> str:
        return " ".join(str(refusal) for refusal in self.refusals)


def together(errors: Sequence[NodeError]) -> NodeError:
    """One error that tells all of them: whoever corrects them one by one runs as often as there are any."""
    if len(errors) == 1:
        return errors[0]
    return Refused(tuple(one for error in errors for one in apart(error)))


def apart(error: NodeError) -> Tuple[Refusal, ...]:
    """What an error tells, one by one."""
    return error.refusals if isinstance(error, Refused) else (Refusal(error.thing, error.reason, error.remedy),)


class Unfinished(NodeError):
    """Part of it could not be done, on some GPU; the rest was. ``outcome`` is what there is to tell."""

    def __init__(self, message: str, outcome: Outcome[Any]) -> None:
        super().__init__(message, "", "")
        self.message = message
        self.outcome = outcome

    def __str__(self) -> str:
        return self.message


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
class Line:
    """What a summary tells of a resource: after ``label``, what ``tell(result)`` makes of the result of its run.

    In check mode that is the state before the changes, or with ``foresees`` the one after them. ``always``: also where
    there is nothing to manage.
    """

    label: str
    tell: Callable[[Mapping[str, Any]], str]
    foresees: bool = False
    always: bool = False


@frozen
class Wait:
    """What a node waits for before it may take jobs, although nothing failed: ``what``, and by the result of a run
    ``why(result)``, a sentence with the remedy, or "" where it does not wait."""

    what: str
    why: Callable[[Mapping[str, Any]], str]


@frozen
class Unread:
    """What the running slurmd has yet to read of a resource, by the result of a run: ``what(result)`` in a few words,
    or ""; and ``read(result)``, what of the result is otherwise once it was restarted."""

    what: Callable[[Mapping[str, Any]], str]
    read: Callable[[Mapping[str, Any]], Dict[str, Any]]


@frozen
class Resource:
    """One managed thing, whole. ``options`` is its class of options (:mod:`.options`).

    ``facts(outcome, desired)`` is what a run returns beside its actions; ``shown(outcome, desired, planned)`` the text
    that diff mode compares, of before, or (``planned``) of what it will be. ``title`` heads that text. A run waits
    ``lock_seconds`` for another one. ``needs_command``: what it sets up runs ``gpunode``. ``of_cluster``: nodes
    share what it writes, so one of them is enough. ``remote``: what is managed lies behind an API, which keeps two
    runs apart and asks who may do what, so neither a lock nor root of this machine is needed. ``shared(desired)``:
    folders that nodes may share; where they do, one node at a time takes the steps whose ``path`` lies in one
    (:mod:`.shared_folder`).
    ``together``: steps that are carried out in one go, in place of ``steps``. ``predict(state, actions, desired)``
    is what check mode has as the state after these. With ``ending(state, rest, desired, failed)`` a run ends as
    :class:`Unfinished` where not all is well although nothing was refused: it tells what is wrong, in sentences, or
    "". ``rest`` is the plan that is left, ``failed`` what ``together`` could not do. ``line``: its line in the
    summary of a converge. ``wait``: what keeps a node that was drained for the converge drained after it.
    ``unread``: for what slurmd is restarted, where the options have ``restart``: once for all resources of a run.
    ``at_boot(host, check_mode)``: what its boot unit does, by what is in force on the node (:mod:`.declaration`); None:
    there is nothing of it in force. ``after_boot(host)``: what follows it, with the notes
    about what failed of that.
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
    of_cluster: bool = False
    remote: bool = False
    shared: Optional[Callable[[Any], Tuple[str, ...]]] = None
    line: Optional[Line] = None
    wait: Optional[Wait] = None
    unread: Optional[Unread] = None
    together: Together = Together((), lambda host, actions, desired: None)
    predict: Optional[Callable[[Any, Tuple[Action, ...], Any], Any]] = None
    ending: Optional[Callable[[Any, Plan, Any, Optional[NodeError]], str]] = None
    at_boot: Optional[Callable[[Any, bool], Optional[Outcome[Any]]]] = None
    after_boot: Optional[Callable[[Any], List[str]]] = None
