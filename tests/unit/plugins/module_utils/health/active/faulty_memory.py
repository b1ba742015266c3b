# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU whose memory has a known fault, small and in Python, for the memory test to find.

It has the calls of :class:`cuda.Device` that the test makes. Cells are 32-bit words; a copy writes them one by one
upwards, as the order within a copy is not ours to choose. Host memory is real, since the test compares it with memcmp.
"""

from __future__ import annotations

import ctypes
import functools
import struct

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active.ptx import memory as kernels


class Memory:
    """Sound memory of ``words`` cells. A faulty one is told which cells a place reaches and what a cell makes of a
    value."""

    def __init__(self, words):
        self.cells = [0x5A5A5A5A] * words

    def places(self, word):
        """The cells that answer to an address: one, another one, several, or none."""
        return (word,)

    def write(self, word, value):
        for place in self.places(word):
            self.store(place, value)

    def store(self, place, value):
        self.cells[place] = value

    def read(self, word):
        """What several cells drive onto the lines together is their AND (wired), without one all lines are high."""
        value = 0xFFFFFFFF
        for place in self.places(word):
            value &= self.cells[place]
        return value


class StuckBit(Memory):
    def __init__(self, words, place, bit, state):
        super().__init__(words)
        self.place, self.mask, self.state = place, 1 << bit, state

    def store(self, place, value):
        if place == self.place:
            value = value | self.mask if self.state else value & ~self.mask
        self.cells[place] = value


class NoTransition(Memory):
    """A bit that cannot go up (or down), though it can be the other way from the beginning."""

    def __init__(self, words, place, bit, up):
        super().__init__(words)
        self.place, self.mask, self.up = place, 1 << bit, up

    def store(self, place, value):
        if place == self.place:
            old = self.cells[place] & self.mask
            if (self.up and not old) or (not self.up and old):
                value = (value & ~self.mask) | old
        self.cells[place] = value


class StuckAddressBit(Memory):
    def __init__(self, words, bit, state):
        super().__init__(words)
        self.mask, self.state = 1 << bit, state

    def places(self, word):
        return (word | self.mask if self.state else word & ~self.mask,)


class SharedAddressBits(Memory):
    """Two address lines with a bridge between them: both are the AND of the two."""

    def __init__(self, words, one, other):
        super().__init__(words)
        self.one, self.other = 1 << one, 1 << other

    def places(self, word):
        both = bool(word & self.one) and bool(word & self.other)
        return ((word | self.one | self.other) if both else (word & ~(self.one | self.other)),)


class Aliased(Memory):
    """One address reaches the cell of another one, too (``also``), or instead of its own."""

    def __init__(self, words, place, other, also):
        super().__init__(words)
        self.place, self.other, self.also = place, other, also

    def places(self, word):
        if word != self.place:
            return (word,)
        return (word, self.other) if self.also else (self.other,)


class Coupled(Memory):
    """A bit of one cell that goes up (or down) forces a bit of another cell to a value, or inverts it (None)."""

    def __init__(self, words, aggressor, victim, up, value):
        super().__init__(words)
        (self.aggressor, bit), (self.victim, other) = aggressor, victim
        self.bit, self.other, self.up, self.value = 1 << bit, 1 << other, up, value

    def store(self, place, value):
        old = self.cells[place] if place == self.aggressor else 0
        self.cells[place] = value
        if place != self.aggressor or bool(old & self.bit) == bool(value & self.bit):
            return
        if bool(value & self.bit) == self.up:
            before = self.cells[self.victim]
            wanted = not before & self.other if self.value is None else self.value
            self.cells[self.victim] = before | self.other if wanted else before & ~self.other


class Device:
    """``cuda`` and its one device at once. Addresses are places in bytes; 0 is none."""

    def __init__(self, memory, used=0):
        self.memory_, self.used, self.kept = memory, used, []

    def shows(self, count):
        assert count == 1

    def count(self):
        return 1

    def open(self, index):
        assert index == 0
        return self

    def memory_sizes(self):
        total = len(self.memory_.cells) * 4
        return total - self.used, total

    def memory(self, size):
        start = self.used
        self.used += -(-size // 4) * 4
        return 2**40 + start

    def all_memory(self, largest, smallest, keep_free):
        pieces = []
        while largest >= smallest:
            while self.memory_sizes()[0] >= largest + keep_free:
                pieces.append((self.memory(largest), largest))
            largest //= 2
        return pieces

    def host_memory(self, size):
        self.kept.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.kept[-1])

    def copy_to(self, pointer, host, size):
        self._write(pointer, struct.unpack("<{0}I".format(size // 4), ctypes.string_at(host, size)))

    def copy_from(self, host, pointer, size):
        ctypes.memmove(host, struct.pack("<{0}I".format(size // 4), *self._read(pointer, size)), size)

    def copy_within(self, pointer, source, size):
        self._write(pointer, self._read(source, size))

    def fill(self, pointer, word, size):
        self._write(pointer, [word] * (size // 4))

    def synchronize(self):
        pass

    def _write(self, pointer, words):
        first = (pointer - 2**40) // 4
        for place, word in enumerate(words):
            self.memory_.write(first + place, word)

    def _read(self, pointer, size):
        first = (pointer - 2**40) // 4
        return [self.memory_.read(first + place) for place in range(size // 4)]


_pattern = functools.lru_cache(maxsize=None)(kernels.pattern)


class Gpu(Device):
    """It also runs the kernels of the memory test: not their text, but what the text says. A group of words is read
    before the first word of it is written, as the threads of a GPU do."""

    GROUP = 16
    multiprocessors = 1
    cache_bytes = 0

    def kernels(self, text, names):
        return list(names)

    def memory(self, size):
        if size == kernels.REPORT_BYTES:  # its cells are sound
            self.report = bytearray(size)
            return 0
        return super().memory(size)

    def fill(self, pointer, word, size):
        self.report[:] = bytes(len(self.report))

    def read(self, pointer, size):
        return bytes(self.report)

    def seconds_of(self, work):
        work()
        return 1.0

    def launch(self, kernel, blocks, threads, *arguments):
        pointer, words, first, down, *more = [one.value for one in arguments]
        wanted = more[:2] if kernel != "write" else None
        written = more[-2:] if kernel != "compare" else None
        places = list(range(words))[:: -1 if down else 1]
        for start in range(0, words, self.GROUP):
            group = places[start : start + self.GROUP]
            got = [tuple(self._read(pointer + 16 * place, 16)) for place in group] if wanted else ()
            for place, values in zip(group, got):
                if values != _pattern(first + place, *wanted):
                    self._record(first + place, *wanted, values)
            for place in group if written else ():
                self._write(pointer + 16 * place, _pattern(first + place, *written))

    def _record(self, place, seed, mask, got):
        (count,) = struct.unpack_from("<Q", self.report)
        struct.pack_into("<Q", self.report, 0, count + 1)
        if count < kernels.RECORDS:
            wanted = _pattern(place, seed, mask)
            struct.pack_into("<Q10I", self.report, 16 + 48 * count, place, seed, mask, *wanted, *got)
