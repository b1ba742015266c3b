# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``@frozen`` is what ``@dataclasses.dataclass(frozen=True)`` is, for all that the library asks of it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import frozen, plain, replaced


def both(decorate):
    @decorate
    class Point:
        x: int
        y: Optional[str] = None
        tags: Tuple[str, ...] = ()

        def __post_init__(self):
            if self.x < 0:
                raise ValueError("negative")

        @property
        def double(self):
            return 2 * self.x

    @decorate
    class Named(Point):
        name: str = "a"

    return Point, Named


OURS, OUR_CHILD = both(frozen)
THEIRS, THEIR_CHILD = both(dataclasses.dataclass(frozen=True))
PAIRS = ((OURS, THEIRS), (OUR_CHILD, THEIR_CHILD))
VALUES = st.tuples(st.integers(0, 3), st.sampled_from([None, "b"]))


@frozen
class Sent:
    values: Tuple[int, ...] = ()


def test_an_empty_dictionary_may_be_a_default_and_is_one_after_the_standard_decorator_too():
    @frozen
    class Found:
        declared: dict = {}

    assert Found().declared == {}
    assert [field.name for field in dataclasses.fields(Found)] == ["declared"]
    assert Found().declared == {} and dataclasses.replace(Found(), declared={1: 2}).declared == {1: 2}


@given(VALUES, VALUES)
def test_it_compares_hashes_and_tells_itself_as_the_standard_one(one, other):
    for ours, theirs in PAIRS:
        assert (ours(*one) == ours(*other)) == (theirs(*one) == theirs(*other))
        assert ours(*one) == ours(x=one[0], y=one[1]) and ours(*one) != theirs(*one)
        assert (hash(ours(*one)) == hash(ours(*other))) == (hash(theirs(*one)) == hash(theirs(*other)))
        assert repr(ours(*one)) == repr(theirs(*one))
        assert dataclasses.asdict(ours(*one)) == dataclasses.asdict(theirs(*one))
        assert dataclasses.replace(ours(*one), x=other[0]) == ours(other[0], one[1])
        assert copy.deepcopy(ours(*one)) == ours(*one)
        assert [field.name for field in dataclasses.fields(ours)] == [
            field.name for field in dataclasses.fields(theirs)
        ]


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((1, "b", (), "n", 5), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": "b"})]
)
def test_a_wrong_call_is_a_type_error_with_both(given, named):
    for ours, theirs in PAIRS:
        for one in (ours, theirs):
            with pytest.raises(TypeError):
                one(*given, **named)


def test_nothing_can_be_set():
    for one in (OURS(1), OUR_CHILD(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError):
            del one.x
    with pytest.raises(ValueError, match="negative"):
        OURS(-1)
    assert OUR_CHILD(2, name="c").double == 4 and OURS(1) != OUR_CHILD(1)


def test_a_standard_dataclass_may_be_made_of_one():
    @dataclasses.dataclass(frozen=True)
    class Child(OURS):
        name: str = "a"

    assert dataclasses.asdict(Child(**{"x": 1, "name": "c"})) == {"x": 1, "y": None, "tags": (), "name": "c"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Child(1).x = 2


@given(VALUES)
def test_a_copy_and_a_plain_form_are_those_of_the_standard_module(value):
    one = OUR_CHILD(*value, name="b")
    assert replaced(one, y="c") == dataclasses.replace(one, y="c") and one == OUR_CHILD(*value, name="b")
    assert plain(one) == dict(dataclasses.asdict(one), tags=[])


def test_it_travels_between_processes():
    assert pickle.loads(pickle.dumps(Sent((1, 2)))) == Sent((1, 2))
