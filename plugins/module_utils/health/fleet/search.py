# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the bad node or the bad pair by halving. A deterministic machine: the same history gives the same next tests.

    next_tests(nodes, rounds)  -> the sets to test now, side by side; empty when the search is over
    conclude(nodes, rounds)    -> what is known

Every procedure below is a generator that yields what it wants to know (a list of :class:`Ask`) or procedures that go on
side by side (:class:`_Fork`). Whoever drives it appends a round of results and asks again; a round may have the results
of a part of the sets only, the others are asked for again.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Generator, List, Optional, Sequence, Set, Tuple, Union

from .arrange import Ask, arrange, hear, remember, waiting
from .knowledge import Knowledge
from .search_types import Conclusion, Nodes, Pair, Round, Settings

DEFAULT = Settings()


@dataclasses.dataclass
class _Fork:
    branches: List["_Procedure"]


_Procedure = Generator[Union[List[Ask], _Fork], Any, Any]


def next_tests(nodes: Nodes, rounds: Sequence[Round], settings: Settings = DEFAULT) -> Tuple[Nodes, ...]:
    return _Search(nodes, settings).replay(rounds).due


def conclude(nodes: Nodes, rounds: Sequence[Round], settings: Settings = DEFAULT) -> Conclusion:
    return _Search(nodes, settings).replay(rounds).conclusion(rounds)


class _Search:
    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        self.nodes = nodes
        self.settings = settings
        self.knowledge = Knowledge(settings.runs)
        self.due: Tuple[Nodes, ...] = ()
        self._rounds = 0
        self._pairs: List[Pair] = []
        self._unresolved: List[Nodes] = []
        self._together: List[Nodes] = []
        self._unsteady: List[Nodes] = []
        self._task = _Task(self._whole_search())
        self._go_on()

    def replay(self, rounds: Sequence[Round]) -> "_Search":
        for tested in rounds:
            hear(waiting(self._task.asks()), tested, self.knowledge, self.settings.runs)
            self.knowledge.learn(tested)
            self._rounds += 1
            self._go_on()
        return self

    def _go_on(self) -> None:
        """Up to the next tests, or to the end."""
        while True:
            for ask in waiting(self._task.asks()):
                remember(ask, self.knowledge)
            if self._task.step():
                continue
            asks = waiting(self._task.asks())
            if not asks or self._rounds >= self.settings.rounds_max:
                self.due = ()
                return
            self.due = arrange(asks, self.nodes, self.knowledge)
            if self.due:
                return
            for ask in asks:  # nobody is left to try these with
                ask.answer(None)

    def conclusion(self, rounds: Sequence[Round]) -> Conclusion:
        good = sorted(self.knowledge.good_sets, key=lambda one: (-len(one), sorted(one)))
        told = self.knowledge.convicted.union(self.knowledge.good_nodes, *self._unresolved)
        return Conclusion(
            done=self._task.ended,
            nodes=self._ordered(self.knowledge.convicted),
            pairs=tuple(self._pairs),
            unresolved=tuple(self._unresolved),
            together=tuple(self._together),
            unsteady=tuple(self._unsteady),
            unproven=tuple(node for node in self.nodes if node not in told),
            proven=self._ordered(good[0]) if good else (),
            tests=sum(len(one) for one in rounds),
            rounds=len(rounds),
        )

    def _ordered(self, nodes: Any) -> Nodes:
        return tuple(node for node in self.nodes if node in nodes)

    # Procedures ---------------------------------------------------------------------------------------

    def _whole_search(self) -> _Procedure:
        """Neighbours by pairs; then all, and as long as they fall short together: find out why, leave that out."""
        if self.settings.pairwise and len(self.nodes) > 2:
            yield from self._neighbours()
        fresh = False
        while True:
            rest = self._rest()
            if len(rest) < 2:
                return
            whole = Ask(rest, fresh=fresh)
            yield [whole]
            if whole.good:
                return
            yield from self._halve(rest, fresh)
            if self._rest() != rest:
                fresh = False
                continue
            if fresh or self._together:
                return
            fresh = True

    def _rest(self) -> Nodes:
        """All but who is to blame; of a bad pair one side stays."""
        out: Set[str] = set(self.knowledge.convicted)
        for pair in self._pairs:
            if not (out & set(pair.one)):
                out |= set(pair.other)
        for some in self._unresolved:
            out |= set(some)
        return tuple(node for node in self.nodes if node not in out)

    def _neighbours(self) -> _Procedure:
        asks = [Ask(self.nodes[place : place + 2]) for place in range(0, len(self.nodes) - 1, 2)]
        yield list(asks)
        branches = [self._accuse(ask.nodes, False) for ask in asks if not ask.good]
        if len(self.nodes) % 2:
            branches.append(self._lone(self.nodes[-1]))
        yield _Fork(branches)

    def _halve(self, nodes: Nodes, fresh: bool) -> _Procedure:
        """``nodes`` fall short together."""
        if len(nodes) == 2:
            yield from self._accuse(nodes, fresh)
            return
        middle = (len(nodes) + 1) // 2
        first, second = nodes[:middle], nodes[middle:]
        lower, upper = Ask(first, fresh=fresh), Ask(second, fresh=fresh)
        if len(second) > 1:
            yield [lower, upper]
        else:
            upper.answer(True)
            yield [lower]
            if (yield from self._lone(second[0])):
                upper.answer(False)
        branches = []
        if lower.good is False:
            branches.append(self._halve(first, fresh))
        if upper.good is False and len(second) > 1:
            branches.append(self._halve(second, fresh))
        if lower.good and upper.good:
            branches.append(self._between(first, second))
        yield _Fork(branches)

    def _between(self, first: Nodes, second: Nodes) -> _Procedure:
        """Each of the two is good, and together they fall short: some of the one with some of the other."""
        if len(first) == len(second) == 1:
            yield from self._accuse(first + second, True)
            return
        quarters = [(one, other, Ask(one + other)) for one, other in _crosswise(_halves(first), _halves(second))]
        yield [ask for dummy, dummy, ask in quarters]
        bad = [(one, other) for one, other, ask in quarters if not ask.good]
        if not bad:
            again = Ask(first + second, fresh=True)
            yield [again]
            (self._unsteady if again.good else self._together).append(first + second)
        elif len(bad) == 4:
            self._pairs.append(Pair(first, second))
        else:
            yield _Fork([self._between(one, other) for one, other in bad])

    def _accuse(self, pair: Nodes, fresh: bool) -> _Procedure:
        """Two nodes fall short together: the one, the other, both, or only together."""
        asks = [
            Ask((node,), avoid=frozenset(pair), fresh=fresh) for node in pair if node not in self.knowledge.convicted
        ]
        if len(asks) < 2:
            return
        yield list(asks)
        bad = {ask.nodes[0] for ask in asks if ask.good is False}
        if bad:
            self.knowledge.convicted |= bad
        elif all(ask.good for ask in asks):
            self._pairs.append(Pair(pair[:1], pair[1:]))
        else:
            self._unresolved.append(pair)

    def _lone(self, node: str) -> _Procedure:
        """One node that has no half of its own: with a good one, and when that is bad, with another good one.

        Returns whether there is something to blame."""
        first = Ask((node,))
        yield [first]
        if first.good is not False or first.partner is None:
            return False
        second = Ask((node,), avoid=frozenset((first.partner,)), fresh=True)
        yield [second]
        if second.good is False:
            self.knowledge.convicted.add(node)
        elif second.good:
            self._pairs.append(Pair((first.partner,), (node,)))
        else:
            self._unresolved.append((first.partner, node))
        return True


