# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small ELF files, caches of ld.so and databases of rpm: what an image has of them, without its bulk."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

_BASE = 0x400000


def elf(
    needed: tuple[str, ...] = (),
    soname: str = "",
    runpath: str = "",
    rpath: str = "",
    sections: dict[str, bytes] | None = None,
) -> bytes:
    """A shared library of 64 bits that needs others, with these sections."""
    texts = b"\0"
    pairs = []

    def text(value: str) -> int:
        nonlocal texts
        at = len(texts)
        texts += value.encode() + b"\0"
        return at

    for tag, values in ((1, needed), (14, (soname,)), (29, (runpath,)), (15, (rpath,))):
        pairs += [(tag, text(value)) for value in values if value]
    header, programs = 64, 2 * 56
    dynamic_at = header + programs
    dynamic_size = 16 * (len(pairs) + 3)
    strings_at = dynamic_at + dynamic_size
    pairs += [(5, _BASE + strings_at), (10, len(texts)), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *pair) for pair in pairs)
    body = dynamic + texts
    size = header + programs + len(body)
    # Sections: a null one, those that are asked for, and their names.
    names, placed, data, at = b"\0", [], b"", size
    for name, content in {**(sections or {}), ".shstrtab": b""}.items():
        name_at = len(names)
        names += name.encode() + b"\0"
        if name == ".shstrtab":
            content = names
        placed.append((name_at, 1, 0, 0, at + len(data), len(content), 0, 0, 1, 0))
        data += content
    table = struct.pack("<IIQQQQIIQQ", *(0,) * 10) + b"".join(struct.pack("<IIQQQQIIQQ", *one) for one in placed)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, header, size + len(data), 0, header, 56, 2, 64, len(placed) + 1, len(placed)
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 4096)
    dynamic_header = struct.pack(
        "<IIQQQQQQ", 2, 6, dynamic_at, _BASE + dynamic_at, _BASE + dynamic_at, len(dynamic), len(dynamic), 8
    )
    return head + load + dynamic_header + body + data + table


def module(version: str, license_: str) -> bytes:
    """A kernel module, as far as modinfo goes."""
    told = "license={0}\0version={1}\0srcversion=0123\0".format(license_, version)
    return elf(sections={".modinfo": told.encode()})


def cache(libraries: dict[str, str], old_part: bool = True) -> bytes:
    """A cache of ld.so of these libraries by name, with the part before it that older loaders read."""
    return cache_of([(name, path, 0x0303, 0) for name, path in libraries.items()], old_part)


def cache_of(libraries: list[tuple[str, str, int, int]], old_part: bool = True) -> bytes:
    """The same with the flags of each library, and what a processor must be capable of for it."""
    entries, texts = [], b""
    start = 48 + 24 * len(libraries)
    for name, path, flags, capability in libraries:
        key = start + len(texts)
        texts += name.encode() + b"\0"
        value = start + len(texts)
        texts += path.encode() + b"\0"
        entries.append(struct.pack("<iIIIQ", flags, key, value, 0, capability))
    new = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(libraries), len(texts)) + bytes(20)
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 0) if old_part else b""
    return old + new + b"".join(entries) + texts


def rpm_header(version: str, release: str) -> bytes:
    """What rpm keeps of a package: the index of its tags, and their texts."""
    texts, entries = b"", b""
    for tag, value in ((1000, "name"), (1001, version), (1002, release)):
        entries += struct.pack(">IIiI", tag, 6, len(texts), 1)
        texts += value.encode() + b"\0"
    return struct.pack(">II", 3, len(texts)) + entries + texts


def rpmdb(path: Path, packages: dict[str, str]) -> None:
    """The database of rpm of these packages, each with VERSION-RELEASE."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)")
    connection.execute("CREATE TABLE Name (key TEXT NOT NULL, hnum INTEGER NOT NULL, idx INTEGER NOT NULL)")
    for name, told in packages.items():
        version, dummy, release = told.partition("-")
        row = connection.execute("INSERT INTO Packages (blob) VALUES (?)", (rpm_header(version, release),))
        connection.execute("INSERT INTO Name VALUES (?, ?, 0)", (name, row.lastrowid))
    connection.commit()
    connection.close()
