# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plugstack.conf and what it includes, as Slurm reads it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import List, Set, Tuple

from ...core.host import Host

_DEEPEST = 5  # files that include one another


def entries(host: Host, path: str) -> Tuple[Tuple[str, str], ...]:
    """(file, line) of every line that loads a plugin, and of every file that is included: ``include FILE``."""
    found: List[Tuple[str, str]] = []
    _collect(host, path, found, {path}, 0)
    return tuple(found)


def _collect(host: Host, path: str, found: List[Tuple[str, str]], seen: Set[str], depth: int) -> None:
    for line in (host.read(path) or "").splitlines():
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        if words[0].lower() != "include":
            found.append((path, " ".join(words)))
            continue
        for inner in _matching(host, posixpath.join(posixpath.dirname(path), words[1])):
            if inner in seen or depth >= _DEEPEST:
                continue
            seen.add(inner)
            found.append((path, "include " + inner))
            _collect(host, inner, found, seen, depth + 1)


def _matching(host: Host, pattern: str) -> List[str]:
    folder, name = posixpath.split(posixpath.normpath(pattern))
    return ["{0}/{1}".format(folder, one) for one in host.names(folder) if fnmatch.fnmatchcase(one, name)]


def includes(host: Host, path: str, drop_in: str) -> bool:
    """Whether an include line of plugstack.conf, or of what it includes, means this file, be it there or not."""
    files = [path] + [line.split(" ", 1)[1] for dummy, line in entries(host, path) if line.startswith("include ")]
    return any(_means(host.read(one) or "", one, drop_in) for one in files)


def _means(text: str, path: str, drop_in: str) -> bool:
    folder, name = posixpath.split(drop_in)
    for pattern in re.findall(r"^[ \t]*include[ \t]+([^\s#]+)", text, re.IGNORECASE | re.MULTILINE):
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), pattern))
        if posixpath.dirname(whole) == folder and fnmatch.fnmatchcase(name, posixpath.basename(whole)):
            return True
    return False
