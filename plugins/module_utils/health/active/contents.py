# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU sends to other GPUs, and whether what it receives is what another one sent."""

from __future__ import annotations

import struct
from typing import List, Sequence

from .cuda import Device
from .memory_kernels import MemoryKernels, Pattern
from .ptx import memory

_SAMPLE = 2**20


class Contents:
    """Two buffers of ``size`` bytes (a multiple of 16) in the memory of one device: what it sends, which depends on
    the place and on ``number``, and what it receives. The device itself writes and compares all of it.

    :raises PtxRefused: the driver does not accept the kernels; :class:`Sample` needs none.
    """

    def __init__(self, device: Device, size: int, number: int) -> None:
        self._device, self._words = device, size // memory.WORD_BYTES
        self._kernels = MemoryKernels(device)
        self.sent, self.received = device.memory(size), device.memory(size)
        self._kernels.launch(self.sent, size, None, _pattern(number))
        device.wait()

    def clear(self) -> None:
        """Remove what was received before, so that it does not pass for what arrives next."""
        self._device.fill(self.received, 0, self._words * memory.WORD_BYTES // 4)

    def changed(self, source: int) -> str:
        """How what was received differs from what device ``source`` sends, or ""."""
        self._kernels.clear()
        self._kernels.launch(self.received, self._words * memory.WORD_BYTES, _pattern(source), None)
        count, found = self._kernels.report()
        if not count:
            return ""
        text = "{0} of {1} words of 16 bytes differ, the first that was recorded at byte {2:#x}"
        return text.format(count, self._words, min(one.place for one in found) * memory.WORD_BYTES)


def _pattern(number: int) -> Pattern:
    """What device ``number`` sends; seed 0 would be the place alone."""
    return Pattern(number + 1, 0)


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
