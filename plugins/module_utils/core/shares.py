# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share time and numbers among owners, so that one user cannot take all of them."""

from __future__ import annotations

import time
from typing import Callable, Dict, Hashable, Iterable, Iterator, List, Tuple, TypeVar

from .host import Host

Item = TypeVar("Item")
Owner = Callable[[int], Hashable]


def owner(host: Host) -> Owner:
    """The user whose budget a UID uses. A user also owns the UIDs of a line in /etc/subuid, in user namespaces; all
    share one budget."""
    ranges: List[Tuple[int, int]] = []
    for line in (host.read("/etc/subuid") or "").splitlines():
        words = line.split(":")
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            ranges.append((int(words[1]), int(words[2])))

    def of(uid: int) -> Hashable:
        return next((("subuid", first) for first, count in ranges if first <= uid < first + count), uid)

    return of


def _by_owner(items: Iterable[Item], of: Callable[[Item], Hashable]) -> List[List[Item]]:
    """The items of each owner, the owner with the fewest first."""
    found: Dict[Hashable, List[Item]] = {}
    for one in items:
        found.setdefault(of(one), []).append(one)
    return sorted(found.values(), key=len)


def in_turn(items: Iterable[Item], of: Callable[[Item], Hashable]) -> List[Item]:
    """One item of each owner, then the second one of each, and so on."""
    numbered = [(number, one) for some in _by_owner(items, of) for number, one in enumerate(some)]
    return [one for dummy, one in sorted(numbered, key=lambda pair: pair[0])]


def timed(items: Iterable[Item], of: Callable[[Item], Hashable], seconds: float) -> Iterator[Tuple[Item, float]]:
    """Each item with its deadline. Owners share the time: what one does not use is left to the next ones."""
    end = time.monotonic() + seconds
    groups = _by_owner(items, of)
    for number, some in enumerate(groups):
        now = time.monotonic()
        deadline = now + max(0.0, end - now) / (len(groups) - number)
        for one in some:
            yield one, deadline
