# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the bad node or the bad pair by halving. A deterministic machine: the same history gives the same next tests.

    next_tests(nodes, rounds)  -> the sets to test now, side by side; empty when the search is over
    conclude(nodes, rounds)    -> what is known

Every procedure below is a generator that yields what it wants to know (a list of :class:`Ask`) or procedures that go on
side by side (:class:`_Fork`). Whoever drives it appends a round of results and asks again; a round may have the results
of a part of the sets only, the others are asked for again.

Nobody is named by one test. A set is bad by the majority of its runs. A node is named when it is bad with two others
that are good, with its neighbours too where these are good, and does well with nobody. Two
nodes are a bad pair when each of them does well with another a second time and the two together are bad a second time.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, FrozenSet, Generator, Iterable, List, Optional, Sequence, Set, Tuple, Union

from .arrange import EACH_WITH_EACH, Ask, across_halves, apart, arrange, first_pairs, like_halves, remember, waiting
from .knowledge import Knowledge
from .search_types import Conclusion, Nodes, Pair, Round, Settings

DEFAULT = Settings()
# From so many bad pairs across the halves on they are told as two groups.
_GROUP = 3
# So many nodes are tested each with each, to find the two that make all sets fall short that they share.
_SHARED = 16
# So many good partners more is a node tried with that falls short by no more than noise explains.
_WITNESSES_MORE = 4


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
        # Two nodes have one test, and one good run may be chance.
        self.knowledge = Knowledge(max(2, settings.runs) if len(nodes) == 2 else settings.runs)
        self.due: Tuple[Nodes, ...] = ()
        self._rounds = 0
        self._pairs: List[Pair] = []
        self._unresolved: List[Nodes] = []
        self._together: List[Nodes] = []
        self._task = _Task(self._whole_search())
        self._go_on()

    def replay(self, rounds: Sequence[Round]) -> "_Search":
        for tested in rounds:
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
        unsteady = self._unsteady()
        suspects = set().union(*unsteady)
        aside = suspects.union(*self._together, *(pair.one + pair.other for pair in self._pairs))
        good = sorted((one - aside for one in self.knowledge.good_sets), key=lambda one: (-len(one), sorted(one)))
        told = self.knowledge.convicted.union(self.knowledge.good_nodes, suspects, *self._unresolved)
        return Conclusion(
            done=self._task.ended,
            nodes=self._ordered(self.knowledge.convicted),
            pairs=tuple(self._pairs),
            unresolved=tuple(self._unresolved),
            together=tuple(self._together),
            unsteady=tuple(one for one in unsteady if not self._only_short(one)),
            unproven=tuple(node for node in self.nodes if node not in told),
            proven=self._ordered(good[0]) if good and len(good[0]) > 1 else (),
            tests=sum(len(one) for one in rounds),
            rounds=len(rounds),
        )

    def _unsteady(self) -> Tuple[Nodes, ...]:
        """The smallest sets that were clearly bad in some run, and hold nobody and nothing that is named."""
        found: List[FrozenSet[str]] = []
        for some in sorted((one for one, runs in self.knowledge.runs.items() if runs.clear), key=len):
            explained = (
                some & self.knowledge.convicted
                or any(some & set(pair.one) and some & set(pair.other) for pair in self._pairs)
                or any(some >= set(nodes) for nodes in (*self._unresolved, *self._together))
            )
            if not explained and not any(one <= some for one in found):
                found.append(some)
        return tuple(self._ordered(some) for some in found)

    def _only_short(self, some: Nodes) -> bool:
        """It did well in no run, and is told with a set of which nobody is known to do well."""
        within = any(set(some) <= set(nodes) for nodes in self._unresolved)
        return within and not self.knowledge.runs[frozenset(some)].good

    def _ordered(self, nodes: Any) -> Nodes:
        return tuple(node for node in self.nodes if node in nodes)

    # Procedures ---------------------------------------------------------------------------------------

    def _whole_search(self) -> _Procedure:
        """Pairs; then all, and as long as they fall short together: find out why, leave that out."""
        if self.settings.pairwise and len(self.nodes) > 2:
            yield from self._by_pairs()
        while True:
            rest = self._rest()
            if len(rest) < 2:
                return
            whole = Ask(rest)
            yield [whole]
            if whole.good and not self.settings.alike:
                return
            yield from self._by_like_halves(rest) if whole.good else self._halve(rest, False)
            if self._rest() == rest:
                return

    def _rest(self) -> Nodes:
        """All but who is to blame. Of a bad pair one side stays; of two groups none, since it is not known how far they
        reach."""
        out: Set[str] = set(self.knowledge.convicted)
        for pair in self._pairs:
            if len(pair.one) > 1 and len(pair.other) > 1:
                out |= set(pair.one + pair.other)
            elif not (out & set(pair.one)):
                out |= set(pair.other)
        for some in self._unresolved:
            out |= set(some)
        return tuple(node for node in self.nodes if node not in out)

    def _by_pairs(self) -> _Procedure:
        asks = [Ask(pair) for group in first_pairs(self.nodes, self.settings.alike) for pair in group]
        yield list(asks)
        if not any(ask.good for ask in asks):  # nothing is good enough to test the others with
            self._unresolved.append(self.nodes)
            return
        yield _Fork([self._accuse(ask.nodes) for ask in asks if not ask.good])
        yield _Fork([self._with_a_second(node) for node in self.nodes])
        self._join_groups()
        yield _Fork([self._recurring(node) for node in self.nodes])

    def _by_like_halves(self, rest: Nodes) -> _Procedure:
        """Sets of half the nodes are held against each other; what all those that fall short share is looked at."""
        if len(rest) <= EACH_WITH_EACH:
            return  # each was tested with each
        halves = like_halves(rest)
        asks = [Ask(half, measured=True) for half in halves]
        yield list(asks)
        tested = [some for some in self.knowledge.runs if len(some) == 2]
        alone = [Ask(pair, measured=True) for pair in apart(rest, [*halves, *tested])]
        yield list(alone)
        yield _Fork([self._accuse(ask.nodes) for ask in alone if ask.good is False])
        if self._rest() != rest:
            return
        again = [Ask(ask.nodes, second=True) for ask in asks if not ask.good]
        yield list(again)
        short = [ask.members for ask in again if ask.good is False and self._clear([ask.members])]
        if not short:
            return
        common = self._ordered(frozenset.intersection(*short))
        if 2 <= len(common) <= _SHARED:
            pairs = [Ask(pair, measured=True) for pair in itertools.combinations(common, 2)]
            yield list(pairs)
            yield _Fork([self._accuse(ask.nodes) for ask in pairs if ask.good is False])
            if self._rest() != rest:
                return
        self._together.extend([common] if len(common) > 1 else [self._ordered(one) for one in short])

    def _recurring(self, node: str) -> _Procedure:
        """A node of two bad pairs, though another did well with it: one more decides."""
        pairs = [pair for pair in self._pairs if (node,) in (pair.one, pair.other)]
        if len(pairs) < 2:
            return
        ask = Ask((node,), avoid=self._tested_with(node))
        yield [ask]
        if ask.good is False and self._clear(frozenset(pair.one + pair.other) for pair in pairs):
            self.knowledge.convicted.add(node)
            self._pairs = [pair for pair in self._pairs if pair not in pairs]

    def _tested_with(self, node: str) -> FrozenSet[str]:
        return frozenset().union(*(some for some in self.knowledge.runs if node in some and len(some) == 2))

    def _with_a_second(self, node: str) -> _Procedure:
        """A node that is not named does well with two others."""
        if node in self._blamed() or len(self.knowledge.good_with(node)) > 1:
            return
        ask = Ask((node,), avoid=self._tested_with(node))
        yield [ask]
        if ask.good is False and ask.partner:
            yield from self._accuse((node, ask.partner))

    def _join_groups(self) -> None:
        """Many bad pairs across the halves are two groups of nodes."""
        across = [pair for pair in across_halves(self.nodes) if Pair(pair[:1], pair[1:]) in self._pairs]
        if len(across) < _GROUP:
            return
        group = Pair(tuple(pair[0] for pair in across), tuple(pair[1] for pair in across))
        self._pairs = [group, *(one for one in self._pairs if one.one + one.other not in across)]

    def _halve(self, nodes: Nodes, second: bool) -> _Procedure:
        """``nodes`` fall short together."""
        if len(nodes) == 2:
            yield from self._accuse(nodes)
            return
        lower, upper = (Ask(half, second=second) for half in _halves(nodes))
        if not upper.lone:
            yield [lower, upper]
        else:
            yield [lower]
            yield from self._lone(upper.nodes[0])
            upper.answer(upper.nodes[0] not in self._blamed())
        branches = []
        if lower.good is False:
            branches.append(self._halve(lower.nodes, second))
        if upper.good is False and not upper.lone:
            branches.append(self._halve(upper.nodes, second))
        if lower.good and upper.good:
            branches.append(self._between(lower.nodes, upper.nodes, second))
        yield _Fork(branches)

    def _between(self, first: Nodes, other: Nodes, second: bool) -> _Procedure:
        """Each of the two is good, and together they fall short: some of the one with some of the other."""
        if len(first) == len(other) == 1:
            yield from self._accuse(first + other)
            return
        quarters = [(a, b, Ask(a + b, second=second)) for a, b in _crosswise(_halves(first), _halves(other))]
        yield [ask for dummy, dummy, ask in quarters]
        bad = [(a, b) for a, b, ask in quarters if not ask.good]
        if not bad:
            again = Ask(first + other, second=True)
            yield [again]
            if again.good:
                return
            if second:
                self._together.append(first + other)
            else:
                yield from self._halve(first + other, True)
        elif len(bad) == 4:
            again = Ask(first + other, second=True)
            yield [again]
            if not again.good:
                self._pairs.append(Pair(first, other))
        else:
            yield _Fork([self._between(a, b, second) for a, b in bad])

    def _accuse(self, pair: Nodes) -> _Procedure:
        """Two nodes fall short together: the one, the other, both, or only together."""
        if self._settled(pair):
            return
        strangers = [node for node in pair if not self._others(node, pair)]
        asks = [Ask((node,), avoid=frozenset(pair)) for node in strangers]
        yield list(asks)
        for ask in asks:
            if ask.good is False:
                (mate,) = set(pair) - set(ask.nodes)
                yield from self._name(ask.nodes[0], (mate, ask.partner or mate))
        if self._settled(pair):
            return
        if any(not self._others(node, pair) for node in pair):
            self._unresolved.append(pair)
            return
        # Each does well with another: is that so, and do the two fall short once more?
        known = [(node, self._others(node, pair)[0]) for node in pair]
        asks = [Ask(one, second=True) for one in known]
        yield list(asks)
        for ask in asks:
            if not ask.good:
                yield from self._accuse(ask.nodes)
        if self._settled(pair):
            return
        again = Ask(pair, second=True)
        yield [again]
        runs = self.knowledge.runs[frozenset(pair)]
        # What also does well is no pair; it is told as unsteady.
        if again.good or (runs.clear and runs.good) or self._settled(pair):
            return
        if self._clear([frozenset(pair)]):
            self._pairs.append(Pair(pair[:1], pair[1:]))
        else:
            self._unresolved.append(pair)

    def _name(self, node: str, bad_with: Nodes) -> _Procedure:
        """It is bad with these, and good with nobody yet: it is the node, unless a neighbour says otherwise."""
        place = self.nodes.index(node)
        near = [
            Ask((node, other))
            for other in self.nodes[max(place - 1, 0) : place] + self.nodes[place + 1 : place + 2]
            if other in self.knowledge.good_nodes and other not in bad_with
        ]
        yield list(near)
        for time in range(_WITNESSES_MORE + 1):
            proof = self.knowledge.bad_with(node) & self.knowledge.good_nodes
            if self.knowledge.good_with(node):
                return
            if len(proof) > 1 and self._clear([frozenset((node, other)) for other in proof]):
                self.knowledge.convicted.add(node)
                return
            if time < _WITNESSES_MORE:
                yield [Ask((node,), avoid=self._tested_with(node) | frozenset(bad_with))]

    def _clear(self, sets: Iterable[FrozenSet[str]]) -> bool:
        """By a limit that is far from what the runs reach, or by more than they scatter."""
        return self.settings.firm or self.knowledge.beyond_noise(sets)

    def _lone(self, node: str) -> _Procedure:
        """One node that has no half of its own, with a good one."""
        ask = Ask((node,))
        yield [ask]
        if ask.good is False and ask.partner:
            yield from self._accuse((node, ask.partner))

    def _others(self, node: str, pair: Nodes) -> Nodes:
        return tuple(sorted(self.knowledge.good_with(node) - set(pair)))

    def _settled(self, pair: Nodes) -> bool:
        """Named in some way already, or one of them is, or the two do well after all."""
        known = Pair(pair[:1], pair[1:]) in self._pairs or Pair(pair[1:], pair[:1]) in self._pairs
        good = self.knowledge.standing(frozenset(pair)) is True
        return known or good or pair in self._unresolved or bool(set(pair) & self.knowledge.convicted)

    def _blamed(self) -> Set[str]:
        pairs = (pair.one + pair.other for pair in self._pairs)
        return self.knowledge.convicted.union(*self._unresolved, *pairs)


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
