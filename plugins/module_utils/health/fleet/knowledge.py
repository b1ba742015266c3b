# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of nodes by the tests of the past, and what that saves of the tests to come.

A part of a good set is good; a set with a bad part is bad. A set that was ever bad is bad: a fault that comes and goes
is a fault.
"""

from __future__ import annotations

import collections
from typing import Dict, FrozenSet, List, Optional, Sequence, Set

from .search_types import Round


class Knowledge:
    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._good_runs: Dict[FrozenSet[str], int] = collections.defaultdict(int)
        self._bad: Set[FrozenSet[str]] = set()
        self._good: List[FrozenSet[str]] = []
        self._good_nodes: Set[str] = set()
        self.convicted: Set[str] = set()

    def learn(self, tested: Round) -> None:
        for one in tested:
            if one.good:
                self._good_runs[one.members] += 1
            else:
                self._bad.add(one.members)
        self._good = [one for one, runs in self._good_runs.items() if runs >= self._runs and one not in self._bad]
        self._good_nodes = set().union(*self._good)

    @property
    def good_sets(self) -> Sequence[FrozenSet[str]]:
        return self._good

    @property
    def good_nodes(self) -> Set[str]:
        return self._good_nodes - self.convicted

    def tested(self, nodes: FrozenSet[str]) -> bool:
        return nodes in self._good_runs or nodes in self._bad

    def bad_with(self, node: str) -> Set[str]:
        """The partners with whom one node alone was bad."""
        return set().union(*(one for one in self._bad if len(one) == 2 and node in one)) - {node}

    def good(self, nodes: FrozenSet[str]) -> Optional[bool]:
        """None: it is not known."""
        if any(nodes <= one for one in self._good):
            return True
        if any(one <= nodes for one in self._bad):
            return False
        return None
