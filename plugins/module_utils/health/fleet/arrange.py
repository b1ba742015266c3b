# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests can run at the same time: a node takes part in one at once, and one node alone gets a partner.

A partner is a node that is known to be good. As long as there is none, those that wait for one are tried with each
other: whatever goes well gives two good nodes.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple

from .knowledge import Knowledge
from .search_types import Nodes

# Partners of unknown health that one node is tried with, before it is left unresolved.
_PARTNERS_MAX = 4
# In so small a fleet each node is tested with each.
EACH_WITH_EACH = 7
# In a smaller fleet neighbours and nodes of the two halves are too few to be compared apart.
_APART = 18


def first_pairs(nodes: Nodes, compared: bool) -> Tuple[Tuple[Nodes, ...], ...]:
    """The pairs that are tested first, in groups whose figures may be compared with each other.

    Neighbours are one group, and the first node with the last, the second with the last but one, and so on, the second.
    Where few nodes are ``compared`` (no figure is given) each is tested with the next two as well: whichever half of
    them is bad, a tenth of the pairs is good (data.FASTEST).
    """
    if len(nodes) <= EACH_WITH_EACH:
        return (tuple(itertools.combinations(nodes, 2)),)
    if compared and len(nodes) < _APART:
        ring = [(node, nodes[(place + step) % len(nodes)]) for step in (1, 2) for place, node in enumerate(nodes)]
        pairs = {frozenset(pair): pair for pair in [*ring, *across_halves(nodes)]}
        return (tuple(pairs.values()),)
    neighbours = tuple(nodes[place : place + 2] for place in range(0, len(nodes) - 1, 2))
    # The two in the middle may be neighbours.
    across = tuple(pair for pair in across_halves(nodes) if pair not in neighbours)
    return (neighbours, across) if len(nodes) >= _APART else (neighbours + across,)


def across_halves(nodes: Nodes) -> Tuple[Nodes, ...]:
    return tuple((nodes[place], nodes[-1 - place]) for place in range(len(nodes) // 2))


def like_halves(nodes: Nodes) -> Tuple[Nodes, ...]:
    """Sets of half of the nodes, of one size or one more: the first half and the second; then of each of these the
    first halves and the second; and so on, down to single nodes. Most pairs of nodes are together in one of them."""
    answer: List[Nodes] = []
    blocks = [nodes]
    while any(len(block) > 1 for block in blocks):
        sides: Tuple[List[str], List[str]] = ([], [])
        halves = []
        for block in blocks:
            # The odd one goes to the smaller side.
            upper = (len(block) + (len(sides[0]) > len(sides[1]))) // 2
            parts = (block[: len(block) - upper], block[len(block) - upper :])
            for side, part in zip(sides, parts):
                side.extend(part)
                halves.append(part)
        answer += [tuple(side) for side in sides]
        blocks = [half for half in halves if half]
    return tuple(answer)


def apart(nodes: Nodes, sets: Iterable[Iterable[str]]) -> Tuple[Nodes, ...]:
    """The pairs that are together in none of the sets."""
    known = {pair for some in sets for pair in itertools.combinations(sorted(some), 2)}
    return tuple(pair for pair in itertools.combinations(nodes, 2) if tuple(sorted(pair)) not in known)


@dataclasses.dataclass
class Ask:
    """A set that is to be tested, or one node with whoever is good (not ``avoid``). ``second``: once more, by a larger
    majority. ``measured``: by its own figure, not by that of a larger set."""

    nodes: Nodes
    avoid: FrozenSet[str] = frozenset()
    second: bool = False
    measured: bool = False
    #: The answer: good, bad, or (``answered`` and None) nobody can tell.
    good: Optional[bool] = None
    answered: bool = False
    #: The partner with whom one node was good or bad, and the one that it is being tested with.
    partner: Optional[str] = None
    trying: Optional[str] = None
    tried: Set[str] = dataclasses.field(default_factory=set)

    @property
    def members(self) -> FrozenSet[str]:
        return frozenset(self.nodes)

    @property
    def lone(self) -> bool:
        return len(self.nodes) == 1

    def answer(self, good: Optional[bool], partner: Optional[str] = None) -> None:
        self.good, self.answered, self.partner = good, True, partner


def remember(ask: Ask, knowledge: Knowledge) -> None:
    """Answer by what is known, where that is enough."""
    if not ask.lone:
        own = ask.second or ask.measured
        known = knowledge.standing(ask.members, ask.second) if own else knowledge.good(ask.members)
        if known is not None:
            ask.answer(known)
        return
    node = ask.nodes[0]
    if ask.trying and knowledge.standing(frozenset((node, ask.trying))) is not None:
        ask.tried.add(ask.trying)
        ask.trying = None
    good = sorted(knowledge.good_with(node) - ask.avoid)
    # Also those of whom one knows only now that they are good.
    bad = sorted((knowledge.bad_with(node) & knowledge.good_nodes) - ask.avoid)
    if good or bad:
        ask.answer(bool(good), (good or bad)[0])


def arrange(asks: Sequence[Ask], everybody: Nodes, knowledge: Knowledge) -> Tuple[Nodes, ...]:
    """The sets to test now; one node alone is told its partner."""
    chosen: Dict[FrozenSet[str], Nodes] = {}
    busy: Set[str] = set()

    def take(nodes: Nodes) -> None:
        chosen.setdefault(frozenset(nodes), nodes)
        busy.update(nodes)

    for ask in asks:
        if not ask.lone and not ask.members & busy:
            take(ask.nodes)
    lone = [ask for ask in asks if ask.lone]
    good = [node for node in everybody if node in knowledge.good_nodes]
    for ask in lone:
        node = ask.nodes[0]
        partner = ask.trying if ask.trying and ask.trying not in busy else None
        if not ask.trying:
            partner = _first(good, ask, busy)
        if partner and node not in busy:
            ask.trying = partner
            take((node, partner))
    if chosen:
        return tuple(chosen.values())
    for ask in lone:
        node = ask.nodes[0]
        waiting_too = [other.nodes[0] for other in lone if other.nodes[0] != node]
        others = [
            other
            for other in dict.fromkeys([*waiting_too, *everybody])
            if other not in knowledge.convicted and frozenset((node, other)) not in knowledge.runs
        ]
        partner = _first(others, ask, busy) if len(ask.tried) < _PARTNERS_MAX else None
        if partner and node not in busy:
            ask.trying = partner
            take((node, partner))
    return tuple(chosen.values())


def _first(nodes: Iterable[str], ask: Ask, busy: Set[str]) -> Optional[str]:
    unfit = busy | ask.avoid | ask.tried | ask.members
    return next((node for node in nodes if node not in unfit), None)


def waiting(asks: Iterable[Ask]) -> List[Ask]:
    return [ask for ask in asks if not ask.answered]
