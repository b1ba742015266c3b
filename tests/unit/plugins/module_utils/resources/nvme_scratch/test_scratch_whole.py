# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scratch with its tools and its boot unit: what is installed when, and what each boot has to do with it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import result, run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd import boot_unit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import BootUnitState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import nvme_scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Found, Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import on_node
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Jobs

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL, Drive, Machine

NO_UNIT = BootUnitState()
IDENTITY = Identity("d" * 32, "e" * 32)
BOTH = ("mdadm", "mkfs.xfs")
BUILD = ["WriteRecord", "CreateArray", "MakeFilesystem", "WriteRecord"]
MOUNT = ["MakeFolder", "MountFilesystem", "EditFstab", "SetRoot", "Declare"]
UNIT = ["WriteUnit", "EnableUnit", "ReloadSystemd"]


def wanted(**options):
    return of(Desired, dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))


def blank(count):
    return Machine([Drive("S{0}".format(n)) for n in range(count)])


def found(machine, missing=(), unit=NO_UNIT):
    return Found(dataclasses.replace(machine.observe(), missing_tools=tuple(missing)), unit, IDENTITY)


def enabled(desired):
    return BootUnitState(desired.unit.text(), None, True, False)


def kinds(planned):
    return [type(action).__name__ for action in planned.actions]


class Node:
    """A machine without tools and without our unit, as the resource runs on it."""

    def __init__(self, machine, missing=BOTH):
        self.machine, self.missing, self.unit = machine, missing, {}

    def run(self, folder, check_mode=False, **options):
        desired = wanted(**options)
        steps = dict.fromkeys(nvme_scratch.RESOURCE.steps, lambda host, action, dummy: self.apply(action))
        resource = replaced(nvme_scratch.RESOURCE, observe=lambda *dummy: self.found(desired), steps=steps)
        outcome = run(Host(str(folder)), resource, desired, check_mode)
        return result(outcome, resource, desired)

    def found(self, desired):
        text = self.unit.get("text")
        return found(self.machine, self.missing, BootUnitState(text, None, self.unit.get("enabled", False), False))

    def apply(self, action):
        kind = type(action).__name__
        if kind == "InstallDistribution":
            self.missing = ()
        elif kind == "WriteUnit":
            self.unit["text"] = action.text
        elif kind == "EnableUnit":
            self.unit["enabled"] = True
        elif kind == "RemoveUnit":
            self.unit = {}
        elif kind != "ReloadSystemd":
            self.machine.apply(action)


def test_a_blank_node_gets_its_tools_its_scratch_and_its_unit_in_one_run(tmp_path):
    node = Node(blank(2))
    told = node.run(tmp_path, check_mode=True)
    assert told["changed"] and not node.machine.arrays and node.missing
    assert "  - install the package(s) mdadm and xfsprogs of the distribution" in told["diff"]["after"]
    assert "==> /etc/systemd/system/gpu-node-nvme_scratch.service <==" in told["diff"]["after"]
    done = node.run(tmp_path)
    assert [one["description"] for one in done["actions"]][0].startswith("install the package(s) mdadm and xfsprogs")
    assert [one["action"] for one in done["actions"]] == [one["action"] for one in told["actions"]]
    assert node.machine.mounts == {"/mnt/scratch": "md127"}
    assert done["mount_points"] == ["/mnt/scratch", "/nvme", "/mnt/nvme", "/mnt/resource_nvme"]
    again = node.run(tmp_path)
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    gone = node.run(tmp_path, state="absent")
    kinds = [one["action"] for one in gone["actions"]]
    # A step that finds the scratch in use fails before anything is removed or forgotten.
    assert kinds[:3] == ["unmount", "check_disks", "declare"] and kinds[-2:] == ["remove_unit", "reload_systemd"]
    assert not node.machine.mounts and not node.unit and not node.run(tmp_path, state="absent")["changed"]


