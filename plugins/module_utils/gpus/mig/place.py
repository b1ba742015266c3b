# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where GPU instances may lie on a GPU: an exact search, small enough to be whole.

A GPU that can be divided has memory slices (8 on an A100, 4 on an A30) and compute slices (7 or 4). NVML names each
profile with its compute slices, its width in memory slices and the starts that are legal for it; a layout is legal
when nothing overlaps, the compute slices suffice, and no profile stands more often than NVML allows. A GPU of seven
compute slices has 2,319 layouts of 128 sets of profiles, so the best place is looked for among all of them.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ...core.frozen import frozen

_MEDIA = re.compile(r"\+me\b")
# What an instance has of its own beside multiprocessors and memory, in the order of NVML's structure.
ENGINES = ("copy", "decoder", "encoder", "jpeg", "ofa")


@frozen
class Profile:
    """A kind of GPU instance, as NVML describes it for one GPU. ``name`` is without NVML's prefix "MIG "."""

    id: int
    name: str
    compute_slices: int
    memory_slices: int
    most: int
    starts: Tuple[int, ...]
    multiprocessors: int = 0
    memory_mib: int = 0
    # As many as ENGINES names; empty where nobody asked.
    engines: Tuple[int, ...] = ()

    @property
    def wants_media(self) -> bool:
        """The GPU has its media extensions (JPEG, OFA) once, so that one instance at most can have them."""
        return bool(_MEDIA.search(self.name))

    @property
    def takes_all_media(self) -> bool:
        """It has the media engines of the whole GPU, so that those beside it must be without (-me)."""
        return "+me.all" in self.name

    @property
    def without_media(self) -> bool:
        return "-me" in self.name

    @property
    def plain(self) -> bool:
        """Without attributes such as +me, of which a GPU has few."""
        return "+" not in self.name and "-" not in self.name


@frozen
class Part:
    """What can be made of one GPU."""

    profiles: Tuple[Profile, ...]
    # Of the whole GPU; 0 where the driver does not tell.
    multiprocessors: int = 0
    # Whether the driver told the places; otherwise they are NVIDIA's usual ones, which a GPU may not have.
    told: bool = True

    @property
    def compute_slices(self) -> int:
        return max((profile.compute_slices for profile in self.profiles), default=0)

    @property
    def memory_slices(self) -> int:
        return max((max(p.starts) + p.memory_slices for p in self.profiles if p.starts), default=0)

    def by_id(self, number: int) -> Optional[Profile]:
        return next((profile for profile in self.profiles if profile.id == number), None)

    @property
    def smallest(self) -> Optional[Profile]:
        """The profile that free room is counted in: 1g."""
        plain = (profile for profile in self.profiles if profile.plain)
        return min(plain, key=lambda p: (p.compute_slices, p.memory_slices), default=None)


@frozen
class Placed:
    """A GPU instance at its place."""

    profile: Profile
    start: int

    @property
    def mask(self) -> int:
        """The memory slices that it covers, as bits."""
        return ((1 << self.profile.memory_slices) - 1) << self.start

    @property
    def key(self) -> Tuple[int, int]:
        return self.profile.id, self.start


@frozen
class Wanted:
    """An instance that is asked for; without ``start`` its place is free."""

    profile: Profile
    start: Optional[int] = None

    @property
    def starts(self) -> Tuple[int, ...]:
        if self.start is None:
            return self.profile.starts
        return (self.start,) if self.start in self.profile.starts else ()


Layout = Tuple[Placed, ...]


def legal(part: Part, layout: Sequence[Placed]) -> bool:
    """Whether these instances can stand side by side."""
    taken = 0
    for placed in layout:
        if placed.start not in placed.profile.starts or taken & placed.mask:
            return False
        taken |= placed.mask
    return _enough(part, layout)


def layouts(part: Part, wanted: Sequence[Wanted], fixed: Layout = ()) -> Iterator[Layout]:
    """Each way to place what is wanted beside what is fixed, once; the places are in the order of ``wanted``.

    Instances of one profile without a start are alike: of the orders in which they could take the same places, the
    ascending one is given.
    """
    if not _enough(part, [*fixed, *(Placed(want.profile, 0) for want in wanted)]):
        return
    taken = 0
    for placed in fixed:
        taken |= placed.mask
    # What has few places is placed first: a dead end is found out early. Alike ones follow each other.
    order = sorted(
        range(len(wanted)),
        key=lambda i: (len(wanted[i].starts), -wanted[i].profile.memory_slices, wanted[i].profile.id, i),
    )
    chosen: List[Optional[Placed]] = [None] * len(wanted)

    def place(step: int, taken: int) -> Iterator[Layout]:
        if step == len(order):
            yield tuple(placed for placed in chosen if placed is not None)
            return
        want = wanted[order[step]]
        lowest = -1
        if step and want.start is None and wanted[order[step - 1]] == want:
            before = chosen[order[step - 1]]
            lowest = before.start if before is not None else -1
        for start in want.starts:
            placed = Placed(want.profile, start)
            if start > lowest and not taken & placed.mask:
                chosen[order[step]] = placed
                yield from place(step + 1, taken | placed.mask)
        chosen[order[step]] = None

    yield from place(0, taken)


