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
    0.02, "own choice: aimed at, so that no more than one healthy fleet in twenty has one (tests/bench/outliers.py)"
)
HALF_WIDTH = Figure(1.349, "the middle half of a normal distribution is so many deviations wide")
SHORTEST_HALF_REACH = Figure(
    1.75, "own choice: so many widths of the shortest half beyond its ends are three deviations of the middle"
)
TAIL_SHAPE = Figure(0.2, "that of Student's distribution with 5 degrees of freedom; own choice: tails are no heavier")
GROUP_GAP = Figure(3, "own choice, tests/bench/outliers.py: two groups are so many deviations apart, with none between")
# Nodes that are as alike as two clocks are not outliers for a millionth.
SHARE_OF_MEDIAN = Figure(
    0.01,
    "Azure's ai-infrastructure-on-azure warns 3.5 % below what is usual in a fleet (GEMM): 3.5 times 1 %",
)
NODES_FEW = Figure(32, "own choice: of so many, 30 % are at least NODES_MIN in 98 of 100 fleets (binomial)")
SHARE_OF_MEDIAN_FEW = Figure(
    0.02, "own choice: among few nodes one or two of another firmware, 5 % off, cannot be told from bad ones"
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
FASTEST = Figure(
    0.1,
    "own choice: what a tenth of the pairs reaches is where the search for the usual figure begins; half of the "
    "nodes bad leave a quarter of the pairs good",
)
TOGETHER = Figure(0.25, "own choice: 64 healthy nodes come to 40 of the 100 GB/s of two (nccl-tests issues 169, 196)")
FAST_BY_CHANCE = Figure(0.05, "own choice: of 32 pairs one may be much faster than the others")
NOISE = Figure(5.0, "own choice: a few runs tell the deviation to a third of it, so 5 of them are 3.5 at least")
NEAR_LIMIT = Figure(
    2.0, "own choice: one healthy run in 40 is short of a limit that is so many deviations below the middle"
)
SCATTER_MOST = Figure(0.1, "own choice: with more a node at half of its figure could not be named, by NOISE")
STEADY = Figure(0.05, "own choice: of runs that scatter by so much one in 70 is short by chance")
COMPARED_MIN = Figure(6, "own choice: in 5 nodes with 3 slow ones one pair of ten is good")
