# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog= and Epilog= in slurm.conf, or in the answer of ``scontrol show config``. Pure, but for the includes."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Callable, List, Optional, Sequence, Set, Tuple

from .types import Hooks

_DEEPEST = 5  # files that include one another


def hooks(text: str) -> Hooks:
    """Slurm takes names in any case, and newer versions more than one line, which scontrol shows as ``Prolog[0]``."""
    return Hooks(_values(text, "Prolog"), _values(text, "Epilog"))


def _values(text: str, name: str) -> Tuple[str, ...]:
    found = re.findall(r"^[ \t]*{0}(?:\[\d+\])?[ \t]*=[ \t]*(.*)$".format(name), text, re.IGNORECASE | re.MULTILINE)
    words = [word for line in found for word in re.split(r"[,\s]+", line.partition("#")[0].strip())]
    return tuple(word for word in words if word.startswith("/"))


def with_includes(path: str, read: Callable[[str], Optional[str]]) -> Optional[str]:
    """The text of slurm.conf with those of its includes; None when there is no such file."""
    first = read(path)
    if first is None:
        return None
    texts: List[str] = []
    seen: Set[str] = {path}
    _collect(first, posixpath.dirname(path), read, texts, seen, 0)
    return "\n".join(texts)


def _collect(
    text: str, folder: str, read: Callable[[str], Optional[str]], texts: List[str], seen: Set[str], depth: int
) -> None:
    texts.append(text)
    if depth >= _DEEPEST:
        return
    for name in re.findall(r"^[ \t]*include[ \t]+(\S+)", text, re.IGNORECASE | re.MULTILINE):
        path = posixpath.normpath(posixpath.join(folder, name))
        inner = None if path in seen else read(path)
        if inner is not None:
            seen.add(path)
            _collect(inner, folder, read, texts, seen, depth + 1)


def reaches(patterns: Sequence[str], path: str) -> bool:
    """Whether one of these patterns, as glob(7) takes them, means this file."""
    folder, name = posixpath.split(path)
    return any(
        posixpath.dirname(pattern) == folder and fnmatch.fnmatchcase(name, posixpath.basename(pattern))
        for pattern in patterns
    )
