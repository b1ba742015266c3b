# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of sets of nodes, what they came to, and what follows from them."""

from __future__ import annotations

import dataclasses
import math
from typing import FrozenSet, Optional, Tuple

Nodes = Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a test on some nodes together. ``reason`` says what was wrong, empty where it was good.

    ``deviations``: so many of those that runs scatter by below what is usual; infinite without a figure. ``near``: it
    falls short by so little that noise can be the reason.
    """

    nodes: Nodes
    reason: str = ""
    figure: Optional[float] = None
    seconds: float = 0.0
    deviations: float = math.inf
    near: bool = False

    @property
    def good(self) -> bool:
        return not self.reason

    @property
    def members(self) -> FrozenSet[str]:
        return frozenset(self.nodes)


Round = Tuple[Trial, ...]


@dataclasses.dataclass(frozen=True)
class Settings:
    """``pairwise``: every node with two others first. ``runs``: a set is good after so many good runs and no bad one;
    after a bad one the majority counts. ``alike``: nothing says what all must reach together, so halves are compared
    with each other. ``firm``: falling short is enough, whatever the runs scatter by. ``rounds_max`` ends the search,
    whatever was found by then."""

    pairwise: bool = True
    runs: int = 1
    rounds_max: int = 100
    alike: bool = False
    firm: bool = True


@dataclasses.dataclass(frozen=True)
class Pair:
    """These two, or these two groups, fall short together, and are well with others."""

    one: Nodes
    other: Nodes


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """What the tests by now say. ``proven``: the largest set that was good together, without
    suspects and without those of bad pairs.

    ``unresolved``: sets that fall short, of which it cannot be told which node it is. ``together``: sets that fall
    short although each half of them does well, however they are halved. ``unsteady``: sets that fell short in some runs
    by more than noise explains, and did well in others; their nodes are suspects. ``unproven``: nodes that no good test
    had, and that nothing above names.
    """

    done: bool
    nodes: Nodes = ()
    pairs: Tuple[Pair, ...] = ()
    unresolved: Tuple[Nodes, ...] = ()
    together: Tuple[Nodes, ...] = ()
    unsteady: Tuple[Nodes, ...] = ()
    unproven: Nodes = ()
    proven: Nodes = ()
    tests: int = 0
    rounds: int = 0

    @property
    def clean(self) -> bool:
        """All were tested, together, and were good."""
        blamed = self.nodes or self.pairs or self.unresolved or self.together or self.unsteady or self.unproven
        return self.done and not blamed
