# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions, and what may be required of one: ``>=535,<600``. Pure."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError

_OPERATORS: Dict[str, Callable[[int], bool]] = {
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
}
_PART = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)")
FORM = "write it as '>=535,<600': >=, <=, ==, !=, > or < before a version, with commas between"


@frozen
class Constraint:
    """``parts``: operator and version, all of which must hold."""

    parts: Tuple[Tuple[str, str], ...]

    def allows(self, version: str) -> bool:
        return all(_OPERATORS[operator](order(version, limit)) for operator, limit in self.parts)

    def __str__(self) -> str:
        return ",".join(operator + limit for operator, limit in self.parts)


def constraint(text: object) -> Optional[Constraint]:
    """None: it is none."""
    if not isinstance(text, str):
        return None
    found: List[Tuple[str, str]] = []
    for part in text.split(","):
        one = _PART.fullmatch(part.strip())
        if one is None:
            return None
        found.append((one.group(1), one.group(2)))
    return Constraint(tuple(found))


def required(thing: str, text: object) -> Constraint:
    """:raises NodeError: it is no constraint."""
    found = constraint(text)
    if found is None:
        raise NodeError(thing, "{0!r} is no requirement on a version".format(text), FORM)
    return found


def numbers(version: str) -> Tuple[int, ...]:
    """Of the front of a version, so far as it is numbers with dots between: ``4.1.2rc3`` is 4.1.2."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def major(version: str) -> int:
    """The first number; 0: it is no version."""
    return (numbers(version) or (0,))[0]


def order(version: str, limit: str) -> int:
    """Below 0, 0 or above, by as many numbers as the limit has: 12.4 is 12, and not above it."""
    wanted = numbers(limit)
    found = numbers(version)[: len(wanted)]
    found += (0,) * (len(wanted) - len(found))
    return (found > wanted) - (found < wanted)


def newest(versions: List[str]) -> Optional[str]:
    return max(versions, key=numbers) if versions else None
