# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a device blank? Read both its ends and samples between; make the same places blank again.

libblkid knows some hundred formats, and its silence says no more than that. Here a device is blank when all that is
read has one value: 00, as new, discarded or deallocated blocks of the local disks of the clouds read, or FF, which a
controller may choose for them (NVM Command Set Specification, Identify Namespace, DLFEAT bits 2:0: 001b and 010b).
A controller that returns old data for them (000b, not reported) has a disk that is not blank.

What it finds: data at an end, and any run of data longer than two strata (two 1024ths of the device). Data that are
spread over a share p of the device are missed with a probability of (1 - p) ** 1024: 1 in 29,000 for one percent.
"""

from __future__ import annotations

import os
from typing import Iterable, Iterator, Tuple

from .types import Content

END_BYTES = 1 << 20
SAMPLES = 1024
SAMPLE_BYTES = 4096
# Where arrays, volume groups and partitions begin their data, each MiB of this: mdadm at 128 or 129 MiB, for example
# (Data Offset of mdadm --examine). The head of a file system stays there when only marks are wiped.
BEGIN_BYTES = 256 << 20
BLANK = (0x00, 0xFF)
_PIECE_BYTES = 64 * 1024


def places(size_bytes: int) -> Tuple[Tuple[int, int], ...]:
    """Offset and length of all that is read, in ascending order; the same for each device of this size.

    One sample a stratum, and not in its middle: what repeats at equal distances (headers of allocation groups,
    copies of a superblock) shall not fall between all of them. The fractions of multiples of the golden ratio are
    spread evenly however many they are.
    """
    end = size_bytes - END_BYTES
    end -= end % SAMPLE_BYTES
    if end - END_BYTES < 2 * SAMPLES * SAMPLE_BYTES:
        return tuple((at, min(END_BYTES, size_bytes - at)) for at in range(0, size_bytes, END_BYTES))
    stratum = (end - END_BYTES) // SAMPLES
    found = [(0, END_BYTES)]
    for number in range(SAMPLES):
        inside = (number * 0x9E3779B9 & 0xFFFFFFFF) * (stratum - SAMPLE_BYTES) >> 32
        offset = END_BYTES + number * stratum + inside
        found.append((offset - offset % SAMPLE_BYTES, SAMPLE_BYTES))
    found += [(offset, SAMPLE_BYTES) for offset in range(END_BYTES, min(BEGIN_BYTES + 1, end), END_BYTES)]
    return (*sorted(set(found)), (end, size_bytes - end))


def judge(pieces: Iterable[Tuple[int, bytes]]) -> Content:
    """What the pieces, each with its offset, say of their device. Pure; reads on no longer than it has to."""
    done, value = 0, None
    for offset, data in pieces:
        done += len(data)
        if value is None and data:
            value = data[:1] if data[0] in BLANK else b""
        other = len(data) - len(data.lstrip(value))
        if other < len(data):
            return Content(done, offset + other)
    return Content(done)


def _read(handle: int, spots: Iterable[Tuple[int, int]]) -> Iterator[Tuple[int, bytes]]:
    for offset, length in spots:
        while length > 0:
            data = os.pread(handle, min(length, _PIECE_BYTES), offset)
            if not data:
                raise OSError("it ends at byte {0}".format(offset))
            yield offset, data
            offset, length = offset + len(data), length - len(data)


def look(path: str, size_bytes: int) -> Content:
    """:raises OSError: it cannot be read.

    The kernel is told of all places first, so that the device works on many at a time. What the page cache had is
    read anew, and nothing is left in it.
    """
    spots = places(size_bytes)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        for offset, length in spots:
            os.posix_fadvise(handle, offset, length, os.POSIX_FADV_WILLNEED)
        return judge(_read(handle, spots))
    finally:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def clear(path: str, size_bytes: int) -> None:
    """Write zeros wherever :func:`look` reads, from the end to the beginning, with nobody else on the device.

    The mark of our array or file system lies in the first 8 KiB. It goes last, and only once the rest is on the
    medium, so that a power cut leaves either a disk that is proven ours or one that is blank.

    :raises OSError: it is in use, or cannot be written.
    """
    handle = os.open(path, os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC)
    try:
        (dummy, head), *rest = places(size_bytes)
        for offset, length in reversed(rest):
            _zero(handle, offset, length)
        _zero(handle, 2 * SAMPLE_BYTES, head - 2 * SAMPLE_BYTES)
        os.fsync(handle)
        for offset in (SAMPLE_BYTES, 0):
            _zero(handle, offset, SAMPLE_BYTES)
            os.fsync(handle)
    finally:
        os.close(handle)


def _zero(handle: int, offset: int, length: int) -> None:
    while length > 0:
        done = os.pwrite(handle, bytes(min(length, _PIECE_BYTES)), offset)
        offset, length = offset + done, length - done
