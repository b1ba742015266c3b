# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_settings through NVIDIA's own binding, on simulated machines: set, forgotten, broken, undone."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings import drive

RECORD = "var/lib/gpu_node/gpu_settings.json"
DECLARATION = "etc/gpu_node/node.json"
MAX = {"persistence": True, "clocks": "max"}


class Node:
    """A simulated machine whose files lie in a folder of the test."""

    def __init__(self, simulator, root: pathlib.Path) -> None:
        self.simulator = simulator
        self.control = simulator.control
        self.root = root
        self.boot("one")

    def boot(self, name: str) -> None:
        path = self.root / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name + "\n")

    def ask(self, job, **environment):
        given = json.dumps(dict(job, root=str(self.root)))
        done = forked.run(
            [sys.executable, drive.__file__],
            input=given,
            env=self.simulator.environment(**environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    def run(self, check=False, environment=(), **options):
        return self.ask({"options": options, "check": check}, **dict(environment))

    def ok(self, **options):
        result = self.run(**options)
        assert "error" not in result, result["error"]
        return result

    def settled(self, **options):
        """Run twice: the second run finds nothing to do."""
        first = self.ok(**options)
        second = self.ok(**options)
        assert (second["changed"], second["actions"]) == (False, []), second["described"]
        return first

    def fails(self, **options):
        result = self.run(**options)
        assert "error" in result, result
        return result["error"]

    def get(self, key):
        return self.control("get", key).strip()

    def locked(self, gpu):
        """(lowest, highest) of the graphics lock that is really on; None without one."""
        path = self.simulator.state / "driver.state"
        lines = path.read_text().splitlines() if path.exists() else []
        values = dict(line.split(" = ") for line in lines if not line.startswith("#"))
        low = values.get("gpu.{0}.locked.graphics_min_mhz".format(gpu))
        high = values.get("gpu.{0}.locked.graphics_max_mhz".format(gpu))
        return None if low is None else (int(low), int(high))

    def files(self):
        """Every file of the node and of the simulated driver, with a hash of its content."""
        found = {}
        for top in (self.root, self.simulator.state):
            for path in sorted(top.rglob("*")):
                if path.is_file() and path.name != "lock":
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
                else:
                    found[str(path)] = "folder"
        return found

    def record(self):
        return json.loads((self.root / RECORD).read_text())["gpus"]


@pytest.fixture
def node(nvml_simulator, tmp_path):
    def make(machine="nd96asr_v4", *settings):
        return Node(nvml_simulator(machine, *settings), tmp_path / "node")

    return make


# Setting ----------------------------------------------------------------------------------------------


def test_eight_gpus_are_set_in_one_run_and_a_second_run_finds_nothing_to_do(node):
    one = node()
    result = one.settled(**MAX)
    assert result["actions"].count("set_clocks") == 8 and result["actions"].count("set_persistence") == 8
    assert [one.locked(gpu) for gpu in range(8)] == [(1410, 1410)] * 8
    assert {gpu["clocks"]["graphics_way"] for gpu in result["gpus"]} == {"locked"}
    assert json.loads((one.root / DECLARATION).read_text()) == {"gpu_settings": {"persistence": True, "clocks": "max"}}


def test_each_memory_clock_of_an_h100_can_be_locked(node):
    one = node("vm_h100")
    error = one.fails(clocks={"graphics_mhz": 1980, "memory_mhz": 2000})
    assert "1593 MHz" in error and "2619 MHz" in error
    for memory in (1593, 2619):
        (gpu,) = one.settled(clocks={"graphics_mhz": 1980, "memory_mhz": memory})["gpus"]
        assert one.get("gpu.0.clock.memory_mhz") == str(memory), gpu


def test_check_mode_tells_the_plan_and_writes_nothing(node):
    one = node()
    one.ok(gpus=["0"], persistence=True, declare=False)
    before = one.files()
    foreseen = one.run(check=True, power_limit_watts=300, compute_mode="exclusive_process", ecc=False, **MAX)
    assert one.files() == before
    assert foreseen["changed"]
    done = one.ok(power_limit_watts=300, compute_mode="exclusive_process", ecc=False, **MAX)
    assert done["actions"] == foreseen["actions"]
    assert done["after"] == foreseen["after"] != foreseen["before"]


def test_a_record_of_the_lock_comes_from_the_readings_too(node):
    one = node()
    one.ok(**MAX)
    assert {entry["clocks"]["graphics_seen"] for entry in one.record().values()} == {True}


def test_only_the_selected_gpus_change(node):
    one = node()
    result = one.settled(gpus=["2", one.ok()["gpus"][5]["uuid"], one.ok()["gpus"][7]["pci_address"]], **MAX)
    assert [one.locked(gpu) is not None for gpu in range(8)] == [n in (2, 5, 7) for n in range(8)]
    assert [gpu["selected"] for gpu in result["gpus"]] == [n in (2, 5, 7) for n in range(8)]


def test_an_unknown_gpu_is_named_and_nothing_changes(node):
    one = node()
    before = one.files()
    error = one.fails(gpus=["9"], **MAX)
    assert error.startswith("GPU '9': this machine has no such GPU; choose among 0 = ")
    after = one.files()
    assert {path for path in after if after[path] != "folder"} - set(before) <= {
        str(one.root / "run/gpu_node/gpu_settings.lock")
    }


def test_overrides_and_explicit_values(node):
    one = node()
    one.settled(
        persistence=True,
        clocks={"graphics_mhz": 1200},
        power_limit_watts=350,
        overrides=[{"gpu": "3", "clocks": "max", "power_limit_watts": "default"}],
    )
    assert one.locked(0) == (1200, 1200) and one.locked(3) == (1410, 1410)
    gpus = one.ok()["gpus"]
    assert [gpu["power_limit_watts"] for gpu in gpus] == [350.0] * 3 + [400.0] + [350.0] * 4


def test_a_clock_that_is_not_supported_is_refused_or_snapped(node):
    one = node()
    error = one.fails(clocks={"graphics_mhz": 1400})
    assert "the nearest supported: 1395 MHz and 1410 MHz" in error
    assert one.settled(clocks={"graphics_mhz": 1400}, snap=True, persistence=True)["notes"]
    assert one.locked(0) == (1395, 1395)


def test_a_power_limit_out_of_range_is_refused_before_anything_changes(node):
    one = node()
    error = one.fails(power_limit_watts=1000, **MAX)
    assert "a power limit of 1000 W is outside its range of" in error
    assert one.locked(0) is None and not (one.root / DECLARATION).exists()


def test_a_change_of_ecc_is_pending_until_a_reboot(node):
    one = node()
    first = one.settled(ecc=False)
    assert first["pending"][0]["needs"] == "GPU reset or reboot"
    again = one.ok(ecc=False)
    assert "GPU 0" in again["notes"][0] and "ECC becomes off then" in again["notes"][0]
    one.control("reboot")
    one.boot("two")
    last = one.ok(ecc=False)
    assert (last["changed"], last["pending"], last["gpus"][0]["ecc"]) == (False, [], False)


# What the driver forgets ------------------------------------------------------------------------------


def test_after_a_reboot_the_declaration_is_applied_again(node):
    one = node()
    one.ok(power_limit_watts=300, **MAX)
    one.control("reboot")
    one.boot("two")
    assert one.locked(0) is None
    again = one.ask({"declared": True, "check": False})
    assert again["changed"] and one.locked(7) == (1410, 1410)
    assert one.ask({"declared": True, "check": False})["changed"] is False
    assert one.ok(power_limit_watts=300, **MAX)["changed"] is False


def test_nothing_declared_is_nothing_to_do(node):
    assert node().ask({"declared": True, "check": False}) == {"undeclared": True}


def test_after_a_reload_of_the_driver_the_clocks_are_locked_again(node):
    one = node()
    one.ok(**MAX)
    one.control("driver-reload")
    assert one.ok(**MAX)["actions"].count("set_clocks") == 8
    assert one.locked(0) == (1410, 1410)


def test_after_a_reload_clocks_are_locked_again_though_nobody_asked_for_persistence_mode(node):
    one = node()
    one.settled(clocks="max")
    one.control("driver-reload")
    assert one.ok(clocks="max")["actions"].count("set_clocks") == 8


def test_a_lock_that_somebody_lifted_is_noticed_by_the_readings(node):
    one = node()
    one.ok(**MAX)
    one.control("driver-reload")
    for gpu in range(8):  # persistence mode is back by other hands, the locks are not
        one.control("set", "gpu.{0}.persistence_mode".format(gpu), "1")
    assert one.ok(**MAX)["actions"].count("set_clocks") == 8


def test_a_record_cut_short_counts_as_none(node):
    one = node()
    one.ok(**MAX)
    path = one.root / RECORD
    path.write_text(path.read_text()[:100])
    assert one.ok(**MAX)["actions"].count("set_clocks") == 8
    assert one.ok(**MAX)["changed"] is False


@pytest.mark.parametrize("stuck_at", ["nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"])
def test_a_run_that_is_killed_in_the_middle_is_made_up_for(node, stuck_at):
    one = node()
    one.ok(**MAX)
    wish = dict(MAX, clocks="default") if "Reset" in stuck_at else dict(MAX, clocks={"graphics_mhz": 1200})
    one.control("fault", "call", stuck_at, "gpu", "4", "hang")
    process = subprocess.Popen(
        [sys.executable, drive.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=one.simulator.environment(),
        start_new_session=True,
    )
    process.stdin.write(json.dumps({"root": str(one.root), "options": wish, "check": False}).encode())
    process.stdin.close()
    changed = None if "Reset" in stuck_at else (1200, 1200)
    deadline = time.monotonic() + 20
    while one.locked(3) != changed and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (one.locked(3), one.locked(4)) == (changed, (1410, 1410))
    assert {entry["clocks"] for entry in one.record().values()} == {None}
    one.control("clear")
    one.settled(**MAX)
    assert [one.locked(gpu) for gpu in range(8)] == [(1410, 1410)] * 8


# Other GPUs and other drivers -------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "machine, ways",
    [
        ("nd40rs_v2", ("locked", 1530, "fixed", 877)),
        ("nd96asr_v4", ("locked", 1410, "fixed", 1215)),
        ("nd96isr_h100_v5", ("locked", 1980, "fixed", 2619)),
        ("nd96isr_h200_v5", ("locked", 1980, "fixed", 3201)),
        ("laptop", ("locked", 2100, "locked", 7001)),
    ],
)
def test_max_on_each_machine(node, machine, ways):
    one = node(machine)
    result = one.settled(**MAX)
    names = ("graphics_way", "graphics_mhz", "memory_way", "memory_mhz")
    assert {tuple(gpu["clocks"][name] for name in names) for gpu in result["gpus"]} == {ways}
    one.control("driver-reload")
    assert one.settled(**MAX)["changed"] is True
    one.settled(undo=True)
    assert one.locked(0) is None


def test_a_laptop_gpu_tells_what_it_lacks(node):
    one = node("laptop")
    assert "it has no ECC memory" in one.fails(ecc=True)
    assert one.ok(ecc=False)["notes"] == []
    assert "its power limit cannot be set" in one.fails(power_limit_watts=80)
    assert (
        one.settled(power_limit_watts="default", persistence=True)["unsupported"][0]["setting"] == "power_limit_watts"
    )


def test_a_gpu_with_two_memory_clocks_and_no_memory_lock_takes_application_clocks_for_it(node):
    one = node(
        "nd96asr_v4", "gpu.clocks.supported=1215:210-1410/15 810:210-810/15", "gpu.feature.locked_memory_clocks=no"
    )
    result = one.settled(persistence=True, clocks={"graphics_mhz": 600, "memory_mhz": 810})
    assert {(gpu["clocks"]["graphics_way"], gpu["clocks"]["memory_way"]) for gpu in result["gpus"]} == {
        ("locked", "application")
    }
    assert {gpu["application_memory_mhz"] for gpu in result["gpus"]} == {810}
    assert one.settled(**MAX)["gpus"][0]["application_memory_mhz"] == 1215
    one.settled(undo=True)
    assert one.ok()["gpus"][0]["application_graphics_mhz"] == 1095


@pytest.mark.parametrize("version", ["450.80.02", "470.256.02", "535.183.01", "610.43.02"])
def test_drivers_of_other_ages(node, version):
    one = node("nd96asr_v4", "driver.version=" + version)
    assert {gpu["clocks"]["graphics_mhz"] for gpu in one.settled(**MAX)["gpus"]} == {1410}


@pytest.mark.parametrize("fault", ["return NOT_SUPPORTED", "missing"])
def test_a_driver_without_locked_clocks_gets_application_clocks(node, fault):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", *fault.split())
    result = one.settled(**MAX)
    assert {gpu["clocks"]["graphics_way"] for gpu in result["gpus"]} == {"application"}
    assert {(gpu["application_memory_mhz"], gpu["application_graphics_mhz"]) for gpu in result["gpus"]} == {
        (1215, 1410)
    }


def test_a_driver_without_any_way_is_reported_for_max_and_refused_for_a_value(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "return", "NOT_SUPPORTED")
    one.control("fault", "call", "nvmlDeviceSetApplicationsClocks", "return", "DEPRECATED")
    result = one.settled(**MAX)
    assert len(result["unsupported"]) == 8
    assert "its graphics clock cannot be set" in one.fails(clocks={"graphics_mhz": 1410})


def test_a_driver_that_refuses_an_explicit_clock_is_told_with_the_gpu(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "return", "NOT_SUPPORTED")
    one.control("fault", "call", "nvmlDeviceSetApplicationsClocks", "return", "DEPRECATED")
    error = one.fails(clocks={"graphics_mhz": 1410}, persistence=True)
    assert "the driver refuses both locked and application clocks" in error


def test_deprecated_application_clocks_do_not_matter_where_locks_work(node):
    one = node()
    one.control("set", "gpu.feature.application_clocks", "deprecated")
    result = one.settled(**MAX)
    assert {gpu["clocks"]["graphics_way"] for gpu in result["gpus"]} == {"locked"}
    assert {gpu["application_graphics_mhz"] for gpu in result["gpus"]} == {None}


def test_a_memory_clock_that_reads_two_megahertz_low_is_seen_and_its_loss_is_noticed(node):
    # Seen on an H200 with branch 550: 3199 where 3201 is supported.
    one = node("nd96isr_h200_v5", "gpu.count=1", "gpu.clocks.supported=3201:345-1980/15 2619:345-1980/15")
    one.control("set", "gpu.0.clocks.idle_memory_mhz", "2619")
    one.settled(**MAX)
    assert {entry["clocks"]["memory_seen"] for entry in one.record().values()} == {True}
    one.control("unset", "gpu.0.locked.memory_min_mhz")
    assert one.run(**MAX)["changed"]


# Faults -----------------------------------------------------------------------------------------------


def test_one_lost_gpu_does_not_keep_the_other_seven_from_being_set(node):
    one = node()
    one.control("fault", "gpu", "3", "lost")
    result = one.run(**MAX)
    assert result["kind"] == "Unfinished" and "the GPU is lost" in result["error"] and "GPU 3" in result["error"]
    assert [one.locked(gpu) is not None for gpu in range(8)] == [n != 3 for n in range(8)]
    again = one.run(**MAX)
    assert again["kind"] == "Unfinished" and again["changed"] is False
    assert one.ok(gpus=[str(n) for n in range(8) if n != 3], **MAX)["notes"] == []


def test_a_call_that_hangs_ends_in_an_error_that_names_it(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetGpuLockedClocks", "gpu", "2", "hang")
    result = one.run(call_timeout_seconds=1, **MAX)
    assert result["kind"] == "Unfinished"
    assert "GPU 2" in result["error"] and "nvmlDeviceSetGpuLockedClocks did not return within 1 s" in result["error"]
    assert [one.locked(gpu) is not None for gpu in range(8)] == [n != 2 for n in range(8)]
    one.control("clear")
    assert one.ok(**MAX)["actions"].count("set_clocks") == 1


def test_a_getter_that_hangs_on_one_gpu_leaves_the_others_to_be_set(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceGetPowerManagementLimit", "gpu", "6", "hang")
    result = one.run(call_timeout_seconds=1, **MAX)
    assert "GPU 6" in result["error"] and "nvmlDeviceGetPowerManagementLimit" in result["error"]
    assert [one.locked(gpu) is not None for gpu in range(8)] == [n != 6 for n in range(8)]


def test_a_gpu_that_is_lost_while_it_is_set_is_named_once(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetPersistenceMode", "gpu", "4", "return", "GPU_IS_LOST")
    result = one.run(**MAX)
    assert result["kind"] == "Unfinished" and result["error"].count("the GPU is lost") == 1
    assert "GPU 4 (" in result["error"] and one.locked(3) == one.locked(5) == (1410, 1410)


def test_a_setter_that_fails_in_the_middle_is_told_with_what_was_done(node):
    one = node()
    one.control("fault", "call", "nvmlDeviceSetPowerManagementLimit", "gpu", "1", "return", "UNKNOWN")
    error = one.fails(power_limit_watts=300, persistence=True)
    assert (
        "GPU 0 (" in error
        and "were set; GPU 1 (" in error
        and "was not: the driver failed without telling why" in error
    )


def test_a_gpu_in_use_is_told_with_its_processes(node):
    one = node()
    one.control("process", "add", "0", "4242", "100")
    one.control("fault", "call", "nvmlDeviceSetComputeMode", "gpu", "0", "return", "IN_USE")
    error = one.fails(compute_mode="exclusive_process", gpus=["0"])
    assert "the GPU is in use" in error and "by process 4242" in error


def test_a_driver_that_is_not_loaded_is_named(node):
    one = node()
    one.control("fault", "driver", "version-mismatch")
    assert "different versions" in one.fails(**MAX)


def test_without_gpus_the_node_is_skipped_or_refused(node):
    one = node()
    one.control("fault", "driver", "not-loaded")
    result = one.ok(**MAX)
    assert (result["changed"], result["skipped"]) == (
        False,
        "The PCI bus has no NVIDIA GPU; the NVIDIA driver is installed, and is not loaded.",
    )
    assert "this node: The PCI bus has no NVIDIA GPU" in one.fails(require_gpus=True, **MAX)


def test_with_gpus_on_the_bus_a_driver_that_is_not_loaded_fails(node):
    one = node()
    folder = one.root / "sys/bus/pci/devices/0001:00:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030200\n")
    one.control("fault", "driver", "not-loaded")
    assert "the NVIDIA kernel driver is not loaded" in one.fails(**MAX)


def test_a_driver_that_allows_it_to_root_only_says_so_in_one_sentence(node):
    one = node()
    result = one.run(environment={"NVML_SIMULATOR_UID": "1000"}, **MAX)
    assert result["error"].startswith("GPU settings: the driver allows this to root only")
    assert result["error"].count("root only") == 1 and one.locked(0) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_who_is_not_root_gets_one_sentence_and_nothing_changes(node):
    one = node()
    # All folders of pytest are root's own; that user must at least be able to read in these two.
    for top in (one.root, one.simulator.state):
        for path in [top, *top.rglob("*"), *(one for one in top.parents if "pytest" in str(one))]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    before = one.files()
    answers = {}
    script = (
        "import ctypes, os, sys, pynvml; ctypes.CDLL('libnvidia-ml.so.1');"
        "from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings"
        " import drive;"
        "os.setuid(65534); drive.main()"
    )
    for check in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps({"root": str(one.root), "options": MAX, "check": check}),
            env=one.simulator.environment(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
            text=True,
        )
        answers[check] = json.loads(done.stdout)
    assert answers[True].get("changed") is True, answers[True]
    assert (
        answers[False]["error"] == "GPU settings: only root may change them; run it as root (in a play: become: true)."
    )
    assert one.files() == before


def test_two_runs_at_the_same_time_take_turns(node):
    one = node()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(one.run(power_limit_watts=300, **MAX))) for dummy in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result["changed"] for result in results) == [False, False, True]


def test_locks_that_the_driver_forgets_at_once_are_told_with_the_remedy(node):
    one = node()
    one.control("set", "driver_unload_when_idle", "1")
    error = one.fails(clocks="max")
    assert "the driver forgot its settings at once, since persistence mode is off" in error
    assert error.endswith("set persistence to true.")
    one.settled(**MAX)


# Undo -------------------------------------------------------------------------------------------------


def test_undo_leaves_the_node_as_it_was_found(node):
    one = node()
    found = one.ok()["after"]
    one.ok(power_limit_watts=300, compute_mode="prohibited", ecc=False, **MAX)
    one.settled(undo=True)
    assert not (one.root / RECORD).exists() and not (one.root / DECLARATION).exists()
    assert [one.locked(gpu) for gpu in range(8)] == [None] * 8
    assert one.ok()["after"] == found


def test_undo_after_a_reboot_takes_back_the_ecc_mode_only(node):
    one = node()
    one.ok(power_limit_watts=300, ecc=False, **MAX)
    one.control("reboot")
    one.boot("two")
    result = one.settled(undo=True)
    assert set(result["actions"]) == {"declare", "set_ecc", "forget"}
    assert result["pending"][0]["value"] is True


def test_between_jobs_only_a_gpu_in_mig_mode_is_held_at_its_highest_clocks(node):
    machine = node("nd96asr_v4", "gpu.0.mig_mode=1")
    done = machine.ok(persistence=True, clocks="between_jobs", declare=True)
    assert [(one["clocks"]["graphics_way"], one["clocks"]["graphics_mhz"]) for one in done["gpus"][:2]] == [
        ("locked", 1410),
        ("default", None),
    ]
    # As the boot unit sets it again, and as it is found when the GPU is whole again.
    again = machine.ask({"declared": True, "check": False})
    assert not again["changed"]
    machine.control("set", "gpu.0.mig_mode", "0")
    foreseen = machine.ask({"declared": True, "check": True})
    assert "GPU 0 (0001:00:00.0): return the clocks to the driver's default" in foreseen["described"]
