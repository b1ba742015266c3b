# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU instances and compute instances through NVIDIA's binding: what is there, what can be made, what is refused."""

from __future__ import annotations

import itertools
import signal

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run

A100, H100, H200 = "nd96asr_v4", "nd96isr_h100_v5", "nd96isr_h200_v5"
ON = "gpu.mig_mode=yes"
# Helpers of the expressions: profiles by id, a GPU instance made, the placements of a profile.
PREPARE = (
    "globals().update(made={}, profile=lambda e: n.nvmlDeviceGetGpuInstanceProfileInfo(gpu(0), e),"
    " info=lambda g: (lambda i: [i.id, i.profileId, i.placement.start, i.placement.size])(n.nvmlGpuInstanceGetInfo(g)),"
    " gi=lambda p: n.nvmlDeviceCreateGpuInstance(gpu(0), p),"
    " at=lambda p, s, z: n.nvmlDeviceCreateGpuInstanceWithPlacement("
    "gpu(0), p, ctypes.byref(n.c_nvmlGpuInstancePlacement_t(s, z))),"
    " ci=lambda g, p: n.nvmlGpuInstanceCreateComputeInstance(g, p),"
    " mig=lambda i: n.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), i))"
)


def do(simulator, *expressions, **options):
    return run(simulator, PREPARE, *expressions, **options)[1:]


@pytest.fixture(name="a100")
def _a100(nvml_simulator):
    return nvml_simulator(A100, ON)


def test_profiles_have_ids_that_are_not_their_numbers(nvml_simulator):
    expected = {
        A100: {
            0: [19, "1g.5gb", 7, 14],
            2: [9, "3g.20gb", 2, 42],
            4: [0, "7g.40gb", 1, 98],
            7: [20, "1g.5gb+me", 1, 14],
        },
        "nd96amsr_a100_v4": {0: [19, "1g.10gb", 7, 14], 9: [15, "1g.20gb", 4, 14], 4: [0, "7g.80gb", 1, 98]},
        H100: {0: [19, "1g.10gb", 7, 16], 9: [15, "1g.20gb", 4, 26], 3: [5, "4g.40gb", 1, 64]},
        H200: {
            0: [19, "1g.18gb", 7, 16],
            1: [14, "2g.35gb", 3, 32],
            2: [9, "3g.71gb", 2, 60],
            4: [0, "7g.141gb", 1, 132],
        },
        "dgx_b200": {
            0: [19, "1g.23gb", 7, 18],
            9: [15, "1g.45gb", 4, 30],
            1: [14, "2g.45gb", 3, 36],
            2: [9, "3g.90gb", 2, 70],
        },
        "rtx_pro_6000": {
            0: [14, "1g.24gb", 4, 46],
            1: [5, "2g.48gb", 2, 94],
            3: [0, "4g.96gb", 1, 188],
            13: [67, "1g.24gb-me", 4, 46],
            15: [65, "1g.24gb+me.all", 1, 46],
        },
    }
    for machine, profiles in expected.items():
        text = "(lambda p: [p.id, p.name[4:], p.instanceCount, p.multiprocessorCount])(profile({0}))"
        found = do(nvml_simulator(machine), *(text.format(number) for number in profiles))
        assert found == list(profiles.values()), machine


def test_a_number_that_the_gpu_lacks_and_one_that_nobody_has(a100):
    assert do(a100, "profile(5)", "profile(16)", "profile(17)") == ["E3", "E3", "E2"]
    by_id = "n.nvmlDeviceGetGpuInstanceProfileInfoById(gpu(0), {0}).sliceCount"
    assert do(a100, by_id.format(14), by_id.format(1), "n.nvmlDeviceGetGpuInstanceProfileInfo(gpu(0), 1, 1).id") == [
        2,
        "E3",
        14,
    ]


# NVML_GPU_INSTANCE_PROFILE_COUNT of nvml.h in NVIDIA/go-nvml; 580.159.04 as recorded.
@pytest.mark.parametrize(
    ("driver", "count"), [("470.256.02", 8), ("550.163.01", 10), ("580.159.04", 17), ("595.45.04", 18)]
)
def test_a_driver_knows_the_profiles_of_its_time(nvml_simulator, driver, count):
    simulator = nvml_simulator(A100, "driver.version=" + driver)
    numbers = ["n.nvmlDeviceGetGpuInstanceProfileInfo(gpu(0), {0}, 1).id".format(one) for one in (count - 1, count)]
    first, second = do(simulator, *numbers)
    assert first != "E2" and second == "E2"


