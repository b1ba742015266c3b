# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patterns of the memory test. Pure: sizes and numbers in, bytes out.

A pattern is a sequence of 32-bit words, somewhat longer than a chunk of memory. Chunk ``j`` holds the part that begins
``j * SHIFT`` bytes into it. So any two words whose addresses differ within a chunk, or by whole chunks, hold different
values, and each pattern comes with its inverse, so every bit holds a 0 and a 1.
"""

from __future__ import annotations

import array
import random
import sys
from typing import Iterator

# Copy engines want aligned places: a multiple of 256 bytes. Odd in units of it, so no power of two lies between chunks.
SHIFT = 17 * 256
_BLOCK = 2**20
PAIRS = 3
_INVERSE = bytes(255 - value for value in range(256))


def length(chunk: int, chunks: int) -> int:
    """How many bytes of a pattern that many chunks need."""
    return chunk + SHIFT * max(0, chunks - 1)


def own_address(size: int) -> bytes:
    """Word ``i`` is ``i``: two cells that answer to one address, or one that answers to two, cannot hold both."""
    words = array.array("I", range(size // 4))
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def seeded(size: int, seed: int) -> bytes:
    """Random bytes, the same ones for each seed on every Python."""
    source = random.Random(seed)  # noqa: S311 no secret
    blocks = (min(_BLOCK, size - start) for start in range(0, size, _BLOCK))
    return b"".join(source.getrandbits(8 * block).to_bytes(block, "little") for block in blocks)


def inverse(pattern: bytes) -> bytes:
    return pattern.translate(_INVERSE)


def in_turn(size: int, seed: int) -> Iterator[bytes]:
    """Those that are written one after another: own address and two random ones, each with its inverse. Each is made
    when its turn comes.

    By the fourth every bit has gone from 0 to 1 and from 1 to 0: an inversion moves it one way; it moves the other way
    between the pairs, or, where the two patterns beside that gap agree in it, in the second inversion.
    """
    for number in range(PAIRS):
        pattern = seeded(size, seed + number) if number else own_address(size)
        yield pattern
        yield inverse(pattern)
