# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The odd one out: nodes of a kind held against each other, figure by figure, even when all are within their limits.

A figure that a node has of several parts (GPUs, ports, disks) is compared part by part, and by the worst of a node.
Pure.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Dict, List, Mapping, Sequence, Set, Tuple

from ..types import Certainty, Finding, Outcome, Remedy
from . import data
from .samples import Sample
from .spread import Spread, spread


@dataclasses.dataclass(frozen=True)
class Outlier:
    """``key`` names the part of the node, empty for the node as a whole; ``nodes`` were compared."""

    node: str
    kind: str
    name: str
    key: str
    value: float
    spread: Spread
    nodes: int

    @property
    def excess(self) -> float:
        """How many times as far away as it may be."""
        return abs(self.value - self.spread.median) / (self.spread.distance or 1.0)

    def finding(self) -> Finding:
        away = self.value - self.spread.median
        how = "above" if away > 0 else "below"
        share = " ({0:.0f} %)".format(100 * abs(away / self.spread.median)) if self.spread.median else ""
        return Finding(
            outcome=Outcome.WARN,
            thing=self.name + (" of " + self.key if self.key else ""),
            reason="{0:.4g} is {1:.4g}{2} {3} the median of {4} nodes of type {5}, which differ up to {6:.2g}".format(
                self.value, abs(away), share, how, self.nodes, self.kind, self.spread.distance or 0.0
            ),
            remedy="compare this node with another before a long job, and replace the part if it stays so",
            action=Remedy.LOOK,
            certainty=Certainty.LIKELY,
            key=self.key,
            code=self.name,
        )


@dataclasses.dataclass(frozen=True)
class Distribution:
    """One figure over the nodes of a kind, all parts together, with what may be drawn of it."""

    kind: str
    name: str
    better: str
    values: Tuple[float, ...]
    median: float
    outliers: Tuple[Outlier, ...]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """``alone``: kinds with too few nodes to compare, and how many they have."""

    outliers: Tuple[Outlier, ...]
    distributions: Tuple[Distribution, ...]
    alone: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class _Series:
    """One value a node: (node, key, value)."""

    first: Sample
    values: Tuple[Tuple[str, str, float], ...]


def compare(samples: Sequence[Sample], nodes_min: int = int(data.NODES_MIN.value)) -> Comparison:
    """The outliers, furthest first; the order of the samples means nothing."""
    members: Dict[str, Set[str]] = collections.defaultdict(set)
    figures: Dict[Tuple[str, str], List[Sample]] = collections.defaultdict(list)
    for sample in sorted(
        samples, key=lambda one: (one.kind, one.name, one.better, one.counter, one.node, one.key, one.value)
    ):
        members[sample.kind].add(sample.node)
        # How much traffic a port has seen says nothing of its health.
        if sample.better or not sample.counter:
            figures[sample.kind, sample.name].append(sample)
    series = {
        name: ([one for one in _parts(found) if len(one.values) >= nodes_min], _worst(found))
        for name, found in figures.items()
    }
    comparisons = sum(len(one.values) for parts, worst in series.values() for one in parts + worst)
    outliers: List[Outlier] = []
    distributions: List[Distribution] = []
    for name in sorted(series):
        parts, worst = series[name]
        found = _outliers(parts, nodes_min, comparisons)
        told = {one.node for one in found}
        found += [one for one in _outliers(worst, nodes_min, comparisons) if one.node not in told]
        found.sort(key=_order)
        outliers += found
        distributions.append(_distribution(figures[name], found))
    alone = {kind: len(nodes) for kind, nodes in sorted(members.items()) if len(nodes) < nodes_min}
    return Comparison(tuple(sorted(outliers, key=_order)), tuple(distributions), alone)


def _order(one: Outlier) -> Tuple[float, str, str, str]:
    return (-one.excess, one.node, one.name, one.key)


def _outliers(series: Sequence[_Series], nodes_min: int, comparisons: int) -> List[Outlier]:
    found: Dict[Tuple[str, str], Outlier] = {}
    for one in series:
        nodes = len(one.values)
        if nodes < nodes_min:
            continue
        first = one.first
        unit = first.name.rsplit("_", 1)[-1]
        middle = spread([value for dummy, dummy, value in one.values], unit, first.counter, comparisons)
        for node, key, value in one.values:
            if middle.beyond(value, first.better):
                found.setdefault((node, key), Outlier(node, first.kind, first.name, key, value, middle, nodes))
    return list(found.values())


def _parts(samples: Sequence[Sample]) -> List[_Series]:
    """By key where enough nodes know the same keys (addresses on machines of a kind), otherwise (serial numbers) by
    the place in the order of a node's keys, among the nodes that have the usual number of parts."""
    by_node = _by_node(samples)
    if max(len(found) for found in by_node.values()) < 2:
        return []
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
    return [_Series(samples[0], tuple(values)) for dummy, values in sorted(places.items())]


def _worst(samples: Sequence[Sample]) -> List[_Series]:
    """The worst part of each node; both ends where nothing says which is the bad one."""
    better = samples[0].better
    choices = {"higher": (min,), "lower": (max,)}.get(better, (min, max))
    by_node = _by_node(samples)
    answer = []
    for choose in choices:
        values = []
        for node, found in by_node.items():
            value = choose(found.values())
            values.append((node, min(key for key in found if found[key] == value), value))
        answer.append(_Series(samples[0], tuple(values)))
    return answer


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
    return Distribution(first.kind, first.name, first.better, values, values[len(values) // 2], tuple(outliers))
