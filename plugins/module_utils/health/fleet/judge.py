# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a test of some nodes printed to good or bad. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..parse import ParseError, nccl_tests
from . import data
from .arrange import first_pairs
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
    if 0 < run.hosts < len(nodes):
        return Ran(nodes, None, "it ran on {0} of {1} nodes".format(run.hosts, len(nodes)), seconds)
    if run.hosts > len(nodes):
        return Ran(nodes, None, "it ran on {0} hosts, not on {1} nodes".format(run.hosts, len(nodes)), seconds)
    if run.best_busbw_gigabytes_per_second <= 0:  # what one rank alone comes to
        return Ran(nodes, None, "it measured no bandwidth between ranks", seconds)
    return Ran(nodes, run.best_busbw_gigabytes_per_second, "", seconds)


@dataclasses.dataclass(frozen=True)
class Limit:
    """GB/s. What is below ``least`` is short; healthy runs scatter about ``level`` by ``scatter``, a share of it. None:
    not compared."""

    least: Optional[float] = None
    level: float = 0.0
    scatter: float = 0.0

    def deviations(self, figure: float) -> float:
        """So many below what is usual. Without any scatter whatever is short is infinitely so."""
        deviation = self.scatter * self.level
        return (self.level - figure) / deviation if deviation else math.inf if figure < self.level else 0.0


@dataclasses.dataclass(frozen=True)
class Limits:
    """``of``: those of the sets that were compared with their like; ``pairs``: of any other two nodes; ``more``: of
    other sets. ``unknown`` says why good figures prove nothing, empty where they do; ``names``: short ones are worth a
    name all the same. ``relative``: by what the nodes reach among themselves alone. ``scatter``: by how much runs of
    the same pair differ. ``firm``: a limit that healthy runs do not come near to."""

    of: Mapping[Nodes, Limit]
    pairs: Limit
    more: Limit
    unknown: str = ""
    names: bool = True
    relative: bool = False
    scatter: float = 0.0
    firm: bool = False

    def __call__(self, nodes: Nodes) -> Limit:
        return self.of.get(nodes, self.pairs if len(nodes) == 2 else self.more)


@dataclasses.dataclass(frozen=True)
class Usual:
    """What healthy ones of some like sets reach, in GB/s, and how far runs scatter (deviation over ``busbw``)."""

    busbw: float
    scatter: float
    split: bool


def usual(figures: Sequence[float]) -> Usual:
    """The middle of the fastest that agree with each other, so that the slow ones may be many.

    It begins with the figure that a tenth of the sets reaches, two at least, and takes the median of all that are not
    short of it, until that stays. ``split``: too many are well beyond that to be taken for chance.
    """
    ordered = sorted(figures, reverse=True)
    level = ordered[min(len(ordered), max(2, math.ceil(data.FASTEST.value * len(ordered)))) - 1]
    alike = ordered
    for _time in range(20):
        alike = [one for one in ordered if one >= data.SHARE_OF_PAIRS.value * level]
        middle = statistics.median(alike)
        if middle == level:
            break
        level = middle
    own = [one for one in alike if one * data.SHARE_OF_PAIRS.value**2 <= level]
    # A deviation of few figures is itself known to one part in the root of twice their number only.
    error = 1 + 1 / math.sqrt(2 * max(len(own) - 1, 1))
    scatter = error * math.sqrt(statistics.mean([(one - level) ** 2 for one in own])) / level if level else 0.0
    beyond = max(level / data.SHARE_OF_PAIRS.value, level * (1 + data.NOISE.value * scatter))
    fast = sum(one > beyond for one in ordered)
    return Usual(level, scatter, fast > data.FAST_BY_CHANCE.value * len(ordered))


