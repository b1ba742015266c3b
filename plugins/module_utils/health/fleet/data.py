# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of the comparison of nodes, each with its source."""

from __future__ import annotations

import dataclasses
from typing import Mapping


@dataclasses.dataclass(frozen=True)
class Figure:
    value: float
    source: str


# Deviation ------------------------------------------------------------------------------------------------

MAD_TO_DEVIATION = Figure(
    1.4826, "P. J. Rousseeuw and C. Croux, Alternatives to the Median Absolute Deviation, JASA 88 (1993): 1 / 0.6745"
)
MAD_EFFICIENCY = Figure(
    0.37, "the same article: the efficiency of the MAD on normal figures; so many nodes' worth of knowledge is in it"
)
CUTOFF = Figure(
    3.5, "B. Iglewicz and D. Hoaglin, How to Detect and Handle Outliers, ASQC 16 (1993): modified z-score above 3.5"
)
FALSE_ALARMS = Figure(
    0.05, "own choice: one healthy fleet in twenty may have one false outlier, however many nodes and figures it has"
)
SHORTEST_HALF_REACH = Figure(
    1.75,
    "1.5 deviations of the median plus 1.7 more on either side, in widths of the shortest half (1.35 deviations)",
)
TAIL_INDEX = Figure(0.25, "own choice: as heavy a tail as that of Student with 4 degrees, until the fleet shows its own")
TAIL_WEIGHT = Figure(5, "own choice, tests/bench/outliers.py: so many nodes' worth is that belief")
GROUP_GAP = Figure(2.5, "own choice, tests/bench/outliers.py: two groups are so many deviations apart, with none between")
# Nodes that are as alike as two clocks are not outliers for a millionth.
SHARE_OF_MEDIAN = Figure(
    0.01,
    "Azure's ai-infrastructure-on-azure warns 3.5 % below what is usual in a fleet (GEMM): 3.5 times 1 %",
)
NODES_MIN = Figure(5, "own choice: of four nodes with one bad, the median of the deviations says nothing")

# Whole fleets of zeros have no scale of their own. The smallest difference that means something, by unit (the end of a
# figure's name); an outlier is CUTOFF times this away. A unit that is not here is not compared where all is zero.
MEANINGFUL: Mapping[str, Figure] = {
    "celsius": Figure(2.0, "own choice: NVML tells whole degrees, so two steps; an outlier is 7 degrees away"),
    "percent": Figure(1.0, "own choice: NVML tells whole percents"),
    "watts": Figure(5.0, "own choice: what the power of an idle GPU wanders by from one reading to the next"),
    "seconds": Figure(0.01, "own choice: what a busy machine delays any program by"),
    "bytes": Figure(float(1 << 28), "own choice: a quarter of a gibibyte, so that 1 GiB of swap is seen"),
}

# Units of figures that count events, which follow Poisson, also those that begin anew with the driver.
COUNTS = frozenset(("total", "count", "errors", "events", "restarts"))

# Bisection ------------------------------------------------------------------------------------------------

SHARE_OF_PAIRS = Figure(
    400.0 / 450.0,
    "Azure's ai-infrastructure-on-azure: NCCL between H100 nodes about 450 GB/s, to be looked at below 400",
)