def _halves(nodes: Nodes) -> Tuple[Nodes, Nodes]:
    middle = (len(nodes) + 1) // 2
    return nodes[:middle], nodes[middle:]


def _crosswise(one: Tuple[Nodes, Nodes], other: Tuple[Nodes, Nodes]) -> List[Tuple[Nodes, Nodes]]:
    """The two that can run side by side come first."""
    order = ((0, 0), (1, 1), (0, 1), (1, 0))
    return [(one[a], other[b]) for a, b in order if one[a] and other[b]]


class _Task:
    """A procedure under way: it waits for its asks or for its branches."""

    def __init__(self, procedure: _Procedure) -> None:
        self._procedure = procedure
        self._asks: List[Ask] = []
        self._branches: List["_Task"] = []
        self.ended = False

    def asks(self) -> List[Ask]:
        found = [] if self.ended else list(self._asks)
        for branch in self._branches:
            found += branch.asks()
        return found

    def step(self) -> bool:
        """Go on as far as the answers allow. True: something moved."""
        if self.ended:
            return False
        steps = [branch.step() for branch in self._branches]  # each of them, also where the first has moved
        if waiting(self._asks) or any(not branch.ended for branch in self._branches):
            return any(steps)
        try:
            wanted: Optional[Union[List[Ask], _Fork]] = next(self._procedure)
        except StopIteration:
            self.ended, self._asks, self._branches = True, [], []
            return True
        if isinstance(wanted, _Fork):
            self._asks, self._branches = [], [_Task(branch) for branch in wanted.branches]
        else:
            self._asks, self._branches = wanted or [], []
        return True