def limits(
    nodes: Nodes, rounds: Sequence[Tuple[Ran, ...]], busbw_min: Optional[float] = None, floor: Optional[float] = None
) -> Limits:
    """What sets must reach: what was asked for, else a share of what like pairs usually reach.

    ``floor``: two healthy nodes are known to reach so much; the usual figure is never taken for less. Sets are
    compared with sets of like size only: two nodes may exceed the rate of their NICs, larger sets do not (nccl-tests
    issues 169, 196). A set that has too few like it is good when it ends with right results.
    """
    first: Dict[Nodes, Ran] = {}  # the first run of each, so that the limit does not move later
    for ran in (ran for one in rounds for ran in one):
        first.setdefault(ran.nodes, ran)
    found: List[Tuple[Tuple[Nodes, ...], Optional[Usual]]] = []
    for group in first_pairs(nodes, busbw_min is None):
        tested = [first[pair] for pair in group if pair in first]
        figures = [one.busbw_gigabytes_per_second for one in tested if one.busbw_gigabytes_per_second is not None]
        whole = len(tested) == len(group) and len(figures) > 1
        found.append((group, usual(figures) if whole else None))
    known = [one for dummy, one in found if one]
    scatter = max([one.scatter for one in known] + [_of_repeats(rounds)])
    if busbw_min is not None:
        of = {pair: Limit(busbw_min, one.busbw, scatter) for group, one in found if one for pair in group}
        least = Limit(busbw_min, min([one.busbw for one in known], default=busbw_min), scatter)
        near = 1 + data.NEAR_LIMIT.value * scatter
        # Of few nodes one slow one is much of the scatter.
        enough = len(nodes) >= data.COMPARED_MIN.value
        firm = not (enough and any(busbw_min <= one.busbw < busbw_min * near for one in known))
        return Limits(of, least, Limit(busbw_min, busbw_min, scatter), scatter=scatter, firm=firm)
    share = data.SHARE_OF_PAIRS.value
    of = {}
    for group, one in found:
        level = max([floor or 0.0] + ([one.busbw] if one else []))
        if level and (floor or one):
            of.update((pair, Limit(share * level, one.busbw if one else level, scatter)) for pair in group)
    of.update(_of_larger({ran.nodes: ran.busbw_gigabytes_per_second for ran in first.values()}, scatter))
    levels = [max(one.busbw, floor or 0.0) for one in known] or ([floor] if floor else [])
    own = min([one.busbw for one in known], default=floor or 0.0)
    pairs = Limit(share * min(levels), own, scatter) if levels else Limit()
    if floor:
        return Limits(of, pairs, Limit(), scatter=scatter)
    why, names = "", True
    if len(nodes) < data.NODES_MIN.value:
        of, pairs = {}, Limit()
    if any(one.split for one in known):
        why, names = "the figures of the pairs fall into groups, of which the fastest is small", False
    elif len(nodes) < data.COMPARED_MIN.value:
        why = "{0} nodes are too few to tell by each other what is healthy".format(len(nodes))
    elif len(known) < len(found):
        why = "too few pairs came to a figure"
    return Limits(of, pairs, Limit(), why, names, True, scatter)


def _of_repeats(rounds: Sequence[Tuple[Ran, ...]]) -> float:
    """How far runs of the same pair scatter, whatever that pair is: by the median of what one run differs from the
    next. What differs by more than SCATTER_MOST comes and goes, and says nothing of the others."""
    last: Dict[Nodes, float] = {}
    away = []
    for ran in (ran for one in rounds for ran in one if len(ran.nodes) == 2):
        figure = ran.busbw_gigabytes_per_second
        if figure is None:
            continue
        before = last.get(ran.nodes)
        if before is not None:
            away.append(abs(figure - before) / (figure + before))
        last[ran.nodes] = figure
    # Two runs differ by the root of two deviations, and by a share of their middle.
    found = data.MAD_TO_DEVIATION.value * math.sqrt(2) * statistics.median(away) if away else 0.0
    return min(found, data.SCATTER_MOST.value)


def _of_larger(figures: Mapping[Nodes, Optional[float]], scatter: float) -> Dict[Nodes, Limit]:
    """By sets that differ by an eighth of their nodes at most, the set itself among them. These are few: their runs
    scatter as those of pairs do, at least."""
    known = {nodes: figure for nodes, figure in figures.items() if len(nodes) > 2 and figure is not None}
    answer = {}
    for nodes in known:
        like = [known[one] for one in known if abs(len(one) - len(nodes)) <= max(1, len(nodes) // 8)]
        if len(like) >= data.COMPARED_MIN.value:
            found = usual(like)
            answer[nodes] = Limit(data.SHARE_OF_PAIRS.value * found.busbw, found.busbw, max(found.scatter, scatter))
    return answer


def judged(rounds: Sequence[Tuple[Ran, ...]], those: Limits) -> Tuple[Round, ...]:
    return tuple(tuple(_trial(ran, those(ran.nodes)) for ran in one) for one in rounds)


def _trial(ran: Ran, limit: Limit) -> Trial:
    figure = ran.busbw_gigabytes_per_second
    if ran.fault or figure is None or limit.least is None:
        return Trial(ran.nodes, ran.fault, figure, ran.seconds, math.inf if ran.fault else 0.0)
    reason = "{0:.4g} GB/s, below {1:.4g}".format(figure, limit.least) if figure < limit.least else ""
    away = limit.deviations(figure)
    # Short by more than a share again is worth a word, however far the figures scatter.
    near = data.SHARE_OF_PAIRS.value * limit.least <= figure < limit.least and away <= data.NOISE.value
    return Trial(ran.nodes, reason, figure, ran.seconds, away, near)
