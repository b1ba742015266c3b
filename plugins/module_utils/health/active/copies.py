# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of GPUs, one or several at the same time, by the clocks of the GPUs."""

from __future__ import annotations

import ctypes
import dataclasses
import statistics
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .cuda import Device

# A sample of about 10 ms hides the cost of each request, and a slow link is measured in some 0.1 s.
_SAMPLE_SECONDS, _SAMPLES, _MOST = 0.01, 5, 16
# A small part of the free memory, so that a GPU with little of it can be measured, too.
_SHARE, _UNIT = 64, 4096
_PIECE = 2**20


@dataclasses.dataclass(frozen=True)
class Copy:
    """``call`` with ``arguments`` on the stream of ``device``, ``size`` bytes. ``label`` names it in an error."""

    device: Device
    call: str
    arguments: Tuple[Any, ...]
    size: int
    label: str = ""

    def start(self, count: int) -> None:
        self.device.start()
        for arguments in (self.arguments,) * count:
            self.device.ask(self.call, *arguments)
        self.device.stop()


def size_for(most: int, free_bytes: int) -> int:
    """Bytes of a buffer on a GPU with that much free memory: ``most``, or less where it has little. Pure."""
    return min(most, max(_UNIT, free_bytes // _SHARE // _UNIT * _UNIT))


def seconds(
    copies: Sequence[Copy],
    report: Callable[[str], object] = lambda label: None,
    enough: Optional[Callable[[int], bool]] = None,
) -> List[List[float]]:
    """Samples of the seconds that one copy of each takes while all of them run at the same time, each on a stream of
    its own. ``report`` is called with a label before each call that may hang; ``enough`` with the number of samples.

    :raises CudaError: a copy failed.
    """

    def sample(counts: Sequence[int]) -> List[float]:
        for copy, count in zip(copies, counts):
            report(copy.label)
            copy.start(count)
        answer = []
        for copy, count in zip(copies, counts):
            report(copy.label)
            answer.append(copy.device.elapsed() / count)
        return answer

    counts = [max(1, min(_MOST, round(_SAMPLE_SECONDS / one))) for one in sample([1] * len(copies))]
    sample(counts)  # links and clocks wake up
    samples: List[List[float]] = []
    while not (len(samples) >= _SAMPLES if enough is None else samples and enough(len(samples))):
        samples.append(sample(counts))
    return samples


def rates(copies: Sequence[Copy], samples: Sequence[Sequence[float]]) -> List[float]:
    """Median of each copy in GB/s (10^9). Pure."""
    columns = zip(*samples)
    return [copy.size / statistics.median(column) / 1e9 for copy, column in zip(copies, columns)]


def sum_of_rates(copies: Sequence[Copy], samples: Sequence[Sequence[float]]) -> float:
    """Median in GB/s (10^9) of all copies together, from the first to the last of them. Pure."""
    return sum(copy.size for copy in copies) / statistics.median(max(sample) for sample in samples) / 1e9


def difference(wanted: int, found: int, size: int) -> str:
    """Compare two places of the host's memory (addresses); "" when they are equal, else what differs."""
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    if compare(wanted, found, size) == 0:
        return ""
    wrong, first = 0, None
    for start in range(0, size, _PIECE):
        length = min(_PIECE, size - start)
        one, other = ctypes.string_at(wanted + start, length), ctypes.string_at(found + start, length)
        if one != other:
            places = [place for place in range(length) if one[place] != other[place]]
            first = start + places[0] if first is None else first
            wrong += len(places)
    return "{0} of {1} bytes differ, the first at byte {2}".format(wrong, size, first)
