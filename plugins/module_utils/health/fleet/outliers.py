# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd one out: nodes of a kind held against each other, figure by figure, even when all are within their limits.

A figure that a node has of several parts (GPUs, ports, disks) is compared part by part, and by the best of each node:
a node is slow as a whole when even its best part is. Parts that cannot be told to be those of the other nodes are
compared by the worst of each node. Many nodes that are odd in the same way are one group: a kind of their own, within
which the odd one out is looked for again. Pure.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from typing import Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..data.figures import unit_of
from ..types import Certainty, Finding, Outcome, Remedy
from . import data
from .samples import Sample
from .spread import Spread, counted, least, limit, middle, populations, share_at_most


@dataclasses.dataclass(frozen=True)
class Outlier:
    """``key`` names the part of the node, empty for the node as a whole; ``nodes`` were compared, all of its kind or
    those of its ``group``. ``parts``: the value is the best of so many."""

    node: str
    kind: str
    name: str
    key: str
    value: float
    spread: Spread
    nodes: int
    parts: int = 1
    group: bool = False

    @property
    def excess(self) -> float:
        """How many times as far away as it may be."""
        return abs(self.value - self.spread.median) / (self.spread.distance or 1.0)

    def finding(self, labels: Optional[Mapping[str, str]] = None) -> Finding:
        """``labels``: what people call the parts of this node, by key."""
        away, unit = self.value - self.spread.median, (" " + unit_of(self.name)).rstrip()
        part = " to ".join((labels or {}).get(one, one) for one in self.key.split(">"))
        how = "above" if away > 0 else "below"
        share = " ({0:.0f} %)".format(100 * abs(away / self.spread.median)) if self.spread.median else ""
        return Finding(
            outcome=Outcome.WARN,
            thing=self.name + (" of " + part if part else ""),
            reason="{0:.4g}{9}{1} is {2:.4g}{9}{3} {4} the median of {5}{6} nodes of type {7}; "
            "up to {8:.2g}{9} is usual".format(
                self.value,
                ", the best of its {0} parts,".format(self.parts) if self.parts > 1 else "",
                abs(away),
                share,
                how,
                "its group of " if self.group else "",
                self.nodes,
                self.kind,
                self.spread.distance or 0.0,
                unit,
            ),
            remedy="compare this node with another before a long job, and replace the part if it stays so",
            action=Remedy.LOOK,
            certainty=Certainty.LIKELY,
            key=self.key,
            code=self.name,
        )


@dataclasses.dataclass(frozen=True)
class Group:
    """``members`` have the ``median``, the others, so many, the ``usual``. ``split``: what else these nodes differ in,
    empty where nothing is known."""

    kind: str
    name: str
    members: Tuple[str, ...]
    median: float
    others: int
    usual: float
    split: str

    def finding(self) -> Finding:
        return Finding(
            outcome=Outcome.WARN,
            thing=self.name,
            reason=self.reason,
            remedy="compare one node of the group with one of the others (firmware, settings, cooling, cabling)",
            action=Remedy.LOOK,
            certainty=Certainty.LIKELY,
            code=self.name,
        )

    @property
    def reason(self) -> str:
        away = self.median - self.usual
        share = " ({0:.0f} %)".format(100 * abs(away / self.usual)) if self.usual else ""
        return "{0} nodes of type {1} are a group at {2:.4g}{8}, {3:.4g}{8}{4} {5} the {6} others{7}".format(
            len(self.members),
            self.kind,
            self.median,
            abs(away),
            share,
            "above" if away > 0 else "below",
            self.others,
            "; " + self.split if self.split else "",
            (" " + unit_of(self.name)).rstrip(),
        )


@dataclasses.dataclass(frozen=True)
class Distribution:
    """One figure over the nodes of a kind, all parts together, with what may be drawn of it. ``values`` is sorted;
    ``low`` and ``high``: the 5th and the 95th percentile; ``nodes``: how many have the figure."""

    kind: str
    name: str
    better: str
    values: Tuple[float, ...]
    median: float
    outliers: Tuple[Outlier, ...]
    low: float = 0.0
    high: float = 0.0
    nodes: int = 0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """``alone``: kinds with too few nodes to compare, and how many they have."""

    outliers: Tuple[Outlier, ...]
    groups: Tuple[Group, ...]
    distributions: Tuple[Distribution, ...]
    alone: Mapping[str, int]


# (node, key, value), one a node.
_Series = Sequence[Tuple[str, str, float]]


@dataclasses.dataclass(frozen=True)
class _Pool:
    """Series of one figure that are compared each by itself, and tell together how far apart healthy ones are.
    ``judged``: the nodes that may be named. ``parts``: each value is the best of so many."""

    first: Sample
    series: Sequence[_Series]
    judged: Set[str]
    better: str
    parts: int = 1


