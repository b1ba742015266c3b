# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test all free memory of one GPU with its own kernels: moving inversions over the whole memory.

A round writes the first pattern, then each pass compares one pattern and writes the next one, upwards and downwards in
turn. The six patterns depend on the address (:mod:`.ptx.memory`): own address and two random ones, each followed by its
inverse. So every bit holds a 0 and a 1 and goes up and down, and what is stuck in an address line shows as well as what
is stuck in a cell. Only the report of the kernels is copied to the host. Rounds repeat, with new random patterns, until
the time is over.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import Dict, List, Optional, Sequence, Set, Tuple

from ...core.resource import NodeError
from . import apart
from .cuda import Cuda, Device
from .memory_kernels import MemoryKernels, Pattern
from .ptx import memory

SEED = 20260522
PATTERNS = 6  # of a round
# A pass takes 30 ms on a GPU with HBM, and some 0.3 s on one with GDDR. Far longer than this is a hang.
_PASS_SECONDS = 60.0
_SETUP_SECONDS = 60.0
# For the driver and a display, of all memory.
_KEPT = 256
# The largest and the smallest piece, of all memory: launches cost nothing beside them, and little is left over.
_PIECES, _SMALLEST_PIECES, _LEAST_BITS = 64, 4096, 8
# Half of the cache may be kept for other data, so what was used before twice its size has left it.
_CACHES = 2
# The pass ends the test: the place of each one does not matter any more.
_MANY = 2**20
_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Tested:
    """What was tested of one GPU.

    ``free_bytes`` of ``total_bytes`` were free. ``memory_bytes`` were written to; of ``both_ways_bytes`` every bit was
    read as 0 and as 1. ``patterns`` were read back whole. ``wrong`` reads did not return what was written, ``where``:
    the first places in words. ``gigabytes_per_second``: rate of reads (10^9 bytes); None where the host compared,
    and ``by_host`` is the reason for that.
    """

    total_bytes: int
    free_bytes: int
    memory_bytes: int
    both_ways_bytes: int
    patterns: int
    wrong: int = 0
    where: str = ""
    gigabytes_per_second: Optional[float] = None
    by_host: str = ""


@dataclasses.dataclass(frozen=True)
class Pass:
    """One visit of all memory: ``wanted`` is compared, then ``written`` is written. None: that is left out."""

    title: str
    wanted: Optional[Pattern]
    written: Optional[Pattern]
    down: bool


def passes(number: int) -> Tuple[Pass, ...]:
    """Those of round ``number``, which begins with 0. Pure.

    After the second comparison every bit was read as 0 and as 1. After the fourth, every bit has gone up and down: an
    inversion moves it one way; it moves the other way between the pairs, or, where the two patterns beside that gap
    agree in it, in the second inversion.
    """
    seeds = (memory.OWN_ADDRESS, SEED + 2 * number, SEED + 2 * number + 1)
    patterns = [Pattern(seed, mask) for seed in seeds for mask in (0, memory.INVERTED)]
    found = [Pass("write pattern 1 of {0}".format(PATTERNS), None, patterns[0], False)]
    for turn, wanted in enumerate(patterns):
        title = "compare pattern {0} of {1}".format(turn + 1, PATTERNS)
        # In turn: what a cell does to another one shows only where that one was written before it.
        found.append(Pass(title, wanted, patterns[turn + 1] if turn + 1 < PATTERNS else None, turn % 2 == 1))
    return tuple(found)


def order(sizes: Sequence[int], cache_bytes: int, down: bool) -> List[int]:
    """In which order a pass visits pieces of these sizes, so that it finds nothing of the pass before in the L2 cache.

    Upwards, the first ones were used longest ago. Downwards, the last ones have just been used, so they wait: those
    that fill the cache, and not the memory, come at the end. Pure.
    """
    places = list(range(len(sizes)))
    if not down:
        return places
    waiting = 0
    while waiting < len(sizes) - 1 and sum(sizes[len(sizes) - waiting :]) < _CACHES * cache_bytes:
        waiting += 1
    first = len(sizes) - waiting
    return places[:first][::-1] + places[first:][::-1]


