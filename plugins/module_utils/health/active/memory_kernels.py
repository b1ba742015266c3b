# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernels of :mod:`.ptx.memory` on one device, and their report."""

from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional, Tuple

from .cuda import Argument, Device
from .ptx import memory

# 16 blocks of 256 threads: each multiprocessor has all the threads that it can hold, and the last ones end together.
_BLOCKS = 16


class Pattern(NamedTuple):
    seed: int
    mask: int


class MemoryKernels:
    """:raises PtxRefused: the driver does not accept the kernels."""

    def __init__(self, device: Device) -> None:
        module = memory.text()
        self._device = device
        self._kernels = dict(zip(module.kernels, device.kernels(module.text, module.kernels)))
        self._blocks = _BLOCKS * device.multiprocessors
        self._report = device.memory(memory.REPORT_BYTES)
        self.clear()

    def clear(self) -> None:
        """Empty the report."""
        self._device.fill(self._report, 0, memory.REPORT_BYTES // 4)

    def report(self) -> Tuple[int, List[memory.Mismatch]]:
        """How many words of :data:`memory.WORD_BYTES` bytes were wrong since the last clear(), and the first ones."""
        return memory.report(self._device.read(self._report, memory.REPORT_BYTES))

    def launch(
        self,
        pointer: int,
        size: int,
        wanted: Optional[Pattern],
        written: Optional[Pattern],
        first: int = 0,
        down: bool = False,
    ) -> None:
        """Compare ``size`` bytes with ``wanted``, then write ``written``; None: that is left out. Not waited for.

        ``first``: the place of the first word in the pattern. ``down``: from the last word to the first.
        """
        words = size // memory.WORD_BYTES
        arguments: List[Argument] = [
            ctypes.c_uint64(pointer),
            ctypes.c_uint32(words),
            ctypes.c_uint64(first),
            ctypes.c_uint32(0xFFFFFFFF if down else 0),
        ]
        if wanted is not None:
            arguments += [ctypes.c_uint32(value) for value in wanted] + [ctypes.c_uint64(self._report)]
        if written is not None:
            arguments += [ctypes.c_uint32(value) for value in written]
        name = "write" if wanted is None else "compare" if written is None else "step"
        blocks = min(self._blocks, -(-words // memory.THREADS))
        self._device.launch(self._kernels[name], blocks, memory.THREADS, *arguments)
