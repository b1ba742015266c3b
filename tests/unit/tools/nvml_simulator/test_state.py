# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept, by whom and until when."""

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.nvml_simulator.asking import ask, run

SETTINGS = (
    "n.nvmlDeviceGetPersistenceMode(gpu(2))",
    "n.nvmlDeviceGetPowerManagementLimit(gpu(2))",
    "n.nvmlDeviceGetComputeMode(gpu(2))",
    "n.nvmlDeviceGetClockInfo(gpu(2), 0)",
    "n.nvmlDeviceGetApplicationsClock(gpu(2), 0)",
)
AS_NEW = [0, 400000, 0, 210, 1095]
AS_SET = [1, 300000, 3, 1410, 1290]


def change_all(simulator):
    codes = run(
        simulator,
        "n.nvmlDeviceSetPersistenceMode(gpu(2), 1)",
        "n.nvmlDeviceSetPowerManagementLimit(gpu(2), 300000)",
        "n.nvmlDeviceSetComputeMode(gpu(2), 3)",
        "n.nvmlDeviceSetGpuLockedClocks(gpu(2), 1410, 1410)",
        "n.nvmlDeviceSetApplicationsClocks(gpu(2), 1215, 1290)",
    )
    assert not [code for code in codes if isinstance(code, str)], codes


def test_what_one_process_sets_the_next_one_sees_and_other_gpus_do_not_have(nvml_simulator):
    simulator = nvml_simulator()
    assert run(simulator, *SETTINGS) == AS_NEW
    change_all(simulator)
    assert run(simulator, *SETTINGS) == AS_SET
    assert run(simulator, *(text.replace("gpu(2)", "gpu(3)") for text in SETTINGS)) == AS_NEW


@pytest.mark.parametrize("event", ["driver-reload", "reboot"])
def test_a_driver_reload_and_a_reboot_forget_what_the_driver_keeps(nvml_simulator, event):
    simulator = nvml_simulator()
    change_all(simulator)
    simulator.control(event)
    assert run(simulator, *SETTINGS) == AS_NEW


def test_a_gpu_reset_forgets_clocks_and_limits_of_that_gpu_only(nvml_simulator):
    simulator = nvml_simulator()
    change_all(simulator)
    run(simulator, "n.nvmlDeviceSetPowerManagementLimit(gpu(3), 300000)")
    simulator.control("gpu-reset", "2")
    assert run(simulator, *SETTINGS) == [1, 400000, 0, 210, 1095]
    assert ask(simulator, "n.nvmlDeviceGetPowerManagementLimit(gpu(3))") == 300000


def test_a_guests_own_reboot_forgets_by_losing_the_volatile_files(nvml_simulator):
    simulator = nvml_simulator()
    change_all(simulator)
    run(simulator, "n.nvmlDeviceSetEccMode(gpu(2), 0)")
    for name in ("driver.state", "faults.state", "lock"):
        (simulator.state / name).unlink(missing_ok=True)
    assert run(simulator, *SETTINGS) == AS_NEW
    assert ask(simulator, "n.nvmlDeviceGetEccMode(gpu(2))") == [0, 0]


def test_an_ecc_change_is_pending_until_a_reset(nvml_simulator):
    simulator = nvml_simulator()
    assert ask(simulator, "n.nvmlDeviceGetEccMode(gpu(0))") == [1, 1]
    assert run(simulator, "n.nvmlDeviceSetEccMode(gpu(0), 0)", "n.nvmlDeviceGetEccMode(gpu(0))")[1] == [1, 0]
    simulator.control("driver-reload")
    assert ask(simulator, "n.nvmlDeviceGetEccMode(gpu(0))") == [1, 0]
    simulator.control("gpu-reset", "0")
    assert run(simulator, "n.nvmlDeviceGetEccMode(gpu(0))", "n.nvmlDeviceGetEccMode(gpu(1))") == [[0, 0], [1, 1]]


