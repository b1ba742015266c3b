# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of each part goes into the archive. Pure."""

from __future__ import annotations

from typing import Sequence, Tuple

from ...core.frozen import replaced
from .types import CUT, WHOLE, Collected


def fit(found: Sequence[Collected], most: int) -> Tuple[Collected, ...]:
    """At most ``most`` bytes of text in all. The largest are cut to one size, so what is small stays whole; a log keeps
    its end, anything else its begin."""
    sizes = [len(one.text.encode("utf-8", "replace")) for one in found]
    level = _level(sizes, most)
    return tuple(_cut(one, level) if size > level else one for one, size in zip(found, sizes))


def _level(sizes: Sequence[int], most: int) -> int:
    """The size that each may have so that all together fit."""
    left, room = sorted(sizes), most
    while left:
        share = room // len(left)
        if left[0] > share:
            return max(0, share)
        room -= left.pop(0)
    return max(sizes, default=0)


def _cut(one: Collected, level: int) -> Collected:
    """Whole lines, unless a single one is longer."""
    data = one.text.encode("utf-8", "replace")
    if one.part.tail:
        kept = data[len(data) - level :]
        end = kept.find(b"\n")
        kept = kept[end + 1 :] if 0 <= end < len(kept) - 1 else kept
    else:
        kept = data[:level]
        kept = kept[: kept.rfind(b"\n") + 1] or kept
    text = kept.decode("utf-8", "ignore")
    cut_bytes = one.cut_bytes + len(data) - len(text.encode("utf-8"))
    return replaced(one, text=text, cut_bytes=cut_bytes, status=CUT if one.status == WHOLE else one.status)