@pytest.mark.parametrize(
    ("missing", "options", "names"),
    [
        (BOTH, {}, ("mdadm", "xfsprogs")),
        (("mdadm",), {}, ("mdadm",)),
        (("mdadm", "mkfs.ext4"), {"filesystem": "ext4"}, ("mdadm", "e2fsprogs")),
        # One disk has no array; the tools are those of a scratch all the same.
        (("mdadm",), {"serials": ["S0"], "models": []}, ("mdadm",)),
    ],
)
def test_only_what_is_missing_is_installed_and_all_else_is_told(missing, options, names):
    planned = plan(found(blank(2), missing), wanted(**options))
    assert planned.actions[0].names == names and planned.actions[0].then_look()
    single = "models" in options
    assert kinds(planned)[1:] == [one for one in BUILD if one != "CreateArray" or not single] + MOUNT + UNIT


def test_without_disks_there_is_nothing_to_install_nor_to_repeat():
    machine = blank(2)
    for desired in (wanted(models=[]), wanted(models=[], manage_packages=False)):
        planned = plan(found(machine, BOTH), desired)
        assert planned.skipped and not planned.actions
    # A unit of an earlier run stays, and follows what is declared.
    planned = plan(found(machine, BOTH, enabled(wanted())), wanted(models=[]))
    assert planned.skipped and not planned.actions
    # A declaration of an earlier run follows what is wanted; nothing is installed for that.
    machine.declared = {"nvme_scratch": {"models": [MODEL]}}
    assert kinds(plan(found(machine, BOTH), wanted(models=[]))) == ["Declare"]


def test_an_image_gets_tools_and_unit_ahead():
    desired = wanted(models=[], ahead=True)
    planned = plan(found(blank(0), BOTH), desired)
    assert kinds(planned) == ["InstallDistribution", *UNIT] and "No NVMe disk" in planned.notes[0]
    assert plan(found(blank(0), ("mdadm", "wipefs")), desired).actions[0].names == ("mdadm",)
    assert kinds(plan(found(blank(0)), desired)) == UNIT
    done = plan(found(blank(0), (), enabled(desired)), desired)
    assert done.skipped and not done.actions
    assert plan(found(blank(0), BOTH, enabled(desired)), wanted(models=[], ahead=True, manage_packages=False)).skipped


@pytest.mark.parametrize(
    ("missing", "options", "words"),
    [
        (("mdadm",), {"manage_packages": False}, "mdadm: not installed on this node; install mdadm, xfsprogs or"),
        (("mkfs.xfs",), {"manage_packages": False}, "mkfs.xfs: not installed on this node"),
        (("mdadm", "wipefs"), {}, "wipefs: not installed on this node"),
        (BOTH, {"count": 3}, "expected 3, found 2"),
    ],
)
def test_what_no_package_brings_is_refused_before_anything_is_installed(missing, options, words):
    planned = plan(found(blank(2), missing), wanted(**options))
    assert not planned.actions and words in " ".join(str(one) for one in planned.refusals)


def test_a_disk_of_somebody_is_refused_before_anything_is_installed():
    planned = plan(found(Machine([Drive("S0", foreign=("LVM2_member",))]), BOTH), wanted())
    assert planned.refusals and not planned.actions


def test_no_unit_is_wanted_and_one_that_is_there_goes_also_where_there_are_no_disks():
    for desired in (wanted(boot_unit=False), wanted(models=[], boot_unit=False)):
        planned = plan(found(blank(2), (), enabled(desired)), desired)
        assert kinds(planned)[-2:] == ["RemoveUnit", "ReloadSystemd"]
        planned = plan(found(blank(2)), desired)
        assert not {"WriteUnit", "RemoveUnit"} & set(kinds(planned))
    assert kinds(plan(found(blank(2), (), enabled(desired)), desired)) == ["RemoveUnit", "ReloadSystemd"]


def test_a_unit_of_somebody_stops_what_is_to_be_there_and_not_an_undo(tmp_path):
    masked = BootUnitState(None, "/dev/null")
    planned = plan(found(blank(2), (), masked), wanted())
    assert "it is masked" in str(planned.refusals[0]) and not planned.actions
    node = Node(blank(2))
    node.run(tmp_path)
    node.found = lambda dummy: found(node.machine, (), masked)
    with pytest.raises(Refused, match="it is masked"):
        node.run(tmp_path)
    gone = node.run(tmp_path, state="absent")
    assert gone["changed"] and "is not ours and is left as it is" in gone["notes"][0]


