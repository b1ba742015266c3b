# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of nodes by the tests of the past, and what that saves of the tests to come.

A part of a good set is good; a set with a bad part is bad. One bad run is never taken alone: the set is run again until
the majority is clear. A set that is asked about a second time needs a larger majority, and its earlier runs count.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import Dict, FrozenSet, Iterable, Optional, Set

from . import data
from .search_types import Round

Members = FrozenSet[str]


@dataclasses.dataclass
class Runs:
    """Runs of one set. ``clear``: bad ones that noise does not explain; ``deviations``: of all, added up."""

    good: int = 0
    bad: int = 0
    clear: int = 0
    deviations: float = 0.0


class Knowledge:
    def __init__(self, runs: int) -> None:
        self._good_least = runs
        self._bad_least = max(2, runs // 2 + 1)
        self.runs: Dict[Members, Runs] = collections.defaultdict(Runs)
        self._bad: Set[Members] = set()
        self._good: Set[Members] = set()
        self._good_nodes: Set[str] = set()
        self._good_with: Dict[str, Set[str]] = collections.defaultdict(set)
        self._bad_with: Dict[str, Set[str]] = collections.defaultdict(set)
        self.convicted: Set[str] = set()

    def learn(self, tested: Round) -> None:
        for one in tested:
            runs = self.runs[one.members]
            runs.good += one.good
            runs.bad += not one.good
            runs.clear += not one.good and not one.near
            runs.deviations += one.deviations
            self._place(one.members, self.standing(one.members))
        self._good_nodes = set().union(*self._good)

    def _place(self, nodes: Members, good: Optional[bool]) -> None:
        for sets, partners, belongs in (
            (self._good, self._good_with, good is True),
            (self._bad, self._bad_with, good is False),
        ):
            if belongs == (nodes in sets):
                continue
            sets ^= {nodes}
            if len(nodes) == 2:
                for node in nodes:
                    partners[node] ^= nodes - {node}

    def standing(self, nodes: Members, second: bool = False) -> Optional[bool]:
        """Good or bad by the majority of its runs; None: more runs are needed."""
        if nodes not in self.runs:
            return None
        runs = self.runs[nodes]
        bad_least = self._bad_least + second
        good_least = self._good_least + second
        if runs.bad > runs.good and runs.bad >= bad_least:
            return False
        if runs.good > runs.bad and runs.good >= (max(good_least, bad_least) if runs.bad else good_least):
            return True
        return None

    def beyond_noise(self, sets: Iterable[Members]) -> bool:
        """All runs of these together are further below what is usual than noise explains (Stouffer: the sum of so many
        deviations has the root of their number for its own)."""
        runs = [self.runs[one] for one in sets]
        count = sum(one.good + one.bad for one in runs)
        return sum(one.deviations for one in runs) > data.NOISE.value * math.sqrt(count)

    @property
    def good_sets(self) -> Set[Members]:
        return self._good

    @property
    def good_nodes(self) -> Set[str]:
        return self._good_nodes - self.convicted

    def good_with(self, node: str) -> Set[str]:
        """Whom it does well with, the two alone."""
        return self._good_with[node] - self.convicted

    def bad_with(self, node: str) -> Set[str]:
        """Whom it falls short with, the two alone."""
        return self._bad_with[node]

    def good(self, nodes: Members) -> Optional[bool]:
        """None: it is not known."""
        if nodes in self.runs:
            return self.standing(nodes)
        if any(nodes <= one for one in self._good):
            return True
        if any(one <= nodes for one in self._bad):
            return False
        return None
