# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner on single cases: what is planned, what is refused, and in which words."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import types as t
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.plan import decide, predict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.report import diff_text
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.drive import settings_of
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.pure import (
    LOAD,
    Driver,
    a100,
    state_of,
    two_memory_clocks,
)


def plan(state, wanted):
    return decide(state, wanted).plan


def wish(**options):
    return settings_of(options)


def kinds(found):
    return [type(action).__name__ for action in found.actions]


def converged(state, desired, refuses=()):
    """The state after one run; the plan against it is empty."""
    state = Driver(refuses).run(state, plan(state, desired).actions)
    assert plan(state, desired).actions == ()
    return state


def v100(index=0, **changes):
    graphics = tuple(range(1530, 134, -8))
    values = dict(
        can_lock_memory=False,
        supported_clocks=((877, graphics),),
        memory_clock_mhz=877,
        max_memory_clock_mhz=877,
        max_graphics_clock_mhz=1530,
        application_memory_mhz=877,
        default_application_memory_mhz=877,
        application_graphics_mhz=1290,
        default_application_graphics_mhz=1290,
    )
    values.update(changes)
    return a100(index, **values)


# The order of steps ------------------------------------------------------------------------------------


def test_the_wish_is_declared_first_and_the_record_frames_the_setters():
    found = plan(
        state_of(a100()),
        wish(persistence=True, clocks="max", power_limit_watts=300, compute_mode="exclusive_process", ecc=False),
    )
    assert kinds(found) == [
        "Declare",
        "Remember",
        "SetPersistence",
        "SetEcc",
        "SetPowerLimit",
        "SetClocks",
        "SetComputeMode",
        "Remember",
    ]
    assert [action.stage for action in found.actions if isinstance(action, t.Remember)] == ["before", "after"]


def test_gpus_are_set_in_the_order_of_their_pci_addresses():
    gpus = [
        a100(0, pci_address="000f:00:00.0"),
        a100(1, pci_address="0002:00:00.0"),
        a100(2, pci_address="0001:00:00.0"),
    ]
    found = plan(state_of(*gpus), wish(persistence=True, declare=False))
    assert [a.gpu for a in found.actions if isinstance(a, t.SetPersistence)] == [
        "GPU 2 (0001:00:00.0)",
        "GPU 1 (0002:00:00.0)",
        "GPU 0 (000f:00:00.0)",
    ]


def test_while_clocks_are_being_set_the_record_claims_none():
    first = converged(state_of(a100()), wish(persistence=True, clocks={"graphics_mhz": 1200}))
    assert first.entry("GPU-00000000").clocks.graphics_mhz == 1200
    again = plan(first, wish(persistence=True, clocks="max"))
    before = next(a for a in again.actions if isinstance(a, t.Remember) and a.stage == "before")
    assert dict(before.entries)["GPU-00000000"].clocks is None


# Clocks: which way ------------------------------------------------------------------------------------


def test_max_locks_the_graphics_clock_and_leaves_the_only_memory_clock():
    found = plan(state_of(a100()), wish(clocks="max"))
    action = next(a for a in found.actions if isinstance(a, t.SetClocks))
    assert (action.graphics_mhz, action.graphics_way) == (1410, t.LOCKED)
    assert (action.memory_mhz, action.memory_way) == (1215, t.FIXED)
    assert action.describe() == "GPU 0 (0001:00:00.0): lock the graphics clock at 1410 MHz"


def test_max_locks_the_memory_clock_too_where_there_is_a_choice():
    action = next(
        a for a in plan(state_of(two_memory_clocks()), wish(clocks="max")).actions if isinstance(a, t.SetClocks)
    )
    assert (action.graphics_mhz, action.memory_mhz) == (1410, 6251)
    assert (action.graphics_way, action.memory_way) == (t.LOCKED, t.LOCKED)


def test_a_volta_gpu_gets_a_locked_graphics_clock():
    action = next(a for a in plan(state_of(v100()), wish(clocks="max")).actions if isinstance(a, t.SetClocks))
    assert (action.graphics_mhz, action.graphics_way, action.memory_way) == (1530, t.LOCKED, t.FIXED)


