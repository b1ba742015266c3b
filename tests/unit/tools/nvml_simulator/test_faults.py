# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault that can be injected, and its end."""

from __future__ import annotations

import subprocess
import time

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run

COUNT = "n.nvmlDeviceGetCount()"
NAME = "n.nvmlDeviceGetName(gpu({0}))"


def test_a_lost_gpu_fails_alone(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "3", "lost")
    assert run(simulator, COUNT, NAME.format(3), NAME.format(2)) == [8, "E15", "NVIDIA A100-SXM4-40GB"]
    assert ask(simulator, "n.nvmlDeviceGetHandleByPciBusId('0004:00:00.0')") == "E15"
    assert ask(simulator, "n.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(3))") == "E15"
    simulator.control("reboot")
    assert ask(simulator, NAME.format(3)) == "NVIDIA A100-SXM4-40GB"


def test_a_gpu_that_is_lost_under_way_fails_from_then_on(nvml_simulator):
    simulator = nvml_simulator()
    code = """
import json, subprocess, sys, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(3)
n.nvmlDeviceGetName(handle)
subprocess.run([sys.argv[1], "fault", "gpu", "3", "lost"], check=True)
try:
    n.nvmlDeviceGetName(handle)
except n.NVMLError as error:
    print(json.dumps(error.value))
"""
    assert simulator.python(code, str(simulator.built / "nvml-simulator")) == 15


def test_a_lost_gpu_cannot_be_reset(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "3", "lost")
    done = simulator.run_control("gpu-reset", "3")
    assert done.returncode == 2
    assert done.stderr == "nvml-simulator: GPU 3 is lost: a reset does not reach it, only a reboot does\n"


def test_an_absent_gpu_is_not_counted_and_the_others_move_up(nvml_simulator):
    simulator = nvml_simulator()
    address = "n.nvmlDeviceGetPciInfo(gpu({0})).busId"
    simulator.control("fault", "gpu", "1", "absent")
    assert run(
        simulator, COUNT, address.format(1), NAME.format(7), "n.nvmlDeviceGetHandleByPciBusId('0002:00:00.0')"
    ) == [
        7,
        "00000003:00:00.0",
        "E2",
        "E6",
    ]
    simulator.control("clear", "gpu", "1")
    assert ask(simulator, COUNT) == 8


def test_without_a_driver_init_fails(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "driver", "not-loaded")
    assert ask(simulator, "n.nvmlInit()", init=False) == "E9"
    simulator.control("clear", "driver")
    assert ask(simulator, "n.nvmlInit()", init=False) is None


def test_a_library_of_another_version_than_the_driver_says_so(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "driver", "version-mismatch")
    assert ask(simulator, "n.nvmlInit()", init=False) == "E18"


def test_without_a_machine_there_is_no_driver(nvml_simulator):
    simulator = nvml_simulator()
    (simulator.state / "machine.conf").unlink()
    assert ask(simulator, "n.nvmlInit()", init=False) == "E9"


def test_a_machine_that_cannot_be_read_is_an_unknown_error_and_show_names_the_line(nvml_simulator):
    simulator = nvml_simulator()
    (simulator.state / "machine.conf").write_text("gpu.count = 1\nnonsense\n")
    assert ask(simulator, "n.nvmlInit()", init=False) == "E999"
    assert "machine.conf: line 2 is not KEY = VALUE" in simulator.control("show")


@pytest.mark.parametrize(
    ("code", "seen"), [("NOT_SUPPORTED", "E3"), ("NVML_ERROR_DEPRECATED", "E26"), ("999", "E999"), ("UNKNOWN", "E999")]
)
def test_a_call_returns_the_code_it_is_told(nvml_simulator, code, seen):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceGetClockInfo", "return", code)
    clock = "n.nvmlDeviceGetClockInfo(gpu({0}), 0)"
    assert run(simulator, clock.format(0), clock.format(5), NAME.format(0)) == [seen, seen, "NVIDIA A100-SXM4-40GB"]
    simulator.control("clear", "call", "nvmlDeviceGetClockInfo")
    assert ask(simulator, clock.format(0)) == 210


