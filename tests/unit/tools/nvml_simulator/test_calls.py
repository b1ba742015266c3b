# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the calls behave as calls: order, sizes, versions, handles."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run


def test_before_init_every_call_says_so(nvml_simulator):
    load = "n._LoadNvmlLibrary()"
    found = run(
        nvml_simulator(),
        load,
        "n.nvmlDeviceGetCount()",
        "n.nvmlSystemGetDriverVersion()",
        "n.nvmlShutdown()",
        init=False,
    )
    # Unlike nvml.h's words, real libraries take a shutdown too many (test_real_libraries.py).
    assert found == [None, "E1", "E1", None]


def test_init_is_counted(nvml_simulator):
    found = run(
        nvml_simulator(),
        "n.nvmlInit()",
        "n.nvmlShutdown()",
        "n.nvmlDeviceGetCount()",
        "n.nvmlShutdown()",
        "n.nvmlDeviceGetCount()",
        "n.nvmlShutdown()",
    )
    assert found == [None, None, 8, None, "E1", None]


def test_a_name_longer_than_the_buffer_is_insufficient_size(nvml_simulator):
    call = "n._nvmlGetFunctionPointer('nvmlDeviceGetName')(gpu(0), ctypes.create_string_buffer(64), ctypes.c_uint({0}))"
    length = len("NVIDIA A100-SXM4-40GB")
    assert run(nvml_simulator(), call.format(length), call.format(length + 1)) == [7, 0]