def test_a_gpu_before_volta_gets_application_clocks_and_they_are_read_back():
    pascal = v100(can_lock_graphics=False)
    found = plan(state_of(pascal), wish(clocks="max"))
    action = next(a for a in found.actions if isinstance(a, t.SetClocks))
    assert (action.graphics_way, action.application_memory_mhz, action.application_graphics_mhz) == (
        t.APPLICATION,
        877,
        1530,
    )
    done = converged(state_of(pascal), wish(clocks="max"))
    # Somebody resets them: the record does not hide it.
    changed = dataclasses.replace(done, gpus=(dataclasses.replace(done.gpus[0], application_graphics_mhz=1290),))
    assert "SetClocks" in kinds(plan(changed, wish(clocks="max")))


@pytest.mark.parametrize(
    "refuses", [["graphics"], ["memory"], ["graphics", "memory"], ["graphics", "memory", "application"]]
)
def test_a_driver_that_refuses_a_way_is_asked_once_only(refuses):
    done = converged(state_of(two_memory_clocks()), wish(clocks="max"), refuses)
    claim = done.entry("GPU-00000000").clocks
    for name in ("graphics", "memory"):
        if name in refuses:
            assert getattr(claim, name + "_way") == (t.UNSUPPORTED if "application" in refuses else t.APPLICATION)
        else:
            assert getattr(claim, name + "_way") == t.LOCKED


def test_max_on_a_gpu_without_any_way_is_reported_and_no_failure():
    gpu = a100(can_lock_graphics=False, can_lock_memory=False, can_set_application=False)
    found = decide(state_of(gpu), wish(clocks="max", declare=False))
    assert found.plan.actions == () and found.plan.refusals == ()
    assert [(one["setting"], one["reason"]) for one in found.unsupported] == [
        ("clocks", "the driver offers no way to set its graphics clock")
    ]


def test_explicit_clocks_on_a_gpu_without_any_way_are_refused():
    gpu = a100(can_lock_graphics=False, can_lock_memory=False, can_set_application=False)
    found = plan(state_of(gpu), wish(clocks={"graphics_mhz": 1410}))
    assert found.actions == ()
    assert str(found.refusals[0]).startswith("GPU 0 (0001:00:00.0): its graphics clock cannot be set: ")


# Clocks: values ---------------------------------------------------------------------------------------


def test_an_unsupported_clock_is_refused_with_its_neighbours_named():
    found = plan(state_of(a100()), wish(clocks={"graphics_mhz": 1400}))
    assert str(found.refusals[0]) == (
        "GPU 0 (0001:00:00.0): 1400 MHz is not a supported graphics clock; "
        "the nearest supported: 1395 MHz and 1410 MHz; "
        "ask for a supported clock, or set snap to take the nearest."
    )


def test_an_unsupported_pair_is_refused_with_the_clocks_beside_that_memory_clock():
    found = plan(state_of(two_memory_clocks()), wish(clocks={"graphics_mhz": 1410, "memory_mhz": 810}))
    assert "1410 MHz is not a supported graphics clock beside a memory clock of 810 MHz" in str(found.refusals[0])
    assert "the nearest supported: 810 MHz" in str(found.refusals[0])


def test_snap_takes_the_nearest_clock_and_says_so():
    desired = wish(clocks={"graphics_mhz": 1400, "memory_mhz": 6000}, snap=True)
    found = plan(state_of(two_memory_clocks()), desired)
    action = next(a for a in found.actions if isinstance(a, t.SetClocks))
    assert (action.graphics_mhz, action.memory_mhz) == (1395, 6251)
    assert (
        "GPU 0 (0001:00:00.0): the graphics clock was snapped from 1400 MHz to the nearest supported, 1395 MHz"
        in found.notes
    )


def test_a_memory_clock_alone_is_refused_where_only_pairs_can_be_set():
    gpu = two_memory_clocks(can_lock_graphics=False, can_lock_memory=False)
    found = plan(state_of(gpu), wish(clocks={"memory_mhz": 6251}))
    assert "can only be set together with a graphics clock" in str(found.refusals[0])
    assert "6251 MHz with 1095 MHz" in str(found.refusals[0])


def test_without_a_list_of_clocks_a_value_above_the_highest_is_refused():
    gpu = a100(supported_clocks=())
    found = plan(state_of(gpu), wish(clocks={"graphics_mhz": 2000}))
    assert "a graphics clock of 2000 MHz is above its highest, 1410 MHz" in str(found.refusals[0])


# What the record is worth -----------------------------------------------------------------------------


def locked(**changes):
    return converged(state_of(a100(**changes)), wish(persistence=True, clocks="max"))


def test_a_reboot_or_a_reload_of_the_driver_voids_the_record():
    after = dataclasses.replace(locked(), driver_load="boot two")
    assert "SetClocks" in kinds(plan(after, wish(persistence=True, clocks="max")))