def test_an_ecc_change_that_is_taken_back_leaves_nothing_pending(nvml_simulator):
    simulator = nvml_simulator()
    run(simulator, "n.nvmlDeviceSetEccMode(gpu(0), 0)", "n.nvmlDeviceSetEccMode(gpu(0), 1)")
    assert ask(simulator, "n.nvmlDeviceGetEccMode(gpu(0))") == [1, 1]


def test_without_ecc_nothing_is_counted(nvml_simulator):
    simulator = nvml_simulator()
    run(simulator, "n.nvmlDeviceSetEccMode(gpu(0), 0)")
    simulator.control("gpu-reset", "0")
    assert ask(simulator, "n.nvmlDeviceGetTotalEccErrors(gpu(0), 0, 0)") == "E3"


COUNTERS = (
    "n.nvmlDeviceGetTotalEccErrors(gpu(1), 0, 0)",
    "n.nvmlDeviceGetTotalEccErrors(gpu(1), 0, 1)",
    "n.nvmlDeviceGetTotalEccErrors(gpu(1), 1, 1)",
    "n.nvmlDeviceGetMemoryErrorCounter(gpu(1), 1, 1, 7)",
    "[v.value.ullVal for v in n.nvmlDeviceGetFieldValues(gpu(1), [3, 5, 6])]",
)


