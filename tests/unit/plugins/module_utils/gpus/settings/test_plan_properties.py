# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For any GPUs and any wish: no crash, no value that is not supported, and nothing left to do after one run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.selectors import identity_of, matches_any
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import types as t
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.plan import decide
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.drive import settings_of
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.pure import (
    LOAD,
    Driver,
    a100,
)


def plan(state, wish):
    return decide(state, wish).plan


maybe_bool = st.sampled_from([None, False, True])
clock = st.sampled_from([None, 0, 210, 300, 1095, 1395, 1410, 1500])
tables = st.sampled_from(
    [(), ((1215, (1410, 1395, 300, 210)),), ((6251, (1410, 1395, 300)), (810, (300, 210))), ((1215, ()),)]
)
ways = st.sampled_from([t.LOCKED, t.APPLICATION, t.FIXED, t.UNSUPPORTED, t.UNTOUCHED, t.DEFAULT, "unheard of"])
claims = st.none() | st.builds(
    t.ClockClaim, ways, ways, clock, st.sampled_from([None, 810, 1215, 6251]), st.booleans(), st.booleans()
)
entries = st.builds(
    t.Entry,
    st.sampled_from([LOAD, "boot other"]),
    st.booleans(),
    st.lists(st.sampled_from(["clocks", "persistence", "power_limit", "compute_mode", "odd"]), max_size=3).map(tuple),
    claims,
    maybe_bool,
)


@st.composite
def gpus(draw, index=0):
    power = draw(
        st.sampled_from(
            [(None,) * 4, (300000, 400000, 100000, 400000), (400000, 400000, 100000, 400000), (5, None, None, None)]
        )
    )
    return a100(
        index,
        persistence=draw(maybe_bool),
        ecc=draw(maybe_bool),
        ecc_pending=draw(maybe_bool),
        compute_mode=draw(st.sampled_from([None, "default", "prohibited", "exclusive_thread"])),
        mig=draw(maybe_bool),
        power_limit_mw=power[0],
        power_default_mw=power[1],
        power_min_mw=power[2],
        power_max_mw=power[3],
        graphics_clock_mhz=draw(clock),
        memory_clock_mhz=draw(st.sampled_from([None, 810, 1215, 6251])),
        max_graphics_clock_mhz=draw(clock),
        max_memory_clock_mhz=draw(st.sampled_from([None, 1215, 6251])),
        application_graphics_mhz=draw(clock),
        application_memory_mhz=draw(st.sampled_from([None, 810, 1215, 6251])),
        default_application_graphics_mhz=draw(clock),
        default_application_memory_mhz=draw(st.sampled_from([None, 1215, 6251])),
        event_reasons=draw(st.sampled_from([None, 0, 1, 4])),
        can_lock_graphics=draw(st.booleans()),
        can_lock_memory=draw(st.booleans()),
        can_set_application=draw(st.booleans()),
        supported_clocks=draw(tables),
    )


@st.composite
def states(draw, sane=False):
    count = draw(st.integers(0, 3))
    found = []
    for index in range(count):
        gpu = draw(gpus(index=index))
        if sane and gpu.can_set_application and None in (gpu.application_graphics_mhz, gpu.application_memory_mhz):
            gpu = a100(index)  # observe() never calls application clocks settable that it could not read
        found.append(gpu)
    failed = draw(
        st.lists(
            st.sampled_from(
                [
                    t.FailedGpu(7, None, None, "lost"),
                    t.FailedGpu(None, None, None, "lost"),
                    t.FailedGpu(2, "GPU-x", "0009:00:00.0", "lost"),
                ]
            ),
            max_size=1,
        )
    )
    known = [(gpu.uuid, draw(entries)) for gpu in found if draw(st.booleans())]
    known += [("GPU-x", draw(entries))] if draw(st.booleans()) else []
    return t.State(
        gpus=tuple(found),
        failed=tuple(failed),
        entries=tuple(sorted(known, key=lambda pair: pair[0])),
        driver_load=LOAD,
        persistenced=draw(st.booleans()),
        declared=draw(
            st.sampled_from(
                [None, {}, {"clocks": "max"}, {"overrides": [{"gpu": "0", "clocks": "max"}, 7]}, {"overrides": 3}]
            )
        ),
        absent=draw(st.sampled_from([None, None, None, "no GPU"])),
    )


