# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of profiles as people, drivers and nvidia-mig-parted write them, and wishes of them."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Impossible
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.names import resolve
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.options import Asked, Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.wishes import wishes
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.gpus import (
    A30,
    A100_40,
    A100_80,
    H200,
)


@pytest.mark.parametrize("part", [A100_40, A100_80, H200, A30])
def test_a_gpus_own_names_and_ids_mean_what_they_say(part: Part) -> None:
    for profile in part.profiles:
        for text in (profile.name, "MIG " + profile.name, profile.name.upper(), str(profile.id)):
            assert resolve(part, text) == (profile, None)


@pytest.mark.parametrize(
    "part, text, name, compute",
    [
        (A100_40, "3g", "3g.20gb", None),
        (A100_80, "3g", "3g.40gb", None),
        (H200, "3g", "3g.71gb", None),
        (A100_40, "1g", "1g.5gb", None),  # and not 1g.10gb, which has one compute slice, too
        (A100_40, "1g+me", "1g.5gb+me", None),
        (A100_40, "1c.3g.20gb", "3g.20gb", 1),
        (H200, "2c.7g", "7g.141gb", 2),
        (H200, "3g.70gb", "3g.71gb", None),  # another driver's name of the same instance
        (H200, "7g.140gb", "7g.141gb", None),
    ],
)
def test_other_ways_to_write_them(part: Part, text: str, name: str, compute: Optional[int]) -> None:
    profile, slices = resolve(part, text)
    assert (profile.name, slices) == (name, compute)


def test_a_name_between_two_profiles_means_neither() -> None:
    one, double = A100_40.by_id(19), A100_40.by_id(15)
    assert one is not None and double is not None
    part = Part((one, replaced(double, name="1g.7gb")))
    with pytest.raises(Impossible, match=r"^this GPU has no profile 1g\.6gb; it has 1g\.7gb, 1g\.5gb$"):
        resolve(part, "1g.6gb")


@pytest.mark.parametrize(
    "text, said",
    [
        ("3g.40gb", "this GPU has no profile 3g.40gb; it has 7g.40gb, 4g.20gb, 3g.20gb, 2g.10gb, 1g.10gb, 1g.5gb"),
        ("2g.10gb+me", "this GPU has no profile 2g.10gb+me; it has "),
        ("99", "no profile has the id 99; there are 7g.40gb, "),
        ("big", "'big' is no name of a profile; there are 7g.40gb, "),
        ("3g.20gb\n", None),  # blanks around a name are none of it
        ("", "'' is no name of a profile; there are "),
        ("3g.20gb; rm", "'3g.20gb; rm' is no name of a profile; there are "),
    ],
)
def test_what_a_gpu_does_not_have(text: str, said: Optional[str]) -> None:
    if said is None:
        assert resolve(A100_40, text)[0].name == "3g.20gb"
        return
    with pytest.raises(Impossible) as told:
        resolve(A100_40, text)
    assert str(told.value).startswith(said)


@given(st.text(max_size=20))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        profile, _compute = resolve(A100_40, text)
    except Impossible as told:
        assert str(told).isprintable()
    else:
        assert profile in A100_40.profiles


# --- wishes
def told(asked: List[Asked]) -> List[Tuple[str, Optional[int], Tuple[int, ...]]]:
    return [(wish.profile.name, wish.start, wish.compute) for wish in wishes(A100_40, asked)]


def test_counts_starts_and_compute_instances() -> None:
    assert told([Asked("3g", start=4, compute=("1c", "2c.3g.20gb")), Asked("1g.5gb", 2), Asked("14")]) == [
        ("3g.20gb", 4, (1, 2)),
        ("1g.5gb", None, ()),
        ("1g.5gb", None, ()),
        ("2g.10gb", None, ()),
    ]


def test_compute_instances_by_name_share_as_few_gpu_instances_as_they_can() -> None:
    assert told([Asked("1c.3g.20gb", 4), Asked("2c.3g.20gb")]) == [
        ("3g.20gb", None, (2, 1)),
        ("3g.20gb", None, (1, 1, 1)),
    ]
    assert told([Asked("1c.2g"), Asked("2g")]) == [("2g.10gb", None, ()), ("2g.10gb", None, (1,))]


@pytest.mark.parametrize(
    "asked, said",
    [
        (Asked("3g", compute=("4c",)), "a 3g.20gb has 3 compute slices, and no compute instance of 4"),
        (Asked("5c.3g"), "a 3g.20gb has 3 compute slices, and no compute instance of 5"),
        (Asked("1c.3g", start=4), "1c.3g names a compute instance, which has neither a start nor compute instances;"),
        (Asked("1c.3g", compute=("1c",)), "1c.3g names a compute instance, which has neither a start"),
    ],
)
def test_wishes_that_are_none(asked: Asked, said: str) -> None:
    with pytest.raises(Impossible) as error:
        wishes(A100_40, [asked])
    assert str(error.value).startswith(said)


_PROFILE = "is no name of a profile; write it as 3g, 3g.20gb or 1c.3g.20gb, or give its id."


@pytest.mark.parametrize(
    "layouts, told",
    [
        ([{"instances": [{"profile": "3q"}]}], "option layouts[0].instances[0].profile: '3q' " + _PROFILE),
        ([{"instances": [{"profile": "3g.20g"}]}], "option layouts[0].instances[0].profile: '3g.20g' " + _PROFILE),
        (
            [{"instances": [{"profile": "3g", "compute": ["1c", "3"]}]}],
            "option layouts[0].instances[0].compute: '3' is no compute instance; write it as 1c or 2c.",
        ),
        (
            [{"instances": [{"profile": "3g", "compute": ["0c"]}]}],
            "option layouts[0].instances[0].compute: '0c' is no compute instance; write it as 1c or 2c.",
        ),
        (
            [{"gpus": ["0"]}, {"gpus": [1, 0]}],
            "option layouts[1].gpus: '0' is in layouts[0], too; name each GPU in one layout.",
        ),
        (
            [{"gpus": ["GPU-AB"]}, {"gpus": ["gpu-ab"], "mig": False}],
            "option layouts[1].gpus: 'gpu-ab' is in layouts[0], too; name each GPU in one layout.",
        ),
    ],
)
def test_what_no_gpu_can_be_is_told_by_its_form(layouts: Any, told: str) -> None:
    with pytest.raises(NodeError) as error:
        of(Desired, {"layouts": layouts})
    assert str(error.value) == told


@pytest.mark.parametrize("profile", ["3g", "MIG 3g.20gb", "3G.20GB", "1c.3g.20gb", "1g.5gb+me", "1g.24gb-me", 9, " 14"])
def test_all_forms_of_a_profile_are_taken(profile: Any) -> None:
    made = of(Desired, {"layouts": [{"instances": [{"profile": profile, "compute": ["1c.3g.20gb", "12c"]}]}]})
    assert made.layouts[0].instances[0].profile == str(profile)