def test_persistence_mode_that_was_lost_voids_the_record():
    done = locked()
    lost = dataclasses.replace(done, gpus=(dataclasses.replace(done.gpus[0], persistence=False),))
    assert kinds(plan(lost, wish(persistence=True, clocks="max")))[-3:] == ["SetPersistence", "SetClocks", "Remember"]
    assert "SetClocks" in kinds(plan(lost, wish(clocks="max", declare=False)))


@pytest.mark.parametrize(
    "reading, reasons, drifted",
    [
        (1410, 0, False),
        (1395, 0, False),
        (210, 0, True),
        (210, 1, True),  # an idle GPU does show a lock, as it did when it was set
        (210, 4, False),  # power cap
        (210, 0x40, False),  # heat
        (210, None, False),
        (None, 0, False),
    ],
)
def test_a_reading_below_the_lock_counts_only_without_a_reason(reading, reasons, drifted):
    done = locked()
    gpu = dataclasses.replace(done.gpus[0], graphics_clock_mhz=reading, event_reasons=reasons)
    found = plan(dataclasses.replace(done, gpus=(gpu,)), wish(persistence=True, clocks="max"))
    assert ("SetClocks" in kinds(found)) == drifted


def test_a_reading_above_the_lock_always_counts():
    done = converged(state_of(a100()), wish(clocks={"graphics_mhz": 1200}))
    gpu = dataclasses.replace(done.gpus[0], graphics_clock_mhz=1410, event_reasons=4)
    assert "SetClocks" in kinds(plan(dataclasses.replace(done, gpus=(gpu,)), wish(clocks={"graphics_mhz": 1200})))


def test_a_lock_that_never_showed_is_not_doubted_for_a_low_reading():
    done = locked()
    entry = done.entry("GPU-00000000")
    entry = dataclasses.replace(entry, clocks=dataclasses.replace(entry.clocks, graphics_seen=False))
    gpu = dataclasses.replace(done.gpus[0], graphics_clock_mhz=210)
    state = dataclasses.replace(done, gpus=(gpu,), entries=(("GPU-00000000", entry),))
    assert plan(state, wish(persistence=True, clocks="max")).actions == ()


def test_switching_persistence_mode_off_sets_the_clocks_again():
    assert "SetClocks" in kinds(plan(locked(), wish(persistence=False, clocks="max")))
    converged(locked(), wish(persistence=False, clocks="max"))


def test_default_clocks_lift_locks_once_when_nothing_is_known():
    done = converged(state_of(a100()), wish(clocks="default"))
    assert done.entry("GPU-00000000").clocks.graphics_way == t.DEFAULT
    assert "ResetClocks" in kinds(plan(locked(), wish(clocks="default")))


# The other settings -----------------------------------------------------------------------------------


def test_a_power_limit_out_of_range_is_refused_with_the_range():
    found = plan(state_of(a100()), wish(power_limit_watts=500))
    assert "a power limit of 500 W is outside its range of 100 W to 400 W" in str(found.refusals[0])


@pytest.mark.parametrize("word, limit", [("max", 400000), ("default", 350000)])
def test_words_for_the_power_limit(word, limit):
    gpu = a100(power_limit_mw=200000, power_default_mw=350000)
    action = next(
        a for a in plan(state_of(gpu), wish(power_limit_watts=word)).actions if isinstance(a, t.SetPowerLimit)
    )
    assert action.limit_mw == limit


def test_a_limit_that_the_driver_rounded_is_not_set_again():
    assert plan(state_of(a100(power_limit_mw=300400)), wish(power_limit_watts=300, declare=False)).actions == ()


@pytest.mark.parametrize("found_mw, sets", [(299501, False), (299500, True), (300500, True), (304000, True)])
def test_a_limit_that_is_off_by_half_a_watt_or_more_is_set(found_mw, sets):
    planned = plan(state_of(a100(power_limit_mw=found_mw)), wish(power_limit_watts=300, declare=False))
    assert bool(planned.actions) is sets


def test_a_pending_ecc_change_is_reported_and_not_repeated():
    gpu = a100(ecc=False, ecc_pending=True)
    found = decide(state_of(gpu), wish(ecc=True, declare=False))
    assert found.plan.actions == ()
    assert found.plan.notes == ("GPU 0 (0001:00:00.0): it needs a reset or a reboot: ECC becomes on then",)
    assert [(one["setting"], one["value"], one["needs"]) for one in found.pending] == [
        ("ecc", True, "GPU reset or reboot")
    ]