def compare(
    samples: Sequence[Sample],
    nodes_min: int = int(data.NODES_MIN.value),
    traits: Optional[Mapping[str, Mapping[str, str]]] = None,
) -> Comparison:
    """The outliers, furthest first; the order of the samples means nothing. ``traits``: what is known of a node, by
    what it is about; they tell what splits a group from the others."""
    members: Dict[str, Set[str]] = collections.defaultdict(set)
    figures: Dict[Tuple[str, str], List[Sample]] = collections.defaultdict(list)
    for sample in sorted(
        samples, key=lambda one: (one.kind, one.name, one.better, one.counter, one.node, one.key, one.value)
    ):
        members[sample.kind].add(sample.node)
        # How much traffic a port has seen says nothing of its health.
        if sample.better or not sample.counter:
            figures[sample.kind, sample.name].append(sample)
    pools = {name: _pools(found, nodes_min) for name, found in figures.items()}
    # The sides of all figures share the false alarms. The best part of each node spends next to nothing of them.
    tests = sum(1 if one.better else 2 for found in pools.values() for one in found if one.parts == 1)
    outliers: List[Outlier] = []
    groups: List[Group] = []
    distributions: List[Distribution] = []
    for name in sorted(pools):
        found: List[Outlier] = []
        told: Set[str] = set()
        main = next((pool for pool in pools[name] if pool.parts == 1), None)
        for pool in pools[name]:
            kinds = _kinds(pool, nodes_min)
            if pool is main:
                groups += _groups(pool, kinds, traits or {})
            new = _outliers(pool, kinds, data.FALSE_ALARMS.value / tests)
            found += [one for one in new if one.node not in told]
            told |= {one.node for one in new if one.parts > 1}
        found.sort(key=_order)
        outliers += found
        distributions.append(_distribution(figures[name], found))
    alone = {kind: len(nodes) for kind, nodes in sorted(members.items()) if len(nodes) < nodes_min}
    return Comparison(tuple(sorted(outliers, key=_order)), tuple(groups), tuple(distributions), alone)


def _order(one: Outlier) -> Tuple[float, str, str, str]:
    return (-one.excess, one.node, one.name, one.key)


def _unit(first: Sample) -> str:
    return first.name.rsplit("_", 1)[-1]


def _kinds(pool: _Pool, nodes_min: int) -> List[List[str]]:
    """The nodes by groups, lowest first. A node lies where most of its parts do."""
    first = pool.first
    away: Dict[str, List[float]] = collections.defaultdict(list)
    medians = []
    for series in pool.series:
        median = statistics.median([value for _node, _key, value in series])
        medians.append(median)
        for node, _key, value in series:
            away[node].append(value - median)
    nodes = sorted(away)
    if counted(_unit(first), first.counter):
        return [nodes]
    floor = least(statistics.median(medians), _unit(first), first.counter, len(nodes), 1.0)
    found = populations([statistics.median(away[node]) for node in nodes], nodes_min, floor)
    return [[nodes[place] for place in places] for places in found]


def _groups(pool: _Pool, kinds: Sequence[List[str]], traits: Mapping[str, Mapping[str, str]]) -> List[Group]:
    """All groups but the best one; but the largest, where nothing says which is the best."""
    usual = {"higher": len(kinds) - 1, "lower": 0}.get(
        pool.better, max(range(len(kinds)), key=lambda place: len(kinds[place]))
    )
    others = set(kinds[usual])
    values: Dict[str, List[float]] = collections.defaultdict(list)
    for series in pool.series:
        for node, _key, value in series:
            values[node].append(value)

    def median(nodes: Sequence[str]) -> float:
        return statistics.median([value for node in nodes for value in values[node]])

    return [
        Group(
            pool.first.kind,
            pool.first.name,
            tuple(nodes),
            median(nodes),
            len(others),
            median(kinds[usual]),
            _split(set(nodes), others, traits),
        )
        for place, nodes in enumerate(kinds)
        if place != usual
    ]


def _split(group: Set[str], others: Set[str], traits: Mapping[str, Mapping[str, str]]) -> str:
    """The trait that all of the group have, and none of the others."""
    for name in sorted({name for node in group for name in traits.get(node, {})}):
        here = {traits.get(node, {}).get(name, "") for node in group}
        there = {traits.get(node, {}).get(name, "") for node in others}
        if len(here) == 1 and len(there) == 1 and here != there and all((*here, *there)):
            return "these have {0}: {1}, the others: {2}".format(name, *here, *there)
    return ""


