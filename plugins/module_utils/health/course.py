# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The course of the active checks: whose turn it is, how long it may take, and how far they are."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from ..core.frozen import frozen
from . import budget
from .types import Check, NotCovered

# A check without anything to measure finds that out in this time.
_IDLE_SECONDS = 20.0


@frozen
class Progress:
    """How far the active checks are. ``check``: the one that runs, empty before the first one; ``place``: the part of
    the machine that it works on, if it reports one. ``done`` of the checks in ``plan`` ended."""

    plan: budget.Plan
    check: str = ""
    place: str = ""
    done: int = 0
    remaining_seconds: float = 0.0


Show = Optional[Callable[[Progress], None]]


class Course:
    """The plan of the active checks while they run. ``ends``: the monotonic time at which the budget is used up."""

    def __init__(self, planned: budget.Plan, show: Show) -> None:
        self.planned = planned
        self.ends: Optional[float] = None
        self._show = show
        self._done: List[str] = []
        self._check, self._since = "", 0.0

    def turn(self, check: Check) -> Optional[budget.Turn]:
        """None: there is no budget.

        :raises NotCovered: it leaves too little time for this check.
        """
        if self.planned.budget is None:
            return None
        if self.ends is None:
            return budget.Turn(_IDLE_SECONDS, _IDLE_SECONDS)
        left = self.ends - time.monotonic()
        found = budget.turn(self.planned, check.id, left)
        if found is None:
            span = self.planned.span(check.id)
            least = "" if span is None else "; it takes at least {0:.0f} s here".format(span.least)
            raise self.not_covered(check, "no time of the budget is left for it" + least)
        return found

    def not_covered(self, check: Check, why: str) -> NotCovered:
        reason = "not covered by the {0:g} s for the active checks: {1}".format(self.planned.budget or 0, why)
        return NotCovered("check " + check.id, reason, "run it alone, or with more time")

    def done(self, check: str) -> None:
        self._done.append(check)

    def at(self, check: str, place: str) -> None:
        if self._show is None:
            return
        now = time.monotonic()
        if check != self._check:
            self._check, self._since = check, now
        left = self.planned.remaining(self._done, check, now - self._since)
        self._show(Progress(self.planned, check, place, len(self._done), left))
