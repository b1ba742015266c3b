# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of commands, timed in turn: A B A B …, so that both meet the same noise. Figures are medians and ratios."""

from __future__ import annotations

import resource
import statistics
import time
from typing import Callable, Dict, List, Tuple


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(ours: Callable[[], object], rival: Callable[[], object], runs: int) -> Tuple[List[float], List[float]]:
    """Times in seconds of both, after one uncounted run of each."""
    ours()
    rival()
    pairs = [(seconds(ours), seconds(rival)) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of the processes that ``work`` starts and waits for, with their children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def cpu_in_turn(ours: Callable[[], object], rival: Callable[[], object], runs: int) -> Tuple[List[float], List[float]]:
    """As :func:`in_turn`, of CPU time."""
    pairs = [(cpu_seconds(ours), cpu_seconds(rival)) for _ in range(runs + 1)][1:]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def row(name: str, ours: List[float], rival: List[float], unit: str = "s") -> str:
    """A row of the table in docs/performance.md: medians, and the median of the ratios pair by pair."""
    ratios = [one / other for one, other in zip(ours, rival)]
    return "| {0} | {1:.2f} {4} | {2:.2f} {4} | {3:.2f} |".format(
        name, statistics.median(ours), statistics.median(rival), statistics.median(ratios), unit
    )


def table(title: str, rows: List[str]) -> None:
    print("\n{0}\n\n| what | ours | rival | ratio |\n| --- | --- | --- | --- |".format(title))
    print("\n".join(rows), flush=True)


def machine() -> Dict[str, str]:
    with open("/proc/cpuinfo", encoding="ascii") as stream:
        lines = [line.partition(":")[2].strip() for line in stream if line.startswith("model name")]
    return {"processor": lines[0] if lines else "unknown", "cores": str(len(lines))}