def fits(part: Part, wanted: Sequence[Wanted], fixed: Layout = ()) -> bool:
    return next(layouts(part, wanted, fixed), None) is not None


def room(part: Part, layout: Sequence[Placed], profile: Optional[Profile] = None) -> int:
    """How many more instances of a profile (of the smallest one by default) can be made beside this layout."""
    profile = profile or part.smallest
    if profile is None:
        return 0
    count = 0
    while fits(part, [Wanted(profile)] * (count + 1), tuple(layout)):
        count += 1
    return count


def best(part: Part, wanted: Sequence[Wanted], fixed: Layout = (), there: Iterable[Placed] = ()) -> Optional[Layout]:
    """The layout that keeps most of what is ``there``, then leaves most room, then starts lowest; None: none is legal.

    The same wish gets the same answer, whatever the order of ``there``.
    """
    stands = {placed.key for placed in there}
    # Room depends on the slices that are taken alone, and costs more to count than all the rest.
    known: Dict[int, int] = {}

    def worth(layout: Layout) -> Tuple[int, int, List[Tuple[int, int]]]:
        kept = sum(placed.key in stands for placed in layout)
        taken = 0
        for placed in layout:
            taken |= placed.mask
        if taken not in known:
            known[taken] = room(part, (*fixed, *layout))
        return -kept, -known[taken], lowest(layout)

    return min(layouts(part, wanted, fixed), key=worth, default=None)


def lowest(layout: Layout) -> List[Tuple[int, int]]:
    """An order of layouts that does not depend on the order of the wishes."""
    return sorted((placed.start, placed.profile.id) for placed in layout)


def nearest(part: Part, wanted: Sequence[Wanted], fixed: Layout = ()) -> Tuple[Profile, ...]:
    """What would fit in place of an impossible wish: as many of its profiles as can be, smaller ones for the others.

    Widest first; empty when not even the smallest profile has a place.
    """
    smaller: Dict[int, List[Optional[Profile]]] = {}
    plain = sorted(
        (p for p in part.profiles if p.plain),
        key=lambda p: (-p.compute_slices, -p.memory_slices),
    )
    for want in wanted:
        size = (want.profile.compute_slices, want.profile.memory_slices)
        others = [p for p in plain if p.id != want.profile.id and (p.compute_slices, p.memory_slices) <= size]
        smaller[want.profile.id] = [want.profile, *others, None]
    profiles = sorted((want.profile for want in wanted), key=_widest)
    # No GPU has more instances than compute slices, so no more of a kind can matter.
    profiles = [one for n, one in enumerate(profiles) if profiles[:n].count(one) < part.compute_slices]
    found: List[Tuple[Tuple[int, ...], Tuple[Profile, ...]]] = []
    seen = set()
    possible: Dict[Tuple[int, ...], bool] = {}

    def choose(step: int, chosen: Tuple[Profile, ...], same: int) -> None:
        key = tuple(sorted(profile.id for profile in chosen))
        if key not in possible:
            possible[key] = fits(part, [Wanted(profile) for profile in chosen], fixed)
        if not possible[key]:
            return  # nor does it with more
        if step < len(profiles):
            for other in smaller[profiles[step].id]:
                taken = chosen if other is None else (*chosen, other)
                state = (step, tuple(sorted(p.id for p in taken)), same + (other is profiles[step]))
                if state not in seen:
                    seen.add(state)
                    choose(step + 1, taken, state[2])
            return
        worth = (same, sum(p.compute_slices for p in chosen), len(chosen))
        found.append((worth, tuple(sorted(chosen, key=_widest))))

    choose(0, (), 0)
    return max(found, key=lambda each: each[0], default=((), ()))[1]


def media_suffice(profiles: Sequence[Profile]) -> bool:
    if sum(profile.wants_media for profile in profiles) > 1:
        return False
    return not any(p.takes_all_media for p in profiles) or sum(not p.without_media for p in profiles) == 1


def _widest(profile: Profile) -> Tuple[int, int, int]:
    return -profile.compute_slices, -profile.memory_slices, profile.id


def _enough(part: Part, layout: Sequence[Placed]) -> bool:
    """Whether the slices, the media engines and the numbers of each profile suffice, wherever the instances lie."""
    counts: Dict[int, int] = {}
    for placed in layout:
        counts[placed.profile.id] = counts.get(placed.profile.id, 0) + 1
    most = {placed.profile.id: placed.profile.most for placed in layout}
    return (
        all(count <= most[number] for number, count in counts.items())
        and sum(placed.profile.compute_slices for placed in layout) <= part.compute_slices
        and sum(placed.profile.memory_slices for placed in layout) <= part.memory_slices
        and media_suffice([placed.profile for placed in layout])
    )