def test_lists_tell_their_size_when_there_is_no_room(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("process", "add", "0", "1", "1")
    call = (
        "(lambda count: (n._nvmlGetFunctionPointer({0!r})(gpu(0), {1} ctypes.byref(count), None), count.value))"
        "(ctypes.c_uint(0))"
    )
    found = run(
        simulator,
        call.format("nvmlDeviceGetSupportedMemoryClocks", ""),
        call.format("nvmlDeviceGetSupportedGraphicsClocks", "ctypes.c_uint(1215),"),
        call.format("nvmlDeviceGetSupportedGraphicsClocks", "ctypes.c_uint(1216),"),
        call.format("nvmlDeviceGetComputeRunningProcesses_v3", ""),
        call.format("nvmlDeviceGetTopologyNearestGpus", "ctypes.c_uint(50),"),
    )
    # Unlike the others, the nearest GPUs are counted with success: the binding insists on it.
    assert found == [[7, 1], [7, 81], [6, 0], [7, 1], [0, 6]]


def test_structures_of_another_version_are_refused(nvml_simulator):
    found = run(
        nvml_simulator("nd96isr_h100_v5"),
        "n.nvmlDeviceGetMemoryInfo(gpu(0), 0x01000028)",
        "n.nvmlDeviceGetGpuFabricInfoV(gpu(0), ctypes.byref(n.c_nvmlGpuFabricInfo_v2_t()))",
        "n._nvmlGetFunctionPointer('nvmlDeviceGetGpuFabricInfoV')(gpu(0), ctypes.byref(ctypes.c_uint(0x09000024)))",
        "n._nvmlGetFunctionPointer('nvmlDeviceGetTemperatureV')(gpu(0), ctypes.byref(n.c_nvmlTemperature_v1_t()))",
        "n._nvmlGetFunctionPointer('nvmlDeviceSetPowerManagementLimit_v2')("
        "gpu(0), ctypes.byref(n.c_nvmlPowerValue_v2_t(7, 0, 300000)))",
    )
    assert found == ["E25", 0, 25, 25, 25]


def test_what_is_no_handle_is_an_invalid_argument(nvml_simulator):
    found = run(
        nvml_simulator(),
        "n.nvmlDeviceGetName(n.c_nvmlDevice_t())",
        "n.nvmlDeviceGetName(ctypes.cast(ctypes.create_string_buffer(64), n.c_nvmlDevice_t))",
        "n.nvmlDeviceGetHandleByIndex(8)",
        "n.nvmlDeviceGetHandleByUUID('GPU-00000000-0000-0000-0000-000000000000')",
        "n.nvmlDeviceGetHandleByPciBusId('0001:00:00.0 ')",
        "n.nvmlDeviceGetHandleByPciBusId('00ff:00:00.0')",
        "n.nvmlDeviceGetNvLinkState(gpu(0), 12)",
    )
    assert found == ["E2", "E2", "E2", "E6", "E2", "E6", "E2"]


def test_a_gpu_is_found_by_each_of_its_names(nvml_simulator):
    found = run(
        nvml_simulator(),
        "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(gpu(5))))",
        "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(gpu(5))))",
        "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(gpu(5)).busId))",
        "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId('000c:00:00.0'))",
    )
    assert found == [5, 5, 5, 5]


def test_a_field_that_is_unknown_fails_in_its_slot_only(nvml_simulator):
    values = ask(
        nvml_simulator(),
        "[(v.fieldId, v.nvmlReturn, v.value.uiVal) for v in n.nvmlDeviceGetFieldValues(gpu(0), [91, 9999, 230, 145])]",
    )
    assert values == [[91, 0, 12], [9999, 2, 0], [230, 0, 0], [145, 0, 0]]


# NVML_FI_MAX of nvml.h in NVIDIA/go-nvml, and the recordings of 580.159.04.
@pytest.mark.parametrize(
    ("driver", "unknown", "known"),
    [
        ("470.256.02", (0, 161, 230, 269), (1, 147, 160)),
        ("525.147.05", (170, 194, 301), (161, 169)),
        ("550.163.01", (200, 230), (184, 196, 199)),
        ("570.195.03", (269, 271), (230, 268)),
        ("580.95.05", (274, 275, 301), (269, 271, 273)),
        ("580.159.04", (274, 289, 293, 296, 300, 303, 309), (273, 275, 288, 294, 301, 302)),
        ("595.45.04", (296, 300, 303), (274, 289, 302)),
        ("610.43.02", (303,), (296, 300)),
    ],
)
def test_a_driver_knows_the_fields_of_its_time(nvml_simulator, driver, unknown, known):
    text = "[v.nvmlReturn for v in n.nvmlDeviceGetFieldValues(gpu(0), [*{0}, *{1}])]".format(unknown, known)
    codes = ask(nvml_simulator("nd96isr_h100_v5", "driver.version=" + driver), text)
    assert set(codes[: len(unknown)]) == {2}
    assert set(codes[len(unknown) :]) <= {0, 3}


def test_a_field_may_succeed_without_a_value(nvml_simulator):
    # As an H100 and an H200 answer for the power limits, whose calls report them.
    text = (
        "(lambda given: [n._nvmlGetFunctionPointer('nvmlDeviceGetFieldValues')(gpu(0), 1, ctypes.byref(given)),"
        " given.nvmlReturn, given.valueType, given.value.uiVal])"
        "(n.c_nvmlFieldValue_t(fieldId=188, valueType=9, value=n.c_nvmlValue_t(uiVal=77)))"
    )
    found = run(nvml_simulator("vm_h100"), text, "n.nvmlDeviceGetPowerManagementLimit(gpu(0))")
    assert found == [[0, 0, 9, 77], 700000]


def test_time_that_a_gpu_was_slowed_down_is_a_field(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("set", "gpu.0.slowed.power_brake_ns", "2500000000")
    text = "[v.value.ullVal for v in n.nvmlDeviceGetFieldValues(gpu({0}), [74, 76, 269, 271, 270])]"
    assert run(simulator, text.format(0), text.format(1)) == [[0, 0, 0, 2500000000, 0], [0] * 5]
    simulator.control("throttle", "0", "hw_thermal")
    first, second = (ask(simulator, text.format(0)) for dummy in range(2))
    assert 0 < first[4] < second[4] < 60e9 and first[:4] == second[:4] == [0, 0, 0, 2500000000]
    simulator.control("clear")
    last = ask(simulator, text.format(0))
    assert last[4] > second[4] and ask(simulator, text.format(0)) == last
    simulator.control("driver-reload")
    assert ask(simulator, text.format(0)) == [0] * 5


@pytest.mark.parametrize(
    ("machine", "driver", "types"),
    [
        ("nd96isr_h200_v5", "580.95.05", 0xFF9F),  # as recorded
        ("nd96isr_h100_v5", "560.35.03", 0x3F9F),
        ("nd96isr_h100_v5", "550.163.01", 0x19F),
        ("nd40rs_v2", "550.163.01", 0x9F),  # without MIG
        ("laptop", "550.163.01", 0x9C),  # nor ECC
    ],
)
def test_the_types_of_events_are_those_of_gpu_and_driver(nvml_simulator, machine, driver, types):
    simulator = nvml_simulator(machine, "driver.version=" + driver)
    assert ask(simulator, "n.nvmlDeviceGetSupportedEventTypes(gpu(0))") == types


def test_a_recommended_reset_is_in_the_older_fields_too(nvml_simulator):
    simulator = nvml_simulator("nd96isr_h100_v5")
    text = "[v.value.uiVal for v in n.nvmlDeviceGetFieldValues(gpu(0), [226, 227, 230])]"
    found = []
    for action in ("1", "4"):
        simulator.control("fault", "gpu", "0", "recovery-action", action)
        found.append(ask(simulator, text))
    assert found == [[1, 0, 1], [0, 1, 4]]


def test_fields_of_one_link_take_its_number(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("nvlink", "0", "3", "down")
    values = ask(
        simulator,
        "[(v.nvmlReturn, v.value.uiVal) for v in"
        " n.nvmlDeviceGetFieldValues(gpu(0), [(164, 2), (164, 3), (165, 3), (164, 12)])]",
    )
    assert values == [[0, 25781], [0, 0], [0, 0], [2, 0]]
    assert ask(simulator, "[n.nvmlDeviceGetNvLinkState(gpu(0), link) for link in range(12)].count(1)") == 11
    assert ask(simulator, "n.nvmlDeviceGetNvLinkRemotePciInfo(gpu(0), 3)") == "E3"


def test_errors_of_a_link_are_counted_and_reset(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("nvlink", "0", "3", "errors", "17")
    count = "n.nvmlDeviceGetNvLinkErrorCounter(gpu(0), 3, 0)"
    assert run(simulator, count, "n.nvmlDeviceResetNvLinkErrorCounters(gpu(0), 3)", count) == [17, None, 0]


def test_a_hopper_with_switches_has_a_fabric(nvml_simulator):
    code = (
        "(lambda info: (n.nvmlDeviceGetGpuFabricInfoV(gpu(0), ctypes.byref(info)), plain(info))[1])"
        "(n.c_nvmlGpuFabricInfo_v3_t())"
    )
    simulator = nvml_simulator("nd96isr_h100_v5")
    info = ask(simulator, code)
    assert (info["state"], info["status"], info["clusterUuid"]) == (3, 0, [0] * 16)
    simulator.control("set", "gpu.fabric.state", "2")
    assert ask(simulator, code)["state"] == 2
    assert ask(nvml_simulator("nd96asr_v4"), code) == "E3"


def test_versions_come_from_the_description(nvml_simulator):
    found = run(
        nvml_simulator(),
        "n.nvmlSystemGetDriverVersion()",
        "n.nvmlSystemGetNVMLVersion()",
        "n.nvmlSystemGetCudaDriverVersion()",
    )
    assert found == ["580.95.05", "13.580.95.05", 13000]


def test_mig_is_off_where_it_exists_and_absent_where_not(nvml_simulator):
    calls = (
        "n.nvmlDeviceGetMigMode(gpu(0))",
        "n.nvmlDeviceGetMaxMigDeviceCount(gpu(0))",
        "n.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), 0)",
    )
    assert run(nvml_simulator("nd96asr_v4"), *calls) == [[0, 0], 0, "E6"]  # nvml.h: no count while it is off
    assert run(nvml_simulator("nd40rs_v2"), *calls) == ["E3", 0, "E3"]
