# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which leftovers something is mounted in, or a process uses."""

from __future__ import annotations

from typing import FrozenSet, Iterable, List, Tuple

from ...core import mounts, open_files
from ...core.frozen import replaced
from ...core.host import Host
from .types import CORE_DUMPS, ENVIRONMENTS, TMP_FILES, Leftover


def with_mounts(host: Host, found: Iterable[Leftover]) -> List[Leftover]:
    points = [one.point for one in mounts.read(host)]

    def mounted(path: str) -> bool:
        return any(one == path or one.startswith(path + "/") for one in points)

    return [replaced(one, mounted=True) if one.place is not None and mounted(one.place.path) else one for one in found]


def with_openers(host: Host, found: Iterable[Leftover]) -> List[Leftover]:
    asked = [one for one in found if one.kind in (CORE_DUMPS, ENVIRONMENTS, TMP_FILES) and one.place is not None]
    opened, whole = in_use(host, asked)
    result = []
    for one in found:
        if one.place is not None and one in asked:
            state = True if one.place.path in opened else (one.open if whole else None)
            one = replaced(one, open=state)
        result.append(one)
    return result


def in_use(host: Host, leftovers: Iterable[Leftover]) -> Tuple[FrozenSet[str], bool]:
    """Those that a process has open, mapped, runs from, or works in, and environments that one names; and whether every
    process could be asked."""
    kinds = {one.place.path: one.kind for one in leftovers if one.place is not None}
    trees = {path: [path.rsplit("-", 1)[0]] for path, kind in kinds.items() if kind == ENVIRONMENTS}
    found, whole = open_files.open_below(host, tuple(kinds))
    return found | set(open_files.named_by(host, trees)), whole
