# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to change on one GPU for its instances to be those that are wanted.

Nothing that somebody uses goes away: an instance in use stays as it is, or the whole wish is refused. Of the rest as
much stays as can; a GPU is never cleared.
"""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, Optional, Sequence, Set, Tuple

from .instances import Changes, Impossible, Instance, New, Places, Wish
from .place import Layout, Part, Placed, best, layouts, lowest, room
from .reasons import in_use, no_place


def arrange(
    part: Part, there: Sequence[Instance], wishes: Sequence[Wish], exact: bool = True, made: Optional[Places] = None
) -> Changes:
    """The changes to one GPU.

    ``exact``: what nobody asked for goes; otherwise it stays, and the wish is placed around it. ``made``: where
    instances were made before, which is where they are made again.

    Raises:
        Impossible: a wish that is none, or that does not fit, or for which something in use would have to go.
    """
    for wish in wishes:
        _check(wish)
    wanted = [wish.wanted for wish in wishes]
    if next(layouts(part, wanted), None) is None:
        raise Impossible(no_place(part, wanted, ()))
    if not exact:
        return _around(part, there, wishes, made or {})
    busy = [instance for instance in there if instance.busy]
    chosen = _chosen(part, wishes, there, busy, made or {})
    if chosen is None:
        raise Impossible(in_use(part, wanted, busy))
    return _changes(chosen, wishes, there)


def _check(wish: Wish) -> None:
    name = wish.profile.name
    if wish.start is not None and wish.start not in wish.profile.starts:
        starts = ", ".join(str(start) for start in wish.profile.starts)
        raise Impossible("{0} cannot start at memory slice {1}; it can at {2}".format(name, wish.start, starts))
    if any(slices < 1 for slices in wish.compute) or sum(wish.slices) > wish.profile.compute_slices:
        raise Impossible(
            "compute instances {0} in a {1} need {2} compute slices and it has {3};"
            " ask for fewer or smaller ones".format(
                " + ".join("{0}c".format(slices) for slices in wish.slices), name, sum(wish.slices),
                wish.profile.compute_slices,
            )
        )  # fmt: skip


def _around(part: Part, there: Sequence[Instance], wishes: Sequence[Wish], made: Places) -> Changes:
    """What is wanted beside what nobody asked for. An instance that stands and is as wanted counts for its wish."""
    matched: Dict[int, Instance] = {}
    rest = list(there)
    # Those with a start first: another wish must not take the only instance that is at it.
    for number in sorted(range(len(wishes)), key=lambda i: (wishes[i].start is None, i)):
        wish = wishes[number]
        able = [i for i in rest if _serves(i.placed, wish) and _reachable(i, wish)]
        if able:
            # The one that needs least, and the lowest of these.
            chosen = min(able, key=lambda i: (i.slices != wish.slices, not i.busy, i.placed.start))
            matched[number] = chosen
            rest.remove(chosen)
    missing = [number for number in range(len(wishes)) if number not in matched]
    fixed = tuple(instance.placed for instance in there)
    wanted = [wishes[number].wanted for number in missing]
    before = [Placed(profile, start) for number, start in made for profile in part.profiles if profile.id == number]
    layout = best(part, wanted, fixed, before)
    if layout is None:
        raise Impossible(no_place(part, wanted, fixed))
    layout = _matched(layout, [wishes[number] for number in missing], {}, made) or layout
    created = tuple(New(placed, wishes[number].slices) for number, placed in zip(missing, layout))
    pairs = [(instance, wishes[number]) for number, instance in matched.items()]
    return _steps(pairs, rest, (), created)


def _serves(placed: Placed, wish: Wish) -> bool:
    return placed.profile.id == wish.profile.id and wish.start in (None, placed.start)


def _reachable(instance: Instance, wish: Wish) -> bool:
    """Whether the wish's compute instances can be had without ending one that is in use."""
    if instance.used and instance.slices != wish.slices and not any(c.used for c in instance.compute):
        return False  # in use, and nobody knows which of them
    left = list(wish.slices)
    for compute in instance.compute:
        if compute.used:
            if compute.slices not in left:
                return False
            left.remove(compute.slices)
    return True


def _chosen(
    part: Part, wishes: Sequence[Wish], there: Sequence[Instance], busy: Sequence[Instance], made: Places
) -> Optional[Layout]:
    """The best layout of the wishes with its places in their order: most instances kept, most compute instances kept,
    most places that had such an instance before, then as ``best``. None: what is in use would have to go or change."""
    stands = {instance.placed.key: instance for instance in there}
    by_kept: Dict[int, List[Layout]] = {}
    for layout in layouts(part, [wish.wanted for wish in wishes]):
        if _keeps(layout, busy):
            by_kept.setdefault(sum(placed.key in stands for placed in layout), []).append(layout)
    # To deal a layout and to count its room cost most, so that is done only for those that keep most.
    for kept in sorted(by_kept, reverse=True):
        matched = (_matched(layout, wishes, stands, made) for layout in by_kept[kept])
        dealt = [found for found in matched if found is not None]
        if dealt:
            return _roomiest(part, dealt, [_alike(layout, wishes, stands) for layout in dealt], made)
    return None


