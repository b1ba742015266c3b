# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The middle of some figures, how far from it is too far, and whether they are of several kinds. Pure.

Whatever the bad ones among them are, as long as they are fewer than half.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import List, Optional, Sequence, Tuple

from . import data


@dataclasses.dataclass(frozen=True)
class Spread:
    """``distance``: further than this from the median is an outlier. None: these figures have no scale."""

    median: float
    distance: Optional[float]


def counted(unit: str, counter: bool) -> bool:
    return counter or unit in data.COUNTS


def middle(values: Sequence[float]) -> float:
    """The median of what lies about the shortest half of the values: 44 % bad ones do not move it, as they do the
    median (Rousseeuw 1984: least median of squares)."""
    ordered = sorted(values)
    low, high = shortest_half(ordered)
    reach = data.SHORTEST_HALF_REACH.value * (high - low)
    return statistics.median([value for value in ordered if low - reach <= value <= high + reach])


def shortest_half(ordered: Sequence[float]) -> Tuple[float, float]:
    """The ends of the least interval that more than half of the values lie in."""
    half = len(ordered) // 2 + 1
    widths = [ordered[place + half - 1] - ordered[place] for place in range(len(ordered) - half + 1)]
    least_width = min(widths)
    places = [place for place, width in enumerate(widths) if width == least_width]
    first = places[len(places) // 2]
    return ordered[first], ordered[first + half - 1]


def limit(away: Sequence[float], nodes: int, false_alarms: float, never: float) -> float:
    """How far to one side is too far. ``away``: of each figure from its middle, the bad side positive; ``nodes``:
    those of which they come; ``false_alarms``: the chance that may be spent on all of them; ``never``: nearer is no
    outlier.

    Bad ones must not tell how far is too far, so the furthest are left out from where a step in the figures is that
    the others do not explain."""
    ordered = sorted(away, reverse=True)
    # The parts of a node have something in common, nobody knows how much: halfway between as one and as many.
    known = math.sqrt(nodes * len(ordered))
    cut = 0
    for _round in range(3):
        inside = ordered[cut:]
        deviation = data.MAD_TO_DEVIATION.value * statistics.median([abs(one) for one in inside])
        floor = max(never, cutoff(known, len(inside) / false_alarms) * deviation)
        most = min(sum(one > floor for one in ordered), (len(ordered) - 1) // 2)
        steps = (place for place in range(most, 0, -1) if ordered[place - 1] - ordered[place] > deviation / 2)
        new = next((place for place in steps if ordered[place - 1] > tail(ordered, place, false_alarms)), 0)
        if new == cut:
            break
        cut = new
    return max(floor, tail(ordered, cut, false_alarms))


def tail(ordered: Sequence[float], cut: int, false_alarms: float) -> float:
    """How far the furthest of all may be, told from how the furthest but ``cut`` lie beyond a threshold: a generalized
    Pareto distribution (Pickands 1975), whose mean has a standard error added. Its shape is that of Student's with 5
    degrees of freedom (1 / 5), unless the figures say with two standard errors that it is less (by the weighted moments
    of Hosking and Wallis 1987)."""
    places = range(cut, len(ordered))
    count = min(max(int(2 * math.sqrt(len(places))), 3), sum(ordered[place] > 0 for place in places) - 1)
    if count < 1:
        return 0.0
    threshold = ordered[cut + count]
    # Counts are equal to the threshold, too, and these are not beyond it.
    beyond = [one - threshold for one in ordered[cut : cut + count] if one > threshold]
    count = len(beyond)
    if not count:
        return 0.0
    mean, shape = sum(beyond) / count, data.TAIL_SHAPE.value
    if count > 2:
        weighted = sum(one * place for place, one in enumerate(beyond)) / (count - 1) / count
        if mean > 2 * weighted:
            shape = min(shape, max(2 - mean / (mean - 2 * weighted) + 2 / math.sqrt(count), 0.01))
    mean *= 1 + 1 / math.sqrt(count)
    return threshold + mean * (1 - shape) / shape * (math.exp(shape * math.log(count / false_alarms)) - 1)


def cutoff(nodes: float, comparisons: float) -> float:
    """How many deviations are too far: the more is compared the more, and the fewer nodes tell the deviation the more.

    The quantile of Student's distribution with as many degrees of freedom as the MAD is worth, by the expansion of
    Abramowitz and Stegun, 26.7.5.
    """
    normal = -statistics.NormalDist().inv_cdf(min(1 / comparisons, 0.5))
    freedom = data.MAD_EFFICIENCY.value * max(nodes - 1, 1)
    student = (
        normal
        + (normal**3 + normal) / (4 * freedom)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * freedom**2)
    )
    return max(data.CUTOFF.value, student)


def least(median: float, unit: str, counter: bool, nodes: int, comparisons: float, nonzero: float = 1.0) -> float:
    """What is never an outlier, however alike the others are; 0: figures of this unit have no scale of their own.
    ``nonzero``: of counts, the share of nodes that may have one at all (see ``share_at_most``)."""
    known = data.MEANINGFUL.get(unit)
    share = data.SHARE_OF_MEDIAN if nodes >= data.NODES_FEW.value else data.SHARE_OF_MEDIAN_FEW
    floor = data.CUTOFF.value * max(share.value * abs(median), known.value if known else 0.0)
    if not counted(unit, counter):
        return floor
    # Choi (1994): the median of a Poisson distribution is no further than ln 2 below its mean.
    mean = max(median, 0.0) + math.log(2)
    if nonzero < 1:
        mean = min(mean, -math.log(1 - nonzero))
    return max(floor, poisson(mean, 1 / comparisons) - median)


def share_at_most(found: int, count: int, chance: float) -> float:
    """A share of which ``found`` or fewer of ``count`` are seen with no more than this chance (Chernoff's bound).

    Bad ones among those that were found only make it larger."""
    seen = found / count
    low, high = seen, 1.0
    for _step in range(40):
        share = (low + high) / 2
        away = (1 - seen) * math.log((1 - seen) / (1 - share)) if seen < 1 else 0.0
        away += seen * math.log(seen / share) if seen else 0.0
        low, high = (low, share) if count * away > -math.log(chance) else (share, high)
    return high


def poisson(mean: float, chance: float) -> float:
    """The count that is exceeded with no more than this chance; by Cornish and Fisher where there is much to add up."""
    if mean > 100:
        normal = -statistics.NormalDist().inv_cdf(chance)
        return mean + normal * math.sqrt(mean) + (normal**2 - 1) / 6
    count, one = 0, math.exp(-mean)
    left = 1 - one
    while left > chance and count < 1000:
        count += 1
        one *= mean / count
        left -= one
    return float(count)


def populations(values: Sequence[float], nodes_min: int, least_apart: float) -> List[List[int]]:
    """The places of the values, lowest first, by groups: each tight, of at least ``nodes_min``, far from the next."""
    order = sorted(range(len(values)), key=lambda place: (values[place], place))
    return _split(values, order, nodes_min, least_apart)


def _split(values: Sequence[float], order: List[int], nodes_min: int, least_apart: float) -> List[List[int]]:
    gaps: List[Tuple[float, int]] = [
        (values[order[place]] - values[order[place - 1]], place)
        for place in range(nodes_min, len(order) - nodes_min + 1)
    ]
    if not gaps:
        return [order]
    gap, place = max(gaps)
    low, high = order[:place], order[place:]
    ends = [[values[one] for one in half] for half in (low, high)]
    width = max(top - bottom for bottom, top in map(shortest_half, ends)) / data.HALF_WIDTH.value
    if gap <= data.GROUP_GAP.value * width or statistics.median(ends[1]) - statistics.median(ends[0]) <= least_apart:
        return [order]
    return _split(values, low, nodes_min, least_apart) + _split(values, high, nodes_min, least_apart)
