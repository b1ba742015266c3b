# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks, power limits and event reasons: what is taken, what is refused, what is read back."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run

GRAPHICS, SM, MEMORY, VIDEO = range(4)
NOW = "n.nvmlDeviceGetClockInfo(gpu(0), {0})"
LOCK = "n.nvmlDeviceSetGpuLockedClocks(gpu(0), {0}, {1})"
APPLICATIONS = "n.nvmlDeviceSetApplicationsClocks(gpu(0), {0}, {1})"
REASONS = "n.nvmlDeviceGetCurrentClocksEventReasons(gpu(0))"


def test_an_idle_gpu_runs_at_its_idle_clock_and_a_busy_one_at_its_boost_clock(nvml_simulator):
    simulator = nvml_simulator()
    assert run(simulator, NOW.format(GRAPHICS), NOW.format(SM), NOW.format(MEMORY), REASONS) == [210, 210, 1215, 1]
    simulator.control("process", "add", "0", "4242", "1000")
    assert run(simulator, NOW.format(GRAPHICS), NOW.format(MEMORY), REASONS) == [1410, 1215, 0]


def test_application_clocks_hold_a_busy_gpu_and_are_read_back(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("process", "add", "0", "4242", "1000")
    found = run(
        simulator,
        APPLICATIONS.format(1215, 1200),
        "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)",
        "n.nvmlDeviceGetApplicationsClock(gpu(0), 2)",
        "n.nvmlDeviceGetDefaultApplicationsClock(gpu(0), 0)",
        "[n.nvmlDeviceGetClock(gpu(0), 0, identity) for identity in range(4)]",
        REASONS,
        "n.nvmlDeviceResetApplicationsClocks(gpu(0))",
        "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)",
        NOW.format(GRAPHICS),
    )
    assert found == [None, 1200, 1215, 1095, [1200, 1200, 1095, 1410], 2, None, 1095, 1410]


def test_application_clocks_must_be_a_supported_pair(nvml_simulator):
    simulator = nvml_simulator()
    wrong = [(1215, 1411), (1215, 1425), (1215, 195), (1214, 1410), (0, 0)]
    assert run(simulator, *(APPLICATIONS.format(*pair) for pair in wrong)) == ["E2"] * len(wrong)
    assert ask(simulator, "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)") == 1095


def test_a_volta_has_steps_of_seven_and_a_half_megahertz(nvml_simulator):
    clocks = ask(nvml_simulator("nd40rs_v2"), "n.nvmlDeviceGetSupportedGraphicsClocks(gpu(0), 877)")
    assert clocks[:4] == [1530, 1522, 1515, 1507]
    assert clocks[-3:] == [150, 142, 135]


def test_locked_clocks_hold_an_idle_gpu_too(nvml_simulator):
    simulator = nvml_simulator()
    found = run(
        simulator,
        LOCK.format(1410, 1410),
        NOW.format(GRAPHICS),
        LOCK.format(300, 1200),
        NOW.format(GRAPHICS),
        "n.nvmlDeviceResetGpuLockedClocks(gpu(0))",
        NOW.format(GRAPHICS),
    )
    assert found == [None, 1410, None, 300, None, 210]
    simulator.control("process", "add", "0", "4242", "1000")
    assert run(simulator, LOCK.format(300, 1200), NOW.format(GRAPHICS))[1] == 1200


def test_a_lock_between_two_steps_runs_at_the_step_below(nvml_simulator):
    assert run(nvml_simulator(), LOCK.format(1400, 1400), NOW.format(GRAPHICS)) == [None, 1395]


def test_locked_clocks_out_of_range_or_upside_down_are_refused(nvml_simulator):
    wrong = [(1410, 1425), (195, 1410), (1410, 1395), (0xFFFFFF01, 1410), (210, 0xFFFFFF02)]
    simulator = nvml_simulator()
    assert run(simulator, *(LOCK.format(*pair) for pair in wrong)) == ["E2"] * len(wrong)
    assert ask(simulator, NOW.format(GRAPHICS)) == 210


START, TDP, UNLIMITED = 0xFFFFFF00, 0xFFFFFF01, 0xFFFFFF02


def test_locked_clocks_take_limits_by_name(nvml_simulator):
    # The table of nvml.h: TDP locks, a pair without limits unlocks, TDP alone is a lower bound.
    found = run(
        nvml_simulator(),
        LOCK.format(TDP, TDP),
        NOW.format(GRAPHICS),
        LOCK.format(UNLIMITED, UNLIMITED),
        NOW.format(GRAPHICS),
        LOCK.format(TDP, UNLIMITED),
        NOW.format(GRAPHICS),
        LOCK.format(START, START),
        LOCK.format(START, TDP),
    )
    assert found == [None, 1095, None, 210, None, 1095, "E2", "E2"]


@pytest.mark.parametrize(("machine", "taken"), [("nd96asr_v4", "E2"), ("nd40rs_v2", None), ("nd96isr_h100_v5", None)])
def test_tdp_as_upper_bound_alone_is_refused_on_an_a100(nvml_simulator, machine, taken):
    simulator = nvml_simulator(machine)
    simulator.control("process", "add", "0", "4242", "1000")
    base = ask(simulator, "n.nvmlDeviceGetDefaultApplicationsClock(gpu(0), 0)")
    top = ask(simulator, NOW.format(GRAPHICS))
    assert run(simulator, LOCK.format(UNLIMITED, TDP), NOW.format(GRAPHICS)) == [taken, top if taken else base]


def test_memory_clocks_can_be_locked_from_ampere_on(nvml_simulator):
    lock = "n.nvmlDeviceSetMemoryLockedClocks(gpu(0), {0}, {0})"
    found = run(nvml_simulator("laptop"), NOW.format(MEMORY), lock.format(5001), NOW.format(MEMORY), lock.format(9000))
    assert found == [405, None, 5001, "E2"]
    assert ask(nvml_simulator("nd40rs_v2"), lock.format(877)) == "E3"


def test_a_geforce_has_no_application_clocks(nvml_simulator):
    simulator = nvml_simulator("laptop")
    assert run(simulator, APPLICATIONS.format(7001, 2100), "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)") == [
        "E3",
        "E3",
    ]


def test_a_newer_driver_calls_application_clocks_deprecated(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h200_v5", "gpu.feature.application_clocks=deprecated")
    assert run(simulator, APPLICATIONS.format(3201, 1980), "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)") == [
        "E26",
        "E26",
    ]


@pytest.mark.parametrize(("version", "code"), [("590.48.01", None), ("595.45.04", "E26"), ("610.10", "E26")])
def test_application_clocks_are_deprecated_from_595_on(nvml_simulator, version, code):
    simulator = nvml_simulator("nd96isr_h200_v5", "driver.version=" + version)
    calls = (
        APPLICATIONS.format(3201, 1980),
        "n.nvmlDeviceGetApplicationsClock(gpu(0), 0)",
        "n.nvmlDeviceGetDefaultApplicationsClock(gpu(0), 0)",
        "n.nvmlDeviceGetClock(gpu(0), 0, 1)",
        "n.nvmlDeviceResetApplicationsClocks(gpu(0))",
    )
    assert run(simulator, *calls) == ([code] * 5 if code else [None, 1980, 1980, 1980, None])
    # The highest clocks are no application clocks, and locks stand in their place.
    others = ("n.nvmlDeviceGetClock(gpu(0), 0, 3)", "n.nvmlDeviceGetMaxClockInfo(gpu(0), 0)", LOCK.format(1500, 1500))
    assert run(simulator, *others) == [1980, 1980, None]


@pytest.mark.parametrize("reason", ["hw_slowdown", "hw_thermal", "hw_power_brake"])
def test_a_hardware_slowdown_halves_the_clock_whatever_is_locked(nvml_simulator, reason):
    simulator = nvml_simulator()
    simulator.control("process", "add", "0", "4242", "1000")
    simulator.control("throttle", "0", reason)
    found = run(simulator, NOW.format(GRAPHICS), LOCK.format(1410, 1410), NOW.format(GRAPHICS), NOW.format(MEMORY))
    assert found == [705, None, 705, 1215]
    simulator.control("throttle", "0", "sw_power_cap")
    assert ask(simulator, NOW.format(GRAPHICS)) == 1410


def test_a_power_limit_must_lie_within_the_constraints(nvml_simulator):
    found = run(
        nvml_simulator(),
        "n.nvmlDeviceGetPowerManagementLimitConstraints(gpu(0))",
        "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 99999)",
        "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 400001)",
        "n.nvmlDeviceGetPowerManagementLimit(gpu(0))",
        "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 100000)",
        "n.nvmlDeviceGetEnforcedPowerLimit(gpu(0))",
        "n.nvmlDeviceGetPowerManagementDefaultLimit(gpu(0))",
    )
    assert found == [[100000, 400000], "E2", "E2", 400000, None, 100000, 400000]


def test_a_laptop_has_no_power_limit_to_set(nvml_simulator):
    simulator = nvml_simulator("laptop")
    assert ask(simulator, "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 80000)") == "E3"
    assert ask(simulator, "n.nvmlDeviceGetPowerUsage(gpu(0))") == 14000


def test_compute_modes_are_taken_but_for_the_one_that_is_gone(nvml_simulator):
    found = run(nvml_simulator(), *("n.nvmlDeviceSetComputeMode(gpu(0), {0})".format(mode) for mode in (0, 1, 2, 3, 4)))
    assert found == [None, "E3", None, None, "E2"]


def test_reasons_are_shown_as_injected(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("throttle", "0", "hw_slowdown", "sw_thermal")
    assert run(simulator, REASONS, "n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu(0))") == [0x28, 0x28]
    assert ask(simulator, REASONS.replace("gpu(0)", "gpu(1)")) == 1
    simulator.control("throttle", "0", "none")
    assert ask(simulator, REASONS) == 1


def test_processes_hold_memory_and_are_listed(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("process", "add", "0", "4242", "1000")
    simulator.control("process", "add", "0", "4343", "24")
    processes = "[(p.pid, p.usedGpuMemory >> 20) for p in n.nvmlDeviceGetComputeRunningProcesses(gpu(0))]"
    memory = (
        "[size >> 20 for size in (lambda m: (m.total, m.reserved, m.used, m.free))"
        "(n.nvmlDeviceGetMemoryInfo(gpu(0), n.nvmlMemory_v2))]"
    )
    assert run(simulator, processes, memory) == [[[4242, 1000], [4343, 24]], [40960, 563, 1024, 39373]]
    simulator.control("process", "remove", "0", "4242")
    assert ask(simulator, processes) == [[4343, 24]]
