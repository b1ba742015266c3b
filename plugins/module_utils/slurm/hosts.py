# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of names as Slurm writes them: ``gpu[01-04,7],login``, ``/dev/nvidia[0-3]``. Pure.

The semantics are those of Slurm's ``src/common/hostlist.c``: names in the order in which they are written, the zeros
in front of a number count, and several pairs of brackets count like an odometer, the last one fastest.
"""

from __future__ import annotations

import itertools
import re
from typing import List, Optional, Sequence, Tuple, Union

# More names than this are a mistake in a list of devices, and nobody asks for them in a list of nodes.
MOST_NAMES = 65536
_ITEM = re.compile(r"(?:\[[^\]]*\]|[^\[\],\s])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_Ranges = Tuple[Tuple[int, int, int], ...]  # first, last, how many digits at least


def names(text: str) -> Optional[Tuple[str, ...]]:
    """Every name, or None for a list that Slurm would not take, or one of absurd length."""
    found: List[str] = []
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text)):
        return None
    for item in items(text):
        parts = _parts(item)
        if parts is None:
            return None
        choices: List[Sequence[str]] = []
        count = len(found)
        for part in parts:
            if isinstance(part, str):
                choices.append((part,))
                continue
            if sum(last - first + 1 for first, last, dummy in part) > MOST_NAMES:
                return None
            choices.append([str(n).zfill(width) for first, last, width in part for n in range(first, last + 1)])
        size = 1
        for choice in choices:
            size *= len(choice)
        if count + size > MOST_NAMES:
            return None
        found += ["".join(each) for each in itertools.product(*choices)]
    return tuple(found)


def holds(text: str, name: str) -> bool:
    """Whether the list has this name. It does not write the list out, which may be that of a large cluster."""
    return any(_matches(_parts(item) or (), name) for item in items(text))


def items(text: str) -> List[str]:
    """The words between commas, brackets and all."""
    return _ITEM.findall(text)


def _parts(item: str) -> Optional[Tuple[Union[str, _Ranges], ...]]:
    parts: List[Union[str, _Ranges]] = []
    for piece in re.findall(r"\[[^\]]*\]|[^\[\]]+", item):
        if not piece.startswith("["):
            parts.append(piece)
            continue
        ranges: List[Tuple[int, int, int]] = []
        for one in piece[1:-1].split(","):
            found = _RANGE.fullmatch(one.strip())
            if found is None:
                return None
            first, last = int(found.group(1)), int(found.group(2) or found.group(1))
            if last < first:
                return None
            ranges.append((first, last, len(found.group(1))))
        parts.append(tuple(ranges))
    return tuple(parts)


def _matches(parts: Sequence[Union[str, _Ranges]], name: str) -> bool:
    if not parts:
        return not name
    head, rest = parts[0], parts[1:]
    if isinstance(head, str):
        return name.startswith(head) and _all(rest, name[len(head) :])
    digits = re.match(r"[0-9]*", name)
    most = len(digits.group()) if digits else 0
    return any(
        any(
            first <= int(name[:n]) <= last and name[:n] == str(int(name[:n])).zfill(width)
            for first, last, width in head
        )
        and _all(rest, name[n:])
        for n in range(1, most + 1)
    )


def _all(rest: Sequence[Union[str, _Ranges]], name: str) -> bool:
    return _matches(rest, name) if rest else not name
