# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a file and read it back around the page cache, with several requests at once, and compare.

Threads are enough: the kernel does the work, and Python lets go of its lock while it does.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import mmap
import os
import time
from typing import Callable, Tuple

BLOCK = 4 * 2**20  # a full stripe of eight disks with 512 KiB chunks
THREADS = 8
_WORD = 8


class Different(Exception):
    """Something else was read than was written."""


def run(handle: int, size: int) -> Tuple[float, float]:
    """(written, read) bytes a second; ``size`` is a multiple of BLOCK, and that much of the file is written.

    :raises OSError: when the file system refuses or fails.
    :raises Different: when a block came back changed.
    """
    seed = os.urandom(BLOCK)  # so that no layer below can compress it away
    buffers = [_buffer(seed) for dummy in range(THREADS)]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        write = _timed(pool, size, lambda thread, place: _write(handle, buffers[thread], place))
        checked = [_buffer(b"\0" * BLOCK) for dummy in range(THREADS)]
        read = _timed(pool, size, lambda thread, place: _read(handle, checked[thread], buffers[thread], place))
    return write, read


def _timed(pool: concurrent.futures.Executor, size: int, step: Callable[[int, int], None]) -> float:
    def lane(thread: int) -> None:
        for place in range(thread * BLOCK, size, THREADS * BLOCK):
            step(thread, place)

    started = time.monotonic()
    for done in [pool.submit(lane, thread) for thread in range(THREADS)]:
        done.result()
    return size / max(time.monotonic() - started, 1e-9)


def _buffer(content: bytes) -> mmap.mmap:
    """Memory that begins at a page, as direct requests must."""
    memory = mmap.mmap(-1, BLOCK)
    memory[:] = content
    return memory


def _write(handle: int, memory: mmap.mmap, place: int) -> None:
    memory[:_WORD] = place.to_bytes(_WORD, "little")  # a block that lands in the place of another one is found
    if os.pwritev(handle, [memory], place) != BLOCK:
        raise OSError(5, "a write was cut short")


def _read(handle: int, memory: mmap.mmap, written: mmap.mmap, place: int) -> None:
    if os.preadv(handle, [memory], place) != BLOCK:
        raise OSError(5, "a read was cut short")
    if memory[:_WORD] != place.to_bytes(_WORD, "little"):
        raise Different("the block at byte {0} is another one".format(place))
    if _compare(_address(memory) + _WORD, _address(written) + _WORD, BLOCK - _WORD):
        raise Different("the block at byte {0} has changed".format(place))


_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