def test_to_take_it_away_nothing_is_installed():
    planned = plan(found(blank(2), BOTH), wanted(state="absent"))
    assert not planned.actions and not planned.refusals


@pytest.mark.parametrize("options", [{"state": "absent"}, {"mount_point": "/mnt/other"}, {"rebuild": True, "count": 1}])
def test_a_scratch_is_not_taken_from_a_job_that_has_no_file_of_it_open(tmp_path, monkeypatch, options):
    """Seen: umount is no protection for a job between two steps. An undo and a reset ask for jobs, the module and a
    converge did not."""
    machine = blank(2)
    for action in plan(found(machine), wanted()).actions:
        if type(action).__name__ in BUILD + MOUNT:
            machine.apply(action)
    desired = wanted(**options)
    if "rebuild" in options:
        machine.drives.pop()
        machine.reboot()
    asked = []

    def jobs(host):
        asked.append(host)
        return Jobs(frozenset(names), told=told_all)

    names, told_all = {"17"}, True
    monkeypatch.setattr(nvme_scratch, "look", lambda *dummy: found(machine, unit=enabled(desired)))
    monkeypatch.setattr(on_node, "asked", jobs)
    host = Host(str(tmp_path))
    told = plan(nvme_scratch.RESOURCE.observe(host, desired), desired)
    assert not told.actions
    assert [str(one) for one in told.refusals] == [
        "our scratch: job 17 is on this node, and its files may be on the scratch; drain the node, wait until it is "
        "empty, then run again."
    ]
    names.clear()
    told_all = False  # a job of salloc without a step is known to slurmctld alone
    told = plan(nvme_scratch.RESOURCE.observe(host, desired), desired)
    assert not told.actions
    assert [str(one) for one in told.refusals] == [
        "our scratch: slurmctld does not answer and slurmd runs, so a job may be on this node, and its files may be on "
        "the scratch; drain the node, wait until it is empty, then run again."
    ]
    told_all = True
    assert plan(nvme_scratch.RESOURCE.observe(host, desired), desired).actions and len(asked) == 3
    # What takes nothing away neither asks nor waits.
    same = plan(nvme_scratch.RESOURCE.observe(host, wanted()), wanted())
    assert len(asked) == 3 and (same.refusals or not {"Unmount", "EraseMark"} & set(kinds(same)))


def test_the_unit_waits_for_the_places_where_fstab_may_mount_it():
    text = wanted(adopt_mount_points=["/nvme"], before_units=["a.service"], boot_timeout_seconds=9).unit.text()
    assert (
        "After=local-fs.target systemd-udev-settle.service cloud-init.service cloud-init-network.service "
        "mnt-scratch.mount mnt-scratch.automount nvme.mount nvme.automount mnt.mount mnt.automount\nBefore=a.service\n"
    ) in text
    assert "ExecStart=/usr/local/bin/gpunode apply nvme_scratch\nTimeoutStartSec=9\n" in text


def test_a_boot_makes_the_scratch_alone(tmp_path, monkeypatch):
    """It has no network for packages, and is the unit itself."""
    machine = blank(2)
    section = wanted(rebuild=True).section()
    assert not {"rebuild", "overwrite_serials", "manage_packages", "boot_unit", "ahead", "state"} & set(section)
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"nvme_scratch": dict(section, devices=[])}))
    seen = {}

    def look(host, desired):
        seen["desired"] = desired
        return found(machine, seen["missing"])

    monkeypatch.setattr(nvme_scratch, "RESOURCE", replaced(nvme_scratch.RESOURCE, observe=look))
    seen["missing"] = ()
    planned = nvme_scratch.converge_declared(Host(str(tmp_path)), check_mode=True).plan
    assert kinds(planned) == BUILD + MOUNT
    assert seen["desired"] == replaced(wanted(), manage_packages=False)
    seen["missing"] = BOTH
    with pytest.raises(Refused, match="mdadm, mkfs.xfs: not installed on this node"):
        nvme_scratch.converge_declared(Host(str(tmp_path)), check_mode=True)
    assert boot_unit.STEPS.keys() <= nvme_scratch.RESOURCE.steps.keys()
