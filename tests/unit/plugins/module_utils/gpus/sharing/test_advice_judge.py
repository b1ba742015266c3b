# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge of advice, held against an oracle that tries every number of sharers and every layout."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Instance
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.place import (
    Part,
    Placed,
    Profile,
    Wanted,
    fits,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import Gpu
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.figures import FIGURES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.judge import judge, summed
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.sharing.types import Sample, Use
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig import gpus

GIB = 1024**3


def with_memory(part: Part, mib: "dict[int, int]") -> Part:
    """MiB by profile id, as NVIDIA's MIG user guide has them."""
    return replaced(part, profiles=tuple(replaced(one, memory_mib=mib[one.id]) for one in part.profiles))


A100 = with_memory(gpus.A100_40, {19: 4864, 20: 4864, 15: 9856, 14: 9856, 9: 19968, 5: 19968, 0: 40192})
H200 = with_memory(gpus.H200, {19: 16384, 20: 16384, 15: 33280, 14: 33280, 9: 71424, 5: 71424, 0: 143360})
A30 = with_memory(gpus.A30, {14: 5952, 21: 5952, 5: 11968, 6: 11968, 0: 24000})
PARTS = {"A100": (A100, 40), "H200": (H200, 140), "A30": (A30, 24), "none": (Part(()), 32)}


def a_gpu(part: Part = A100, mode: "bool | None" = False, instances: "tuple[Instance, ...]" = ()) -> Gpu:
    return Gpu(0, "GPU-0", "0001:00:00.0", mode=mode, part=part, instances=instances)


def a_use(busy: float = 10, peak: "float | None" = None, memory_gib: float = 4, total_gib: float = 40, **more) -> Use:
    return replaced(
        Use(60.0, 60, busy, busy if peak is None else peak, None, None, None),
        **dict({"memory_peak_bytes": int(memory_gib * GIB), "memory_total_bytes": int(total_gib * GIB)}, **more),
    )


def counts(part: Part) -> "dict[int, int]":
    """How many of each profile alone there are in any layout."""
    found: "dict[int, int]" = {}
    for layout in gpus.every_layout(part):
        numbers = {number for number, _start in layout}
        if len(numbers) == 1:
            (number,) = numbers
            found[number] = max(found.get(number, 0), len(layout))
    return found


COUNTS = {name: counts(part) for name, (part, _total) in PARTS.items()}


def oracle(name: str, use: Use) -> "tuple[str, int, int]":
    """The kind of advice, the most instances of a profile that does, the most that can take turns."""
    part, _total = PARTS[name]
    need = 1.25 * (use.busy_peak_percent if use.sm_peak_percent is None else use.sm_peak_percent)
    able = [
        COUNTS[name][one.id]
        for one in part.profiles
        if not set("+-") & set(one.name)
        and one.memory_mib * 2**20 >= int(1.25 * use.memory_peak_bytes)
        and one.multiprocessors / part.multiprocessors >= need / 100 - 1e-12
    ]
    instances = max([count for count in able if count > 1], default=0)
    turns = [
        count
        for count in range(2, 9)
        if count * use.busy_percent <= 100 - 38 and count * int(1.25 * use.memory_peak_bytes) <= use.memory_total_bytes
    ]
    sharers = max(turns, default=0)
    if use.busy_percent < 1:
        return "not-enough-seen", 0, 0
    return ("mig" if instances else "time-slice" if sharers else "dedicated"), instances, sharers


def judged(name: str, use: Use):
    part, _total = PARTS[name]
    return judge(a_gpu(part, False if part.profiles else None), use)


def check(name: str, use: Use) -> None:
    advice = judged(name, use)
    kind, instances, sharers = oracle(name, use)
    assert advice.kind == kind, (name, use, advice)
    assert (0 if advice.mig is None else advice.mig.count) == instances, (name, use, advice)
    assert (0 if advice.time_slice is None else advice.time_slice.replicas) == sharers, (name, use, advice)
    assert advice.reasons and all(reason.strip() for reason in advice.reasons)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_every_advice_is_that_of_the_oracle(name):
    total = PARTS[name][1]
    shares = (0, 0.9, 1, 5, 7.75, 10, 10.5, 15, 20, 20.7, 21, 30, 31, 31.1, 50, 100)
    for busy, peak, active in itertools.product(shares, shares, (None, 0, 3, 9.6, 20, 30, 100)):
        if peak >= busy:
            for memory in (0, 1, 3.8, 5, 7.7, 8, 12, 15.6, 16, 20, total / 2.5, total / 2, total):
                check(name, a_use(busy, peak, min(memory, total), total, sm_peak_percent=active, sm_percent=active))


# Quarters are exact in binary, so that a limit is met exactly, too.
PERCENT = st.integers(0, 400).map(lambda number: number / 4)


@given(
    name=st.sampled_from(sorted(PARTS)),
    busy=PERCENT,
    peak=PERCENT,
    active=st.none() | PERCENT,
    memory=st.floats(0, 1),
)
def test_any_advice_is_that_of_the_oracle(name, busy, peak, active, memory):
    total = PARTS[name][1]
    check(name, a_use(min(busy, peak), max(busy, peak), memory * total, total, sm_peak_percent=active))


@given(busy=st.floats(1, 100), memory=st.floats(0, 40), more=st.floats(0, 1), held=st.floats(0, 1))
def test_who_uses_more_is_never_given_more_sharers(busy, memory, more, held):
    def sharers(advice):
        return (
            0 if advice.mig is None else advice.mig.count,
            0 if advice.time_slice is None else advice.time_slice.replicas,
        )

    less = sharers(judged("A100", a_use(busy, memory_gib=memory)))
    greater = sharers(judged("A100", a_use(busy + more * (100 - busy), memory_gib=memory + held * (40 - memory))))
    assert greater[0] <= less[0] and greater[1] <= less[1]


def test_the_layout_that_is_advised_has_room_and_one_more_has_not():
    for busy, memory in itertools.product(range(1, 32), range(0, 20)):
        advice = judged("A100", a_use(busy, memory_gib=memory))
        if advice.mig is None:
            continue
        profile = next(one for one in A100.profiles if one.name == advice.mig.profile)
        assert fits(A100, [Wanted(profile)] * advice.mig.count)
        assert not fits(A100, [Wanted(profile)] * (advice.mig.count + 1))
        used = advice.mig.count * advice.mig.multiprocessors
        assert advice.mig.unused_percent == pytest.approx(100 * (108 - used) / 108)


# What each figure does ----------------------------------------------------------------------------------


def test_instances_are_advised_before_turns_and_turns_are_told():
    advice = judged("A100", a_use(14, 15))
    assert (advice.kind, advice.mig.profile, advice.mig.count) == ("mig", "2g.10gb", 3)
    assert advice.time_slice.replicas == 4
    assert "22.22 % of the multiprocessors stay unused" in "; ".join(advice.reasons)
    assert "time-slicing has room for 4, with no isolation" in advice.notes


def test_bursts_take_turns_as_an_instance_would_hold_them_up():
    advice = judged("A100", a_use(12, 100))
    assert (advice.kind, advice.time_slice.replicas, advice.mig) == ("time-slice", 5, None)
    text = "; ".join(advice.reasons)
    assert "about 38 % is lost as soon as two share the GPU, and no more with 4 or 8" in text
    assert "nothing keeps them apart" in text and "no MIG profile with 100 % of" in text


@pytest.mark.parametrize(
    ("busy", "memory_gib", "told"),
    [
        (97, 4, "two such jobs need 194 % of the time of the GPU, and with time-slicing about 62 % is usable"),
        (12, 30, "two such jobs need 75.0 GiB of memory with headroom, and the GPU has 40.0 GiB"),
    ],
)
def test_what_fills_a_gpu_has_it_for_itself(busy, memory_gib, told):
    advice = judged("A100", a_use(busy, 100, memory_gib))
    assert (advice.kind, advice.mig, advice.time_slice) == ("dedicated", None, None)
    assert told in "; ".join(advice.reasons)


def test_kernels_that_run_always_and_use_few_multiprocessors_fit_an_instance_where_that_is_told():
    use = a_use(100, 100, total_gib=140)
    assert judged("H200", use).kind == "dedicated"
    advice = judged("H200", replaced(use, sm_percent=8.0, sm_peak_percent=9.0))
    assert (advice.kind, advice.mig.profile, advice.mig.count, advice.time_slice) == ("mig", "1g.18gb", 7, None)
    assert "at most 9 % of its multiprocessors had work" in advice.reasons


def test_of_profiles_that_have_room_as_often_the_larger_is_advised():
    """Double 1g has room four times, for what needs its memory; 2g three times, with twice the multiprocessors."""
    assert judged("A100", a_use(9, memory_gib=6)).mig.profile == "1g.10gb"
    like = (Profile(1, "1g.5gb", 1, 1, 2, (0, 1), 14, 4864), Profile(2, "2g.5gb", 2, 1, 2, (0, 1), 28, 4864))
    for profiles in (like, like[::-1]):
        part = Part((*profiles, Profile(3, "7g.40gb", 7, 8, 1, (0,), 98, 40192)), 108)
        assert judge(a_gpu(part), a_use(9, memory_gib=1)).mig.profile == "2g.5gb"


def test_profiles_with_attributes_are_not_advised():
    """Those of an RTX PRO 6000: without media engines and for graphics there are as many as plain ones."""
    names = ("1g.24gb-me", "1g.24gb+gfx", "1g.24gb", "1g.24gb-me,gfx")
    parts = (Profile(number, name, 1, 1, 4, (0, 1, 2, 3), 46, 24186) for number, name in enumerate(names))
    part = Part((*parts, Profile(9, "4g.96gb", 4, 4, 1, (0,), 188, 97280)), 188)
    assert judge(a_gpu(part), a_use(9, memory_gib=4, total_gib=95)).mig.profile == "1g.24gb"


def test_no_more_than_eight_take_turns():
    assert judged("none", a_use(1, 100, 0.1, 32)).time_slice.replicas == 8 == FIGURES["most_replicas"].value


def test_the_loss_of_mig_is_that_of_the_talk():
    """98 of 108 multiprocessors: 9.25 % in the talk, which cuts the number off."""
    whole = next(one for one in A100.profiles if one.compute_slices == 7)
    assert int(10000 * (1 - whole.multiprocessors / A100.multiprocessors)) == 925


@pytest.mark.parametrize(
    ("mode", "part", "told"), [(None, Part(()), "it has no MIG"), (False, Part(()), "does not tell while MIG is off")]
)
def test_a_gpu_that_cannot_be_divided_says_why(mode, part, told):
    advice = judge(a_gpu(part, mode), a_use(14, 15))
    assert advice.kind == "time-slice" and told in "; ".join(advice.reasons)


def test_who_shares_already_and_who_lets_nobody_in_is_told():
    notes = judged("A100", a_use(12, 100, processes=3, exclusive=True, untold=("why",))).notes
    assert notes[0] == "why" and "3 processes were on it at once" in notes[1] and "set it to default" in notes[2]
    assert judged("A100", a_use(12, 100, processes=1)).notes == ()


# Not enough seen ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"samples": 9}, "9 samples in 60 s are too few; advice needs 10 in 10 s"),
        ({"seconds": 9.9}, "too few"),
        ({"samples": 0, "seconds": 0.0, "busy_percent": None}, "0 samples in 0 s"),
        ({"busy_percent": None}, "did not tell its utilisation"),
        ({"memory_peak_bytes": None}, "did not tell its memory"),
        ({"memory_total_bytes": None}, "did not tell its memory"),
        ({"busy_percent": 0.9}, "a kernel ran 0.9 % of the time; look again"),
        ({"busy_percent": 0.0}, "nothing ran on it; look again"),
        ({"busy_percent": 0.0, "processes": 2}, "though 2 process(es) held 4.0 GiB"),
    ],
)
def test_what_was_not_seen_is_not_judged(change, told):
    advice = judge(a_gpu(), replaced(a_use(14), **change))
    assert (advice.kind, advice.mig, advice.time_slice) == ("not-enough-seen", None, None)
    assert told in "; ".join(advice.reasons)
    assert judge(a_gpu(), a_use(14)).kind == "mig"