def _alike(layout: Layout, wishes: Sequence[Wish], stands: Dict[Tuple[int, int], Instance]) -> int:
    """How many instances stay with the compute instances that they have."""
    pairs = ((stands.get(placed.key), wish) for placed, wish in zip(layout, wishes))
    return sum(instance is not None and instance.slices == wish.slices for instance, wish in pairs)


def _roomiest(part: Part, found: Sequence[Layout], alike: Sequence[int], made: Places) -> Layout:
    """Of those that are most alike, the one with most places of before, then most room, then the lowest starts."""
    known: Dict[int, int] = {}

    def worth(layout: Layout) -> Tuple[int, int, List[Tuple[int, int]]]:
        taken = again = 0
        for placed in layout:
            taken |= placed.mask
            again += placed.key in made
        if taken not in known:
            known[taken] = room(part, layout)
        return -again, -known[taken], lowest(layout)

    most = max(alike)
    return min((layout for layout, count in zip(found, alike) if count == most), key=worth)


def _matched(
    layout: Layout, wishes: Sequence[Wish], stands: Dict[Tuple[int, int], Instance], made: Places
) -> Optional[Layout]:
    """The same places, dealt so that each instance that stands gets a wish whose compute instances it has or can have.

    ``layouts`` deals the places of one profile in ascending order, which is one of the orders that are legal. None:
    an instance in use can serve none of the wishes.
    """
    chosen = list(layout)
    for profile in {placed.profile.id for placed in layout}:
        numbers = [i for i, wish in enumerate(wishes) if wish.profile.id == profile and wish.start is None]
        fixed = [i for i, wish in enumerate(wishes) if wish.profile.id == profile and wish.start is not None]
        if not all(_allowed(stands.get(layout[i].key), wishes[i]) for i in fixed):
            return None
        # What is in use has least choice, then what stands.
        places = sorted((layout[i] for i in numbers), key=lambda p: (_rank(stands.get(p.key)), p.start))
        dealt = _dealt(places, numbers, wishes, stands, made)
        if dealt is None:
            return None
        for number, placed in dealt:
            chosen[number] = placed
    return tuple(chosen)


def _rank(instance: Optional[Instance]) -> int:
    return 2 if instance is None else 0 if instance.busy else 1


def _allowed(instance: Optional[Instance], wish: Wish) -> bool:
    return instance is None or not instance.busy or _reachable(instance, wish)


def _dealt(
    places: Sequence[Placed],
    numbers: Sequence[int],
    wishes: Sequence[Wish],
    stands: Dict[Tuple[int, int], Instance],
    made: Places,
) -> Optional[List[Tuple[int, Placed]]]:
    """A wish for each place; at most seven of each, and those of one place's profile differ little."""
    if not places:
        return []
    instance = stands.get(places[0].key)
    have = instance.slices if instance is not None else made.get(places[0].key, ())
    tried: Set[Tuple[int, ...]] = set()
    for number in sorted(numbers, key=lambda i: (wishes[i].slices != have, i)):
        wish = wishes[number]
        if wish.slices in tried or not _allowed(instance, wish):
            continue
        tried.add(wish.slices)
        rest = _dealt(places[1:], [i for i in numbers if i != number], wishes, stands, made)
        if rest is not None:
            return [(number, places[0]), *rest]
    return None


def _keeps(layout: Layout, busy: Sequence[Instance]) -> bool:
    keys = {placed.key for placed in layout}
    return all(instance.placed.key in keys for instance in busy)


def _changes(layout: Layout, wishes: Sequence[Wish], there: Sequence[Instance]) -> Changes:
    stands = {instance.placed.key: instance for instance in there}
    pairs, created = [], []
    kept: Set[int] = set()
    for placed, wish in zip(layout, wishes):
        instance = stands.get(placed.key)
        if instance is None:
            created.append(New(placed, wish.slices))
        else:
            pairs.append((instance, wish))
            kept.add(instance.id)
    return _steps(pairs, (), tuple(i for i in there if i.id not in kept), tuple(created))


def _steps(
    pairs: Sequence[Tuple[Instance, Wish]],
    unasked: Sequence[Instance],
    destroy: Tuple[Instance, ...],
    create: Tuple[New, ...],
) -> Changes:
    shrink, grow = [], []
    for instance, wish in pairs:
        left = list(wish.slices)
        goes = []
        # Those in use are matched first, so that of two alike ones the idle one goes.
        for compute in sorted(instance.compute, key=lambda c: (not c.used, c.id)):
            if compute.slices in left:
                left.remove(compute.slices)
            else:
                goes.append(compute)
        if max(left, default=0) > 1 and len(goes) < len(instance.compute):
            # An idle one may lie in the way, as only 1c fits wherever a slice is free: all idle ones are made anew.
            goes = [compute for compute in instance.compute if not compute.used]
            left = list((Counter(wish.slices) - Counter(c.slices for c in instance.compute if c.used)).elements())
        if goes:
            shrink.append((instance, tuple(goes)))
        if left:
            grow.append((instance, tuple(sorted(left, reverse=True))))
    keep = sorted((*(instance for instance, _wish in pairs), *unasked), key=lambda i: i.placed.start)
    # The largest first, as the driver's own search for places would want it; places are given anyway.
    order = sorted(create, key=lambda new: (-new.placed.profile.memory_slices, new.placed.start))
    return Changes(tuple(keep), tuple(shrink), destroy, tuple(order), tuple(grow))
