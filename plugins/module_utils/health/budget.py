# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of the active checks: what they take together, and their shares of a budget. Pure."""

from __future__ import annotations

from typing import Collection, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.resource import Misuse
from .types import Span

# Starting a process and noticing its end take some time, which must not cost a later check its turn.
_SLACK_SECONDS = 0.5


@frozen
class Part:
    """One check of a plan. ``span``: None if it has nothing to measure on this machine. ``seconds``: its share of the
    budget, or its usual time without one. ``covered``: the budget is enough for it."""

    check: str
    span: Optional[Span]
    seconds: float
    covered: bool = True


@frozen
class Plan:
    """``parts`` in the order in which they run. ``budget``: seconds, None without one. ``gpus``: of the machine."""

    parts: Tuple[Part, ...]
    budget: Optional[float] = None
    gpus: int = 0

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.parts)

    def of(self, check: str) -> Optional[Part]:
        return next((one for one in self.parts if one.check == check), None)

    def span(self, check: str) -> Optional[Span]:
        """None: it has nothing to measure on this machine."""
        part = self.of(check)
        return None if part is None else part.span

    def remaining(self, done: Collection[str], check: str, elapsed: float) -> float:
        """Expected seconds until the last check ends. ``done``: checks that ended; ``check`` runs for ``elapsed``."""
        left = 0.0
        for one in self.parts:
            if one.check == check:
                left += max(0.0, one.seconds - elapsed)
            elif one.check not in done:
                left += one.seconds
        return left


@frozen
class Turn:
    """The time of one check. ``share``: it ends within it. ``limit``: after that it is killed, since a longer run
    would take the least time of a later check."""

    share: float
    limit: float


def plan(spans: Sequence[Tuple[str, Optional[Span]]], seconds: Optional[float] = None, gpus: int = 0) -> Plan:
    """``spans``: (id of a check, its span) in the order of their value: the first tells most per second.

    With a budget each check gets at least the least of its span or is left out as a whole, and the rest is given to the
    first checks until they have their usual time. The sum of all shares is never above the budget.

    :raises Misuse: the budget is too short for every check.
    """
    if seconds is None:
        parts = [Part(check, span, span.usual if span is not None else 0.0) for check, span in spans]
        return Plan(tuple(parts), None, gpus)
    useful = [span.least for dummy, span in spans if span is not None]
    if useful and seconds < min(useful):
        raise Misuse(
            "{0:g} seconds for the active checks".format(seconds),
            "every check that applies to this machine needs more",
            "give at least {0:g}".format(_rounded_up(min(useful))),
        )
    left = seconds
    covered = []
    for check, span in spans:
        if span is not None and span.least <= left:
            left -= span.least
            covered.append((check, span))
    kept = []
    for check, span in covered:
        more = min(span.usual - span.least, left)
        left -= more
        kept.append(Part(check, span, span.least + more))
    names = {one.check for one in kept}
    idle = [Part(check, span, 0.0) for check, span in spans if span is None]
    left_out = [Part(check, span, 0.0, False) for check, span in spans if span is not None and check not in names]
    # A check without a measurement ends at once. Those that are left out may still find time that others did not use.
    return Plan((*idle, *kept, *left_out), seconds, gpus)


def _rounded_up(seconds: float) -> float:
    return -(-seconds // 1)


def turn(planned: Plan, check: str, remaining: float) -> Optional[Turn]:
    """What a check gets when its turn comes with ``remaining`` seconds of the budget left; None: too little for it.

    Time that earlier checks did not use is shared anew. No check takes the least time of a covered later one, nor of
    another later one that fits beside it.
    """
    place = next((number for number, one in enumerate(planned.parts) if one.check == check), None)
    span = None if place is None else planned.parts[place].span
    if place is None or span is None:
        return Turn(remaining, remaining)
    free = remaining
    for one in planned.parts[place + 1 :]:
        if one.span is not None and (one.covered or one.span.least + span.least <= free):
            free -= one.span.least
    if free < span.least - _SLACK_SECONDS:
        return None
    share = max(span.least, min(span.usual, free))
    return Turn(share, max(free, span.least))