def test_volatile_counters_end_with_the_driver_and_aggregate_ones_never(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("ecc", "add", "1", "corrected", "5")
    simulator.control("ecc", "add", "1", "corrected", "2", "sram")
    simulator.control("ecc", "add", "1", "uncorrected", "3", "sram")
    assert run(simulator, *COUNTERS) == [7, 7, 3, 3, [7, 7, 3]]
    simulator.control("driver-reload")
    assert run(simulator, *COUNTERS) == [0, 7, 3, 3, [0, 7, 3]]
    simulator.control("reboot")
    assert run(simulator, *COUNTERS) == [0, 7, 3, 3, [0, 7, 3]]
    run(simulator, "n.nvmlDeviceClearEccErrorCounts(gpu(1), 1)")
    assert run(simulator, *COUNTERS) == [0, 0, 0, 0, [0, 0, 0]]


def test_a_remapped_row_is_pending_until_a_reset_and_then_stays(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("remap", "4", "uncorrectable", "2", "pending")
    assert ask(simulator, "n.nvmlDeviceGetRemappedRows(gpu(4))") == [0, 2, 1, 0]
    assert ask(simulator, "[v.value.uiVal for v in n.nvmlDeviceGetFieldValues(gpu(4), [142, 143, 144, 145])]") == [
        0,
        2,
        1,
        0,
    ]
    simulator.control("driver-reload")
    assert ask(simulator, "n.nvmlDeviceGetRemappedRows(gpu(4))") == [0, 2, 1, 0]
    simulator.control("gpu-reset", "4")
    assert ask(simulator, "n.nvmlDeviceGetRemappedRows(gpu(4))") == [0, 2, 0, 0]
    simulator.control("remap", "4", "correctable", "1", "failure")
    simulator.control("reboot")
    assert ask(simulator, "n.nvmlDeviceGetRemappedRows(gpu(4))") == [1, 2, 0, 1]
    assert ask(simulator, "plain(n.nvmlDeviceGetRowRemapperHistogram(gpu(4)))") == {
        "max": 637,
        "high": 2,
        "partial": 0,
        "low": 0,
        "none": 1,
    }


def test_a_volta_retires_pages(nvml_simulator):
    simulator = nvml_simulator("nd40rs_v2")
    simulator.control("retire", "0", "dbe", "0x1000")
    simulator.control("retire", "0", "dbe", "0x2000")
    pages = run(
        simulator,
        "n.nvmlDeviceGetRetiredPages(gpu(0), 1)",
        "n.nvmlDeviceGetRetiredPages(gpu(0), 0)",
        "n.nvmlDeviceGetRetiredPagesPendingStatus(gpu(0))",
        "[page['address'] for page in n.nvmlDeviceGetRetiredPages_v2(gpu(0), 1)]",
    )
    assert pages == [[0x1000, 0x2000], [], 1, [0x1000, 0x2000]]
    simulator.control("reboot")
    assert run(
        simulator, "n.nvmlDeviceGetRetiredPages(gpu(0), 1)", "n.nvmlDeviceGetRetiredPagesPendingStatus(gpu(0))"
    ) == [[0x1000, 0x2000], 0]


SETTERS = {
    "persistence": "n.nvmlDeviceSetPersistenceMode(gpu(0), 1)",
    "application clocks": "n.nvmlDeviceSetApplicationsClocks(gpu(0), 1215, 1410)",
    "application clocks back": "n.nvmlDeviceResetApplicationsClocks(gpu(0))",
    "locked clocks": "n.nvmlDeviceSetGpuLockedClocks(gpu(0), 1410, 1410)",
    "locked clocks back": "n.nvmlDeviceResetGpuLockedClocks(gpu(0))",
    "memory clocks": "n.nvmlDeviceSetMemoryLockedClocks(gpu(0), 1215, 1215)",
    "memory clocks back": "n.nvmlDeviceResetMemoryLockedClocks(gpu(0))",
    "power limit": "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 300000)",
    "compute mode": "n.nvmlDeviceSetComputeMode(gpu(0), 3)",
    "ECC mode": "n.nvmlDeviceSetEccMode(gpu(0), 0)",
    "ECC counters": "n.nvmlDeviceClearEccErrorCounts(gpu(0), 0)",
    "NVLink counters": "n.nvmlDeviceResetNvLinkErrorCounters(gpu(0), 0)",
}


def test_setters_need_root_and_change_nothing_without(nvml_simulator):
    simulator = nvml_simulator()
    before = files(simulator)
    assert run(simulator, *SETTERS.values(), NVML_SIMULATOR_UID="1000") == ["E4"] * len(SETTERS)
    assert files(simulator) == before
    assert run(simulator, *SETTERS.values(), NVML_SIMULATOR_UID="0") == [None] * len(SETTERS)


def files(simulator):
    return {path.name: path.read_bytes() for path in pathlib.Path(simulator.state).iterdir()}


def test_reading_writes_nothing(nvml_simulator):
    simulator = nvml_simulator()
    change_all(simulator)
    before = files(simulator)
    run(simulator, *SETTINGS, *COUNTERS)
    assert files(simulator) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_another_user_reads_what_root_set_and_may_not_change_it(nvml_simulator):
    simulator = nvml_simulator()
    simulator.control("set", "gpu.0.persistence_mode", "1")
    for folder in [simulator.state, *simulator.state.parents[:3], simulator.built]:
        folder.chmod(folder.stat().st_mode | 0o055)
    library = str(simulator.library)
    # The interpreter's own files may be out of another user's reach, so everything is imported before.
    code = (
        "import ctypes, json, os, pynvml as n, encodings.idna\n"
        "ctypes.CDLL({0!r})\n"
        "os.setuid(65534)\n"
        "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
        "try:\n    n.nvmlDeviceSetPersistenceMode(h, 0)\n    code = 0\n"
        "except n.NVMLError as error:\n    code = error.value\n"
        "print(json.dumps([n.nvmlDeviceGetPersistenceMode(h), code]))"
    ).format(library)
    assert simulator.python(code) == [1, 4]


WORKER = """
import sys, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(int(sys.argv[1]))
for step in range(25):
    n.nvmlDeviceSetPowerManagementLimit(handle, 100000 + 1000 * int(sys.argv[1]) + step)
    n.nvmlDeviceSetPersistenceMode(handle, step % 2)
    assert n.nvmlDeviceGetPowerManagementLimit(handle) == 100000 + 1000 * int(sys.argv[1]) + step
"""


def test_processes_that_change_different_gpus_lose_no_update(nvml_simulator):
    simulator = nvml_simulator()
    workers = [simulator.start(WORKER, str(number)) for number in range(8)]
    for _dummy in range(25):
        simulator.control("ecc", "add", "0", "corrected", "1")
    for worker in workers:
        dummy, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    limits = run(simulator, *("n.nvmlDeviceGetPowerManagementLimit(gpu({0}))".format(i) for i in range(8)))
    assert limits == [100024 + 1000 * number for number in range(8)]
    assert ask(simulator, "n.nvmlDeviceGetTotalEccErrors(gpu(0), 0, 1)") == 25


def test_a_change_by_another_process_is_seen_at_the_next_call(nvml_simulator):
    simulator = nvml_simulator()
    code = """
import json, subprocess, sys, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
seen = []
for watts in (300, 250, 200, 350):
    subprocess.run([sys.argv[1], "set", "gpu.0.power.limit_mw", str(watts * 1000)], check=True)
    seen.append(n.nvmlDeviceGetPowerManagementLimit(handle) // 1000)
print(json.dumps(seen))
"""
    assert simulator.python(code, str(simulator.built / "nvml-simulator")) == [300, 250, 200, 350]


def test_a_file_edited_by_hand_is_seen_within_a_moment(nvml_simulator):
    simulator = nvml_simulator()
    code = """
import json, sys, time, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
n.nvmlDeviceGetName(handle)
with open(sys.argv[1], "w") as handle_of_file:
    handle_of_file.write("gpu.0.name = By Hand\\n")
time.sleep(0.15)
print(json.dumps(n.nvmlDeviceGetName(handle)))
"""
    assert simulator.python(code, str(simulator.state / "override.conf")) == "By Hand"


def test_a_forked_child_shares_the_state_both_ways(nvml_simulator):
    code = """
import json, os, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
child = os.fork()
if child == 0:
    n.nvmlDeviceSetComputeMode(handle, 3)
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps(n.nvmlDeviceGetComputeMode(handle)))
"""
    assert nvml_simulator().python(code) == 3


def test_threads_of_one_process_do_not_disturb_each_other(nvml_simulator):
    code = """
import json, threading, pynvml as n
n.nvmlInit()
wrong = []
def work(number):
    handle = n.nvmlDeviceGetHandleByIndex(number)
    for step in range(40):
        n.nvmlDeviceSetPowerManagementLimit(handle, 200000 + number)
        if n.nvmlDeviceGetPowerManagementLimit(handle) != 200000 + number or n.nvmlDeviceGetIndex(handle) != number:
            wrong.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(wrong))
"""
    assert nvml_simulator().python(code) == []


IDLE = "n.nvmlDeviceGetPowerManagementLimit(gpu({0}))"


def test_by_choice_the_driver_forgets_a_gpu_without_persistence_when_the_last_client_leaves(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "driver_unload_when_idle=1")
    changes = ["n.nvmlDeviceSetPowerManagementLimit(gpu({0}), 300000)".format(number) for number in (0, 1)]
    inside = run(simulator, "n.nvmlDeviceSetPersistenceMode(gpu(1), 1)", *changes, IDLE.format(0), "n.nvmlShutdown()")
    assert inside[3] == 300000
    assert run(simulator, IDLE.format(0), IDLE.format(1)) == [400000, 300000]


def test_by_choice_a_client_that_was_killed_counts_as_gone(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "driver_unload_when_idle=1")
    code = "import os, pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); "
    simulator.start(code + "n.nvmlDeviceSetPowerManagementLimit(h, 300000); os.kill(os.getpid(), 9)").wait(timeout=30)
    assert ask(simulator, IDLE.format(0)) == 400000


def test_by_choice_another_client_keeps_the_driver_loaded(nvml_simulator):
    simulator = nvml_simulator("nd96asr_v4", "driver_unload_when_idle=1")
    holder = simulator.start("import sys, pynvml as n; n.nvmlInit(); print('in', flush=True); sys.stdin.readline()")
    try:
        assert holder.stdout.readline() == "in\n"
        run(simulator, "n.nvmlDeviceSetPowerManagementLimit(gpu(0), 300000)", "n.nvmlShutdown()")
        assert ask(simulator, IDLE.format(0)) == 300000
    finally:
        holder.kill()
        holder.communicate()