def test_the_driver_clears_the_version_of_a_profile(a100):
    assert do(a100, "profile(0).version", "profile(0).id") == [0, 19]


def test_a_structure_of_another_version_is_refused(a100):
    text = (
        "(lambda i: [setattr(i, 'version', {0}), n._nvmlCheckReturn(n._nvmlGetFunctionPointer("
        "'nvmlDeviceGetGpuInstanceProfileInfoV')(gpu(0), 0, ctypes.byref(i))), i.id][2])"
        "(n.c_nvmlGpuInstanceProfileInfo_v2_t())"
    )
    assert do(a100, text.format(0x02000098), text.format(0x03000098), text.format(0x01000098), text.format(0)) == [
        19,
        19,
        "E25",
        "E25",
    ]


def test_placements_are_those_of_the_users_guide(a100):
    text = (
        "(lambda c, a: [n.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(0), {0}, a, ctypes.byref(c)),"
        " [[p.start, p.size] for p in a[:c.value]]][1])(ctypes.c_uint(8), (n.c_nvmlGpuInstancePlacement_t * 8)())"
    )
    found = do(a100, *(text.format(number) for number in (19, 15, 14, 9, 5, 0, 1)))
    assert found == [
        [[start, 1] for start in range(7)],
        [[0, 2], [2, 2], [4, 2], [6, 2]],
        [[0, 2], [2, 2], [4, 2]],
        [[0, 4], [4, 4]],
        [[0, 4]],
        [[0, 8]],
        "E3",
    ]


def test_places_are_told_in_either_mode_and_a_part_may_have_twelve(nvml_simulator):
    text = (
        "(lambda c, a: [n.nvmlDeviceGetGpuInstancePossiblePlacements(gpu(0), {0}, a, ctypes.byref(c)),"
        " [[p.start, p.size] for p in a[:c.value]]][1])(ctypes.c_uint(8), (n.c_nvmlGpuInstancePlacement_t * 8)())"
    )
    simulator = nvml_simulator("rtx_pro_6000")
    places = [[[0, 3], [3, 3], [6, 3], [9, 3]], [[0, 6], [6, 6]], [[0, 12]]]
    assert do(simulator, *(text.format(number) for number in (14, 5, 0)), "gi(0)") == [*places, "E3"]
    simulator.control("set", "gpu.mig_mode", "1")
    assert do(simulator, *(text.format(number) for number in (14, 5, 0))) == places
    found = do(simulator, "info(at(5, 6, 6))", "info(at(14, 3, 3))", "at(14, 2, 3)", "info(gi(14))", "gi(14)", "gi(5)")
    assert found == [[2, 5, 6, 6], [4, 14, 3, 3], "E23", [3, 14, 0, 3], "E23", "E23"]
    assert do(nvml_simulator("laptop"), text.format(14)) == ["E3"]


def test_one_with_all_media_engines_leaves_none(nvml_simulator):
    simulator = nvml_simulator("rtx_pro_6000", ON)
    assert do(simulator, "gi(65) and 1", "gi(14)", "gi(21)", "gi(64)", "gi(67) and 1") == [1, "E23", "E23", "E23", 1]
    simulator.control("driver-reload")
    simulator.control("set", "gpu.mig_mode", "1")
    assert do(simulator, "gi(14) and 1", "gi(65)", "gi(21) and 1") == [1, "E23", 1]


def test_the_driver_chooses_places_in_its_own_order(a100):
    """So that 19 19 14 9 fails and 9 14 19 19 does not, on an empty GPU."""
    ones = ["info(gi(19))[2]"] * 7
    assert do(a100, *ones, "gi(19)") == [6, 4, 5, 0, 1, 2, 3, "E23"]
    a100.control("driver-reload")
    assert do(a100, "info(gi(19))[2]", "info(gi(19))[2]", "info(gi(14))[2]", "gi(9)") == [6, 4, 0, "E23"]
    a100.control("driver-reload")
    assert do(a100, "info(gi(9))", "info(gi(14))", "info(gi(19))", "info(gi(19))") == [
        [2, 9, 4, 4],
        [3, 14, 0, 2],
        [9, 19, 2, 1],
        [10, 19, 3, 1],
    ]


def test_a_place_of_the_callers_choice(a100):
    found = do(
        a100, "info(at(9, 0, 4))", "at(14, 2, 2)", "at(14, 5, 2)", "at(14, 4, 3)", "info(at(14, 4, 2))", "at(9, 4, 4)"
    )
    assert found == [[1, 9, 0, 4], "E23", "E23", "E2", [5, 14, 4, 2], "E23"]


