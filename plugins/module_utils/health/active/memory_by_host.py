# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test the memory of one GPU without a kernel: for a driver that does not accept PTX texts.

Moving inversions at the grain of a chunk: all of it holds one pattern before the first chunk is read, and each chunk
gets the next pattern right after it was read, upwards and downwards in turn. The patterns depend on the address
(:mod:`memory_patterns`). They are made on the host and spread by the copy engines, and the host compares what it copies
back, so this takes some hundred times as long as kernels do. A chunk is several times the L2 cache of the GPU, so the
data that is read comes from the memory.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, List, Tuple

from ...core.resource import NodeError
from . import apart, memory_patterns
from .cuda import Cuda, Device
from .memory_on_gpu import SEED, Tested

_LARGEST_CHUNK = 256 * 2**20
_BLOCK = 4096
_CHUNK_SECONDS = 60.0
PATTERNS = 2 * memory_patterns.PAIRS


def chunk_of(total: int) -> int:
    """The size of a chunk for a GPU with ``total`` bytes: large copies are fast, and small GPUs have chunks, too."""
    return max(_BLOCK, min(_LARGEST_CHUNK, total // 64 // _BLOCK * _BLOCK))


def test(cuda: Cuda, device: Device, seconds: float, most: float, chunk: int, keep_free: int) -> Tested:
    """It ends at the first wrong chunk, and when ``seconds`` are over and each bit was read as 0 and as 1, or after
    ``most`` seconds.

    :raises NodeError: too little memory is free.
    :raises CudaError: a copy failed.
    """
    free, total = device.memory_sizes()
    # The pattern itself is in the memory of the GPU, too: it is written and copied from as the rest is.
    size = memory_patterns.length(chunk, free // chunk)
    if free < size + chunk + keep_free:
        needed = (size + chunk + keep_free) >> 20
        raise NodeError("GPU memory", "less than {0} MiB is free".format(needed), "find what uses it")
    bench = _Bench(cuda, device, size, chunk)
    chunks = [pointer for pointer, dummy in device.all_memory(chunk, chunk, keep_free)]
    begun = time.monotonic()
    patterns = memory_patterns.in_turn(size, SEED)
    written = next(patterns)
    bench.hold(written)
    for place, pointer in enumerate(chunks):
        bench.write(pointer, place)
    right = [0] * PATTERNS  # chunks that were read without an error, of each pattern
    wrong, first = 0, ""
    for turn in range(PATTERNS):
        bench.expect(written)
        following = next(patterns, None)
        if following is not None:
            written = following
            bench.hold(written)
        # In turn: what a cell does to another one shows only where that one was written before it.
        for place in range(len(chunks)) if turn % 2 == 0 else reversed(range(len(chunks))):
            apart.doing("compare pattern {0} of {1} on the host".format(turn + 1, PATTERNS), _CHUNK_SECONDS)
            wrong, first = bench.difference(chunks[place], place)
            right[turn] += not wrong
            spent = time.monotonic() - begun
            if wrong or spent > most or (spent > seconds and _both_ways(right) == len(chunks)):
                break
            if following is not None:
                bench.write(chunks[place], place)
        else:
            continue
        break
    whole = sum(count == len(chunks) for count in right)
    # The pattern and what is kept are no part of what was to be tested.
    memory = len(chunks) * chunk
    return Tested(total, memory, memory, _both_ways(right) * chunk, whole, wrong, first)


def _both_ways(right: List[int]) -> int:
    """The chunks that were right with a pattern and with its inverse."""
    return max(min(right[place : place + 2]) for place in range(0, PATTERNS, 2))


class _Bench:
    """The pattern that is written (on the GPU) and the one that is expected (on the host), each longer than a chunk."""

    def __init__(self, cuda: Cuda, device: Device, size: int, chunk: int) -> None:
        self._device, self._size, self._chunk = device, size, chunk
        self._master = device.memory(size)
        self._expected, self._got = cuda.host_memory(size), cuda.host_memory(size)
        self._compare: Any = ctypes.CDLL(None).memcmp
        self._compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

    def hold(self, pattern: bytes) -> None:
        """Have this one on the GPU, to be written from."""
        ctypes.memmove(self._got, pattern, self._size)
        self._device.copy_to(self._master, self._got, self._size)

    def expect(self, pattern: bytes) -> None:
        ctypes.memmove(self._expected, pattern, self._size)

    def write(self, pointer: int, place: int) -> None:
        self._device.copy_within(pointer, self._master + place * memory_patterns.SHIFT, self._chunk)

    def difference(self, pointer: int, place: int) -> Tuple[int, str]:
        """(how many bytes of this chunk are wrong, the first of them in words)."""
        wanted = self._expected + place * memory_patterns.SHIFT
        self._device.copy_from(self._got, pointer, self._chunk)
        if not self._compare(self._got, wanted, self._chunk):
            return 0, ""
        got = ctypes.string_at(self._got, self._chunk)
        return _difference(got, ctypes.string_at(wanted, self._chunk), place * self._chunk)


def _difference(got: bytes, wanted: bytes, offset: int) -> Tuple[int, str]:
    wrong, first = 0, ""
    for start in range(0, len(got), _BLOCK):
        if got[start : start + _BLOCK] == wanted[start : start + _BLOCK]:
            continue
        for place in range(start, min(start + _BLOCK, len(got))):
            if got[place] != wanted[place]:
                wrong += 1
                first = first or "byte {0:#x} is {1:#04x} instead of {2:#04x}".format(
                    offset + place, got[place], wanted[place]
                )
    return wrong, first
