# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What whole commands cost beside the least that a Python program can do with NVML, in turn on the same machine."""

from __future__ import annotations

import os
import resource
import statistics
import sys
from typing import Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

RIVAL = "import sys; sys.path.append(sys.argv[1]); import pynvml; pynvml.nvmlInit(); pynvml.nvmlDeviceGetCount()"
# The ratios of CPU time to the rival's that the project allows itself.
LIMITS = {"health --quick": 2.0, "health": 3.5}


class Cost(NamedTuple):
    """Medians of CPU seconds, and of the ratios to the rival, pair by pair."""

    name: str
    cpu_seconds: float
    ratio: float

    def __str__(self) -> str:
        limit = LIMITS.get(self.name)
        note = "" if limit is None or self.ratio <= limit else " (more than {0:g})".format(limit)
        return "{0:<16} CPU {1:.3f} s, {2:.2f} x the rival{3}".format(self.name, self.cpu_seconds, self.ratio, note)


def measured(
    run: Callable[[Sequence[str]], object], command: Sequence[str], rival: Sequence[str], runs: int
) -> List[Cost]:
    """``run`` runs a program to its end. The first round is not counted: it fills the caches of the kernel."""
    cases: Dict[str, List[str]] = {"import, count": list(rival), "--version": [*command, "--version"]}
    cases.update((name, [*command, *name.split()]) for name in ("health --quick", "health", "info", "metrics"))
    times: Dict[str, List[float]] = {name: [] for name in cases}
    for _ in range(runs + 1):
        for name, argv in cases.items():
            times[name].append(_cpu_seconds(run, argv))
    base = times["import, count"][1:]
    return [
        Cost(
            name,
            statistics.median(found[1:]),
            statistics.median(one / max(other, 1e-6) for one, other in zip(found[1:], base)),
        )
        for name, found in times.items()
    ]


def rival(folder: str) -> Tuple[str, ...]:
    """A program that imports the binding in ``folder``, with bytecode there, and counts the GPUs."""
    return (os.path.realpath(sys.executable), "-I", "-c", RIVAL, folder)


def _cpu_seconds(run: Callable[[Sequence[str]], object], argv: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(argv)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def over(costs: Sequence[Cost], limits: Mapping[str, float] = LIMITS) -> List[Cost]:
    return [one for one in costs if one.ratio > limits.get(one.name, float("inf"))]
