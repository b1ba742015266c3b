# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share time and numbers among owners, so that one user cannot take all of them."""

from __future__ import annotations

import collections
import pwd
import time
from typing import Callable, Counter, Dict, Hashable, Iterable, Iterator, List, Optional, Tuple, TypeVar

from .host import Host

Item = TypeVar("Item")
Owner = Callable[[int], Hashable]
_UNKNOWN = "unknown"


# Among so many unknown UIDs of a block, of the size of a user namespace, the others are unknown as well.
_LOOKUPS, _BLOCK = 64, 65536


def _in_database(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return False
    return True


def owner(host: Host, known: Optional[Callable[[int], bool]] = None) -> Owner:
    """The user whose budget a UID uses. The UIDs of a line in /etc/subuid, which a user has in user namespaces, share
    one budget. So do all UIDs that are neither there nor in the user database (``known``): a name service can have the
    ranges as well (``subid`` of nsswitch.conf), and does not list them."""
    known = known or _in_database
    ranges: List[Tuple[int, int]] = []
    for line in (host.read("/etc/subuid") or "").splitlines():
        words = line.split(":")
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            ranges.append((int(words[1]), int(words[2])))

    budgets: Dict[int, Hashable] = {}
    unknown: Counter[int] = collections.Counter()

    def of(uid: int) -> Hashable:
        if uid not in budgets:
            found: Hashable = next((("subuid", first) for first, count in ranges if first <= uid < first + count), None)
            if found is None:
                # A name service may need long for each.
                listed = unknown[uid // _BLOCK] < _LOOKUPS and known(uid)
                unknown[uid // _BLOCK] += not listed
                found = uid if listed else _UNKNOWN
            budgets[uid] = found
        return budgets[uid]

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
