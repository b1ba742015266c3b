# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places of instances, against an oracle that judges every subset of all places."""

from __future__ import annotations

from typing import List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import (
    Part,
    Profile,
    Wanted,
    best,
    fits,
    layouts,
    legal,
    nearest,
    room,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import (
    A30,
    A100_40,
    H200,
    RTX_PRO_6000,
    Key,
    every_layout,
    placed,
    sets,
)

BY_NAME = {profile.name: profile for part in (A100_40, A30, H200, RTX_PRO_6000) for profile in part.profiles}
SETS = sets(A100_40)
some = st.lists(st.sampled_from(A100_40.profiles), max_size=8)


def want(*names: str) -> List[Wanted]:
    return [Wanted(BY_NAME[name]) for name in names]


def keys(layout: object) -> Tuple[Key, ...]:
    assert layout is not None
    return tuple(sorted(each.key for each in layout))  # type: ignore[attr-defined]


def test_a_gpu_of_seven_slices_has_2319_layouts_of_128_sets() -> None:
    assert len(SETS) == 128
    assert sum(len(of_set) for of_set in SETS.values()) == 2319


@pytest.mark.parametrize("part", [A100_40, A30, RTX_PRO_6000], ids=["seven slices", "four slices", "twelve places"])
def test_each_set_has_exactly_the_layouts_of_the_oracle_each_once(part: Part) -> None:
    by_id = {profile.id: profile for profile in part.profiles}
    for numbers, expected in sets(part).items():
        found = [keys(layout) for layout in layouts(part, [Wanted(by_id[number]) for number in numbers])]
        assert sorted(found) == sorted(expected), numbers


def test_whatever_cannot_be_had_has_no_layout() -> None:
    for number, profile in enumerate(A100_40.profiles):
        for other in A100_40.profiles[number:]:
            for count in range(1, 9):
                ids = tuple(sorted([profile.id] * count + [other.id]))
                wanted = [Wanted(profile)] * count + [Wanted(other)]
                assert fits(A100_40, wanted) == (ids in SETS), (profile.name, count, other.name)


@given(st.sampled_from(list(every_layout(A100_40))), some)
def test_what_is_placed_beside_fixed_ones_is_legal_with_them(there: Tuple[Key, ...], profiles: List[Profile]) -> None:
    fixed = placed(A100_40, there)
    wanted = [Wanted(profile) for profile in profiles]
    expected = {
        layout
        for layout in SETS.get(tuple(sorted([p.id for p in profiles] + [number for number, dummy in there])), [])
        if set(there) <= set(layout)
    }
    found = list(layouts(A100_40, wanted, fixed))
    assert all(legal(A100_40, (*fixed, *layout)) for layout in found)
    assert all([each.profile for each in layout] == profiles for layout in found)
    assert {tuple(sorted((*there, *keys(layout)))) for layout in found} == expected


def test_a_count_is_a_limit_of_its_own() -> None:
    """On the parts of today slices run out first; NVML's count is what holds on those to come."""
    one, whole = Profile(1, "1g.5gb", 1, 1, 2, (0, 1, 2, 3)), Profile(0, "4g.20gb", 4, 4, 1, (0,))
    synthetic = Part((one, whole))
    assert fits(synthetic, [Wanted(one)] * 2)
    assert not fits(synthetic, [Wanted(one)] * 3)


def test_a_start_is_kept_and_one_that_is_not_legal_has_no_layout() -> None:
    three, two = BY_NAME["3g.20gb"], BY_NAME["2g.10gb"]
    assert [keys(each) for each in layouts(A100_40, [Wanted(three, 0), Wanted(two)])] == [((9, 0), (14, 4))]
    assert not fits(A100_40, [Wanted(three, 2)])
    assert not fits(A100_40, [Wanted(two, 0), Wanted(two, 0)])
    assert fits(A100_40, [Wanted(two, 0), Wanted(two, 2)])


def test_a_3g_lies_where_it_blocks_no_slice() -> None:
    """At 0 it covers four memory slices of which it needs three for its compute slices; at 4 only three are left."""
    assert keys(best(A100_40, want("3g.20gb"))) == ((9, 4),)
    assert keys(best(A100_40, want("1g.5gb", "1g.5gb", "3g.20gb"))) == ((9, 4), (19, 0), (19, 1))
    assert keys(best(A100_40, want("2g.10gb"), there=placed(A100_40, [(14, 2)]))) == ((14, 2),)


@given(st.sampled_from(sorted(SETS)), st.sampled_from(list(every_layout(A100_40))), st.randoms(use_true_random=False))
def test_most_of_what_stands_is_kept_and_then_most_room_is_left(
    numbers: Tuple[int, ...], there: Tuple[Key, ...], chance: object
) -> None:
    by_id = {profile.id: profile for profile in A100_40.profiles}
    wanted = [Wanted(by_id[number]) for number in numbers]
    mixed = list(wanted)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    stands = placed(A100_40, there)
    found = keys(best(A100_40, wanted, there=stands))
    assert found == keys(best(A100_40, mixed, there=reversed(stands)))
    kept = max(len(set(layout) & set(there)) for layout in SETS[numbers])
    assert len(set(found) & set(there)) == kept
    most = [layout for layout in SETS[numbers] if len(set(layout) & set(there)) == kept]
    rooms = {layout: room(A100_40, placed(A100_40, layout)) for layout in most}
    assert rooms[found] == max(rooms.values())


def test_room_is_counted_in_the_smallest_plain_profile() -> None:
    assert A100_40.smallest == BY_NAME["1g.5gb"]
    assert room(A100_40, ()) == 7
    assert room(A100_40, placed(A100_40, [(9, 0)])) == 3
    assert room(A100_40, placed(A100_40, [(9, 4)])) == 4
    assert room(A100_40, placed(A100_40, [(20, 0)]), BY_NAME["1g.5gb+me"]) == 0
    assert room(A100_40, (), BY_NAME["1g.10gb"]) == 4
    assert room(Part(()), ()) == 0


def test_one_instance_of_a_gpu_has_the_media_extensions() -> None:
    assert fits(A30, want("1g.6gb+me", "1g.6gb"))
    assert not fits(A30, want("1g.6gb+me", "2g.12gb+me"))


def test_what_takes_all_media_engines_has_only_those_without_beside_it() -> None:
    everything = "1g.24gb+me.all"
    assert fits(RTX_PRO_6000, want(everything, "1g.24gb-me", "2g.48gb-me"))
    for other in ("1g.24gb", "1g.24gb+me", "2g.48gb", "2g.48gb+me.all"):
        assert not fits(RTX_PRO_6000, want(everything, other)), other
    assert room(RTX_PRO_6000, placed(RTX_PRO_6000, [(65, 0)])) == 0
    assert room(RTX_PRO_6000, placed(RTX_PRO_6000, [(65, 0)]), BY_NAME["1g.24gb-me"]) == 3
    assert fits(RTX_PRO_6000, want("1g.24gb+me", "1g.24gb", "2g.48gb"))


@pytest.mark.parametrize(
    "wanted, other",
    [
        (["3g.20gb", "3g.20gb", "1g.5gb"], ["3g.20gb", "2g.10gb", "1g.5gb"]),
        (["4g.20gb", "4g.20gb"], ["4g.20gb", "3g.20gb"]),
        (["7g.40gb", "1g.5gb"], ["7g.40gb"]),
        (["1g.5gb+me", "1g.5gb+me"], ["1g.5gb", "1g.5gb+me"]),
        (["3g.20gb"] * 7, ["3g.20gb", "3g.20gb"]),
    ],
)
def test_what_would_fit_instead(wanted: List[str], other: List[str]) -> None:
    assert sorted(profile.name for profile in nearest(A100_40, want(*wanted))) == sorted(other)


@given(some, st.sampled_from(list(every_layout(A100_40))))
def test_the_alternative_works_and_is_the_wish_where_that_works(
    profiles: List[Profile], there: Tuple[Key, ...]
) -> None:
    fixed = placed(A100_40, there)
    wanted = [Wanted(profile) for profile in profiles]
    other = nearest(A100_40, wanted, fixed)
    assert fits(A100_40, [Wanted(profile) for profile in other], fixed)
    if fits(A100_40, wanted, fixed):
        assert sorted(p.id for p in other) == sorted(p.id for p in profiles)
    elif not other and profiles:
        # Nothing as small as the smallest of them has a place either.
        compute = min(profile.compute_slices for profile in profiles)
        memory = min(profile.memory_slices for profile in profiles)
        small = [p for p in A100_40.profiles if p.compute_slices <= compute and p.memory_slices <= memory]
        assert not any(fits(A100_40, [Wanted(p)], fixed) for p in small if "+" not in p.name)
