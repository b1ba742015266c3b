# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of profiles, as people and other tools write them.

NVML derives a name from the memory of the board, so that one and the same kind of instance has other names on other
boards and with other drivers (3g.39gb and 3g.40gb). What a GPU answers decides; a name is only what was written.
"""

from __future__ import annotations

import re
from typing import Optional, Sequence, Tuple

from .instances import Impossible
from .place import Part, Profile

# [<compute>c.]<slices>g[.<memory>gb][attributes]: 3g, 1g.5gb, 1g.5gb+me, 1c.3g.20gb, 1g.24gb-me, 2g.48gb+me.all
NAME = re.compile(
    r"(?:MIG )?(?:(?P<compute>[1-9])c\.)?(?P<slices>[1-9])g(?:\.(?P<memory>[0-9]{1,4})gb)?"
    r"(?P<attributes>(?:[+-][a-z.,]+)?)",
    re.IGNORECASE,
)
# Gigabytes by which the names of two drivers differ for the same instance.
_DRIFT = 1


def resolve(part: Part, text: str) -> Tuple[Profile, Optional[int]]:
    """The profile of this GPU that is meant, and the slices of a compute instance where the name has one (1c.3g).

    Raises:
        Impossible: nothing or more than one thing of this GPU has this name.
    """
    written = text.strip()
    if re.fullmatch("[0-9]{1,9}", written):
        profile = part.by_id(int(written))
        if profile is None:
            raise Impossible("no profile has the id {0}; there are {1}".format(written, known(part)))
        return profile, None
    parsed = NAME.fullmatch(written)
    if parsed is None:
        raise Impossible("{0!r} is no name of a profile; there are {1}".format(written, known(part)))
    compute = int(parsed["compute"]) if parsed["compute"] else None
    profile = _meant(part, int(parsed["slices"]), parsed["memory"], parsed["attributes"].lower())
    if profile is None:
        raise Impossible("this GPU has no profile {0}; it has {1}".format(written, known(part)))
    return profile, compute


def _meant(part: Part, slices: int, memory: Optional[str], attributes: str) -> Optional[Profile]:
    alike = [(p, parsed) for p, parsed in _parsed(part) if parsed == (slices, attributes)]
    profiles = [profile for profile, _parsed_name in alike]
    if memory is None:
        # Of 1g.5gb and 1g.10gb, the plain one is meant.
        return min(profiles, key=lambda p: p.memory_slices, default=None)
    wanted = int(memory)
    exact = [profile for profile in profiles if _gigabytes(profile) == wanted]
    near = exact or [profile for profile in profiles if abs(_gigabytes(profile) - wanted) <= _DRIFT]
    return near[0] if len(near) == 1 else None


def _parsed(part: Part) -> Sequence[Tuple[Profile, Tuple[int, str]]]:
    found = []
    for profile in part.profiles:
        parsed = NAME.fullmatch(profile.name)
        if parsed is not None:
            found.append((profile, (int(parsed["slices"]), parsed["attributes"].lower())))
    return found


def _gigabytes(profile: Profile) -> int:
    parsed = NAME.fullmatch(profile.name)
    return int(parsed["memory"]) if parsed is not None and parsed["memory"] else -1


def known(part: Part) -> str:
    """The names that this GPU has, largest first, for a person."""
    profiles = sorted(part.profiles, key=lambda p: (-p.compute_slices, -p.memory_slices, p.name))
    return ", ".join(profile.name for profile in profiles) or "none"
