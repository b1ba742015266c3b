# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes on a GPU: nothing in use goes, most stays, the second plan is empty, a refusal's answer works."""

from __future__ import annotations

import random
from typing import Any, Dict, Optional, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.arrange import arrange
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import (
    Changes,
    Compute,
    Impossible,
    Instance,
    Wish,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import Placed
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import Key, placed
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.transitions import (
    LAYOUTS,
    PART,
    SETS,
    after,
    check_all,
    check_transition,
)

BY_NAME = {profile.name: profile for profile in PART.profiles}


def stands(name: str, start: int, *slices: int, used: Sequence[int] = (), gi_used: bool = False) -> Instance:
    """An instance with compute instances of these slices (the whole by default); those of ``used`` are in use."""
    profile = BY_NAME[name]
    sizes = slices or (profile.compute_slices,)
    compute = tuple(Compute(n, size, used=n in used) for n, size in enumerate(sizes))
    return Instance(100 + start, Placed(profile, start), compute, gi_used)


def wish(name: str, start: Optional[int] = None, *compute: int) -> Wish:
    return Wish(BY_NAME[name], start, compute)


def brief(changes: Changes) -> Dict[str, Any]:
    """The changes in words, empty ones left out."""
    told = {
        "keep": [(i.placed.profile.name, i.placed.start) for i in changes.keep],
        "shrink": [(i.placed.start, [c.slices for c in goes]) for i, goes in changes.shrink],
        "destroy": [(i.placed.profile.name, i.placed.start) for i in changes.destroy],
        "create": [(n.placed.profile.name, n.placed.start, n.compute) for n in changes.create],
        "grow": [(i.placed.start, sizes) for i, sizes in changes.grow],
    }
    return {name: value for name, value in told.items() if value}


# --- what mig-parted does, and what happens here
def test_one_changed_instance_leaves_the_others_alone() -> None:
    there = [stands("3g.20gb", 4), stands("2g.10gb", 0), stands("2g.10gb", 2)]
    changes = arrange(PART, there, [wish("3g.20gb"), wish("2g.10gb"), wish("1g.5gb"), wish("1g.5gb")])
    assert brief(changes) == {
        "keep": [("2g.10gb", 0), ("3g.20gb", 4)],
        "destroy": [("2g.10gb", 2)],
        "create": [("1g.5gb", 2, (1,)), ("1g.5gb", 3, (1,))],
    }


def test_an_instance_without_a_compute_instance_is_seen_and_gets_one() -> None:
    bare = Instance(7, Placed(BY_NAME["3g.20gb"], 4))
    assert brief(arrange(PART, [bare], [wish("3g.20gb")])) == {"keep": [("3g.20gb", 4)], "grow": [(4, (3,))]}
    assert brief(arrange(PART, [bare], [])) == {"destroy": [("3g.20gb", 4)]}


def test_an_impossible_wish_is_refused_with_one_that_works_before_anything_is_changed() -> None:
    with pytest.raises(Impossible) as told:
        arrange(PART, [stands("1g.5gb", 0)], [wish("3g.20gb"), wish("3g.20gb"), wish("1g.5gb")])
    assert str(told.value) == (
        "2 x 3g.20gb + 1g.5gb need 7 compute slices and 9 memory slices, and 7 of 7 and 8 of 8 are there;"
        " 3g.20gb + 2g.10gb + 1g.5gb would fit"
    )


def test_what_is_wanted_already_is_no_change_in_whatever_order() -> None:
    there = [stands("1g.5gb", 6), stands("3g.20gb", 0), stands("2g.10gb", 4)]
    for order in (["3g.20gb", "2g.10gb", "1g.5gb"], ["1g.5gb", "3g.20gb", "2g.10gb"]):
        assert arrange(PART, there, [wish(name) for name in order]).nothing


# --- in use
def test_what_is_in_use_stays_at_its_place_and_the_rest_is_placed_around_it() -> None:
    there = [stands("1g.5gb", 5, used=[0])]
    changes = arrange(PART, there, [wish("1g.5gb"), wish("3g.20gb")])
    assert brief(changes) == {"keep": [("1g.5gb", 5)], "create": [("3g.20gb", 0, (3,))]}


@pytest.mark.parametrize("used", [{"used": [0]}, {"gi_used": True}], ids=["compute instance", "GPU instance"])
def test_what_is_in_use_and_not_wanted_is_refused(used: Dict[str, Any]) -> None:
    there = [stands("2g.10gb", 2, **used), stands("1g.5gb", 0)]
    with pytest.raises(Impossible) as told:
        arrange(PART, there, [wish("4g.20gb"), wish("3g.20gb")])
    assert str(told.value) == (
        "2g.10gb at 2 in use would have to go or change for 4g.20gb + 3g.20gb;"
        " end what uses it, or ask for 3g.20gb + 2 x 2g.10gb"
    )


def test_an_explicit_start_does_not_move_what_is_in_use() -> None:
    there = [stands("3g.20gb", 0, used=[0])]
    with pytest.raises(Impossible, match=r"3g\.20gb at 0 in use would have to go or change for 3g\.20gb"):
        arrange(PART, there, [wish("3g.20gb", 4)])
    assert brief(arrange(PART, there, [wish("3g.20gb", 4), wish("3g.20gb")])) == {
        "keep": [("3g.20gb", 0)],
        "create": [("3g.20gb", 4, (3,))],
    }


def test_a_compute_instance_in_use_stays_and_the_idle_one_beside_it_goes() -> None:
    there = [stands("3g.20gb", 4, 1, 1, 1, used=[1])]
    changes = arrange(PART, there, [wish("3g.20gb", None, 2, 1)])
    assert [(i.placed.start, [c.id for c in goes]) for i, goes in changes.shrink] == [(4, [0, 2])]
    assert brief(changes)["grow"] == [(4, (2,))]


def test_idle_compute_instances_go_where_a_larger_one_has_to_come() -> None:
    """A 1c in the middle leaves no room for a 2c, and where a compute instance lies nobody asks."""
    for there, goes in (((1,), [0]), ((1, 1, 1), [0, 1, 2])):
        changes = arrange(PART, [stands("3g.20gb", 4, *there)], [wish("3g.20gb", None, 1, 2)])
        assert [[c.id for c in compute] for dummy, compute in changes.shrink] == [goes]
        assert brief(changes)["grow"] == [(4, (2, 1))]
    # What fits wherever a slice is free needs no room, and what is in use stays.
    assert brief(arrange(PART, [stands("3g.20gb", 4, 2)], [wish("3g.20gb", None, 1, 2)])) == {
        "keep": [("3g.20gb", 4)],
        "grow": [(4, (1,))],
    }
    busy = arrange(PART, [stands("4g.20gb", 0, 1, 1, used=[0])], [wish("4g.20gb", None, 1, 1, 2)])
    assert [[c.id for c in compute] for dummy, compute in busy.shrink] == [[1]] and brief(busy)["grow"] == [(0, (2, 1))]


def test_a_compute_instance_in_use_that_is_not_wanted_is_refused_with_what_there_is() -> None:
    there = [stands("3g.20gb", 4, 2, 1, used=[0])]
    with pytest.raises(Impossible) as told:
        arrange(PART, there, [wish("3g.20gb")])
    assert str(told.value) == (
        "3g.20gb at 4 in use would have to go or change for 3g.20gb; end what uses it, or ask for 3g.20gb,"
        " with compute instances 1c + 2c in 3g.20gb at 4"
    )
    # Somebody is in the GPU instance, and nobody knows in which of its compute instances.
    with pytest.raises(Impossible):
        arrange(PART, [stands("3g.20gb", 4, 2, 1, gi_used=True)], [wish("3g.20gb")])
    assert arrange(PART, [stands("3g.20gb", 4, gi_used=True)], [wish("3g.20gb")]).nothing


def test_wishes_are_dealt_so_that_those_in_use_can_stay() -> None:
    """Both of the 3g are in use; only one way to deal the two wishes ends nobody's work."""
    there = [stands("3g.20gb", 0, 1, 2, used=[0]), stands("3g.20gb", 4, 1, 1, 1, used=[0, 1])]
    wishes = [wish("3g.20gb", None, 1, 2), wish("3g.20gb", None, 1, 1, 1)]
    for order in (wishes, wishes[::-1]):
        assert arrange(PART, there, order).nothing
    # The first could serve either wish, the second one alone.
    there = [stands("3g.20gb", 0, 1, used=[0]), stands("3g.20gb", 4, 1, 1, used=[0, 1])]
    for order in (wishes, wishes[::-1]):
        grown = {i.placed.start: sizes for i, sizes in arrange(PART, there, order).grow}
        assert grown == {0: (2,), 4: (1,)}


# --- exact or around
def test_what_nobody_asked_for_stays_when_the_wish_is_not_exact() -> None:
    there = [stands("3g.20gb", 0), stands("1g.5gb", 6, used=[0])]
    changes = arrange(PART, there, [wish("2g.10gb"), wish("1g.5gb")], exact=False)
    assert brief(changes) == {"keep": [("3g.20gb", 0), ("1g.5gb", 6)], "create": [("2g.10gb", 4, (2,))]}
    with pytest.raises(Impossible) as told:
        arrange(PART, there, [wish("4g.20gb")], exact=False)
    assert str(told.value) == (
        "4g.20gb beside 3g.20gb + 1g.5gb need 4 compute slices and 4 memory slices, and 3 of 7 and 3 of 8 are there;"
        " 2g.10gb would fit"
    )
    assert brief(arrange(PART, there[:1], [wish("2g.10gb")])) == {
        "destroy": [("3g.20gb", 0)],
        "create": [("2g.10gb", 0, (2,))],
    }


def test_a_wish_with_a_start_is_not_robbed_of_the_instance_that_is_at_it() -> None:
    there = [stands("2g.10gb", 0)]
    changes = arrange(PART, there, [wish("2g.10gb"), wish("2g.10gb", 0)], exact=False)
    assert [(n.placed.profile.name, n.placed.start) for n in changes.create] in ([("2g.10gb", 2)], [("2g.10gb", 4)])
    assert brief(changes)["keep"] == [("2g.10gb", 0)]


def test_around_takes_the_instance_that_needs_least() -> None:
    there = [stands("3g.20gb", 0, 1, 2), stands("3g.20gb", 4)]
    assert arrange(PART, there, [wish("3g.20gb")], exact=False).nothing
    assert arrange(PART, there, [wish("3g.20gb", None, 2, 1)], exact=False).nothing


# --- after a boot
def rebuilt(changes: Changes, there: Sequence[Instance], wishes: Sequence[Wish], **more: Any) -> Tuple[Any, Any]:
    """What stood, and what a boot makes of it: places with the slices there."""
    stood = {instance.placed.key: instance.slices for instance in after(changes, there)}
    again = arrange(PART, [], wishes, made=stood, **more)
    return stood, {new.placed.key: tuple(sorted(new.compute)) for new in again.create}


def test_instances_are_made_again_where_they_stood() -> None:
    there = [stands("1g.5gb", 0)]
    wishes = [wish("1g.5gb"), wish("2g.10gb")]
    changes = arrange(PART, there, wishes)
    stood, again = rebuilt(changes, there, wishes)
    assert again == stood and {start for _profile, start in stood} == {0, 2}
    # Without knowing it they would lie elsewhere: it is that place that has to be remembered.
    assert {new.placed.key for new in arrange(PART, [], wishes).create} != set(stood)
    assert rebuilt(changes, there, wishes, exact=False)[1] == stood


def test_so_are_their_compute_instances() -> None:
    there = [stands("3g.20gb", 0), stands("3g.20gb", 4, 1, 2)]
    for wishes in ([wish("3g.20gb", None, 1, 2), wish("3g.20gb")], [wish("3g.20gb"), wish("3g.20gb", None, 1, 2)]):
        changes = arrange(PART, there, wishes)
        assert changes.nothing
        for exact in (True, False):
            stood, again = rebuilt(changes, there, wishes, exact=exact)
            assert again == stood


def test_what_was_remembered_yields_to_another_wish_and_to_what_stands() -> None:
    made = {(14, 2): (2,), (19, 6): (1,), (99, 0): (1,)}
    with_start = arrange(PART, [], [wish("2g.10gb", 0)], made=made)
    assert [new.placed.start for new in with_start.create] == [0]
    kept = arrange(PART, [stands("2g.10gb", 4)], [wish("2g.10gb")], made=made)
    assert kept.nothing
    other = arrange(PART, [], [wish("7g.40gb")], made=made)
    assert [new.placed.profile.name for new in other.create] == ["7g.40gb"]


def test_from_any_layout_to_any_set_a_boot_makes_the_same_places() -> None:
    by_id = {profile.id: profile for profile in PART.profiles}
    for turn in range(150):
        chance = random.Random(turn)
        standing = [
            Instance(n, each, (Compute(0, each.profile.compute_slices),))
            for n, each in enumerate(placed(PART, chance.choice(LAYOUTS)))
        ]
        wishes = [Wish(by_id[number]) for number in chance.choice(sorted(SETS))]
        stood, again = rebuilt(arrange(PART, standing, wishes), standing, wishes)
        assert again == stood


# --- wishes that are none
@pytest.mark.parametrize(
    "bad, said",
    [
        (wish("3g.20gb", 2), "3g.20gb cannot start at memory slice 2; it can at 0, 4"),
        (
            wish("2g.10gb", None, 2, 1),
            "compute instances 1c + 2c in a 2g.10gb need 3 compute slices and it has 2; ask for fewer or smaller ones",
        ),
        (
            wish("2g.10gb", None, 0),
            "compute instances 0c in a 2g.10gb need 0 compute slices and it has 2; ask for fewer or smaller ones",
        ),
    ],
)
def test_a_wish_that_is_none(bad: Wish, said: str) -> None:
    for exact in (True, False):
        with pytest.raises(Impossible) as told:
            arrange(PART, [], [bad], exact)
        assert str(told.value) == said


# --- all of it
@given(st.sampled_from(sorted(SETS)), st.sampled_from(LAYOUTS), st.integers(0, 127))
def test_any_layout_becomes_any_set(numbers: Tuple[int, ...], there: Tuple[Key, ...], busy: int) -> None:
    check_transition(numbers, there, [n for n in range(len(there)) if busy >> n & 1])


def test_layouts_at_random_become_sets_at_random() -> None:
    """All of them: tests/soak/test_mig_transitions.py."""
    chance = random.Random(1)
    for _turn in range(400):
        check_all(chance.choice(sorted(SETS)), chance.choice(LAYOUTS), chance)