def test_ecc_on_a_gpu_without_it_is_refused_and_no_ecc_is_fine():
    gpu = a100(ecc=None, ecc_pending=None)
    assert "it has no ECC memory" in str(plan(state_of(gpu), wish(ecc=True)).refusals[0])
    assert plan(state_of(gpu), wish(ecc=False, declare=False)).actions == ()


def test_the_persistence_daemon_is_not_fought():
    state = state_of(a100(persistence=True), persistenced=True)
    found = plan(state, wish(persistence=False, declare=False))
    assert found.actions == () and "nvidia-persistenced holds persistence mode on" in found.notes[0]


def test_the_compute_mode_of_a_gpu_in_mig_mode_is_refused():
    found = plan(state_of(a100(mig=True)), wish(compute_mode="exclusive_process"))
    assert "it is in MIG mode" in str(found.refusals[0])


def test_between_jobs_a_gpu_in_mig_mode_has_its_highest_clocks():
    """No hook raises the clocks that several jobs share."""
    between = wish(clocks="between_jobs")
    state = state_of(a100(persistence=True, mig=True), a100(1, persistence=True))
    assert [
        (type(one).__name__, one.index) for one in plan(state, between).actions if isinstance(one, t.GpuAction)
    ] == [
        ("SetClocks", 0),
        ("ResetClocks", 1),
    ]
    done = converged(state, between)
    # Given back as a whole, it is what the hooks raise.
    whole = dataclasses.replace(done, gpus=tuple(dataclasses.replace(gpu, mig=False) for gpu in done.gpus))
    assert kinds(plan(whole, between)) == ["Remember", "ResetClocks", "Remember"]


def test_clocks_without_persistence_mode_come_with_a_warning():
    found = plan(state_of(a100()), wish(clocks="max"))
    assert "the driver forgets clocks and power limit when its last user leaves" in found.notes[0]
    assert plan(state_of(a100()), wish(clocks="max", persistence=True)).notes == ()


# Selection --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", ["1", "GPU-00000001", "gpu-00000001", "0002:00:00.0", "00000002:00:00.0", "2:0:0"])
def test_a_gpu_is_named_by_index_uuid_or_pci_address(selector):
    found = plan(state_of(a100(0), a100(1)), wish(persistence=True, gpus=[selector], declare=False))
    assert [a.uuid for a in found.actions if isinstance(a, t.GpuAction)] == ["GPU-00000001"]


def test_an_unknown_gpu_is_refused_with_those_there_are():
    found = plan(state_of(a100(0)), wish(persistence=True, gpus=["5"]))
    assert str(found.refusals[0]) == (
        "GPU '5': this machine has no such GPU; choose among 0 = 0001:00:00.0 = GPU-00000000."
    )


def test_an_override_replaces_single_settings():
    desired = wish(persistence=True, power_limit_watts=300, overrides=[{"gpu": "1", "power_limit_watts": 200}])
    found = plan(state_of(a100(0), a100(1)), desired)
    limits = {a.uuid: a.limit_mw for a in found.actions if isinstance(a, t.SetPowerLimit)}
    assert limits == {"GPU-00000000": 300000, "GPU-00000001": 200000}
    assert sum(isinstance(a, t.SetPersistence) for a in found.actions) == 2


@pytest.mark.parametrize(
    "overrides, words",
    [
        ([{"gpu": "1", "ecc": True}], "it has an override and is not among the selected GPUs"),
        ([{"gpu": "0", "ecc": True}, {"gpu": "0001:00:00.0", "ecc": False}], "it has two overrides"),
        ([{"gpu": "9", "ecc": True}], "this machine has no such GPU"),
    ],
)
def test_overrides_that_make_no_sense_are_refused(overrides, words):
    found = plan(state_of(a100(0), a100(1)), wish(gpus=["0"], overrides=overrides))
    assert any(words in str(refusal) for refusal in found.refusals)


def test_a_gpu_that_does_not_answer_is_left_out_of_the_plan():
    state = state_of(a100(0), failed=(t.FailedGpu(1, None, "0002:00:00.0", "lost"),))
    found = plan(state, wish(persistence=True, gpus=["0", "1"]))
    assert found.refusals == ()
    assert [a.uuid for a in found.actions if isinstance(a, t.SetPersistence)] == ["GPU-00000000"]


