# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests can run at the same time: a node takes part in one at once, and one node alone gets a partner.

A partner is a node that is known to be good. As long as there is none, those that wait for one are tried with each
other: whatever goes well gives two good nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple

from .knowledge import Knowledge
from .search_types import Nodes, Round

# Partners of unknown health that one node is tried with, before it is left unresolved.
_PARTNERS_MAX = 4


@dataclasses.dataclass
class Ask:
    """A set that is to be tested, or one node with whoever is good (not ``avoid``). ``fresh``: by a new test."""

    nodes: Nodes
    avoid: FrozenSet[str] = frozenset()
    fresh: bool = False
    #: The answer: good, bad, or (``answered`` and None) nobody can tell.
    good: Optional[bool] = None
    answered: bool = False
    #: The partner with whom one node was bad.
    partner: Optional[str] = None
    assigned: Nodes = ()
    good_runs: int = 0
    tried: Set[str] = dataclasses.field(default_factory=set)

    @property
    def members(self) -> FrozenSet[str]:
        return frozenset(self.nodes)

    @property
    def lone(self) -> bool:
        return len(self.nodes) == 1

    def answer(self, good: Optional[bool]) -> None:
        self.good, self.answered = good, True


def remember(ask: Ask, knowledge: Knowledge) -> None:
    """Answer without a test, where that is possible."""
    if ask.lone:
        # Bad with a partner of whom one knows only now that it is good.
        bad_with = (set(ask.tried) if ask.fresh else knowledge.bad_with(ask.nodes[0])) - ask.avoid
        partners = sorted(bad_with & knowledge.good_nodes)
        if partners:
            ask.partner = partners[0]
            ask.answer(False)
        elif not ask.fresh and ask.nodes[0] in knowledge.good_nodes:
            ask.answer(True)
        return
    if ask.fresh:
        return
    known = knowledge.good(ask.members)
    if known is not None:
        ask.answer(known)


def arrange(asks: Sequence[Ask], everybody: Nodes, knowledge: Knowledge) -> Tuple[Nodes, ...]:
    """The sets to test now; each ask is told which is its own."""
    chosen: Dict[FrozenSet[str], Nodes] = {}
    busy: Set[str] = set()

    def take(ask: Ask, nodes: Nodes) -> None:
        ask.assigned = chosen.setdefault(frozenset(nodes), nodes)
        busy.update(nodes)

    for ask in asks:
        ask.assigned = ()
        if not ask.lone and (ask.members in chosen or not ask.members & busy):
            take(ask, ask.nodes)
    lone = [ask for ask in asks if ask.lone]
    good = [node for node in everybody if node in knowledge.good_nodes]
    for ask in lone:
        partner = _first(good, ask, busy)
        if partner and ask.nodes[0] not in busy:
            take(ask, (*ask.nodes, partner))
    if chosen:
        return tuple(chosen.values())
    for ask in lone:
        node = ask.nodes[0]
        waiting = [other.nodes[0] for other in lone if other.nodes[0] != node]
        others = [
            other
            for other in dict.fromkeys([*waiting, *everybody])
            if not knowledge.tested(frozenset((node, other))) and other not in knowledge.convicted
        ]
        partner = _first(others, ask, busy) if len(ask.tried) < _PARTNERS_MAX else None
        if partner and node not in busy:
            take(ask, (node, partner))
            for other_ask in lone:
                if other_ask.nodes[0] == partner and node not in other_ask.avoid:
                    other_ask.assigned = ask.assigned
    return tuple(chosen.values())


def _first(nodes: Iterable[str], ask: Ask, busy: Set[str]) -> Optional[str]:
    unfit = busy | ask.avoid | ask.tried | ask.members
    return next((node for node in nodes if node not in unfit), None)


def hear(asks: Sequence[Ask], tested: Round, knowledge: Knowledge, runs: int) -> None:
    """Give the results to the asks they were arranged for. ``knowledge`` is that from before this round."""
    good_before = knowledge.good_nodes
    results = {one.members: one.good for one in tested}
    for ask in asks:
        good = results.get(frozenset(ask.assigned)) if ask.assigned else None
        if good is None:
            continue
        if good:
            ask.good_runs += 1
            if ask.good_runs >= runs:
                ask.answer(True)
            continue
        ask.good_runs = 0
        if not ask.lone:
            ask.answer(False)
            continue
        partner = next(node for node in ask.assigned if node != ask.nodes[0])
        if partner in good_before:
            ask.partner = partner
            ask.answer(False)
        else:
            ask.tried.add(partner)


def waiting(asks: Iterable[Ask]) -> List[Ask]:
    return [ask for ask in asks if not ask.answered]