one_gpu = st.fixed_dictionaries(
    {},
    optional={
        "persistence": st.booleans(),
        "clocks": st.sampled_from(
            [
                "max",
                "default",
                {"graphics_mhz": 1395},
                {"graphics_mhz": 300, "memory_mhz": 810},
                {"memory_mhz": 1215},
                {"graphics_mhz": 1400},
            ]
        ),
        "power_limit_watts": st.sampled_from(["max", "default", 50, 250, 400, 9999]),
        "ecc": st.booleans(),
        "compute_mode": st.sampled_from(["default", "exclusive_process", "prohibited"]),
    },
)
selectors = st.sampled_from(
    ["0", "1", "2", "7", "GPU-00000001", "0001:00:00.0", "00000002:00:00.0", "3:0:0", "nonsense"]
)


@st.composite
def wishes(draw):
    options = draw(one_gpu)
    if draw(st.booleans()):
        options["gpus"] = draw(st.lists(selectors, min_size=1, max_size=3))
    if draw(st.booleans()):
        options["overrides"] = [dict(draw(one_gpu), gpu=draw(selectors)) for dummy in range(draw(st.integers(1, 2)))]
    for name in ("snap", "declare", "require_gpus"):
        options[name] = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        options.pop("gpus", None)
        options["undo"] = True
    return settings_of(options)


@examples(250)
@given(states(), wishes())
def test_no_state_and_no_wish_crashes_the_planner(state, wish):
    found = decide(state, wish)
    for action in found.plan.actions:
        assert "None" not in action.describe()
        action.to_dict()
    assert plan(state, wish) == found.plan


@examples(250)
@given(states(sane=True), wishes(), st.sets(st.sampled_from(["graphics", "memory"])))
def test_a_plan_applied_leaves_nothing_to_plan(state, wish, refuses):
    driver = Driver(refuses)
    first = plan(state, wish)
    after = driver.run(state, first.actions)
    second = plan(after, wish)
    assert second.actions == ()
    if not first.refusals and not refuses:
        assert second.refusals == ()


@examples(150)
@given(states(), wishes())
def test_only_selected_gpus_are_set(state, wish):
    if not wish.present:
        return
    by_uuid = {gpu.uuid: gpu for gpu in state.gpus}
    for action in plan(state, wish).actions:
        if isinstance(action, t.GpuAction):
            gpu = by_uuid[action.uuid]
            assert matches_any(identity_of(gpu), wish.gpus)


@examples(250)
@given(states(), wishes())
def test_no_value_outside_what_the_gpu_supports_is_ever_set(state, wish):
    by_uuid = {gpu.uuid: gpu for gpu in state.gpus}
    for action in plan(state, wish).actions:
        if isinstance(action, t.SetPowerLimit):
            gpu = by_uuid[action.uuid]
            if gpu.power_min_mw is not None:
                assert gpu.power_min_mw <= action.limit_mw <= gpu.power_max_mw
        if isinstance(action, t.SetClocks):
            gpu = by_uuid[action.uuid]
            table = dict(gpu.supported_clocks)
            if not table:
                continue
            if action.memory_mhz is not None:
                assert action.memory_mhz in table
            beside = table[action.memory_mhz if action.memory_mhz is not None else max(table)]
            if action.graphics_mhz is not None and beside:
                assert action.graphics_mhz in beside
            if action.application_memory_mhz is not None:
                assert action.application_graphics_mhz in table[action.application_memory_mhz]
            if t.LOCKED == action.graphics_way:
                assert gpu.can_lock_graphics
            if t.LOCKED == action.memory_way:
                assert gpu.can_lock_memory
            if t.APPLICATION in (action.graphics_way, action.memory_way):
                assert gpu.can_set_application and action.application_memory_mhz is not None


@examples(250)
@given(states(sane=True), wishes(), st.data())
def test_a_crash_between_any_two_steps_never_leaves_clocks_stated_that_are_not_set(state, wish, data):
    actions = plan(state, wish).actions
    done = actions[: data.draw(st.integers(0, len(actions)))]
    if any(isinstance(action, t.Remember) and action.stage == "after" for action in done):
        return
    after = Driver().run(state, done)
    for action in done:
        if isinstance(action, (t.SetClocks, t.ResetClocks)):
            entry = after.entry(action.uuid)
            assert entry is None or entry.clocks is None


@examples(150)
@given(states(sane=True), wishes())
def test_undo_leaves_no_record_and_ends_what_was_begun(state, wish):
    driver = Driver()
    after = driver.run(state, plan(state, wish).actions)
    undo = settings_of({"undo": True})
    last = driver.run(after, plan(after, undo).actions)
    silent = bool(state.failed)
    assert silent or last.entries == ()
    assert last.declared is None
    assert plan(last, undo).actions == ()
