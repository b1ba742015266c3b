# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches of validate_nodes in simulated fleets of known truth: wrong accusations, missed nodes, tests. All seeded.

One process; `--times` searches a row (docs/health_fleet.md has those of 100), fewer for fleets above 64 nodes.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / ".collections"),
    os.path.join(str(ROOT), "tests/unit/plugins/module_utils/health/fleet"),
]

from simulated_fleet import Fleet, falling, missed, numbered, searched, some_slow, wrongly  # noqa: E402

HEAD = "| fleet | pass | fail | unknown | wrong accusation | missed | tests | rounds |\n" + "| --- " * 8 + "|"


def row(name: str, times: int, make: Callable[[random.Random], Fleet], **options: object) -> None:
    outcomes: Counter[str] = Counter()
    tests, rounds = [], []
    for seed in range(times):
        fleet = make(random.Random(10_000 + seed))
        state = searched(fleet, seed, **options)  # type: ignore[arg-type]
        outcomes[state.outcome] += 1
        outcomes["wrong"] += wrongly(fleet, state)
        outcomes["missed"] += missed(fleet, state)
        tests.append(state.conclusion.tests)
        rounds.append(state.conclusion.rounds)
    share = ["{0:.1f} %".format(100 * outcomes[key] / times) for key in ("pass", "fail", "unknown", "wrong", "missed")]
    print(
        "| {0} | {1} | {2:.0f} | {3:.0f} |".format(name, " | ".join(share), sum(tests) / times, sum(rounds) / times),
        flush=True,
    )


def now_and_then(times: int, runs: int) -> None:
    """A node of 64 that comes to half of its figure in 30 % of its runs."""
    told: Counter[str] = Counter()
    tests = 0
    for seed in range(times):
        ill = random.Random(10_000 + seed).randrange(64)
        state = searched(Fleet(64, now_and_then=((ill, 0.3),), noise=0.01), seed, runs=runs)
        found, name = state.conclusion, "n{0:04d}".format(ill)
        tests += found.tests
        failed = any(not one.good and name in one.nodes for tested in state.rounds for one in tested)
        told["named"] += name in found.nodes
        told["suspect"] += any(name in some for some in (*found.unsteady, *found.unresolved))
        told["pair"] += any(name in pair.one + pair.other for pair in found.pairs)
        told["unseen"] += not failed
        told["well"] += failed and ill in numbered(found.proven)
    shares = ["{0:.0f} %".format(100 * told[key] / times) for key in ("named", "pair", "suspect", "unseen", "well")]
    print("| {0} | {1} | {2:.0f} |".format(runs, " | ".join(shares), tests / times), flush=True)


def scattered(times: int, noise: float) -> None:
    print("\nNo limit is given; noise of a run {0:.0%}.\n\n".format(noise) + HEAD)
    for count in (2, 3, 4, 5, 6, 8, 9, 16, 64, 256):
        often = max(1, times // 20) if count > 64 else times
        row("{0}, healthy".format(count), often, lambda chance, count=count: Fleet(count, noise=noise))
        row(
            "{0}, one at -20 %".format(count),
            often,
            lambda chance, count=count: Fleet(count, some_slow(count, 1, 0.8, chance), noise=noise),
        )


def half_bad(times: int) -> None:
    print("\nNo limit; half of the nodes at -20 %; noise 3 %.\n\n" + HEAD)
    for count in range(6, 18):
        row(
            "{0} of {1}".format(count // 2, count),
            times,
            lambda chance, count=count: Fleet(count, some_slow(count, count // 2, 0.8, chance), noise=0.03),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--first", action="store_true", help="only the tables of scatter and of half of the nodes bad")
    arguments = parser.parse_known_args()[0]
    times, few = arguments.times, max(1, arguments.times // 20)
    small, some = (2, 3, 4, 5), (6, 8, 16, 64)
    for noise in (0.05, 0.08):
        scattered(times, noise)
    half_bad(times)
    if arguments.first:
        return
    print("\nA limit of 89 for 100 GB/s; noise 5 %.\n\n" + HEAD)
    for count in (*small, *some):
        row("{0}, healthy".format(count), times, lambda chance, count=count: Fleet(count, noise=0.05), busbw_min=89.0)
        row(
            "{0}, one at -20 %".format(count),
            times,
            lambda chance, count=count: Fleet(count, some_slow(count, 1, 0.8, chance), noise=0.05),
            busbw_min=89.0,
        )
    print("\nNo limit; nodes at half of the figure; noise 1 %.\n\n" + HEAD)
    for count in small:
        row(
            "{0}, one".format(count),
            times,
            lambda chance, count=count: Fleet(count, some_slow(count, 1, 0.5, chance), noise=0.01),
        )
    for percent in (10, 30, 35, 40, 50):
        row(
            "64, {0} %".format(percent),
            max(1, times // 2),
            lambda chance, bad=percent * 64 // 100: Fleet(64, some_slow(64, bad, 0.5, chance), noise=0.01),
        )
    print("\nNo limit; 100, 70, 58, 40 GB/s for 2, 4, 8, 64 nodes; noise 2 %.\n\n" + HEAD)
    for count in some:
        row("{0}, healthy".format(count), times, lambda chance, count=count: Fleet(count, noise=0.02, healthy=falling))
        row(
            "{0}, a bad pair".format(count),
            max(1, times // 2),
            lambda chance, count=count: Fleet(
                count, pairs=((*chance.sample(range(count), 2), 0.5),), noise=0.02, healthy=falling
            ),
        )  # type: ignore[arg-type]
    for first in (0, 5, 40):
        row(
            "64, leaf {0}-{1}".format(first, first + 15),
            few,
            lambda chance, first=first: Fleet(
                64, leaf=frozenset(range(first, first + 16)), noise=0.02, healthy=falling
            ),
        )
    print("\nOne of 64 fails in 30 % of its runs; noise 1 %.\n")
    print(
        "| runs | named | in a pair | suspect | never failed | failed, said to do well | tests |\n" + "| --- " * 7 + "|"
    )
    for runs in (1, 3):
        now_and_then(max(1, times // 2), runs)


if __name__ == "__main__":
    main()