def test_compute_slices_counts_and_media_are_limits(a100):
    assert do(a100, "at(9, 0, 4) and 1", "at(9, 4, 4) and 1", "at(19, 6, 1)") == [1, 1, "E23"]
    a100.control("driver-reload")
    assert do(a100, "gi(20) and 1", "gi(20)", "gi(5) and 1", "gi(5)", "gi(0)") == [1, "E23", 1, "E23", "E23"]


def test_capacity_is_told(a100):
    text = "n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), {0})"
    kinds = [text.format(number) for number in (19, 15, 14, 9, 5, 0, 20)]
    assert do(a100, *kinds) == [7, 4, 3, 2, 1, 1, 1]
    assert do(a100, "at(9, 4, 4) and 1", *kinds)[1:] == [4, 2, 2, 1, 1, 0, 1]


def test_compute_instances(a100):
    of = "n.nvmlGpuInstanceGetComputeInstanceProfileInfo(made[0], {0}, 0)"
    names = [of.format(number) + ".name[4:]" for number in range(9)]
    found = do(a100, "made.setdefault(0, gi(9)) and 1", *names)[1:]
    assert found == ["1c.3g.20gb", "2c.3g.20gb", "3g.20gb", "E3", "E3", "E3", "E3", "E3", "E3"]
    found = do(
        a100,
        "made.setdefault(0, n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)) and 1",
        of.format(1) + ".multiprocessorCount",
        "n.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(made[0], 0)",
        "made.setdefault(1, ci(made[0], 1)) and 1",
        "n.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(made[0], 0)",
        "ci(made[0], 1)",
        "made.setdefault(2, ci(made[0], 0)) and 1",
        "ci(made[0], 0)",
        "(lambda i: [i.id, i.profileId, i.placement.start, i.placement.size])(n.nvmlComputeInstanceGetInfo(made[2]))",
        "n.nvmlGpuInstanceDestroy(made[0])",
        "n.nvmlComputeInstanceDestroy(made[1])",
        "n.nvmlComputeInstanceDestroy(made[1])",
        "n.nvmlComputeInstanceDestroy(made[2])",
        "n.nvmlGpuInstanceDestroy(made[0])",
        "n.nvmlGpuInstanceDestroy(made[0])",
        "n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)",
    )[1:]
    assert found == [28, 3, 1, 1, "E23", 1, "E23", [1, 0, 2, 1], "E19", 0, "E2", 0, 0, "E2", "E6"]


def test_all_instances_of_a_profile_are_found(a100):
    text = (
        "(lambda c, a: [n.nvmlDeviceGetGpuInstances(gpu(0), {0}, a, ctypes.byref(c)),"
        " [info(g) for g in a[:c.value]]][1])(ctypes.c_uint(7), (n.c_nvmlGpuInstance_t * 7)())"
    )
    found = do(a100, "gi(9) and 1", "gi(19) and 1", "gi(19) and 1", text.format(19), text.format(9), text.format(14))
    assert found[3:] == [[[7, 19, 0, 1], [8, 19, 1, 1]], [[2, 9, 4, 4]], []]


def test_mig_devices_are_compute_instances(a100):
    found = do(
        a100,
        "mig(0)",
        "made.setdefault(0, gi(9)) and made.setdefault(1, ci(made[0], 1)) and made.setdefault(2, ci(made[0], 0)) and 1",
        "n.nvmlDeviceGetName(mig(0))",
        "n.nvmlDeviceGetMemoryInfo(mig(1)).total >> 20",
        "[n.nvmlDeviceGetGpuInstanceId(mig(1)), n.nvmlDeviceGetComputeInstanceId(mig(1))]",
        "(lambda a: [a.multiprocessorCount, a.gpuInstanceSliceCount, a.computeInstanceSliceCount, a.memorySizeMB])"
        "(n.nvmlDeviceGetAttributes(mig(1)))",
        "[n.nvmlDeviceIsMigDeviceHandle(mig(0)).value, n.nvmlDeviceIsMigDeviceHandle(gpu(0)).value]",
        "n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(mig(1)))) == n.nvmlDeviceGetUUID(mig(1))",
        "n.nvmlDeviceGetUUID(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig(0))) == n.nvmlDeviceGetUUID(gpu(0))",
        "n.nvmlDeviceGetUUID(mig(0)) == n.nvmlDeviceGetUUID(mig(1))",
        "n.nvmlDeviceGetUUID(mig(0))[:4]",
        "mig(2)",
        "mig(7)",
        "n.nvmlDeviceGetClockInfo(mig(0), 0)",
        "n.nvmlDeviceGetAttributes(gpu(0))",
        "n.nvmlDeviceGetGpuInstanceId(gpu(0))",
    )
    assert found == [
        "E6",
        1,
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        19968,
        [2, 1],
        [14, 3, 1, 19968],
        [1, 0],
        True,
        True,
        False,
        "MIG-",
        "E6",
        "E2",
        "E3",
        "E3",
        "E2",
    ]


