# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU sends to other GPUs, and whether what it receives is what another one sent."""

from __future__ import annotations

import struct

from .cuda import Device

_SAMPLE = 2**20


class Contents:
    """Two buffers of ``size`` bytes in the memory of one device. ``number`` decides what it sends."""

    def __init__(self, device: Device, size: int, number: int) -> None:
        self._device, self._size = device, size
        self.sent, self.received = device.memory(size), device.memory(size)
        device.fill(self.sent, _word(number), size // 4)

    def clear(self) -> None:
        """Let nothing that arrived before pass for what arrives next."""
        self._device.fill(self.received, 0, self._size // 4)

    def changed(self, source: int) -> str:
        """How what was received differs from what device ``source`` sends, or ""."""
        length = min(_SAMPLE, self._size)
        for start in {0, (self._size - length) // 8 * 4, self._size - length}:
            found = self._device.read(self.received + start, length)
            wanted = struct.pack("<I", _word(source)) * (length // 4)
            if found != wanted:
                places = [place for place in range(length) if found[place] != wanted[place]]
                text = "{0} of {1} bytes that were read back differ, the first at byte {2}"
                return text.format(len(places), length, start + places[0])
        return ""


def _word(number: int) -> int:
    """Another one for each device, with as many bits set as cleared in most places: Knuth's multiplicative hash."""
    return (number + 1) * 2654435761 % 2**32
