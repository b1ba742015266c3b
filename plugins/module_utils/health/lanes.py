# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the looks of checks: each under its time limit, lanes side by side, and none can take another down.

Every lane, or group of lanes (``TOGETHER``), is a child process. One that hangs or dies costs the check that it was at;
a new child goes on with the rest of the lane. The lane ``gpu`` is different: :func:`gpu_info.gather` visits the GPUs in
a child of its own and survives bad ones by itself.
"""

from __future__ import annotations

import contextlib
import functools
import select
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..core.child import Child, Report
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..facts import gpu_info
from ..facts.nvml import binding
from .course import Course
from .evidence import Evidence
from .ignored_gpus import without_ignored
from .types import GPU_LANE, Check, NotCovered, NoTool

Tell = Optional[Callable[[str], None]]
_Item = Tuple[str, Any, Optional[NodeError], float]
# A whole run ends after this many times the longest limit in it, however many checks hang.
_TOTAL_FACTOR = 3.0
_CLOSED = "the time limit of the whole run was used up before its turn"
# Lanes that begin when the checks of GPUs have been looked for: what these have seen spares them most of their calls.
AFTER_GPUS = ("settings",)
# Lanes of one child, in this order: each child costs as much as some ten checks, and most of these take a millisecond.
# A lane that a dead device can hold up for its whole time (sysfs of a network card, a shared file system) comes last,
# so that it takes no time from the others.
TOGETHER = (("log", "node"), ("inforom", "processes", "programs", "image"))


@frozen
class Looked:
    """What a look returned, or why there is nothing."""

    seen: Any
    error: Optional[NodeError]
    seconds: float


def look(
    checks: Sequence[Check],
    evidence: Evidence,
    call_timeout: float,
    tell: Tell = None,
    course: Optional[Course] = None,
) -> Dict[str, Looked]:
    """Look for every check; the answer has an entry for each. Nothing is raised for what a node does.

    ``call_timeout`` bounds each NVML call, in seconds. ``tell`` hears the id of each check that was looked for.
    ``course``: of active checks, which are all in one lane.
    """
    total = _TOTAL_FACTOR * max([check.seconds for check in checks] + [call_timeout])
    lanes: Dict[str, List[Check]] = {}
    for check in checks:
        lanes.setdefault(check.lane, []).append(check)
    gpu_checks = lanes.pop(GPU_LANE, [])
    for names in TOGETHER:
        together = [check for name in names for check in lanes.pop(name, ())]
        if together:
            lanes[names[0]] = together
    late = [lanes.pop(name) for name in AFTER_GPUS if gpu_checks and name in lanes]
    answer: Dict[str, Looked] = {}

    def done(check: Check, looked: Looked) -> None:
        answer[check.id] = looked
        if course is not None:
            course.done(check.id)
        if tell is not None:
            tell(check.id)

    if gpu_checks:
        # Once, and not again in each lane that asks NVML. Where it is missing, that is told by what asks.
        with contextlib.suppress(NodeError):
            binding.load()
    running = [_Lane(lane, evidence, done, course) for lane in lanes.values()]
    try:
        if gpu_checks:
            looked = _gpus(gpu_checks, evidence.host, call_timeout)
            evidence.gpus = looked.seen
            for check in gpu_checks:
                done(check, looked)
        running += [_Lane(lane, evidence, done, course) for lane in late]
        deadline = time.monotonic() + total
        while any(lane.left for lane in running):
            busy = [lane for lane in running if lane.left]
            if time.monotonic() >= deadline:
                for lane in busy:
                    lane.give_up()
                break
            select.select([lane.child for lane in busy], [], [], min(lane.child.glance_seconds for lane in busy))
            for lane in busy:
                lane.step()
                if course is not None and lane.left:
                    # Between two checks the child still has label and place of the one that ended.
                    current = lane.left[0].id
                    course.at(current, lane.child.place if lane.child.label == current else "")
    finally:
        for lane in running:
            lane.child.close()
    return answer


class _Lane:
    """The checks of one lane that are still to be looked for, and the child that is at it."""

    def __init__(
        self,
        checks: List[Check],
        evidence: Evidence,
        done: Callable[[Check, Looked], None],
        course: Optional[Course] = None,
    ) -> None:
        self.left = list(checks)
        self._course = course
        self._evidence = evidence
        self._done = done
        self._taken = 0
        self.child = self._start()

    def _start(self) -> Child[_Item]:
        task = functools.partial(_look_in_turn, checks=tuple(self.left), evidence=self._evidence, course=self._course)
        self._since = time.monotonic()
        return Child(task, self.left[0].seconds, self.left[0].id)

    def step(self) -> None:
        ended = self.child.look()
        for item in self.child.items[self._taken :]:
            dummy, seen, error, seconds = item
            self._done(self.left.pop(0), Looked(seen, error, seconds))
            self._since = time.monotonic()
        self._taken = len(self.child.items)
        if ended and self.left:
            self._charge()

    def _charge(self) -> None:
        """The child ended before its last check: the one that it was at is to blame; another child takes the others."""
        check, child = self.left.pop(0), self.child
        took = time.monotonic() - self._since
        if child.hung_at is not None and self._course is not None and took < check.seconds:
            place = ", still at work on " + child.place if child.place else ""
            error: NodeError = self._course.not_covered(check, "it was cut off after {0:.0f} s{1}".format(took, place))
            self._done(check, Looked(None, error, took))
            self._go_on()
            return
        if child.hung_at is not None:
            reason = "it did not end within {0:g} s".format(check.seconds)
            remedy = "look at the kernel log for the device that it reads"
        elif child.error is not None:
            reason, remedy = "it failed ({0})".format(child.error), "report this as a bug"
        else:
            reason, remedy = "its process ended in the middle", "look for an out-of-memory kill in the kernel log"
        self._done(check, Looked(None, NodeError("check " + check.id, reason, remedy), check.seconds))
        self._go_on()

    def _go_on(self) -> None:
        if self.left:
            self.child.close()
            self.child, self._taken = self._start(), 0

    def give_up(self) -> None:
        while self.left:
            check = self.left.pop(0)
            remedy = "look at the checks that did not end in time"
            self._done(check, Looked(None, NodeError("check " + check.id, _CLOSED, remedy), 0.0))


def _look_in_turn(
    report: Report, checks: Tuple[Check, ...], evidence: Evidence, course: Optional[Course] = None
) -> Iterator[_Item]:
    """In the child."""
    for check in checks:
        report(check.id, check.seconds)
        started = time.monotonic()
        seen, error = None, None
        try:
            turn = None if course is None else course.turn(check)
            evidence.seconds = None if turn is None else turn.share
            if turn is not None:
                report(check.id, min(check.seconds, turn.limit))
            if check.look is not None:
                seen = check.look(evidence)
        except NodeError as raised:
            kind = next((one for one in (NoTool, NotCovered) if isinstance(raised, one)), NodeError)
            error = kind(raised.thing, raised.reason, raised.remedy)
        except Exception as raised:
            text = "it failed ({0}: {1})".format(type(raised).__name__, raised)
            error = NodeError("check " + check.id, text, "report this as a bug")
        yield check.id, seen, error, time.monotonic() - started


def _gpus(checks: Sequence[Check], host: Host, call_timeout: float) -> Looked:
    """What NVML tells, once for all checks that want it."""
    wanted = {group for check in checks for group in check.gpu_groups}
    groups = tuple(name for name in gpu_info.GROUPS if name in wanted)
    started = time.monotonic()
    try:
        seen: Any = gpu_info.gather(gpu_info.Options(groups=groups, call_timeout_seconds=call_timeout), host)
        seen = without_ignored(seen, host)
        error = None
    except NodeError as raised:
        seen, error = None, raised
    return Looked(seen, error, time.monotonic() - started)