def test_processes_keep_their_instance(a100):
    do(
        a100,
        "made.setdefault(0, gi(9)) and made.setdefault(1, ci(made[0], 0)) and made.setdefault(2, ci(made[0], 0)) and 1",
    )
    a100.control("process", "add", "0", "4242", "100", "2", "1")
    found = do(
        a100,
        "[[p.pid, p.gpuInstanceId, p.computeInstanceId] for p in n.nvmlDeviceGetComputeRunningProcesses(gpu(0))]",
        "len(n.nvmlDeviceGetComputeRunningProcesses(mig(0)))",
        "len(n.nvmlDeviceGetComputeRunningProcesses(mig(1)))",
        "n.nvmlDeviceGetMemoryInfo(mig(1)).used >> 20",
        "[getattr(n.nvmlDeviceGetMemoryInfo(mig(0), n.nvmlMemory_v2), f) >> 20 for f in ('total', 'used', 'free')]",
        "n.nvmlDeviceGetMemoryInfo(mig(0), n.nvmlMemory_v2 + 1)",
        "n.nvmlDeviceGetUtilizationRates(mig(1))",
        "made.setdefault(0, n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)) and 1",
        "n.nvmlComputeInstanceDestroy(n.nvmlGpuInstanceGetComputeInstanceById(made[0], 1))",
        "n.nvmlComputeInstanceDestroy(n.nvmlGpuInstanceGetComputeInstanceById(made[0], 0))",
        "n.nvmlGpuInstanceDestroy(made[0])",
    )
    # The memory belongs to the GPU instance, so both compute instances tell the same; nobody tells a utilisation.
    assert found == [[[4242, 2, 1]], 0, 1, 100, [19968, 100, 19868], "E25", "E3", 1, "E19", 0, "E19"]
    # What is told of the whole GPU to root only is told of an instance to whoever may open it.
    told = ("len(n.nvmlDeviceGetComputeRunningProcesses(mig(0)))",)
    told += ("n.nvmlDeviceGetMemoryInfo(mig(0), n.nvmlMemory_v2).used >> 20",)
    assert do(a100, *told, NVML_SIMULATOR_UID="1000") == [1, 100]


def test_without_mig_there_is_nothing_to_make(nvml_simulator):
    simulator = nvml_simulator(A100)
    # As recorded of two GPUs of Hopper, where nvml.h promises "not supported" for the last two.
    assert do(
        simulator,
        "gi(9)",
        "at(9, 0, 4)",
        "mig(0)",
        "n.nvmlDeviceGetGpuInstanceById(gpu(0), 1)",
        "n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), 9)",
        "(lambda room: [n.nvmlDeviceGetGpuInstances(gpu(0), 9, (n.c_nvmlGpuInstance_t * 7)(), ctypes.byref(room)),"
        " room.value][1])(ctypes.c_uint(7))",
    ) == ["E3", "E3", "E6", "E6", 2, 0]


def test_before_branch_550_instances_are_reported_in_mig_mode_only(nvml_simulator):
    simulator = nvml_simulator(A100, "driver.version=535.261.03")
    calls = ("nvmlDeviceGetGpuInstanceById(gpu(0), 1)", "nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), 9)")
    assert do(simulator, *("n." + call for call in calls)) == ["E3", "E3"]


def test_only_root_makes_and_looks(a100):
    do(a100, "ci(gi(9), 2) and 1")
    found = do(
        a100,
        "gi(19)",
        "n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)",
        "n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), 19)",
        "n.nvmlDeviceSetMigMode(gpu(0), 0)",
        "profile(2).id",
        "n.nvmlDeviceGetName(mig(0))[-7:]",
        NVML_SIMULATOR_UID="1000",
    )
    assert found == ["E4", "E4", "E4", "E4", 9, "3g.20gb"]


# --- the mode
MODE = "n.nvmlDeviceGetMigMode(gpu(0))"
SET = "n.nvmlDeviceSetMigMode(gpu(0), {0})"


