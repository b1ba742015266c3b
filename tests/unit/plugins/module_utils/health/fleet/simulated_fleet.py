# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet whose truth is known, searched by the code that searches real ones; only NCCL's tests are computed.

The figure of a set is that of a healthy set of its size, times the worst share of a member or of a pair in it, times
one draw of noise for the run.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Callable, Dict, FrozenSet, List, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import judge, launch, validate
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.search_types import Settings

# GB/s of growing sets: two nodes may exceed what the NICs carry (NVIDIA/nccl-tests issues 169 and 196). In between by
# the logarithm of the size.
BY_SIZE = ((2, 100.0), (4, 70.0), (8, 58.0), (64, 40.0))


def flat(size: int) -> float:
    return 100.0


def falling(size: int) -> float:
    for (less, upper), (more, lower) in zip(BY_SIZE, BY_SIZE[1:]):
        if size <= more:
            return upper + (lower - upper) * math.log(size / less) / math.log(more / less)
    return BY_SIZE[-1][1]


@dataclasses.dataclass(frozen=True)
class Fleet:
    """``slow``: share of the healthy figure by node. ``pairs``: share by two nodes. ``leaf``: these with all others
    reach ``leaf_share``. ``now_and_then``: by node, the chance that a run with it comes to ``failing`` of the figure.
    ``noise``: relative standard deviation of one run. ``healthy``: GB/s by the number of nodes."""

    count: int
    slow: Tuple[Tuple[int, float], ...] = ()
    pairs: Tuple[Tuple[int, int, float], ...] = ()
    leaf: FrozenSet[int] = frozenset()
    leaf_share: float = 0.5
    now_and_then: Tuple[Tuple[int, float], ...] = ()
    failing: float = 0.5
    noise: float = 0.0
    healthy: Callable[[int], float] = flat

    @property
    def nodes(self) -> Tuple[str, ...]:
        return tuple("n{0:04d}".format(number) for number in range(self.count))

    def run(self, nodes: Tuple[str, ...], chance: random.Random) -> judge.Ran:
        numbers = {int(node[1:]) for node in nodes}
        shares = [1.0]
        shares += [share for node, share in self.slow if node in numbers]
        shares += [share for one, other, share in self.pairs if {one, other} <= numbers]
        shares += [self.failing for node, often in self.now_and_then if node in numbers and chance.random() < often]
        if self.leaf & numbers and numbers - self.leaf:
            shares.append(self.leaf_share)
        noise = max(chance.gauss(1.0, self.noise), 0.1)
        return judge.Ran(nodes, self.healthy(len(numbers)) * min(shares) * noise, "", 60.0)


def numbered(nodes: Tuple[str, ...]) -> List[int]:
    return [int(node[1:]) for node in nodes]


def searched(fleet: Fleet, seed: int, rounds_max: int = 60, **options: object) -> validate.Validation:
    chance = random.Random(seed)
    known: Dict[str, object] = dict(options)
    settings = Settings(
        pairwise=bool(known.pop("pairwise", True)), runs=int(str(known.pop("runs", 1))), rounds_max=rounds_max
    )
    desired = validate.Desired(fleet.nodes, launch.Launcher(("true",)), settings, **known)  # type: ignore[arg-type]
    rounds: List[Tuple[judge.Ran, ...]] = []
    while True:
        state = validate.standing(desired, rounds)
        if not state.due:
            return state
        rounds.append(tuple(fleet.run(nodes, chance) for nodes in state.due))


def wrongly(fleet: Fleet, state: validate.Validation) -> bool:
    """Somebody is named of whom nothing is true: a healthy node, or two that are healthy together and each."""
    ill = {node for node, dummy in (*fleet.slow, *fleet.now_and_then)}
    found = state.conclusion
    if set(numbered(found.nodes)) - ill:
        return True
    for pair in found.pairs:
        one, other = set(numbered(pair.one)), set(numbered(pair.other))
        between = any({a, b} <= one | other and len({a, b} & one) == 1 for a, b, dummy in fleet.pairs)
        leaf = (one <= fleet.leaf and not other & fleet.leaf) or (other <= fleet.leaf and not one & fleet.leaf)
        if not (between or (fleet.leaf and leaf) or (one | other) & ill):
            return True
    return any(not (set(numbered(some)) & ill or fleet.pairs or fleet.leaf) for some in found.together)


def missed(fleet: Fleet, state: validate.Validation) -> bool:
    """A slow node is said to do well, or the fleet passes with it."""
    ill = {node for node, dummy in fleet.slow}
    return bool(ill) and (state.outcome == "pass" or bool(ill & set(numbered(state.conclusion.proven))))


def some_slow(count: int, bad: int, share: float, chance: random.Random) -> Tuple[Tuple[int, float], ...]:
    """``bad`` nodes, drawn by ``chance``, at ``share`` of the figure."""
    return tuple((node, share) for node in sorted(chance.sample(range(count), bad)))
