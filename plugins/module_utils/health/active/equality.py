# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the results and the times of multiprocessors that did the same work. Pure.

A launch returns some 70,000 checksums: equal ones are compared as one block of bytes, never one by one.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from .readings import FEWEST_SIBLINGS

LINE = 128  # bytes: the checksums of the 32 lanes of a warp


@dataclasses.dataclass(frozen=True)
class Split:
    """``common``: the result of more than half of the warps; None: there is no majority. ``odd``: multiprocessors with
    a warp that has another result, in order; empty without a majority."""

    common: Optional[bytes]
    odd: Tuple[int, ...] = ()


def split(sums: bytes, multiprocessors: Sequence[int]) -> Split:
    """``sums``: :data:`LINE` bytes for each warp; ``multiprocessors``: the number of the SM that ran it."""
    first = sums[:LINE]
    if sums == first * len(multiprocessors):
        return Split(first)
    lines = [sums[start : start + LINE] for start in range(0, len(sums), LINE)]
    common, warps = collections.Counter(lines).most_common(1)[0]
    if 2 * warps <= len(lines):
        return Split(None)
    return Split(common, tuple(sorted({sm for line, sm in zip(lines, multiprocessors) if line != common})))


def relative_times(multiprocessors: Sequence[int], nanoseconds: Sequence[int]) -> Dict[int, float]:
    """How long each SM took, the last of its warps, in relation to the median SM of this launch.

    Within one launch, because all its SMs see the same clock changes. Empty: not all had the same number of warps, so
    the work was not equal, or the clock shows no time.
    """
    if len(set(collections.Counter(multiprocessors).values())) != 1:
        return {}
    slowest: Dict[int, int] = {}
    for sm, time in zip(multiprocessors, nanoseconds):
        if time > slowest.get(sm, -1):
            slowest[sm] = time
    middle = statistics.median(slowest.values())
    return {sm: time / middle for sm, time in slowest.items()} if middle > 0 else {}


def usual_times(launches: Sequence[Mapping[int, float]]) -> Dict[int, float]:
    """The median over launches of :func:`relative_times`, for each SM that ran in more than half of them."""
    times: Dict[int, List[float]] = {}
    for launch in launches:
        for sm, time in launch.items():
            times.setdefault(sm, []).append(time)
    return {sm: statistics.median(one) for sm, one in times.items() if 2 * len(one) > len(launches)}


def odd_gpus(results: Mapping[str, bytes]) -> Optional[Tuple[str, ...]]:
    """The GPUs whose result differs from the majority, by their key.

    None: some differ, and no majority of three or more GPUs shows which ones are wrong.
    """
    if len(set(results.values())) <= 1:
        return ()
    common, gpus = collections.Counter(results.values()).most_common(1)[0]
    if gpus < FEWEST_SIBLINGS or 2 * gpus <= len(results):
        return None
    return tuple(key for key, result in results.items() if result != common)
