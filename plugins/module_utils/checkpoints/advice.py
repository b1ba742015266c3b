# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often to write a checkpoint, and what it costs. Pure.

J. W. Young, "A first order approximation to the optimum checkpoint interval" (1974), and J. T. Daly's paper of 2006:
the time lost is least at the root of 2 * C * M, where C is how long a checkpoint stops the program, and M the mean
time between failures of the whole job. It holds while C is small beside M.
"""

from __future__ import annotations

import math
from typing import Optional

from ..core.frozen import frozen
from ..core.resource import Misuse, NodeError

# "The Llama 3 Herd of Models" (2024), table 5: 419 unexpected interruptions in 54 days on 16384 GPUs, eight in a node.
NODE_MTBF_HOURS = 54 * 24 * (16384 / 8) / 419
NODE_MTBF_SOURCE = "419 interruptions in 54 days on 2048 nodes (Llama 3, 2024)"


@frozen
class Advice:
    """``copy_seconds``: until a checkpoint is in the store. ``stop_seconds``: how long the program waits for it.

    ``lost_percent``: of the time, at ``interval_seconds``; ``least_percent`` at ``best_seconds``."""

    copy_seconds: float
    stop_seconds: float
    job_mtbf_seconds: float
    best_seconds: float
    least_percent: float
    interval_seconds: Optional[float] = None
    lost_percent: Optional[float] = None
    warning: str = ""


def advise(
    bytes_per_node: float,
    megabits_per_second: float,
    nodes: int,
    node_mtbf_hours: float,
    stop_seconds: Optional[float] = None,
    interval_seconds: Optional[float] = None,
) -> Advice:
    """``megabits_per_second``: what one node writes at; ``stop_seconds``: None where the program waits for the copy.

    A copy in the background has to be there before the next one begins, and until it is, a failure costs what the
    checkpoint before it does not have: that much is lost with each failure, whatever the interval.

    :raises NodeError: for numbers that mean nothing.
    """
    for name, value in (("--bytes", bytes_per_node), ("--node-mtbf", node_mtbf_hours)):
        if not 0 < value < math.inf:
            raise Misuse("option " + name, "{0:g} is out of range".format(value), "give a finite number above 0")
    copy = bytes_per_node * 8 / (megabits_per_second * 1e6)
    stop = copy if stop_seconds is None else stop_seconds
    behind = 0.0 if stop_seconds is None else copy
    mtbf = node_mtbf_hours * 3600 / nodes
    # Without any stop the shortest interval is best, and that is the time of a copy.
    best = max(math.sqrt(2 * stop * mtbf), copy)
    if stop * 2 >= mtbf:
        raise NodeError(
            "a checkpoint of {0:.0f} s".format(stop),
            "the job fails every {0:.0f} s in the mean, so it would hardly come forward".format(mtbf),
            "write it faster: to the local scratch with a copy in the background, or in smaller files a node",
        )
    warning = ""
    if interval_seconds is not None and interval_seconds < max(copy, stop):
        warning = "at every {0:.0f} s the next checkpoint begins before the last one is in the store".format(
            interval_seconds
        )
    lost = None if interval_seconds is None else _lost(interval_seconds, stop, behind, mtbf)
    return Advice(copy, stop, mtbf, best, _lost(best, stop, behind, mtbf), interval_seconds, lost, warning)


def _lost(interval: float, stop: float, behind: float, mtbf: float) -> float:
    """Percent: what writing takes, and of each failure half an interval and what was not yet in the store."""
    return min(100.0, 100 * (stop / interval + (interval / 2 + behind) / mtbf))
