# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts on the simulated machine, through NVIDIA's binding."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable, Dict, List, Optional

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.mig_machine import (
    A100,
    H100,
    H200,
    NODE,
    RECORD,
    RTX_PRO_6000,
    UNIT,
    Machine,
    layout_of,
    of,
)


def test_check_then_real_then_check(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    wish = of("3g", {"profile": "1g", "count": 2}, gpus=["0"])
    foreseen = node.run(wish, check=True)
    assert foreseen["changed"] and node.layout() == [] and node.record() is None
    assert foreseen["described"][2:6] == [
        "GPU 0 (0001:00:00.0): switch MIG on",
        "GPU 0 (0001:00:00.0): make 3g.40gb at 4",
        "GPU 0 (0001:00:00.0): make 1g.10gb at 0",
        "GPU 0 (0001:00:00.0): make 1g.10gb at 1",
    ]
    done = node.run(wish)
    assert done["described"] == foreseen["described"] and layout_of(done) == layout_of(foreseen)
    assert layout_of(done) == [("1g.10gb", 0, [1]), ("1g.10gb", 1, [1]), ("3g.40gb", 4, [3])]
    assert done["gpus"][1]["mig"] is False
    again = node.run(wish)
    assert not again["changed"] and again["actions"] == []
    assert again["notes"] == [
        "GPU 0 (0001:00:00.0): the layout uses 92 of 132 multiprocessors; 30.30 % of the GPU stay unused"
    ]
    assert again["gpus"][0]["free"] == {
        "1g.10gb": 2,
        "1g.10gb+me": 1,
        "1g.20gb": 1,
        "2g.20gb": 1,
        "3g.40gb": 0,
        "4g.40gb": 0,
        "7g.80gb": 0,
    }


def test_the_device_files_of_the_instances_are_made_before_anybody_opens_them(
    machine: Callable[..., Machine], tmp_path: pathlib.Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("making device files needs root")
    capabilities = tmp_path / "root0/proc/driver/nvidia/capabilities"
    node = machine(A100, "driver.capabilities={0}".format(capabilities), "gpu.mig_mode=1")
    (node.root / "proc").mkdir()
    (node.root / "proc/devices").write_text("240 nvidia-caps\n")
    wish = of("3g", {"profile": "4g", "compute": ["2c", "2c"]}, gpus=["0"])
    done = node.run(wish)
    assert done["described"][-2:] == [
        "GPU 0 (0001:00:00.0): make the device files of its instances",
        "note that it is done on 1 GPU(s) in /var/lib/gpu_node/mig_layout.json",
    ]
    # gpu0/gi1 (4g at 0): 3 + 9; its compute instances follow. gi2 (3g at 4): 3 + 18.
    files = node.root / "dev/nvidia-caps"
    assert sorted(os.listdir(files)) == ["nvidia-cap{0}".format(minor) for minor in (12, 13, 14, 21, 22)]
    assert not node.run(wish)["changed"]
    for path in files.iterdir():
        path.unlink()  # the node has booted, and its driver still has the instances: kexec
    (again,) = node.run(wish)["described"]
    assert again == "GPU 0 (0001:00:00.0): make the device files of its instances"
    assert len(os.listdir(files)) == 5
    # A GPU that nobody named keeps its own as they are.
    node.control("set", "gpu.1.gi.0", "4 0")
    assert not node.run(wish)["changed"] and (capabilities / "gpu1/mig/gi0/access").exists()


def test_where_nothing_is_asked_nvml_is_not_even_opened(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.control("fault", "call", "nvmlInitWithFlags", "return", "UNKNOWN")
    told = node.run()
    assert told["skipped"] == "no layout is asked for, and none was made here" and not told["changed"]
    assert "error" in node.run(of("3g"))
    assert "error" in node.run(require_gpus=True)


def test_layouts_that_are_no_longer_asked_for_stay_until_they_are_given_back(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.run(of("3g"))
    done = node.run()
    assert done["actions"] == ["declare"] and not (node.root / NODE).exists()
    assert node.layout() == [("3g.40gb", 4, [3])] and node.record() is not None
    node.run(state="default")
    assert node.layout() == [] and node.record() is None


def test_the_share_that_the_seed_tells_of(machine: Callable[..., Machine]) -> None:
    """An A100 gives 98 of its 108 multiprocessors to instances: 9.26 % are lost, whatever the layout."""
    node = machine(A100, "gpu.mig_mode=yes")
    done = node.run(of("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb", gpus=["0"]))
    assert done["gpus"][0]["usable_percent"] == pytest.approx(100 * 98 / 108)
    assert done["notes"] == [
        "GPU 0 (0001:00:00.0): the layout uses 98 of 108 multiprocessors; 9.26 % of the GPU stay unused"
    ]


def test_one_changed_instance_ends_nobodys_job(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.run(of("3g", "2g", "2g", gpus=["0"]))
    gis = {i["profile"]: i["gi"] for i in node.run(check=True, require_gpus=True)["gpus"][0]["instances"]}
    node.control("process", "add", "0", "4242", "100", str(gis["3g.40gb"]), "0")
    done = node.run(of("3g", "2g", "1g", "1g", gpus=["0"]))
    assert done["actions"] == [
        "declare", "remember", "end_instance", "make_instance", "make_instance", "make_files", "remember",
    ]  # fmt: skip
    assert sorted(name for name, _start, _compute in layout_of(done)) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
    assert layout_of(done)[-1] == ("3g.40gb", 4, [3])
    refused = node.run(of("7g", gpus=["0"]))
    assert refused["error"] == (
        "GPU 0 (0001:00:00.0): 3g.40gb at 4 in use would have to go or change for 7g.80gb;"
        " end process 4242 (gone), or ask for 4g.40gb + 3g.40gb."
    )
    assert layout_of(done) == node.layout()


def test_compute_instances_come_and_go(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.run(of({"profile": "3g", "compute": ["1c", "2c"]}, gpus=["0"]))
    assert node.layout() == [("3g.40gb", 4, [1, 2])]
    done = node.run(of({"profile": "3g", "compute": ["1c", "1c", "1c"]}, gpus=["0"]))
    assert "end_instance" not in done["actions"]
    assert node.layout() == [("3g.40gb", 4, [1, 1, 1])]
    node.run(of("3g", gpus=["0"]))
    assert node.layout() == [("3g.40gb", 4, [3])]


@pytest.mark.parametrize("before", [["1c"], ["1c", "1c", "1c"]])
def test_an_idle_compute_instance_is_in_nobodys_way(machine: Callable[..., Machine], before: List[str]) -> None:
    node = machine(H100, "gpu.0.mig_mode=yes")
    wish = of({"profile": "3g", "compute": before}, gpus=["0"])
    node.run(wish)
    node.run(of({"profile": "3g", "compute": ["1c", "2c"]}, gpus=["0"]))
    assert node.layout() == [("3g.40gb", 4, [1, 2])]
    back = node.run(wish)
    assert "error" not in back and "end_instance" not in back["actions"]


def test_around_what_nobody_asked_for(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.run(of({"profile": "2g", "start": 2}, gpus=["0"]))
    node.run(of("3g", gpus=["0"]), exact=False)
    assert node.layout() == [("2g.20gb", 2, [2]), ("3g.40gb", 4, [3])]
    node.run(of("3g", gpus=["0"]))
    assert node.layout() == [("3g.40gb", 4, [3])]


def test_ampere_waits_for_its_reset_and_the_boot_makes_the_rest(machine: Callable[..., Machine]) -> None:
    node = machine(A100)
    wish = of("3g", "3g", gpus=["0"])
    done = node.run(wish)
    waits = (
        "GPU 0 (0001:00:00.0): MIG is switched on and waits for a reset of the GPU;"
        " reboot the node, and what is declared is made at boot"
    )
    assert waits in done["notes"] and "error" not in done and done["changed"]
    assert done["gpus"][0]["needs"] == "gpu_reset" and done["gpus"][0]["mig"] is False and done["reboot_pending"]
    again = node.run(wish)
    assert not again["changed"] and again["notes"] == [waits] and again["reboot_pending"]
    node.control("reboot")
    at_boot = node.run(declared=True)
    assert not at_boot["reboot_pending"]
    assert layout_of(at_boot) == [("3g.20gb", 0, [3]), ("3g.20gb", 4, [3])]
    assert not node.run(wish)["changed"]
    node.control("reboot")
    assert node.layout() == []
    assert layout_of(node.run(declared=True)) == layout_of(at_boot)


def test_after_a_boot_the_instances_are_where_they_were(machine: Callable[..., Machine]) -> None:
    """Their device files have their numbers from that, and gres.conf names these."""
    node = machine(A100, "gpu.0.mig_mode=yes")
    node.run(of("1g", gpus=["0"]))
    tuesday = of("1g", "2g", gpus=["0"])
    node.run(tuesday)
    stood = node.layout()
    assert not node.run(tuesday)["changed"]
    for _boot in range(2):
        node.control("reboot")
        assert layout_of(node.run(declared=True)) == stood
    assert not node.run(tuesday)["changed"]
    # A layout that was there before us counts as well.
    hand = machine(H100, "gpu.0.mig_mode=yes")
    for key, value in (("gi.3", "1 0"), ("ci.3.0", "1 0"), ("gi.9", "0 2"), ("ci.9.0", "0 0")):
        hand.control("set", "gpu.0." + key, value)
    stood = hand.layout()
    ask = of("2g", "1g", gpus=["0"])
    assert hand.run(ask)["actions"] == ["declare", "remember"] and hand.layout() == stood
    assert not hand.run(ask)["changed"]
    hand.control("reboot")
    assert layout_of(hand.run(declared=True)) == stood


def test_the_record_of_another_machine(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    identity = node.root / "etc/machine-id"
    identity.write_text("1" * 32)
    node.run(of("3g"))
    path = node.root / RECORD
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["machine"] == "machine-id:" + "1" * 32
    record["gpus"]["GPU-of-another-machine"] = record["gpus"][node.uuid()]
    path.write_text(json.dumps(record), encoding="utf-8")
    # On the same machine it may answer again one day.
    assert not node.run(of("3g"))["changed"] and len(node.record() or {}) == 3
    identity.write_text("2" * 32)
    done = node.run(of("3g"))
    assert done["described"] == ["forget 1 GPU(s) of another machine in /var/lib/gpu_node/mig_layout.json"]
    assert len(node.record() or {}) == 2 and not node.run(of("3g"))["changed"]


def test_hopper_loses_mode_and_layout_at_a_reboot_and_has_both_back(machine: Callable[..., Machine]) -> None:
    node = machine(H200)
    done = node.run(of("4g", "3g"))
    node.control("reboot")
    assert [gpu["mig"] for gpu in node.run(check=True, require_gpus=True)["gpus"]] == [False, False]
    at_boot = node.run(declared=True)
    assert [layout_of(at_boot, gpu) for gpu in (0, 1)] == [layout_of(done, gpu) for gpu in (0, 1)]


def test_a_gpu_whose_places_are_others_is_divided_at_once_also_at_boot(machine: Callable[..., Machine]) -> None:
    node = machine(RTX_PRO_6000)
    wish = of({"profile": "2g", "start": 6}, "1g", "1g", gpus=["0"])
    stood = [("1g.24gb", 0, [1]), ("1g.24gb", 3, [1]), ("2g.48gb", 6, [2])]
    done = node.run(wish)
    assert "error" not in done and layout_of(done) == stood
    node.control("reboot")
    assert layout_of(node.run(declared=True)) == stood
    assert (
        "2g.48gb cannot start at memory slice 3; it can at 0, 6" in node.run(of({"profile": "2g", "start": 3}))["error"]
    )


def test_what_takes_all_media_engines_is_told_before_anything_is_changed(machine: Callable[..., Machine]) -> None:
    node = machine(RTX_PRO_6000)
    refused = node.run(of("1g+me.all", {"profile": "1g", "count": 3}, gpus=["0"]))
    assert refused["error"] == (
        "GPU 0 (0000:21:00.0): 1g.24gb+me.all takes all media engines of the GPU, and what is beside it must be without"
        " (-me); 4 x 1g.24gb would fit."
    )
    done = node.run(of("1g+me.all", {"profile": "1g-me", "count": 3}, gpus=["0"]))
    assert sorted(name for name, *dummy in layout_of(done)) == ["1g.24gb+me.all"] + ["1g.24gb-me"] * 3


def test_a_driver_that_tells_no_places_while_mig_is_off_is_asked_when_it_is_on(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.control("fault", "call", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "return", "NOT_SUPPORTED")
    assert node.run(of("3g", gpus=["0"]), check=True)["described"][-1] == "GPU 0 (0001:00:00.0): switch MIG on"
    assert layout_of(node.run(of("3g", gpus=["0"]))) == [("3g.40gb", 4, [3])]
    node.control("fault", "call", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "return", "UNKNOWN")
    assert "where its instances may lie cannot be read: " in node.run(of("3g", gpus=["0"]))["error"]


def test_a_process_keeps_the_mode(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    folder = node.root / "proc/4242"
    folder.mkdir(parents=True)
    (folder / "comm").write_text("python3\n", encoding="ascii")
    (folder / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_7/step_0\n", encoding="ascii")
    node.control("process", "add", "0", "4242", "100")
    node.control("process", "add", "0", "77", "100")
    refused = node.run(of("7g", gpus=["0"]))
    assert refused["error"] == (
        "GPU 0 (0001:00:00.0): process 77 (gone) and process 4242 (python3 of job 7) use it; end them to switch MIG on."
    )


def test_what_holds_a_gpu_and_is_no_process_of_it(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.0.mig.held_open=yes")
    told = node.run(of("3g", gpus=["0"]))
    gpu = told["gpus"][0]
    assert told["error"].startswith(
        "GPU 0 (0001:00:00.0): something holds it open, so that its MIG mode does not change; "
    )
    assert (gpu["mig"], gpu["mig_pending"]) == (False, False)
    node.control("set", "gpu.0.mig.held_open", "no")
    assert layout_of(node.run(of("3g", gpus=["0"]))) == [("3g.40gb", 4, [3])]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("modeset", "named"), [("Y", True), ("1", True), ("N", False), (None, False)])
@pytest.mark.parametrize("made", [(H100,), (A100, "gpu.mig.reset_required=no")])
def test_a_kernel_module_that_holds_a_gpu_is_named(
    machine: Callable[..., Machine], made: tuple[str, ...], modeset: Optional[str], named: bool
) -> None:
    node = machine(*made, "gpu.0.mig.held_open=yes")
    if modeset is not None:
        (node.root / "sys/module/nvidia_drm/parameters").mkdir(parents=True)
        (node.root / "sys/module/nvidia_drm/parameters/modeset").write_text(modeset + "\n")
    error = node.run(of("3g", gpus=["0"]))["error"]
    assert ("kernel module nvidia_drm holds it; stop the display, run 'modprobe -r nvidia_drm'" in error) is named
    assert ("fuser" in error) is not named


def test_a_mode_that_waits_for_a_holder_comes_when_that_is_gone(machine: Callable[..., Machine]) -> None:
    """An A100 on bare metal, which the driver resets itself when nothing holds it."""
    node = machine(A100, "gpu.0.mig.held_open=yes", "gpu.mig.reset_required=no")
    wish = of("3g", gpus=["0"])
    nameless = node.run(wish)
    assert "something holds it open, so that its MIG mode does not change; stop what has" in nameless["error"]
    (node.root / "proc/77/fd").mkdir(parents=True)
    (node.root / "proc/77/fd/3").symlink_to("/dev/nvidia0")
    (node.root / "proc/77/comm").write_text("nv-hostengine\n")
    told = node.run(wish)
    assert "error" not in told and told["reboot_pending"]
    assert (told["gpus"][0]["mig"], told["gpus"][0]["mig_pending"]) == (False, True)
    assert told["notes"] == [
        "GPU 0 (0001:00:00.0): MIG is switched on and waits for process 77 (nv-hostengine); end it and run it again, or"
        " reboot the node"
    ]
    (node.root / "proc/77/fd/3").unlink()
    node.control("set", "gpu.0.mig.held_open", "no")
    assert layout_of(node.run(wish)) == [("3g.20gb", 4, [3])]


def test_an_older_driver_tells_its_processes_in_the_older_form(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "driver.version=470.256.02", "gpu.0.mig_mode=yes")
    node.control("set", "gpu.0.gi.1", "2 0")
    node.control("set", "gpu.0.ci.1.0", "2 0")
    node.control("process", "add", "0", "4242", "100", "1", "0")
    node.control("process", "add", "1", "77", "100")
    assert "end process 4242 (gone)" in node.run(of("7g", gpus=["0"]))["error"]
    assert "process 77 (gone) uses it; end it to switch MIG on" in node.run(of("7g", gpus=["1"]))["error"]


def test_who_is_not_told_of_is_not_taken_for_nobody(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.0.mig_mode=yes")
    node.run(of("3g", gpus=["0"]))
    for form in ("_v3", "_v2"):
        node.control("fault", "call", "nvmlDeviceGetComputeRunningProcesses" + form, "return", "UNKNOWN")
    untold = "GPU {0} (000{1}:00:00.0): who uses it is not told: the driver failed without telling why ("
    assert node.run(of("7g", gpus=["0"]))["error"].startswith(untold.format(0, 1))
    assert node.run(of("7g", gpus=["1"]))["error"].startswith(untold.format(1, 2))
    assert node.layout() == [("3g.40gb", 4, [3])]
    # What ends nothing needs nobody's leave.
    assert "error" not in node.run(of("3g", "1g", gpus=["0"]))


def test_a_process_may_have_two_instances(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.0.mig_mode=yes")
    node.run(of("3g", {"profile": "3g", "compute": ["1c", "2c"]}, gpus=["0"]))
    pieces = node.run(check=True, require_gpus=True)["gpus"][0]["instances"]
    for name, gi, ci in (("4242", pieces[0]["gi"], 0), ("4242.1", pieces[1]["gi"], 1)):
        node.control("set", "gpu.0.process." + name, "100 {0} {1}".format(gi, ci))
    found = node.run(check=True, require_gpus=True)["gpus"][0]["instances"]
    used = [{one["ci"]: one["in_use"] for one in each["compute"]} for each in found]
    assert used == [{0: True}, {0: False, 1: True}]


@pytest.mark.parametrize("gpus", [["all"], ["0", "1"]])
def test_a_gpu_that_does_not_answer_fails_the_run_after_the_others_were_divided(
    machine: Callable[..., Machine], gpus: List[str]
) -> None:
    node = machine(H100)
    node.control("fault", "gpu", "0", "lost")
    told = node.run(of("3g", gpus=gpus))
    assert "the GPU is lost" in told["error"]
    assert [(gpu["index"], gpu["mig"]) for gpu in told["gpus"]] == [(1, True)]
    assert "the GPU is lost" in node.run(of("3g", gpus=gpus))["error"]
    assert "error" not in node.run(of("3g", gpus=["1"]))


def test_a_driver_that_tells_nothing_is_not_taken_for_an_empty_gpu(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.mig_mode=yes")
    node.run(of("3g"))
    for name in ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstanceProfileInfo"):
        node.control("fault", "call", name, "gpu", "0", "return", "NOT_SUPPORTED")
    told = node.run(of("3g"))
    assert "MIG is on, and the driver tells no profile of GPU instances" in told["error"] and not told["changed"]
    for name in ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstanceProfileInfo"):
        node.control("clear", "call", name)
    node.control("fault", "call", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "return", "NO_PERMISSION")
    told = node.run(of("3g"))["error"]
    # Root of a container may less than root.
    as_root = "is told to root only, and this root may not; run it on the node itself; a container needs the devices"
    assert (as_root if os.geteuid() == 0 else "is told to root only; run it as root") in told


@pytest.mark.sampled(2)
@pytest.mark.parametrize("code", ["UNKNOWN", "NOT_READY", "TIMEOUT", "NO_PERMISSION"])
def test_a_mode_that_cannot_be_read_is_not_taken_for_a_gpu_without_mig(
    machine: Callable[..., Machine], code: str
) -> None:
    node = machine(H100)
    wish = of("3g", "2g")
    node.run(wish)
    node.control("fault", "call", "nvmlDeviceGetMigMode", "gpu", "0", "return", code)
    told = node.run(wish)
    assert "GPU 0 (0001:00:00.0): whether MIG is on cannot be read: " in told["error"] and not told["changed"]
    assert [gpu["index"] for gpu in told["gpus"]] == [1] and [gpu["index"] for gpu in told["failed_gpus"]] == [0]
    assert "error" not in node.run(of("3g", "2g", gpus=["1"]))
    node.control("clear", "call", "nvmlDeviceGetMigMode")
    # A driver that does not know the call has no MIG.
    node.control("fault", "call", "nvmlDeviceGetMigMode", "missing")
    assert [gpu["mig"] for gpu in node.run(check=True, require_gpus=True)["gpus"]] == [None, None]


@pytest.mark.parametrize(
    "of_what, number", [("nvmlDeviceGetGpuInstanceProfileInfo", 3), ("nvmlGpuInstanceGetComputeInstanceProfileInfo", 1)]
)
def test_instances_of_a_profile_that_is_not_told_do_not_vanish(
    machine: Callable[..., Machine], of_what: str, number: int
) -> None:
    node = machine(H100, "gpu.mig_mode=yes")
    wish = of("3g", {"profile": "2g", "compute": ["1c", "1c"]}, gpus=["0"])
    node.run(wish)
    for form, nth in (("V", number), ("", 1)):
        node.control("fault", "call", of_what + form, "gpu", "0", "nth", str(nth), "return", "UNKNOWN")
    told = node.run(wish)
    assert of_what in told["error"] and "GPU 0" in told["error"] and not told["changed"]
    assert [gpu["index"] for gpu in told["failed_gpus"]] == [0]


def test_back_to_what_was_before(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.0.mig_mode=yes")
    node.control("set", "gpu.0.gi.1", "2 0")
    node.control("set", "gpu.0.ci.1.0", "1 0")
    node.run(of("1g", "1g"))
    assert node.layout() == [("1g.10gb", 0, [1]), ("1g.10gb", 1, [1])]
    back = node.run(state="default")
    assert "error" not in back, back
    assert node.layout() == [("3g.40gb", 0, [2])]
    assert [gpu["mig"] for gpu in back["gpus"]] == [True, False]
    assert node.record() is None and not (node.root / NODE).exists()
    assert not node.run(state="default")["changed"]


def test_an_instance_without_compute_instances_is_given_back_without_any(machine: Callable[..., Machine]) -> None:
    node = machine(H100, "gpu.0.mig_mode=yes")
    node.control("set", "gpu.0.gi.1", "2 0")
    before = node.layout()
    assert before == [("3g.40gb", 0, [])]
    for wish in (of("3g", gpus=["0"]), of("1g", gpus=["0"])):
        node.run(wish)
        assert node.layout() != before
        assert "error" not in node.run(state="default")
        assert node.layout() == before and node.record() is None


def test_off_again(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    node.run(of("7g"))
    done = node.run({"gpus": ["all"], "mig": False})
    assert [gpu["mig"] for gpu in done["gpus"]] == [False, False]
    assert not node.run({"gpus": ["all"], "mig": False})["changed"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "call, number",
    [
        ("nvmlDeviceCreateGpuInstanceWithPlacement", 1),
        ("nvmlDeviceCreateGpuInstanceWithPlacement", 3),
        ("nvmlGpuInstanceCreateComputeInstance", 2),
        ("nvmlComputeInstanceDestroy", 2),
        ("nvmlGpuInstanceDestroy", 2),
    ],
)
def test_a_step_that_fails_leaves_what_was_there(machine: Callable[..., Machine], call: str, number: int) -> None:
    node = machine(H100)
    node.run(of({"profile": "3g", "start": 0}, {"profile": "2g", "compute": ["1c", "1c"]}))
    before = [node.layout(0), node.layout(1)]
    node.control("fault", "call", call, "gpu", "0", "nth", str(number), "return", "INSUFFICIENT_RESOURCES")
    failed = node.run(of("1g", "1g", "1g", "1g+me"))
    assert call in failed["error"] and "; what was there before stands again" in failed["error"], failed
    assert node.layout(0) == before[0]
    # A GPU that fails keeps no other from being changed.
    assert [name for name, _start, _compute in node.layout(1)] == ["1g.10gb"] * 3 + ["1g.10gb+me"]
    node.control("clear", "call", call)
    assert "error" not in node.run(of("1g", "1g", "1g", "1g+me"))
    assert sorted(node.layout(0)) == sorted(node.layout(1))


def test_going_back_that_fails_is_told_and_the_way_stays_in_the_record(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    wish = of("3g", {"profile": "2g", "compute": ["1c", "1c"]})
    node.run(wish)
    before = [node.layout(0), node.layout(1)]
    node.control("fault", "call", "nvmlGpuInstanceCreateComputeInstance", "after", "1", "return", "UNKNOWN")
    failed = node.run(of("1g", "1g", "1g", gpus=["0"]))
    assert "going back failed, too" in failed["error"] and "see what stands with nvidia-smi mig -lgi" in failed["error"]
    node.control("clear", "call", "nvmlGpuInstanceCreateComputeInstance")
    assert node.layout(1) == before[1]
    journal = (node.record() or {})[node.uuid()]["journal"]
    assert sorted(piece["profile"] for piece in journal["pieces"]) == [9, 14]
    assert "error" not in node.run(wish)
    assert [node.layout(0), node.layout(1)] == before
    assert (node.record() or {})[node.uuid()]["journal"] is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spared", range(15))
def test_killed_between_any_two_changes_the_next_run_ends_in_the_new_layout(
    machine: Callable[..., Machine], spared: int
) -> None:
    node = machine(H100)
    node.run(of("3g", "2g", "2g", gpus=["0"]))
    wish = of("4g", {"profile": "1g", "count": 3}, gpus=["0"])
    node.control("fault", "call", "change", "after", str(spared), "kill")
    killed = node.run(wish)
    assert ("error" in killed) == (spared < 14), killed
    node.control("clear", "call", "change")
    record = node.record()
    assert record is not None
    journal = record[node.uuid()]["journal"]
    pieces = [{"profile": p, "start": s, "compute": c} for p, s, c in ((14, 0, [2]), (14, 2, [2]), (9, 4, [3]))]
    if journal is not None:
        assert sorted(journal["pieces"], key=lambda piece: piece["start"]) == pieces
    assert "error" not in node.run(wish)
    assert [name for name, _start, _compute in node.layout()] == ["4g.40gb", "1g.10gb", "1g.10gb", "1g.10gb"]
    assert node.record()[node.uuid()]["journal"] is None  # type: ignore[index]
    assert "error" not in node.run(state="default")
    assert node.run(check=True, require_gpus=True)["gpus"][0]["mig"] is False


def test_partitions_by_the_file_of_another_program(machine: Callable[..., Machine]) -> None:
    node = machine(A100, "gpu.mig_mode=yes")
    config = {
        "version": "v1",
        "mig-configs": {
            "balanced": [
                {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}},
                {"devices": "all", "device-filter": "0x20B210DE", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}},
            ],
            "all-disabled": [{"devices": "all", "mig-enabled": False}],
        },
    }
    done = node.run(layouts=[], parted_config=config, parted_label="balanced")
    assert sorted(name for name, _s, _c in layout_of(done)) == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]
    assert layout_of(done, 1) == []
    assert "needs" in node.run(layouts=[], parted_config=config, parted_label="all-disabled")["gpus"][0]


@pytest.mark.parametrize(
    "options, said",
    [
        (
            {"layouts": [of("3g", "3g", "1g", gpus=["0"])]},
            "GPU 0 (0001:00:00.0): 2 x 3g.40gb + 1g.10gb need 7 compute slices and 9 memory slices, and 7 of 7 and 8 of"
            " 8 are there; 3g.40gb + 2g.20gb + 1g.10gb would fit.",
        ),
        ({"layouts": [of("9g")]}, "GPU 0 (0001:00:00.0): this GPU has no profile 9g; it has 7g.80gb, 4g.40gb, "),
        (
            {"layouts": [of("3g", gpus=["7"])]},
            "GPU '7': this machine has no such GPU; choose among 0 = 0001:00:00.0 = GPU-",
        ),
        ({"layouts": [of("3g", gpus=["0"]), of("3g")]}, "GPU 0 (0001:00:00.0): two layouts name it; name it in one of"),
        ({"layouts": [of("3g", gpus=[])]}, "option layouts[0].gpus: the list is empty; name GPUs, or use all."),
        (
            {"layouts": [of("3g", mig=False)]},
            "option layouts[0].instances: a GPU that is whole has none; leave it out, or set mig",
        ),
        (
            {"layouts": [of({"profile": "1g", "count": 2, "start": 0})]},
            "option layouts[0].instances[0].start: 2 instances cannot start at one pla",
        ),
        (
            {"parted_config": {"version": "v2"}, "layouts": []},
            "option parted_config: its version is 'v2', and v1 is the",
        ),
        (
            {"parted_config": {"version": "v1", "mig-configs": {}}, "layouts": [of("3g")]},
            "option parted_config: layouts are given, too; give one of the two.",
        ),
        (
            {"parted_label": "x", "layouts": []},
            "option parted_label: it is nothing without option parted_config; give b",
        ),
    ],
)
def test_what_is_refused(machine: Callable[..., Machine], options: Dict[str, Any], said: str) -> None:
    node = machine(H100)
    told = node.run(**options)["error"]
    assert told.startswith(said), told
    assert node.record() is None and not (node.root / NODE).exists()


def test_gpus_that_cannot_be_divided_are_left_alone_and_refused_by_name(machine: Callable[..., Machine]) -> None:
    node = machine("nd40rs_v2")
    assert not node.run(of("3g"))["actions"][1:]
    assert node.run(of("3g", gpus=["0"]))["error"].startswith("GPU 0 (")


def test_two_runs_at_once_take_turns(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    jobs = [
        node.start(options={"boot_unit": False, "layouts": [of(*names, gpus=["0"])]})
        for names in (["3g", "3g"], ["2g", "2g", "2g"])
    ]
    for job in jobs:
        output, errors = job.communicate(timeout=120)
        assert job.returncode == 0 and "error" not in json.loads(output), (output, errors)
    assert [name for name, _s, _c in node.layout()] in (["3g.40gb"] * 2, ["2g.20gb"] * 3)


def test_a_node_whose_gpus_are_all_gone_has_its_layout_back_after_the_reboot(machine: Callable[..., Machine]) -> None:
    node = machine(H100)
    wish = of("3g", gpus=["0"])
    stood = layout_of(node.run(wish, boot_unit=True))
    node.control("set", "gpu.count", "0")
    gone = node.run(wish, boot_unit=True)
    assert gone["skipped"] and not gone["changed"] and not gone["gpus"]
    assert (node.root / NODE).exists() and (node.root / UNIT).exists()
    node.control("set", "gpu.count", "2")
    node.control("reboot")
    assert layout_of(node.run(declared=True)) == stood