def test(cuda: Cuda, seconds: float, most: float) -> Tested:
    """Test the one device that this process sees. Rounds repeat for ``seconds``; the first one may take ``most``.

    :raises NodeError: too little memory is free.
    :raises PtxRefused: the driver does not accept the kernels.
    :raises CudaError: a kernel failed.
    """
    apart.doing("create a CUDA context", _SETUP_SECONDS)
    cuda.shows(1)
    device = cuda.open(0)
    apart.doing("compile the kernels", _SETUP_SECONDS)
    kernels = MemoryKernels(device)
    apart.doing("allocate its memory", _SETUP_SECONDS)
    free, total = device.memory_sizes()
    bench = _Bench(device, kernels, total)
    started, rates, read, longest, number = time.monotonic(), [], 0, 0.0, 0
    while not bench.wrong and (number == 0 or time.monotonic() + longest < started + seconds):
        began = time.monotonic()
        for one in passes(number):
            if (number == 0 and time.monotonic() > started + most) or bench.wrong > _MANY:
                break
            spent = bench.visit(one)
            read += one.wanted is not None
            if one.written is None:
                rates.append(bench.memory_bytes / spent / 1e9)
        number, longest = number + 1, max(longest, time.monotonic() - began)
    both_ways = bench.memory_bytes if read >= 2 else 0
    rate = statistics.median(rates) if rates else None
    return Tested(total, free, bench.memory_bytes, both_ways, read, bench.wrong, places(bench.mismatches), rate)


class _Bench:
    """All free memory of a device in pieces, and what the kernels reported."""

    def __init__(self, device: Device, kernels: MemoryKernels, total: int) -> None:
        self._device, self._kernels = device, kernels
        # Powers of two, so that the largest is the smallest doubled some times.
        smallest = 1 << max(_LEAST_BITS, (total // _SMALLEST_PIECES).bit_length() - 1)
        largest = smallest * (_SMALLEST_PIECES // _PIECES)
        self._pieces = device.all_memory(largest, smallest, total // _KEPT)
        if not self._pieces:
            raise NodeError("GPU memory", "less than {0} KiB is free".format(smallest >> 10), "find what uses it")
        sizes = [size for dummy, size in self._pieces]
        self._firsts = [sum(sizes[:place]) // memory.WORD_BYTES for place in range(len(sizes))]
        self._orders = {down: order(sizes, device.cache_bytes, down) for down in (False, True)}
        self.memory_bytes, self.wrong = sum(sizes), 0
        self.mismatches: List[memory.Mismatch] = []

    def visit(self, one: Pass) -> float:
        """Make the pass over all pieces; the seconds that it took by the clock of the GPU."""
        apart.doing(one.title, _PASS_SECONDS)
        seconds = self._device.seconds_of(lambda: self._launch(one))
        if one.wanted is not None:
            wrong, mismatches = self._kernels.report()
            if wrong:  # each pass has a whole report for itself
                self.wrong += wrong
                self.mismatches += mismatches
                self._kernels.clear()
        return seconds

    def _launch(self, one: Pass) -> None:
        for place in self._orders[one.down]:
            pointer, size = self._pieces[place]
            self._kernels.launch(pointer, size, one.wanted, one.written, self._firsts[place], one.down)


def places(mismatches: Sequence[memory.Mismatch]) -> str:
    """The first places in words, with what is certain of each one: which bits, or whose data. Pure.

    ``byte 0x2a3f0 bit 3 reads 1; byte 0x2a400 returns the data of byte 0x82a400``. Byte 0 is the first one tested.
    """
    words: Dict[int, List[memory.Mismatch]] = {}
    for one in mismatches:
        words.setdefault(one.place, []).append(one)
    told = [_place(place, found) for place, found in sorted(words.items())[:_SHOWN]]
    return "; ".join(told) + (" and more" if len(words) > _SHOWN else "")


def _place(place: int, found: Sequence[memory.Mismatch]) -> str:
    start = place * memory.WORD_BYTES
    other = _alias(found)
    if other is not None:
        return "byte {0:#x} returns the data of byte {1:#x}".format(start, other * memory.WORD_BYTES)
    bits: Dict[int, Set[int]] = {}
    for one in found:
        for part, (wanted, got) in enumerate(zip(one.wanted, one.got)):
            for bit in range(32):
                if (wanted ^ got) >> bit & 1:
                    bits.setdefault(32 * part + bit, set()).add(got >> bit & 1)
    first = min(bits)
    byte = "byte {0:#x} bit {1}".format(start + first // 8, first % 8)
    if len(bits) > 1:
        return "{0} and {1} more bits of 16 bytes read wrong".format(byte, len(bits) - 1)
    values = bits[first]
    return "{0} reads {1}".format(byte, "wrong" if len(values) > 1 else min(values))


def _alias(found: Sequence[memory.Mismatch]) -> Optional[int]:
    """The word whose data the word of these mismatches returned.

    The own-address pattern names it, but a bad data line can make such a name, too. So it counts only when a random
    pattern confirms it. A cell that two addresses reach may have the next pattern already.
    """
    named = {memory.place_of(one.got, mask) for one in found for mask in (0, memory.INVERTED)} - {-1}
    for other in sorted(named):
        for one in found:
            seeds = [one.seed - 1, one.seed, one.seed + 1] if one.seed != memory.OWN_ADDRESS else []
            for seed in seeds:
                for mask in (0, memory.INVERTED):
                    if memory.pattern(other, seed, mask) == one.got:
                        return other
    return None