def test_enough_is_enough():
    assert judge(a_gpu(), replaced(a_use(14), samples=10, seconds=10.0)).kind == "mig"


def test_a_divided_gpu_tells_which_instances_nobody_used():
    profile = A100.profiles[0]
    there = tuple(Instance(number, Placed(profile, number)) for number in range(3))
    advice = judge(a_gpu(A100, True, there), a_use(busy=None, instances=(1,)))
    assert advice.kind == "not-enough-seen"
    assert "no process was seen in 2 of its 3 instances: 1g.5gb at 0, 1g.5gb at 2" in advice.reasons
    # Who did not look saw no process anywhere.
    assert len(judge(a_gpu(A100, True, there), Use(0.0, 0)).reasons) == 1


# Samples together ---------------------------------------------------------------------------------------


def test_samples_are_summed():
    use = summed(
        [
            Sample(1.0, 10, 4.0, 2.0, 5 * GIB, 40 * GIB, 1, (2,), False, ("b",)),
            Sample(2.0, 30, 8.0, 4.0, 7 * GIB, 39 * GIB, 3, (1, 2), True, ("a", "b")),
        ]
    )
    assert use == Use(2.0, 2, 20.0, 30, 6.0, 8.0, 3.0, 7 * GIB, 39 * GIB, 3, (1, 2), True, ("a", "b"))
    assert summed([]) == Use(0.0, 0)


@pytest.mark.parametrize(
    "field", ["busy_percent", "sm_percent", "memory_used_bytes", "memory_total_bytes", "processes"]
)
def test_what_one_sample_lacks_is_not_known_of_all(field):
    whole = Sample(1.0, 10, 4.0, 2.0, 5 * GIB, 40 * GIB, 1)
    use = summed([whole, replaced(whole, **{field: None}), whole])
    lacking = {
        "busy_percent": (use.busy_percent, use.busy_peak_percent),
        "sm_percent": (use.sm_percent, use.sm_peak_percent),
        "memory_used_bytes": (use.memory_peak_bytes,),
        "memory_total_bytes": (use.memory_total_bytes,),
        "processes": (use.processes,),
    }
    assert all((value is None) == (name == field) for name, values in lacking.items() for value in values)


def test_every_figure_has_a_source():
    assert all(one.value > 0 and len(one.source) > 20 for one in FIGURES.values())
