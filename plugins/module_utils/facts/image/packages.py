# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of installed packages, from the databases of dpkg and rpm themselves."""

from __future__ import annotations

import contextlib
import re
import struct
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from .files import Files
from .version import numbers

if TYPE_CHECKING:
    import sqlite3

DPKG = "/var/lib/dpkg/status"
RPM = ("/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite")
#: Of EL 8 and older, in Berkeley DB.
RPM_BEFORE = "/var/lib/rpm/Packages"
_DPKG_MAX = 64 << 20
# Tags of a header of rpm (rpmtag.h), and its type for a text.
_VERSION, _RELEASE, _STRING = 1001, 1002, 6
_PACKAGE = b"Package: "
_PLAIN = re.compile(r"[a-z0-9-]+")
_INSTALLED = re.compile(rb"^Status: \S+ \S+ installed$", re.MULTILINE)
_DPKG_VERSION = re.compile(rb"^Version: (?:\d+:)?(\S+)$", re.MULTILINE)


class Packages:
    """``names``: patterns of the packages that are asked for later, as regular expressions; no others are read.

    ``note``: why nothing is known of packages, or "".
    """

    def __init__(self, files: Files, names: Sequence[str]) -> None:
        self.note = ""
        self._found: Dict[str, str] = {}
        pattern = "(?:{0})".format("|".join(names))
        status = files.content(DPKG, _DPKG_MAX)
        if status is not None:
            self._found = dpkg(status, pattern)
            return
        path = next((path for path in RPM if files.exists(path)), None)
        if path is None:
            if files.exists(RPM_BEFORE):
                self.note = "the database of rpm is in Berkeley DB, which is not read, so no version is of a package"
            return
        try:
            self._found = rpm(files.host.path(files.real(path) or path), pattern)
        except ValueError as error:
            self.note = "the database of rpm cannot be read ({0}), so no version is of a package".format(error)

    def version(self, *names: str) -> Optional[str]:
        """Version and release of the first of these packages, each a regular expression, that is installed."""
        for name in names:
            if _PLAIN.fullmatch(name):  # most are, and to compile an expression takes longer than to read a file
                fit = [self._found[name]] if name in self._found else []
            else:
                fit = [version for one, version in self._found.items() if re.fullmatch(name, one)]
            if fit:
                return max(fit, key=numbers)
        return None


def dpkg(status: bytes, pattern: str) -> Dict[str, str]:
    """By package, its version without the epoch. What is removed and has its configuration left is none."""
    found: Dict[str, str] = {}
    wanted = re.compile(pattern.encode())
    # Not with one expression for all: that takes ten times as long for a file of some megabytes.
    for block in status.split(b"\n\n"):
        begin = 0 if block.startswith(_PACKAGE) else block.find(b"\n" + _PACKAGE) + 1
        if not block.startswith(_PACKAGE, begin):
            continue
        name = block[begin + len(_PACKAGE) :].partition(b"\n")[0]
        if not wanted.fullmatch(name):
            continue
        version = _DPKG_VERSION.search(block)
        if version is not None and _INSTALLED.search(block):
            found[name.decode()] = version.group(1).decode("utf-8", "replace")
    return found


def rpm(path: str, pattern: str) -> Dict[str, str]:
    """By package, version and release.

    :raises ValueError: it is no such database.
    """
    import sqlite3  # not wanted where there is dpkg

    # Immutable: nothing is made beside it, and nobody who installs at this moment is waited for.
    uri = "file:{0}?mode=ro&immutable=1".format(path.replace("%", "%25").replace("?", "%3f").replace("#", "%23"))
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return _wanted(connection, pattern)
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error


def _wanted(connection: sqlite3.Connection, pattern: str) -> Dict[str, str]:
    wanted: List[Tuple[str, int]] = []
    for name, number in connection.execute("SELECT key, hnum FROM Name"):
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        if re.fullmatch(pattern, text):
            wanted.append((text, number))
    found: Dict[str, str] = {}
    for text, number in wanted:
        row = connection.execute("SELECT blob FROM Packages WHERE hnum = ?", (number,)).fetchone()
        version = header(row[0]) if row is not None and isinstance(row[0], bytes) else None
        if version is not None:
            found[text] = version
    return found


def header(blob: bytes) -> Optional[str]:
    """Version and release in a header of rpm: the count of its entries and the length of their data, then both."""
    try:
        count, length = struct.unpack_from(">II", blob)
        if not 0 < count < 1 << 16 or len(blob) < 8 + 16 * count + length:
            return None
        start = 8 + 16 * count
        texts: Dict[int, str] = {}
        for number in range(count):
            tag, kind, offset, dummy = struct.unpack_from(">IIiI", blob, 8 + 16 * number)
            if tag in (_VERSION, _RELEASE) and kind == _STRING and 0 <= offset < length:
                at = start + offset
                texts[tag] = blob[at : blob.find(b"\0", at)].decode("utf-8", "replace")
    except struct.error:
        return None
    return "-".join(texts[tag] for tag in (_VERSION, _RELEASE) if tag in texts) or None
