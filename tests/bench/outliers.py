# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the comparison of nodes is wrong, on simulated fleets of which the truth is known. Seeded; one process.

First healthy fleets: in how many of them a node is named. Then fleets with bad nodes: how many of these are missed, by
themselves and as a group. All figures of a fleet have the same shape; their deviation (1.4826 MAD) is in percent.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import sys
import time
from pathlib import Path
from typing import Callable, Dict, FrozenSet, List, Set

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.outliers import compare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.samples import Sample

GPUS, FIGURES = 8, 5
POPULATION_SHARE, POPULATION_AWAY = 0.3, 0.05
Draw = Callable[[random.Random], float]


def student(chance: random.Random) -> float:
    """Five degrees of freedom; its upper quarter is at 0.727, that of the normal at 0.674."""
    return chance.gauss(0, 1) / math.sqrt(chance.gammavariate(2.5, 2) / 5) * 0.674 / 0.727


def skewed(chance: random.Random) -> float:
    """Exponential to the bad side; its MAD is 0.481."""
    return -chance.expovariate(1) * 0.674 / 0.481


def poisson(chance: random.Random, rate: float) -> float:
    limit, product, count = math.exp(-rate), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return float(count)


def normal(chance: random.Random) -> float:
    return chance.gauss(0, 1)


DRAWS: Dict[str, Draw] = {"normal": normal, "heavy (t5)": student, "left-skewed": skewed, "two populations": normal}
COUNTED = {"counted (0.5)": 0.5, "counted (0.05)": 0.05}
LOWER_IS_BETTER = (*COUNTED, "uneven counts", "whole degrees")
SHAPES = (*DRAWS, "one of a node", *LOWER_IS_BETTER)


def value(shape: str, chance: random.Random, deviation: float, second: bool, shared: float) -> float:
    if shape in COUNTED:
        return poisson(chance, COUNTED[shape])
    if shape == "uneven counts":
        return poisson(chance, chance.gammavariate(1, 0.5))
    if shape == "whole degrees":
        return float(round(chance.gauss(45, 2)))
    if shape == "one of a node":
        return 100 * (1 + deviation * (0.95 * shared + 0.3 * chance.gauss(0, 1)))
    middle = 100 * (1 - POPULATION_AWAY) if shape == "two populations" and second else 100.0
    return middle * (1 + deviation * DRAWS[shape](chance))


def fleet(shape: str, nodes: int, gpus: int, deviation: float, seed: int) -> List[Sample]:
    chance = random.Random("{0} {1} {2} {3} {4}".format(shape, nodes, gpus, deviation, seed))
    counter, better = "count" in shape, "lower" if shape in LOWER_IS_BETTER else "higher"
    unit = {"whole degrees": "celsius"}.get(shape, "errors" if counter else "gigabytes_per_second")
    answer = []
    for node in range(nodes):
        name = "n{0:05d}".format(node)
        second = chance.random() < POPULATION_SHARE
        for figure in range(FIGURES):
            shared = chance.gauss(0, 1)
            for gpu in range(gpus):
                found = value(shape, chance, deviation, second, shared)
                answer.append(Sample(name, "k", "f{0}_{1}".format(figure, unit), found, "gpu%d" % gpu, counter, better))
    return answer


def bad(samples: List[Sample], nodes: int, count: int, away: float, gpus: int, seed: int) -> FrozenSet[str]:
    """Make the first figure of some nodes worse, on so many of their GPUs; return these nodes."""
    chosen = frozenset("n{0:05d}".format(one) for one in random.Random(seed).sample(range(nodes), count))
    for place, one in enumerate(samples):
        if one.node in chosen and one.name.startswith("f0_") and int(one.key[3:]) < gpus:
            samples[place] = Sample(
                one.node, one.kind, one.name, one.value * (1 - away), one.key, one.counter, one.better
            )
    return chosen


def named(samples: List[Sample]) -> List[Set[str]]:
    """The nodes that are named by themselves, and those that are told as a group."""
    comparison = compare(samples)
    groups = {node for one in getattr(comparison, "groups", ()) for node in one.members}
    return [{one.node for one in comparison.outliers}, groups]


def upper(found: int, count: int) -> float:
    """With 95 % confidence the rate of which ``found`` of ``count`` were seen is below this (Clopper and Pearson)."""
    low, high = found / count, 1.0
    for _step in range(40):
        rate = (low + high) / 2
        seen = sum(math.comb(count, one) * rate**one * (1 - rate) ** (count - one) for one in range(found + 1))
        low, high = (rate, high) if seen > 0.05 else (low, rate)
    return high


