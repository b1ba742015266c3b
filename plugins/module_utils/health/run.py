# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run checks: first those that load nothing, then the active ones within their time, then once more what a load can
change. How each check is run: :mod:`lanes`.
"""

from __future__ import annotations

import contextlib
import time
from typing import Dict, List, Optional, Sequence, Tuple

from ..core.child import end_children_with_this_process
from ..core.host import LockHeld
from ..core.resource import NodeError
from ..slurm import ACTIVE_LOCK
from . import budget
from .course import Course, Progress, Show
from .evidence import Evidence
from .lanes import Looked, Tell, look
from .types import GPU_LANE, Check, Cost

# What a load can change in what the driver and the kernel say: looked at again after active checks.
AGAIN = (GPU_LANE, "log")
# Two runs of active checks at once would measure each other, and each finds GPUs in use by the other.
_OTHER_RUN_SECONDS = 3.0


def with_load(
    checks: Sequence[Check],
    evidence: Evidence,
    call_timeout: float,
    tell: Tell = None,
    seconds: Optional[float] = None,
    show: Show = None,
) -> Tuple[Dict[str, Looked], Dict[str, Looked]]:
    """What was looked at, and what was looked at once more when the active checks, if there are any, had ended.

    These run when the others have ended, so that a fault is known from before the load, or from after it. ``seconds``:
    the time budget of all active checks together. ``show`` gets their plan before anything starts, and then their
    progress, some times a second.

    :raises Misuse: the budget is too short for every active check.
    """
    active = [check for check in checks if check.cost is Cost.ACTIVE]
    others = [check for check in checks if check.cost is not Cost.ACTIVE]
    planned = None
    if active:
        # A load that goes on beside the next job would be worse than the fault that it looks for.
        end_children_with_this_process()
        if seconds is not None or show is not None:
            from .active import estimate  # not wanted before a job

            planned = estimate.plan(active, evidence, seconds)
    if planned is not None and show is not None:
        show(Progress(planned, remaining_seconds=planned.seconds))
    looked = look(others, evidence, call_timeout, tell) if others else {}
    if not active:
        return looked, {}
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(evidence.host.lock(ACTIVE_LOCK, _OTHER_RUN_SECONDS))
        except LockHeld:
            busy = NodeError("this node", "another run of active checks loads it", "run it again when that has ended")
            return {**looked, **{check.id: Looked(None, busy, 0.0) for check in active}}, {}
        except NodeError:
            pass  # a user without rights, or a full /run: each check looks for processes on the GPUs itself
        return _loaded(active, others, looked, evidence, call_timeout, tell, seconds, planned, show)


def _loaded(
    active: List[Check],
    others: Sequence[Check],
    looked: Dict[str, Looked],
    evidence: Evidence,
    call_timeout: float,
    tell: Tell,
    seconds: Optional[float],
    planned: Optional[budget.Plan],
    show: Show,
) -> Tuple[Dict[str, Looked], Dict[str, Looked]]:
    """What :func:`with_load` returns, with the active checks."""
    course = None if planned is None else Course(planned, show)
    if planned is not None and course is not None and seconds is not None:
        order = {part.check: place for place, part in enumerate(planned.parts)}
        active.sort(key=lambda check: order[check.id])
        idle = [check for check in active if planned.span(check.id) is None]
        active = [check for check in active if check not in idle]
        # Outside of the budget, as they measure nothing.
        looked.update(look(idle, evidence, call_timeout, tell, course))
        course.ends = time.monotonic() + seconds
    looked.update(look(active, evidence, call_timeout, tell, course))
    again = [check for check in others if check.lane in AGAIN]
    return looked, look(again, evidence, call_timeout) if again else {}
