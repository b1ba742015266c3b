# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which library a program would get: what ld.so does, read from its cache and from ELF files. Nothing is run."""

from __future__ import annotations

import os
import struct
from typing import Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

from ...core.frozen import frozen
from . import elf
from .files import Files

CACHE = "/etc/ld.so.cache"
#: ld.so looks here after its cache: glibc's own folders, and those of Debian.
DEFAULT = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
#: The driver brings them; on the builder of an image there may be none.
OF_DRIVER = frozenset(("libcuda.so.1", "libnvidia-ml.so.1"))
_MAGIC = b"glibc-ld.so.cache1.1"
_HEAD, _ENTRY = struct.Struct("<II"), struct.Struct("<iIIIQ")
# FLAG_X8664_LIB64 and FLAG_AARCH64_LIB64 of glibc's ldconfig.h.
_OF_64_BITS = (0x0300, 0x0A00)
_CACHE_MAX = 16 << 20
_CONF_DEPTH = 3
# More objects than any program loads.
_OBJECTS_MAX = 512


@frozen
class Missing:
    """``library`` is nowhere; ``by`` is what needs it."""

    library: str
    by: str


class Loader:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._elfs: Dict[str, Optional[elf.Elf]] = {}
        content = files.content(CACHE, _CACHE_MAX)
        self._cache = None if content is None else parse(content)
        # What ldconfig would take into a cache, where there is none.
        self._folders = DEFAULT if self._cache is not None else (*_configured(files, "/etc/ld.so.conf", 0), *DEFAULT)

    def find(self, library: str, folders: Iterable[str] = ()) -> Optional[str]:
        """Where a library of this name is, these folders first; None: a program would not find it."""
        for folder in folders:
            path = "{0}/{1}".format(folder, library)
            if self._files.has(folder, library) and self._files.exists(path):
                return path
        cached = (self._cache or {}).get(library)
        if cached is not None and self._files.exists(cached):
            return cached
        for folder in self._folders:
            path = "{0}/{1}".format(folder, library)
            if self._files.has(folder, library) and self._files.exists(path):
                return path
        return None

    def missing(self, path: str, folders: Iterable[str] = ()) -> Tuple[Missing, ...]:
        """Libraries that this one needs, itself or through others, and that are not found. ``folders``: those that
        its users set in LD_LIBRARY_PATH."""
        given = tuple(folders)
        found: List[Missing] = []
        seen: Set[str] = set(OF_DRIVER)
        pending: List[Tuple[str, Tuple[str, ...]]] = [(path, ())]
        count = 0
        while pending and count < _OBJECTS_MAX:
            count += 1
            one, inherited = pending.pop()
            read = self.elf(one)
            if read is None:
                continue
            origin = os.path.dirname(self._files.real(one) or one)
            own = _at(read.runpath, origin)
            rpath = () if own else (*_at(read.rpath, origin), *inherited)
            for library in read.needed:
                if library in seen:
                    continue
                seen.add(library)
                where = library if "/" in library else self.find(library, (*rpath, *given, *own))
                if where is None or not self._files.exists(where):
                    found.append(Missing(library, one))
                else:
                    pending.append((where, rpath))
        return tuple(found)

    def elf(self, path: str) -> Optional[elf.Elf]:
        real = self._files.real(path)
        if real is None:
            return None
        if real not in self._elfs:
            self._elfs[real] = elf.read(self._files.host.path(real))
        return self._elfs[real]


def _at(folders: Tuple[str, ...], origin: str) -> Tuple[str, ...]:
    return tuple(os.path.normpath(one.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)) for one in folders)


def parse(content: bytes) -> Optional[Dict[str, str]]:
    """The libraries of 64 bits in a cache of ld.so, by name; None: it is none. Of several with a name, the one for any
    processor."""
    start = content.find(_MAGIC)
    if start < 0:
        return None
    found: Dict[str, Tuple[bool, str]] = {}
    try:
        count, dummy = _HEAD.unpack_from(content, start + len(_MAGIC))
        for number in range(min(count, 1 << 17)):
            flags, key, value, dummy, capability = _ENTRY.unpack_from(content, start + 48 + number * _ENTRY.size)
            if flags & 0xFF00 not in _OF_64_BITS:
                continue
            name = _text(content, start + key)
            if name not in found or (found[name][0] and not capability):
                found[name] = (bool(capability), _text(content, start + value))
    except struct.error:
        return None
    return {name: path for name, (dummy, path) in found.items()}


def _text(content: bytes, at: int) -> str:
    return content[at : content.find(b"\0", at)].decode("utf-8", "replace")


def _configured(files: Files, path: str, depth: int) -> Tuple[str, ...]:
    found: List[str] = []
    for line in (files.read(path) or "").splitlines():
        words = line.split("#")[0].split()
        if len(words) == 1 and words[0].startswith("/"):
            found.append(words[0].rstrip("/"))
        elif len(words) == 2 and words[0] == "include" and depth < _CONF_DEPTH:
            pattern = words[1] if words[1].startswith("/") else "/etc/" + words[1]
            found += [one for each in files.glob(pattern) for one in _configured(files, each, depth + 1)]
    return tuple(found)


def names(found: Iterable[Missing]) -> FrozenSet[str]:
    return frozenset(one.library for one in found)
