# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The middle of some figures and how far from it is too far, whatever the bad ones among them are. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import Optional, Sequence

from . import data


@dataclasses.dataclass(frozen=True)
class Spread:
    """``distance``: further than this from the median is an outlier. None: these figures have no scale."""

    median: float
    distance: Optional[float]

    def beyond(self, value: float, better: str) -> bool:
        """Only the bad side counts, where one is known."""
        if self.distance is None:
            return False
        away = value - self.median
        return (better != "higher" and away > self.distance) or (better != "lower" and -away > self.distance)


def spread(values: Sequence[float], unit: str, counter: bool, comparisons: int) -> Spread:
    """``comparisons``: how many figures are held against a middle in the whole fleet."""
    median = statistics.median(values)
    deviation = data.MAD_TO_DEVIATION.value * statistics.median([abs(value - median) for value in values])
    meaningful = max(data.SHARE_OF_MEDIAN.value * abs(median), _least(median, unit, counter))
    distance = max(cutoff(len(values), comparisons) * deviation, data.CUTOFF.value * meaningful)
    return Spread(median, distance if 0 < distance < math.inf else None)


def cutoff(nodes: int, comparisons: int) -> float:
    """How many deviations are too far: the more is compared the more, and the fewer nodes tell the deviation the more.

    The quantile of Student's distribution with as many degrees of freedom as the MAD is worth, by the expansion of
    Abramowitz and Stegun, 26.7.5.
    """
    normal = -statistics.NormalDist().inv_cdf(data.FALSE_ALARMS.value / max(comparisons, 1))
    freedom = data.MAD_EFFICIENCY.value * max(nodes - 1, 1)
    student = (
        normal
        + (normal**3 + normal) / (4 * freedom)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * freedom**2)
    )
    return max(data.CUTOFF.value, student)


def _least(median: float, unit: str, counter: bool) -> float:
    if counter:
        return math.sqrt(max(abs(median), 1.0))  # Poisson
    known = data.MEANINGFUL.get(unit)
    return known.value if known else 0.0