def test_on_ampere_the_mode_waits_for_a_reset_and_outlives_everything(nvml_simulator):
    simulator = nvml_simulator(A100)
    assert do(simulator, SET.format(1), MODE, "gi(9)") == [16, [0, 1], "E3"]
    simulator.control("driver-reload")
    assert ask(simulator, MODE) == [0, 1]
    simulator.control("gpu-reset", "0")
    assert do(simulator, MODE, "gi(9) and 1") == [[1, 1], 1]
    simulator.control("reboot")
    assert do(simulator, MODE, "n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)") == [[1, 1], "E6"]
    assert do(simulator, SET.format(0), SET.format(1), MODE, SET.format(1)) == [16, 0, [1, 1], 0]


def test_on_hopper_the_mode_changes_at_once_and_goes_with_the_driver(nvml_simulator):
    simulator = nvml_simulator(H100)
    assert do(simulator, SET.format(1), MODE, "gi(9) and 1", MODE) == [0, [1, 1], 1, [1, 1]]
    simulator.control("gpu-reset", "0")
    assert do(simulator, MODE, "n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)") == [[1, 1], "E6"]
    simulator.control("reboot")
    assert do(simulator, MODE, SET.format(1), "gi(9) and 1", SET.format(0), SET.format(1)) == [[0, 0], 0, 1, 0, 0]
    assert ask(simulator, "n.nvmlDeviceGetGpuInstanceById(gpu(0), 2)") == "E6"
    simulator.control("driver-reload")
    assert ask(simulator, MODE) == [0, 0]


@pytest.mark.parametrize("machine", [A100, H100])
def test_a_process_keeps_the_mode_from_changing(nvml_simulator, machine):
    simulator = nvml_simulator(machine)
    simulator.control("process", "add", "0", "4242", "100")
    assert do(simulator, SET.format(1), MODE) == [19, [0, 1]]
    simulator.control("process", "remove", "0", "4242")
    simulator.control("gpu-reset", "0")
    assert ask(simulator, MODE) == [1, 1]


def test_a_gpu_that_is_passed_through_may_want_a_reset_since_hopper_too(nvml_simulator):
    simulator = nvml_simulator(H100, "gpu.mig.reset_required=yes")
    assert do(simulator, SET.format(1), MODE) == [16, [0, 1]]
    simulator.control("gpu-reset", "0")
    assert ask(simulator, MODE) == [1, 1]


def test_a_change_of_the_mode_forgets_settings(nvml_simulator):
    simulator = nvml_simulator(H100)
    found = do(
        simulator,
        "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 600000)",
        SET.format(1),
        "n.nvmlDeviceGetPowerManagementLimit(gpu(0))",
        "n.nvmlDeviceSetMigMode(gpu(0), 2)",
    )
    assert found == [None, 0, 700000, "E2"]


# --- faults by their number
def test_a_fault_of_the_nth_call(a100):
    a100.control("fault", "call", "nvmlDeviceCreateGpuInstance", "after", "2", "return", "INSUFFICIENT_RESOURCES")
    assert do(a100, *["info(gi(19))[2]"] * 4) == [6, 4, "E23", "E23"]
    # The calls of each process are counted for themselves.
    assert do(a100, *["info(gi(19))[2]"] * 3) == [5, 0, "E23"]
    a100.control("fault", "call", "nvmlDeviceCreateGpuInstance", "nth", "2", "return", "INSUFFICIENT_RESOURCES")
    assert do(a100, *["info(gi(19))[2]"] * 3) == [1, "E23", 2]
    a100.control("clear", "call", "nvmlDeviceCreateGpuInstance")
    assert do(a100, *["info(gi(19))[2]"] * 2) == [3, "E23"]


@pytest.mark.parametrize("spared", range(4))
def test_a_process_is_killed_at_its_nth_change(a100, spared):
    a100.control("fault", "call", "change", "after", str(spared), "kill")
    code = "import pynvml as n; n.nvmlInit(); d = n.nvmlDeviceGetHandleByIndex(0)\n"
    code += "for _ in range(3): n.nvmlDeviceCreateGpuInstance(d, 19)"
    process = a100.start(code)
    process.communicate()
    assert process.returncode == (-signal.SIGKILL if spared < 3 else 0)
    a100.control("clear", "call", "change")
    text = "n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu(0), 19)"
    assert do(a100, text) == [7 - min(spared, 3)]


def test_every_layout_of_the_guide_can_be_made_one_after_the_other(a100):
    """Explicit places, in every order of three: the answer does not depend on the order."""
    wanted = [(9, 0, 4), (14, 4, 2), (19, 6, 1)]
    for order in itertools.permutations(wanted):
        assert len(do(a100, *("info(at({0}, {1}, {2}))".format(*each) for each in order))) == 3
        a100.control("driver-reload")
