# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that can be divided, as NVIDIA's documentation has them, and an oracle that knows nothing of the planner."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import (
    Part,
    Placed,
    Profile,
)

_ONES, _TWOS, _WIDE = (0, 1, 2, 3, 4, 5, 6), (0, 2, 4), (0, 4)


def seven(names: Sequence[str], multiprocessors: Sequence[int], whole: int) -> Part:
    """A part of seven compute slices; names and multiprocessors of 1g, double 1g, 2g, 3g, 4g, 7g."""
    one, double, two, three, four, all_of_it = names
    sms = dict(zip(names, multiprocessors))
    return Part(
        (
            Profile(19, one, 1, 1, 7, _ONES, sms[one]),
            Profile(20, one + "+me", 1, 1, 1, _ONES, sms[one]),
            Profile(15, double, 1, 2, 4, (0, 2, 4, 6), sms[double]),
            Profile(14, two, 2, 2, 3, _TWOS, sms[two]),
            Profile(9, three, 3, 4, 2, _WIDE, sms[three]),
            Profile(5, four, 4, 4, 1, (0,), sms[four]),
            Profile(0, all_of_it, 7, 8, 1, (0,), sms[all_of_it]),
        ),
        whole,
    )


A100_40 = seven(["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"], [14, 14, 28, 42, 56, 98], 108)
A100_80 = seven(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"], [14, 14, 28, 42, 56, 98], 108)
H200 = seven(["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"], [16, 26, 32, 60, 64, 132], 132)
A30 = Part(
    (
        Profile(14, "1g.6gb", 1, 1, 4, (0, 1, 2, 3), 14),
        Profile(21, "1g.6gb+me", 1, 1, 1, (0, 1, 2, 3), 14),
        Profile(5, "2g.12gb", 2, 2, 2, (0, 2), 28),
        Profile(6, "2g.12gb+me", 2, 2, 1, (0, 2), 28),
        Profile(0, "4g.24gb", 4, 4, 1, (0,), 56),
    ),
    56,
)
# Its places of memory are twelve.
RTX_PRO_6000 = Part(
    (
        Profile(14, "1g.24gb", 1, 3, 4, (0, 3, 6, 9), 46),
        Profile(21, "1g.24gb+me", 1, 3, 1, (0, 3, 6, 9), 46),
        Profile(65, "1g.24gb+me.all", 1, 3, 1, (0, 3, 6, 9), 46),
        Profile(67, "1g.24gb-me", 1, 3, 4, (0, 3, 6, 9), 46),
        Profile(5, "2g.48gb", 2, 6, 2, (0, 6), 94),
        Profile(64, "2g.48gb+me.all", 2, 6, 1, (0, 6), 94),
        Profile(66, "2g.48gb-me", 2, 6, 2, (0, 6), 94),
        Profile(0, "4g.96gb", 4, 12, 1, (0,), 188),
    ),
    188,
)

Key = Tuple[int, int]


def _slices(part: Part, keys: Sequence[Key]) -> List[int]:
    profiles: Dict[int, Any] = {profile.id: profile for profile in part.profiles}
    return [start + n for number, start in keys for n in range(profiles[number].memory_slices)]


def every_layout(part: Part) -> Iterator[Tuple[Key, ...]]:
    """All legal layouts as sorted (profile id, start), the empty one included: every subset of all places is judged."""
    places = [(profile.id, start) for profile in part.profiles for start in profile.starts]
    profiles = {profile.id: profile for profile in part.profiles}

    def judged(chosen: Tuple[Key, ...]) -> bool:
        slices = _slices(part, chosen)
        names = [number for number, _start in chosen]
        return (
            len(slices) == len(set(slices))
            and sum(profiles[number].compute_slices for number in names) <= max(p.compute_slices for p in part.profiles)
            and all(names.count(number) <= profiles[number].most for number in names)
            and sum("+me" in profiles[number].name for number in names) <= 1
            # What has all media engines leaves none to others.
            and not any(
                "+me.all" in profiles[a].name and "-me" not in profiles[b].name
                for n, a in enumerate(names)
                for m, b in enumerate(names)
                if n != m
            )
        )

    def grow(first: int, chosen: Tuple[Key, ...]) -> Iterator[Tuple[Key, ...]]:
        yield tuple(sorted(chosen))
        for number in range(first, len(places)):
            longer = (*chosen, places[number])
            if judged(longer):  # a part of a legal layout is legal, so nothing is missed
                yield from grow(number + 1, longer)

    return grow(0, ())


def placed(part: Part, keys: Sequence[Key]) -> Tuple[Placed, ...]:
    profiles = {profile.id: profile for profile in part.profiles}
    return tuple(Placed(profiles[number], start) for number, start in keys)


def sets(part: Part) -> Dict[Tuple[int, ...], List[Tuple[Key, ...]]]:
    """Each set of profiles that can be had, with all its layouts."""
    found: Dict[Tuple[int, ...], List[Tuple[Key, ...]]] = {}
    for layout in every_layout(part):
        found.setdefault(tuple(sorted(number for number, _start in layout)), []).append(layout)
    return found