def healthy(shapes: List[str], sizes: Dict[int, int], gpus: int, deviation: float) -> None:
    print(
        "\nhealthy fleets in which a node is named, {0} GPUs x {1} figures, deviation {2:.1%}".format(
            gpus, FIGURES, deviation
        )
    )
    print("(in brackets: the rate is below this with 95 % confidence; fleets with a group)\n")
    print("| shape | " + " | ".join("{0} nodes ({1} fleets)".format(*one) for one in sizes.items()) + " |")
    print("| --- |" + " --- |" * len(sizes), flush=True)
    for shape in shapes:
        print("| {0} |".format(shape), end="", flush=True)
        for nodes, count in sizes.items():
            found = [named(fleet(shape, nodes, gpus, deviation, seed)) for seed in range(count)]
            alone, groups = (sum(bool(one[place]) for one in found) for place in (0, 1))
            print(" {0} ({1:.1%}; {2}) |".format(alone, upper(alone, count), groups), end="", flush=True)
        print(flush=True)


def sick(shapes: List[str], sizes: Dict[int, int], gpus: int, deviation: float) -> None:
    print("\nbad nodes that are found, by themselves + in a group, {0} GPUs, deviation {1:.1%}".format(gpus, deviation))
    print("(what is bad is one figure, of all GPUs of a node or of one GPU)\n")
    print("| shape | bad | by | " + " | ".join("{0} nodes ({1} fleets)".format(*one) for one in sizes.items()) + " |")
    print("| --- | --- | --- |" + " --- |" * len(sizes), flush=True)
    for shape in shapes:
        for share, worse in sorted({(0.0, 1), (0.0, gpus), (0.1, gpus), (0.3, gpus), (0.44, gpus)}):
            for away in (0.05, 0.1, 0.2):
                cells = []
                for nodes, count in sizes.items():
                    alone = group = every = 0
                    for seed in range(count):
                        samples = fleet(shape, nodes, gpus, deviation, seed)
                        chosen = bad(samples, nodes, max(int(share * nodes), 1), away, worse, seed)
                        by_itself, together = named(samples)
                        every += len(chosen)
                        alone += len(chosen & by_itself)
                        group += len(chosen & together - by_itself)
                    cells.append("{0:.3f} + {1:.3f}".format(alone / every, group / every))
                what = "{0:.0%}".format(share) if share else "one, {0} GPU{1}".format(worse, "s" if worse > 1 else "")
                print("| {0} | {1} | -{2:.0%} | {3} |".format(shape, what, away, " | ".join(cells)), flush=True)


def cost(sizes: List[int]) -> None:
    print("\n| nodes | figures in all | CPU |\n| --- | --- | --- |")
    gc.enable()
    for nodes in sizes:
        samples = fleet("normal", nodes, GPUS, 0.005, 0)
        started = time.process_time()
        compare(samples)
        print("| {0} | {1} | {2:.2f} s |".format(nodes, len(samples), time.process_time() - started), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="8,64,512,4096", help="how many nodes")
    parser.add_argument("--fleets", default="1000,500,120,60", help="how many fleets of each size; a tenth of it sick")
    parser.add_argument("--deviations", default="0.5", help="percent")
    parser.add_argument("--gpus", default="8", help="parts of a node")
    parser.add_argument("--shapes", help="some of: {0}".format(", ".join(SHAPES)))
    parser.add_argument("--only", choices=("healthy", "sick", "cost"), help="one of the tables")
    arguments = parser.parse_args()
    gc.disable()  # a quarter of the time goes into looking for cycles, and there are none
    fleets = [int(word) for word in arguments.fleets.split(",")]
    sizes = dict(zip([int(word) for word in arguments.sizes.split(",")], fleets))
    gpus = [int(word) for word in arguments.gpus.split(",")]
    deviations = [float(word) / 100 for word in arguments.deviations.split(",")]
    shapes = arguments.shapes.split(",") if arguments.shapes else list(SHAPES)
    # A share of a count is no count.
    shares = [one for one in shapes if one not in LOWER_IS_BETTER]
    for deviation in deviations:
        for parts in gpus:
            if arguments.only in (None, "healthy"):
                healthy(shapes, sizes, parts, deviation)
            if arguments.only in (None, "sick"):
                sick(shares, {nodes: max(count // 10, 3) for nodes, count in sizes.items()}, parts, deviation)
    if arguments.only in (None, "cost"):
        cost(list(sizes))


if __name__ == "__main__":
    main()
