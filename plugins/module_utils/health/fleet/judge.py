# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a test of some nodes printed to good or bad. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Dict, Optional, Sequence, Tuple

from ..parse import nccl_tests
from ..parse.problem import ParseError
from . import data
from .search_types import Nodes, Round, Trial


@dataclasses.dataclass(frozen=True)
class Ran:
    """One run: what it measured, or why it measured nothing (``fault``)."""

    nodes: Nodes
    busbw_gigabytes_per_second: Optional[float]
    fault: str
    seconds: float


def read(nodes: Nodes, text: str, status: Optional[int], seconds: float) -> Ran:
    """``status`` None: it was ended at its time limit."""
    if status is None:
        return Ran(nodes, None, "it did not end within {0:.0f} s".format(seconds), seconds)
    if status != 0:
        lines = text.strip().splitlines()
        last = ": " + " ".join(lines[-1].split())[:200] if lines else ""
        return Ran(nodes, None, "it ended with status {0}{1}".format(status, last), seconds)
    try:
        run = nccl_tests.parse(text)
    except ParseError as error:
        return Ran(nodes, None, "its output cannot be read ({0})".format(error), seconds)
    if run.wrong:
        return Ran(nodes, None, "{0:.0f} results were wrong".format(run.wrong), seconds)
    return Ran(nodes, run.best_busbw_gigabytes_per_second, "", seconds)


def limit(nodes: Nodes, rounds: Sequence[Tuple[Ran, ...]], busbw_min: Optional[float]) -> Optional[float]:
    """What a set must reach: what was asked for, else a share of what neighbours usually reach, at least three pairs.

    None: a run is good when it comes to its end with right results.
    """
    if busbw_min is not None:
        return busbw_min
    neighbours = {nodes[place : place + 2] for place in range(0, len(nodes) - 1, 2)}
    first: Dict[Nodes, float] = {}  # the first figure of each, so that the limit does not move later
    for ran in (ran for one in rounds for ran in one):
        if ran.nodes in neighbours and ran.busbw_gigabytes_per_second is not None:
            first.setdefault(ran.nodes, ran.busbw_gigabytes_per_second)
    figures = list(first.values())
    return data.SHARE_OF_PAIRS.value * statistics.median(figures) if len(figures) >= 3 else None


def judged(rounds: Sequence[Tuple[Ran, ...]], least: Optional[float]) -> Tuple[Round, ...]:
    return tuple(tuple(_trial(ran, least) for ran in one) for one in rounds)


def _trial(ran: Ran, least: Optional[float]) -> Trial:
    figure = ran.busbw_gigabytes_per_second
    reason = ran.fault
    if not reason and least is not None and (figure is None or figure < least):
        reason = "{0:.4g} GB/s, below {1:.4g}".format(figure or 0.0, least)
    return Trial(ran.nodes, reason, figure, ran.seconds)
