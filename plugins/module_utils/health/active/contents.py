# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU sends to other GPUs, and whether what it receives is what another one sent."""

from __future__ import annotations

import ctypes
import struct
from typing import List, Sequence

from .cuda import Device
from .ptx import memory

_SAMPLE = 2**20
# Blocks for each multiprocessor: as many as it can hold.
_BLOCKS = 16


class Contents:
    """Two buffers of ``size`` bytes (a multiple of 16) in the memory of one device: what it sends, which depends on
    the place and on ``number``, and what it receives. The device itself writes and compares all of it.

    :raises PtxRefused: the driver does not accept the kernels; :class:`Sample` needs none.
    """

    def __init__(self, device: Device, size: int, number: int) -> None:
        self._device, self._words = device, size // memory.WORD_BYTES
        module = memory.text()
        self._kernels = dict(zip(module.kernels, device.kernels(module.text, module.kernels)))
        self._blocks = min(_BLOCKS * device.multiprocessors, -(-self._words // memory.THREADS))
        self._report = device.memory(memory.REPORT_BYTES)
        self.sent, self.received = device.memory(size), device.memory(size)
        self._launch("write", self.sent, number)
        device.wait()

    def clear(self) -> None:
        """Remove what was received before, so that it does not pass for what arrives next."""
        self._device.fill(self.received, 0, self._words * memory.WORD_BYTES // 4)

    def changed(self, source: int) -> str:
        """How what was received differs from what device ``source`` sends, or ""."""
        self._device.fill(self._report, 0, memory.REPORT_BYTES // 4)
        self._launch("compare", self.received, source, ctypes.c_uint64(self._report))
        count, found = memory.report(self._device.read(self._report, memory.REPORT_BYTES))
        if not count:
            return ""
        text = "{0} of {1} words of 16 bytes differ, the first that was recorded at byte {2:#x}"
        return text.format(count, self._words, min(one.place for one in found) * memory.WORD_BYTES)

    def _launch(self, kernel: str, pointer: int, number: int, *more: ctypes.c_uint64) -> None:
        chunk = (ctypes.c_uint64(pointer), ctypes.c_uint32(self._words), ctypes.c_uint64(0), ctypes.c_uint32(0))
        pattern = (ctypes.c_uint32(number + 1), ctypes.c_uint32(0))
        self._device.launch(self._kernels[kernel], self._blocks, memory.THREADS, *chunk, *pattern, *more)


class Sample:
    """As :class:`Contents`, without kernels: one word for all of what a device sends, and three pieces are compared."""

    def __init__(self, device: Device, size: int, number: int) -> None:
        self._device, self._size = device, size
        self.sent, self.received = device.memory(size), device.memory(size)
        device.fill(self.sent, _word(number), size // 4)
        device.wait()

    def clear(self) -> None:
        self._device.fill(self.received, 0, self._size // 4)

    def changed(self, source: int) -> str:
        length = min(_SAMPLE, self._size)
        wanted = struct.pack("<I", _word(source)) * (length // 4)
        for start in _starts(self._size, length):
            found = self._device.read(self.received + start, length)
            if found != wanted:
                places = [place for place in range(length) if found[place] != wanted[place]]
                text = "{0} of {1} bytes that were read back differ, the first at byte {2:#x}"
                return text.format(len(places), length, start + places[0])
        return ""


def _starts(size: int, length: int) -> Sequence[int]:
    """Where the first, the middle and the last piece begin."""
    starts: List[int] = sorted({0, (size - length) // 8 * 4, size - length})
    return starts


def _word(number: int) -> int:
    """A different one for each device, with about as many ones as zeros: Knuth's multiplicative hash."""
    return (number + 1) * 2654435761 % 2**32
