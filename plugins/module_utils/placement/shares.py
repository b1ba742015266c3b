# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Divide the cores of one NUMA node among its ranks: evenly, and without a cache that serves two ranks half each."""

from __future__ import annotations

import itertools
from typing import List, Optional, Sequence, Tuple

from .machine import Core

Cores = Tuple[Core, ...]

# A fair share gives up at most a quarter of its cores to stay clear of another rank's level-3 cache: on HB176 (caches
# of 8 and of 6 cores) 24 ranks take 6 cores and a cache each, not 7 cores and a piece of the next cache.
_KEEP = (3, 4)


def divide(cores: Sequence[Core], ranks: int, need: Optional[int], at_least: int = 1) -> Optional[List[Cores]]:
    """Cores for each rank, or None when there are too few.

    ``need`` is the number of cores a rank; None gives each as many as all can have, and ``at_least`` so many.
    """
    most = len(cores) // ranks
    if most < max(need or 0, at_least):
        return None
    if need is None:
        clear = clear_share(cores, ranks, most)
        need = clear if clear >= at_least and clear * _KEEP[1] >= most * _KEEP[0] else most
    stretches = _stretches(cores, need)
    if sum(room for dummy, room in stretches) < ranks:
        return [tuple(cores[rank * need : (rank + 1) * need]) for rank in range(ranks)]
    counts = [0] * len(stretches)
    for _dummy in range(ranks):
        # The stretch that would be filled least, the first of equals.
        open_ones = [place for place, (dummy, room) in enumerate(stretches) if counts[place] < room]
        counts[min(open_ones, key=lambda place: ((counts[place] + 1) / stretches[place][1], place))] += 1
    return [
        tuple(stretch[rank * need : (rank + 1) * need])
        for (stretch, dummy), count in zip(stretches, counts)
        for rank in range(count)
    ]


def clear_share(cores: Sequence[Core], ranks: int, most: int) -> int:
    """The largest number of cores a rank, up to ``most``, with which no rank crosses into another's cache; 0: none."""
    for need in range(most, 0, -1):
        if sum(room for dummy, room in _stretches(cores, need)) >= ranks:
            return need
    return 0


def is_clear(cores: Sequence[Core], ranks: int, need: int) -> bool:
    return sum(room for dummy, room in _stretches(cores, need)) >= ranks


def _stretches(cores: Sequence[Core], need: int) -> List[Tuple[Cores, int]]:
    """Caches that hold one rank or more, and runs of smaller caches that together hold one; each with its room."""
    found: List[Tuple[Cores, int]] = []
    run: Cores = ()
    for _dummy, group in itertools.groupby(cores, key=lambda core: core.l3):
        cache = tuple(group)
        if len(cache) >= need:
            found.append((cache, len(cache) // need))
            run = ()
            continue
        run += cache
        if len(run) >= need:
            found.append((run, 1))
            run = ()
    return found