def _outliers(pool: _Pool, kinds: Sequence[List[str]], false_alarms: float) -> List[Outlier]:
    first, unit = pool.first, _unit(pool.first)
    kind_of = {node: number for number, nodes in enumerate(kinds) for node in nodes}
    # (node, key, value, median, least)
    away: List[Tuple[str, str, float, float, float]] = []
    group = len(kinds) > 1
    comparisons = sum(map(len, pool.series)) / false_alarms
    for series in pool.series:
        cells: Dict[int, List[Tuple[str, str, float]]] = collections.defaultdict(list)
        for one in series:
            cells[kind_of[one[0]]].append(one)
        for cell in cells.values():
            values = [value for _node, _key, value in cell]
            median = statistics.median(values) if counted(unit, first.counter) else middle(values)
            # As many false alarms may come of a mean that is larger than its zeros tell.
            nonzero = share_at_most(sum(map(bool, values)), len(values), len(values) / comparisons)
            floor = least(median, unit, first.counter, len(kind_of), comparisons, nonzero)
            away += [(node, key, value, median, floor) for node, key, value in cell]
    found = []
    never = min((one[4] for one in away), default=0.0)
    for sign in {"higher": (-1.0,), "lower": (1.0,)}.get(pool.better, (-1.0, 1.0)):
        far = limit([sign * (one[2] - one[3]) for one in away], len(kind_of), false_alarms, never)
        for node, key, value, median, floor in away:
            distance = max(far, floor)
            if node in pool.judged and 0 < distance < sign * (value - median) and distance < math.inf:
                found.append(
                    Outlier(
                        node,
                        first.kind,
                        first.name,
                        key,
                        value,
                        Spread(median, distance),
                        len(kinds[kind_of[node]]),
                        pool.parts,
                        group,
                    )
                )
    return found


def _pools(samples: Sequence[Sample], nodes_min: int) -> List[_Pool]:
    first = samples[0]
    nodes = {sample.node for sample in samples}
    if len(nodes) < nodes_min:
        return []
    parts = [series for series in _parts(samples) if len(series) >= nodes_min]
    left = nodes - {node for series in parts for node, _key, _value in series}
    ends = {"higher": ("higher",), "lower": ("lower",)}.get(first.better, ("higher", "lower"))
    by_node = _by_node(samples)
    answer = []
    if len(parts) > 1:
        whole = {node: found for node, found in by_node.items() if len(found) == len(parts)}
        for better in ends:
            choose = max if better == "higher" else min
            best = [(node, "", choose(found.values())) for node, found in whole.items()]
            answer += [_Pool(first, [best], nodes, better, len(parts))] if len(best) >= nodes_min else []
    if parts:
        answer.append(_Pool(first, parts, nodes, first.better))
    if left:
        for better in ends:
            choose = min if better == "higher" else max
            worst = [
                (node, min(key for key in found if found[key] == value), value)
                for node, found in by_node.items()
                for value in [choose(found.values())]
            ]
            answer.append(_Pool(first, [worst], left, better))
    return answer


def _parts(samples: Sequence[Sample]) -> List[_Series]:
    """By key where enough nodes know the same keys (addresses on machines of a kind), otherwise (serial numbers) by
    the place in the order of a node's keys, among the nodes that have the usual number of parts."""
    by_node = _by_node(samples)
    if max(len(found) for found in by_node.values()) < 2:
        return [[(sample.node, sample.key, sample.value) for sample in samples]]
    known = collections.Counter(sample.key for sample in samples)
    usual_count = _most_common([len(found) for found in by_node.values()])
    shared = [key for key, count in known.items() if 2 * count > len(by_node)]
    places: Dict[str, List[Tuple[str, str, float]]] = collections.defaultdict(list)
    for node, found in by_node.items():
        for place, key in enumerate(sorted(found)):
            if shared:
                places[key].append((node, key, found[key]))
            elif len(found) == usual_count:
                places[str(place)].append((node, key, found[key]))
    return [values for _place, values in sorted(places.items())]


def _by_node(samples: Sequence[Sample]) -> Dict[str, Dict[str, float]]:
    by_node: Dict[str, Dict[str, float]] = collections.defaultdict(dict)
    for sample in samples:
        by_node[sample.node][sample.key] = sample.value
    return by_node


def _most_common(counts: Sequence[int]) -> int:
    return min(collections.Counter(counts).items(), key=lambda item: (-item[1], item[0]))[0]


def _distribution(samples: Sequence[Sample], outliers: Sequence[Outlier]) -> Distribution:
    values = tuple(sorted(sample.value for sample in samples))
    first = samples[0]
    return Distribution(
        first.kind,
        first.name,
        first.better,
        values,
        statistics.median(values),
        tuple(outliers),
        percentile(values, 0.05),
        percentile(values, 0.95),
        len({sample.node for sample in samples}),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """By the nearest rank: always one of the values, of which there is at least one."""
    return ordered[min(max(math.ceil(share * len(ordered)) - 1, 0), len(ordered) - 1)]
