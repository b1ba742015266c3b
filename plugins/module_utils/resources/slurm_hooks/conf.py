# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog= and Epilog= in slurm.conf, or in the answer of ``scontrol show config``; pure."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Sequence, Tuple

from .types import Hooks


def hooks(text: str) -> Hooks:
    """Slurm takes names in any case, and newer versions more than one line, which scontrol shows as ``Prolog[0]``."""
    return Hooks(_values(text, "Prolog"), _values(text, "Epilog"))


def _values(text: str, name: str) -> Tuple[str, ...]:
    found = re.findall(r"^[ \t]*{0}(?:\[\d+\])?[ \t]*=[ \t]*(.*)$".format(name), text, re.IGNORECASE | re.MULTILINE)
    words = [word for line in found for word in re.split(r"[,\s]+", line.partition("#")[0].strip())]
    return tuple(word for word in words if word.startswith("/"))


def reaches(patterns: Sequence[str], path: str) -> bool:
    """Whether one of these patterns, as glob(7) takes them, means this file."""
    folder, name = posixpath.split(path)
    return any(
        posixpath.dirname(pattern) == folder and fnmatch.fnmatchcase(name, posixpath.basename(pattern))
        for pattern in patterns
    )
