# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an ELF file of 64 bits says of itself: the libraries that it needs, where it looks for them, its sections."""

from __future__ import annotations

import os
import stat
import struct
from typing import Any, Dict, List, Optional, Tuple

from ...core.frozen import frozen

_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 14, 15, 29
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PAIR = struct.Struct("<qQ")
#: More than any real file has of these: a broken file costs no more.
_HEADERS_MAX, _DYNAMIC_MAX, _STRINGS_MAX, _TEXT_MAX = 4096, 1 << 16, 1 << 20, 4096


@frozen
class Elf:
    """``rpath`` counts for what it loads as well, ``runpath`` for itself alone; both as they are written."""

    soname: str
    needed: Tuple[str, ...]
    rpath: Tuple[str, ...]
    runpath: Tuple[str, ...]


class _File:
    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> _File:
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise ValueError("it is no file")
        self.header = self.at(0, 64)
        if self.header[:6] != b"\x7fELF\x02\x01":
            raise ValueError("it is no ELF file of 64 bits")
        return self

    def __exit__(self, *dummy: Any) -> None:
        os.close(self._handle)

    def at(self, offset: int, length: int) -> bytes:
        found = os.pread(self._handle, length, offset)
        if len(found) < length:
            raise ValueError("it ends early")
        return found

    def upto(self, offset: int, length: int) -> bytes:
        return os.pread(self._handle, length, offset)


def read(path: str) -> Optional[Elf]:
    """None: it cannot be read, or is no such file."""
    try:
        with _File(path) as file:
            return _dynamic(file)
    except (OSError, ValueError, OverflowError, struct.error):
        return None


def section(path: str, name: str, most: int) -> Optional[bytes]:
    """A section, at most so many bytes of it; None: there is none of this name."""
    try:
        with _File(path) as file:
            (start,) = struct.unpack_from("<Q", file.header, 40)
            size, count, names = struct.unpack_from("<HHH", file.header, 58)
            if size != _SECTION.size or not 0 < count <= _HEADERS_MAX or names >= count:
                return None
            headers = [_SECTION.unpack(one) for one in _chopped(file.at(start, size * count), size)]
            texts = file.at(headers[names][4], min(headers[names][5], _STRINGS_MAX))
            for header in headers:
                if _text(texts, header[0]) == name:
                    return file.upto(header[4], min(header[5], most))
    except (OSError, ValueError, OverflowError, struct.error):
        pass
    return None


def _dynamic(file: _File) -> Optional[Elf]:
    (start,) = struct.unpack_from("<Q", file.header, 32)
    size, count = struct.unpack_from("<HH", file.header, 54)
    if size != _PROGRAM.size or not 0 < count <= _HEADERS_MAX:
        return None
    headers = [_PROGRAM.unpack(one) for one in _chopped(file.at(start, size * count), size)]
    dynamic = next((one for one in headers if one[0] == _DYNAMIC), None)
    if dynamic is None:
        return Elf("", (), (), ())
    pairs: List[Tuple[int, int]] = []
    content = file.at(dynamic[2], min(dynamic[5], _DYNAMIC_MAX))
    for tag, value in _PAIR.iter_unpack(content[: len(content) // 16 * 16]):
        if tag == _END:
            break
        pairs.append((tag, value))
    known: Dict[int, int] = dict(pairs)
    if _STRINGS not in known:
        return Elf("", (), (), ())
    offset = next(
        (
            known[_STRINGS] - one[3] + one[2]
            for one in headers
            if one[0] == _LOAD and 0 <= known[_STRINGS] - one[3] < one[5]
        ),
        None,
    )
    if offset is None:
        return None
    texts = file.upto(offset, _STRINGS_MAX)

    def folders(tag: int) -> Tuple[str, ...]:
        return tuple(part for part in _text(texts, known[tag]).split(":") if part) if tag in known else ()

    return Elf(
        _text(texts, known[_SONAME]) if _SONAME in known else "",
        tuple(_text(texts, value) for tag, value in pairs if tag == _NEEDED),
        folders(_RPATH),
        folders(_RUNPATH),
    )


def _chopped(content: bytes, size: int) -> List[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


def _text(texts: bytes, at: int) -> str:
    end = texts.find(b"\0", at, at + _TEXT_MAX)
    return texts[at:end].decode("utf-8", "replace") if 0 <= at <= end else ""