# Nodes without GPUs, and undo -------------------------------------------------------------------------


def test_a_node_without_gpus_is_skipped_or_refused():
    state = t.State(absent="The PCI bus has no NVIDIA GPU.")
    assert plan(state, wish(clocks="max")).skipped == "The PCI bus has no NVIDIA GPU."
    assert "no NVIDIA GPU" in str(plan(state, wish(clocks="max", require_gpus=True)).refusals[0])


def test_undo_returns_what_was_changed_and_nothing_else():
    gpu = a100(compute_mode="prohibited")  # set by somebody else
    asked = wish(persistence=True, clocks="max", power_limit_watts=300, ecc=False)
    done = converged(state_of(gpu), asked)
    found = plan(done, wish(undo=True))
    assert kinds(found) == [
        "Declare",
        "Remember",
        "SetEcc",
        "SetPowerLimit",
        "ResetClocks",
        "SetPersistence",
        "Forget",
    ]
    assert found.actions[0] == Declare("gpu_settings", None)
    last = converged(done, wish(undo=True))
    assert last.entries == () and last.declared is None
    assert last.gpus[0].compute_mode == "prohibited" and last.gpus[0].ecc_pending is True


def test_undo_on_a_node_that_was_never_set_does_nothing():
    gpu = a100(persistence=True, power_limit_mw=300000, ecc=False, ecc_pending=False)
    assert plan(state_of(gpu), wish(undo=True)).actions == ()


def test_after_a_reboot_undo_still_takes_ecc_back():
    done = converged(state_of(a100()), wish(ecc=False, power_limit_watts=300))
    rebooted = dataclasses.replace(
        done,
        driver_load="boot two",
        gpus=(a100(ecc=False, ecc_pending=False, power_limit_mw=250000),),  # 250 W: of somebody else, since
    )
    found = plan(rebooted, wish(undo=True))
    assert kinds(found) == ["Declare", "SetEcc", "Forget"]


def test_undo_with_a_lost_record_goes_by_the_declaration():
    state = state_of(
        a100(power_limit_mw=300000, persistence=True), declared={"clocks": "max", "power_limit_watts": 300}
    )
    assert kinds(plan(state, wish(undo=True))) == ["Declare", "SetPowerLimit", "ResetClocks"]


def test_undo_keeps_the_record_of_a_gpu_that_does_not_answer():
    done = converged(state_of(a100(0), a100(1)), wish(power_limit_watts=300))
    state = dataclasses.replace(
        done, gpus=done.gpus[:1], failed=(t.FailedGpu(1, "GPU-00000001", "0002:00:00.0", "lost"),)
    )
    last = converged(state, wish(undo=True))
    assert [uuid for uuid, dummy in last.entries] == ["GPU-00000001"]


def test_undo_keeps_the_record_while_a_gpu_does_not_even_tell_its_name():
    """It may be any of those that the record has: its clocks are to be given back when it answers again."""
    done = converged(state_of(a100(0), a100(1)), wish(power_limit_watts=300))
    lost = t.FailedGpu(None, None, "0002:00:00.0", "the driver does not have it")
    actions = plan(dataclasses.replace(done, gpus=done.gpus[:1], failed=(lost,)), wish(undo=True)).actions
    assert not any(isinstance(action, t.Forget) for action in actions)
    last = converged(dataclasses.replace(done, gpus=done.gpus[:1], failed=(lost,)), wish(undo=True))
    assert [uuid for uuid, dummy in last.entries] == ["GPU-00000001"]


def test_the_diff_of_check_mode_shows_what_the_run_would_lead_to():
    desired = wish(persistence=True, clocks="max", power_limit_watts=300)
    state = state_of(a100())
    foreseen = diff_text(predict(state, plan(state, desired).actions))
    assert foreseen == diff_text(converged(state, desired))
    assert foreseen != diff_text(state)


def test_asking_for_nothing_changes_nothing_and_takes_the_declaration_back():
    assert plan(state_of(a100()), wish()).actions == ()
    assert plan(state_of(a100(), declared={"clocks": "max"}), wish()).actions == (Declare("gpu_settings", None),)
    assert LOAD in state_of(a100()).driver_load


def test_application_clocks_that_nobody_may_set_do_not_keep_default_from_being_reached():
    gpu = a100(0, can_lock_graphics=False, can_lock_memory=False, can_set_application=False, application_memory_mhz=810)
    assert plan(state_of(gpu), wish(clocks="default", declare=False)).actions == ()