def test_a_call_fails_on_one_gpu_only(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceSetPowerManagementLimit", "gpu", "1", "return", "NO_PERMISSION")
    call = "n.nvmlDeviceSetPowerManagementLimit(gpu({0}), 300000)"
    assert run(simulator, call.format(0), call.format(1)) == [None, "E4"]


def test_the_handle_of_one_gpu_can_be_refused(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceGetHandleByIndex_v2", "gpu", "6", "return", "UNKNOWN")
    assert run(simulator, NAME.format(6), NAME.format(5)) == ["E999", "NVIDIA A100-SXM4-40GB"]


HANG = """
import sys, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(2)
print("started", flush=True)
n.nvmlDeviceGetClockInfo(handle, 0)
print("returned", flush=True)
"""


def test_a_hanging_call_never_returns_holds_no_lock_and_ends_by_sigkill(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceGetClockInfo", "gpu", "2", "hang")
    process = simulator.start(HANG)
    try:
        assert process.stdout.readline() == "started\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        # Others read, change and clear meanwhile.
        call = "n.nvmlDeviceSetPowerManagementLimit(gpu(2), 300000)"
        assert run(simulator, call, "n.nvmlDeviceGetClockInfo(gpu(1), 0)") == [None, 210]
        simulator.control("clear")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    finally:
        process.kill()
    assert process.communicate()[0] == "" and process.returncode == -9


def test_other_threads_of_a_hanging_process_go_on(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceGetClockInfo", "gpu", "2", "hang")
    code = """
import json, os, threading, time, pynvml as n
n.nvmlInit()
threading.Thread(target=n.nvmlDeviceGetClockInfo, args=(n.nvmlDeviceGetHandleByIndex(2), 0), daemon=True).start()
time.sleep(0.3)
print(json.dumps(n.nvmlDeviceGetClockInfo(n.nvmlDeviceGetHandleByIndex(1), 0)), flush=True)
os._exit(0)
"""
    assert simulator.python(code, timeout=20) == 210


def test_init_can_hang(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlInitWithFlags", "hang")
    with pytest.raises(subprocess.TimeoutExpired):
        simulator.python("import pynvml as n; n.nvmlInit()", timeout=1)


def test_a_slow_call_returns_late(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceGetName", "delay", "300")
    found = run(simulator, "__import__('time').monotonic()", NAME.format(0), "__import__('time').monotonic()")
    assert found[1] == "NVIDIA A100-SXM4-40GB"
    assert found[2] - found[0] >= 0.3


SYMBOL = """
import ctypes, json, sys, pynvml as n
n.nvmlInit()
library = ctypes.CDLL("libnvidia-ml.so.1")
print(json.dumps([hasattr(library, name) for name in sys.argv[1:]]))
"""


def test_a_missing_symbol_is_not_there_for_the_loader_nor_for_the_binding(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "missing")
    names = ("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks")
    assert simulator.python(SYMBOL, *names) == [False, True]
    assert simulator.preloaded(SYMBOL, *names) == [False, True]
    assert ask(simulator, "n.nvmlDeviceSetGpuLockedClocks(gpu(0), 1410, 1410)") == "E13"
    simulator.control("clear", "call", "nvmlDeviceSetGpuLockedClocks")
    assert ask(simulator, "n.nvmlDeviceSetGpuLockedClocks(gpu(0), 1410, 1410)") is None


def test_a_c_program_does_not_find_a_missing_symbol_either(nvml_simulator, tmp_path):
    """The binding could be fooled by less: this asks the loader itself, at link time of a whole program."""
    simulator = nvml_simulator()
    source = tmp_path / "ask.c"
    source.write_text(
        "unsigned nvmlInit_v2(void); unsigned nvmlDeviceGetCount_v2(unsigned *);\n"
        "int main(void) { unsigned count = 0; "
        "return nvmlInit_v2() || nvmlDeviceGetCount_v2(&count) ? 99 : (int)count; }\n"
    )
    program = tmp_path / "ask"
    subprocess.run(["cc", "-o", str(program), str(source), str(simulator.library)], check=True)
    assert subprocess.run([str(program)], env=simulator.environment()).returncode == 8
    simulator.control("fault", "call", "nvmlDeviceGetCount_v2", "missing")
    done = subprocess.run([str(program)], env=simulator.environment(), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 127
    assert "undefined symbol: nvmlDeviceGetCount_v2" in done.stderr


@pytest.mark.parametrize(
    ("version", "there"),
    [
        # Calls of 2020, CUDA 11.6 (510), CUDA 12.2 (535), CUDA 12.4 (550) and CUDA 13.2 (595).
        ("470.256.02", [True, False, False, False, False]),
        ("525.147.05", [True, True, False, False, False]),
        ("535.230.02", [True, True, True, False, False]),
        ("580.95.05", [True, True, True, True, False]),
        ("610.43.02", [True, True, True, True, True]),
    ],
)
def test_a_driver_of_another_age_has_the_calls_of_its_age(nvml_simulator, version, there):
    simulator = nvml_simulator("nd96asr_v4", "driver.version=" + version)
    names = (
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetRemappedRows_v2",
    )
    assert simulator.python(SYMBOL, *names) == there


def test_an_xid_is_logged_as_the_driver_does_and_wakes_those_who_wait(nvml_simulator):
    simulator = nvml_simulator()
    waiter = simulator.start(
        "import sys, pynvml as n\n"
        "n.nvmlInit()\n"
        "events = n.nvmlEventSetCreate()\n"
        "for index in range(8): n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(index), 8, events)\n"
        "print('waiting', flush=True)\n"
        "event = n.nvmlEventSetWait_v2(events, 20000)\n"
        "print(n.nvmlDeviceGetIndex(event.device), event.eventType, event.eventData, event.gpuInstanceId, flush=True)\n"
    )
    try:
        assert waiter.stdout.readline() == "waiting\n"
        simulator.control("fault", "gpu", "4", "xid", "79")
        assert waiter.stdout.readline() == "4 8 79 4294967295\n"
    finally:
        waiter.kill()
        waiter.communicate()
    log = (simulator.state / "kernel.log").read_text()
    assert log == "NVRM: Xid (PCI:000b:00:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def test_an_xid_takes_a_text(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "0", "xid", "149", "NETIR_LINK_EVT", "Fatal", "XC0 i0 Link 00")
    assert (
        (simulator.state / "kernel.log")
        .read_text()
        .endswith("149, pid='<unknown>', name=<unknown>, NETIR_LINK_EVT Fatal XC0 i0 Link 00\n")
    )


def test_waiting_ends_in_time_when_nothing_happens_and_old_events_do_not_count(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "0", "xid", "31")
    started = time.monotonic()
    register = "n.nvmlDeviceRegisterEvents(gpu(0), 8, globals().setdefault('s', n.nvmlEventSetCreate()))"
    assert run(simulator, register, "n.nvmlEventSetWait_v2(s, 200)")[1] == "E10"
    assert time.monotonic() - started < 20


def test_the_drivers_own_verdict_can_be_set(nvml_simulator):
    simulator = nvml_simulator()
    action = "[(v.nvmlReturn, v.value.uiVal) for v in n.nvmlDeviceGetFieldValues(gpu(0), [230])]"
    simulator.control("fault", "gpu", "0", "recovery-action", "2")
    assert ask(simulator, action) == [[0, 2]]
    assert ask(nvml_simulator("nd40rs_v2"), action) == [[3, 0]]


def test_clear_ends_all_faults(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("fault", "gpu", "0", "lost")
    simulator.control("fault", "call", "nvmlDeviceGetName", "return", "3")
    simulator.control("throttle", "1", "hw_thermal")
    assert len(simulator.control("fault", "list").splitlines()) == 3
    simulator.control("clear")
    assert simulator.control("fault", "list") == ""
    assert run(simulator, NAME.format(0), "n.nvmlDeviceGetCurrentClocksEventReasons(gpu(1))") == [
        "NVIDIA A100-SXM4-40GB",
        1,
    ]
