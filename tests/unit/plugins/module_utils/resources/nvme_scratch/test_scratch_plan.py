# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner of the scratch: what it makes, adopts and takes back, on the model of a machine."""

from __future__ import annotations

import copy
import dataclasses
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.disks import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.tools import with_tools
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import State

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL, Drive, Machine, Volume
from scratch_wishes import FOREIGN, IDENTITIES, blank, built, converge, kinds, plan, says, wanted

# The plain ways ----------------------------------------------------------------------------------------


def test_blank_disks_become_one_mounted_array_and_the_second_plan_is_empty():
    machine = blank(8)
    first = converge(machine, wanted(count=8))
    # An option that the mount does not accept is neither declared nor written to fstab.
    assert kinds(first.actions) == [
        "WriteRecord",
        "CreateArray",
        "MakeFilesystem",
        "WriteRecord",
        "MakeFolder",
        "MountFilesystem",
        "EditFstab",
        "SetRoot",
        "Declare",
    ]
    assert machine.mounts == {"/mnt/scratch": "md127"}
    assert machine.volumes[IDENTITIES[0].array_uuid].owner == (0, 0, 0o1777)


def test_the_uuids_are_on_record_before_a_disk_is_written():
    actions = plan(blank(2).observe(), wanted(), IDENTITIES[0]).actions
    record = next(action.record for action in actions if isinstance(action, act.WriteRecord))
    create = next(action for action in actions if isinstance(action, act.CreateArray))
    assert kinds(actions).index("WriteRecord") < kinds(actions).index("CreateArray")
    assert record.builds[-1].array_uuid == create.array_uuid and not record.builds[-1].finished


def test_one_disk_gets_no_array():
    machine = blank(1)
    first = converge(machine, wanted())
    assert "CreateArray" not in kinds(first.actions)
    assert machine.mounts == {"/mnt/scratch": "nvme0n1"}


def test_no_disk_is_a_skip_that_names_what_is_there():
    machine = Machine([Drive("R", model="MSFT NVMe Accelerator v1.0")])
    result = plan(machine.observe(), wanted(), IDENTITIES[0])
    assert result.skipped == (
        "No NVMe disk fits Microsoft NVMe Direct Disk; this node has 1 x MSFT NVMe Accelerator v1.0 of 953.7 MiB "
        "(serial R): it is a disk of the cloud's storage (MSFT NVMe Accelerator v1.0), which outlives the machine."
    )


RACK = {"model": "KIOXIA KCD8"}


@pytest.mark.parametrize(
    ("drives", "options", "line"),
    [
        # The system's disk is of another model, so the model says it for all nodes of the rack.
        ([Drive("S", model="M2", foreign=("gpt",))], {}, 'nvme_scratch_models: ["KIOXIA KCD8"]'),
        # It is of the same model: only serial numbers tell them apart.
        ([Drive("S", foreign=("gpt",), **RACK)], {}, 'nvme_scratch_serials: ["A", "B"]'),
        # One is named already, and stays named.
        ([Drive("C", **RACK)], {"serials": ["C"], "count": 3}, 'nvme_scratch_serials: ["C", "A", "B"]'),
        ([], {"count": 2}, 'nvme_scratch_models: ["KIOXIA KCD8"]'),
        ([], {"require_disks": True}, 'nvme_scratch_models: ["KIOXIA KCD8"]'),
    ],
)
@pytest.mark.parametrize("models", [[], [MODEL]])
def test_free_disks_that_are_not_named_are_listed_with_the_line_that_names_them(drives, options, line, models):
    machine = Machine([Drive("A", **RACK), Drive("B", **RACK), *copy.deepcopy(drives)])
    result = plan(machine.observe(), wanted(models=models, **options), IDENTITIES[0])
    text = result.skipped or says(result, "found ")
    assert not result.actions and "KIOXIA KCD8 of 953.7 MiB (serials A, B)" in text and line in text
    # Serial numbers given to a group are refused on its other nodes.
    assert ("for this node alone (host_vars)" in text) == ("serials:" in line)
    # What the line says is enough, pasted as it is.
    name, pasted = next(iter(yaml.safe_load(line).items()))
    given = dict(options, models=models)
    given[name[len("nvme_scratch_") :]] = pasted
    assert converge(machine, wanted(**given)).actions


def test_a_disk_that_is_in_use_is_listed_with_the_reason_and_in_no_line():
    machine = Machine([Drive("S", foreign=("gpt",), **RACK)])
    result = plan(machine.observe(), wanted(models=[]), IDENTITIES[0])
    assert result.skipped == (
        "No NVMe disk is named as scratch material; this node has 1 x KIOXIA KCD8 of 953.7 MiB (serial S): it carries "
        "a partition table (gpt), which is not in our record."
    )


def test_a_disk_that_shares_its_serial_number_is_listed_with_the_reason_and_in_no_line():
    machine = Machine([Drive("A", name="nvme0n1", **RACK), Drive("A", name="nvme1n1", foreign=("gpt",), **RACK)])
    result = plan(machine.observe(), wanted(models=[]), IDENTITIES[0])
    assert "(serial A): another disk bears the same serial number;" in result.skipped
    assert "nvme_scratch_" not in result.skipped


def test_a_model_in_the_line_is_no_pattern_for_others():
    machine = Machine([Drive("A", model="DISK[1]*"), Drive("B", model="DISK1 of the system", foreign=("gpt",))])
    line = 'nvme_scratch_models: ["DISK[[]1][*]"]'
    assert line in plan(machine.observe(), wanted(models=[]), IDENTITIES[0]).skipped
    first = converge(machine, wanted(models=yaml.safe_load(line)["nvme_scratch_models"]))
    assert first.actions and machine.drive("B").volume is None


def test_a_scratch_that_stands_is_kept_when_its_disks_are_no_longer_named():
    machine = built()
    assert converge(machine, wanted(models=[])).skipped is None and machine.mounts == {"/mnt/scratch": "md127"}


@pytest.mark.parametrize("models", [[], ["M2"]])
@pytest.mark.parametrize("left", [0, 2])
def test_disks_that_are_no_longer_named_are_not_built_on_at_the_next_boot(models, left):
    machine = built(2)
    anew = blank(left)
    anew.record, anew.fstab, anew.declared = machine.record, machine.fstab, machine.declared
    first = converge(anew, wanted(models=models))
    assert kinds(first.actions) == ["Declare"] and "No NVMe disk" in first.notes[0]
    at_boot = of(Desired, anew.declared["nvme_scratch"])
    assert at_boot.models == tuple(models)
    result = plan(anew.observe(), at_boot, IDENTITIES[1])
    assert result.skipped == first.notes[0] and not result.actions


def test_a_node_without_a_declaration_gets_none_by_a_skip():
    assert plan(blank(1).observe(), wanted(models=[]), IDENTITIES[0]).actions == ()


@pytest.mark.parametrize("options", [{"serials": ["Z"]}, {"devices": ["/dev/disk/by-id/nvme-Z"]}])
def test_a_named_disk_that_is_not_here_is_refused_with_those_that_are(options):
    machine = Machine([Drive("A", **RACK)])
    says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "; it has 1 x KIOXIA KCD8 of 953.7 MiB (serial A);")


@pytest.mark.parametrize("options", [{"count": 8}, {"require_disks": True}])
def test_no_disk_is_refused_when_disks_are_required(options):
    says(plan(State(), wanted(**options), IDENTITIES[0]), "found 0: none;")


def test_a_node_without_any_disk_is_a_skip_that_says_so():
    result = plan(State(), wanted(models=[]), IDENTITIES[0])
    assert result.skipped == "No NVMe disk is named as scratch material; this node has none."


def test_reboot_under_another_md_number_changes_nothing():
    machine = built()
    machine.reboot(number=5)
    assert machine.mounts == {"/mnt/scratch": "md5"}
    assert converge(machine, wanted()).actions == ()


def test_swapped_kernel_names_change_nothing():
    machine = built()
    names = [drive.name for drive in machine.drives]
    for drive, name in zip(machine.drives, reversed(names)):
        drive.name = name
    machine.reboot()
    assert converge(machine, wanted()).actions == ()


def test_an_array_that_is_not_assembled_is_assembled_not_made():
    machine = built()
    machine.reboot()
    machine.mounts.clear()
    machine.arrays.clear()
    assert kinds(converge(machine, wanted()).actions) == ["AssembleArray", "MountFilesystem", "SetRoot"]


def test_an_array_in_pieces_is_stopped_and_assembled():
    machine = built(4)
    uuid = machine.drives[0].superblock[0]
    machine.mounts.clear()
    machine.arrays = {"md126": (uuid, ("S0", "S1")), "md127": (uuid, ("S2", "S3"))}
    first = plan(machine.observe(), wanted(), IDENTITIES[0])
    assert kinds(first.actions) == ["StopArray", "StopArray", "AssembleArray", "MountFilesystem", "SetRoot"]
    converge(machine, wanted())


def test_after_a_deallocation_it_is_built_anew_and_the_old_fstab_line_is_replaced():
    machine = built()
    old = machine.fstab
    for number, drive in enumerate(machine.drives):
        drive.superblock, drive.residue, drive.serial = None, False, "NEW{0}".format(number)
    machine.volumes.clear()
    machine.reboot()
    converge(machine, wanted())
    assert machine.fstab != old and machine.fstab.count("/mnt/scratch") == 1
    assert machine.mounts == {"/mnt/scratch": "md127"}


@pytest.mark.parametrize(
    ("options", "recorded"),
    [({}, True), ({"models": []}, True), ({"count": 2}, True), ({}, False), ({"count": 2}, False)],
)
def test_without_mdadm_nothing_is_said_of_an_array_but_that_mdadm_is_missing(options, recorded):
    """A refusal by what is seen without mdadm ended in advice to erase a whole scratch."""
    machine = built(2)
    converge(machine, wanted(**options))
    state = machine.observe()
    disks = tuple(
        dataclasses.replace(disk, holders=(), busy=False, openers=(), mount_points=(), member=None)
        for disk in state.disks
    )
    state = dataclasses.replace(state, disks=disks, arrays=(), mounts=(), missing_tools=("mdadm",))
    if not recorded:
        state = dataclasses.replace(state, record=None)
    desired = wanted(**options)
    found = plan(state, desired, IDENTITIES[1])
    first = with_tools(judge(state, desired), found)
    assert [action.describe() for action in first.actions] == ["install the package(s) mdadm of the distribution"]
    assert first.actions[0].then_look() and "mdadm was not installed; what the array of" in first.notes[-1]
    text = says(
        with_tools(judge(state, wanted(manage_packages=False, **options)), found), "mdadm", "not installed", "S0", "S1"
    )
    assert "rebuild" not in text and "wipefs" not in text


@pytest.mark.parametrize("mounted", [True, False])
def test_without_mdadm_the_record_of_an_array_is_not_thrown_away(mounted):
    """Without it no array is known as ours: the record went, and the array stayed."""
    state = built(2).observe()
    disks = tuple(dataclasses.replace(disk, member=None) for disk in state.disks)
    arrays = tuple(dataclasses.replace(array, uuid=None, array_name="") for array in state.arrays)
    state = dataclasses.replace(state, disks=disks, arrays=arrays, missing_tools=("mdadm",))
    if not mounted:
        disks = tuple(dataclasses.replace(disk, holders=(), busy=False, mount_points=()) for disk in disks)
        state = dataclasses.replace(state, disks=disks, arrays=(), mounts=())
    desired = wanted(state="absent")
    found = with_tools(judge(state, desired), plan(state, desired, IDENTITIES[1]))
    says(found, "mdadm: not installed on this node; install mdadm")


def test_without_mdadm_what_is_not_ours_does_not_hold_up_an_undo():
    machine = Machine([Drive("A", foreign=("linux_raid_member",))])
    state = dataclasses.replace(machine.observe(), missing_tools=("mdadm",))
    desired = wanted(state="absent")
    assert not with_tools(judge(state, desired), plan(state, desired, IDENTITIES[0])).refusals


def test_a_mount_that_is_adopted_needs_no_mdadm():
    machine = built(2)
    state = dataclasses.replace(machine.observe(), record=None, missing_tools=("mdadm",))
    disks = tuple(dataclasses.replace(disk, member=None) for disk in state.disks)
    arrays = tuple(dataclasses.replace(array, uuid=None, array_name="") for array in state.arrays)
    state = dataclasses.replace(state, disks=disks, arrays=arrays)
    desired = wanted(manage_packages=False)
    found = plan(state, desired, IDENTITIES[0])
    assert "used as it is" in found.notes[0] and with_tools(judge(state, desired), found) == found


def test_without_mdadm_other_refusals_stay():
    machine = Machine([Drive("A", foreign=("LVM2_member",)), Drive("B", model="M2", foreign=("linux_raid_member",))])
    state = dataclasses.replace(machine.observe(), missing_tools=("mdadm",))
    found = plan(state, wanted(), IDENTITIES[0])
    assert found.refusals and with_tools(judge(state, wanted()), found) == found


# Adoption ----------------------------------------------------------------------------------------------


def foreign_array(machine, mount_point):
    machine.arrays["md0"] = (FOREIGN, tuple(d.serial for d in machine.drives))
    for role, drive in enumerate(machine.drives):
        drive.superblock = (FOREIGN, role, len(machine.drives))
    machine.volumes[FOREIGN] = Volume("8" * 32, label="theirs", data=True)
    machine.mounts[mount_point] = "md0"
    machine.protected.update(d.serial for d in machine.drives)
    return machine


@pytest.mark.parametrize("where", ["/nvme", "/mnt/scratch"])
def test_a_good_mount_is_adopted_and_only_declared(where):
    machine = foreign_array(blank(4), where)
    first = converge(machine, wanted(count=4))
    assert kinds(first.actions) == ["Declare"]
    assert "stands already on 4 local disk(s)" in first.notes[0]


def test_without_adopt_a_foreign_mount_is_refused():
    machine = foreign_array(blank(4), "/nvme")
    says(plan(machine.observe(), wanted(adopt=False), IDENTITIES[0]), "not ours")


def test_a_mount_on_some_of_the_disks_is_not_adopted():
    machine = blank(3)
    part = Machine(machine.drives[:2])
    foreign_array(part, "/nvme")
    machine.arrays, machine.volumes, machine.mounts = part.arrays, part.volumes, part.mounts
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S0", "not ours")


def test_without_record_a_whole_array_with_our_name_and_label_is_taken_up_again():
    machine = built()
    machine.record, machine.declared, machine.fstab = None, {}, ""
    machine.reboot()
    first = converge(machine, wanted())
    assert kinds(first.actions) == ["WriteRecord", "MountFilesystem", "EditFstab", "SetRoot", "Declare"]
    assert machine.record.builds[-1].finished


def test_without_record_an_array_of_another_level_is_refused():
    machine = built()
    machine.record, machine.fstab = None, ""
    machine.reboot()
    seen = machine.observe()
    other = dataclasses.replace(seen, arrays=(dataclasses.replace(seen.arrays[0], level="linear"),))
    says(plan(other, wanted(), IDENTITIES[0]), "disk S0")


@pytest.mark.parametrize("change", ["name", "label", "in_progress", "member", "signature"])
def test_without_record_anything_less_than_that_is_refused(change):
    machine = built()
    machine.record, machine.fstab = None, ""
    uuid = IDENTITIES[20].array_uuid
    machine.reboot()
    if change == "name":
        machine.array_names[uuid] = "another"
    elif change == "label":
        machine.volumes[uuid].label = "data"
    elif change == "in_progress":
        machine.volumes[uuid].in_progress = True
    elif change == "member":
        machine.drives.pop()
        machine.reboot()
    elif change == "signature":
        del machine.volumes[uuid]
    machine.protected = {d.serial for d in machine.drives}
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S0")


# The way back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("text", ["# empty\n", "", None, "proc /proc proc defaults 0 0"])
def test_absent_leaves_what_was_there_before(count, text):
    machine = blank(count)
    machine.fstab = text
    before = (machine.observe(), set(machine.folders))
    converge(machine, wanted())
    converge(machine, wanted(state="absent"))
    assert (machine.observe(), set(machine.folders)) == before


def test_absent_leaves_an_adopted_mount():
    machine = foreign_array(blank(3), "/nvme")
    converge(machine, wanted())
    converge(machine, wanted(state="absent"))
    assert machine.mounts == {"/nvme": "md0"} and machine.declared == {}


def test_absent_on_a_blank_node_does_nothing():
    assert plan(blank(3).observe(), wanted(state="absent"), IDENTITIES[0]).actions == ()


def test_absent_after_a_lost_record_erases_nothing():
    machine = built()
    machine.record = None
    result = plan(machine.observe(), wanted(state="absent"), IDENTITIES[0])
    assert not set(kinds(result.actions)) & {"EraseMark", "EraseFilesystem", "StopArray", "Unmount"}
    assert "is not in our record" in result.notes[0]


def test_a_new_mount_point_moves_the_scratch():
    machine = built()
    state = machine.observe("/mnt/other")
    result = plan(state, wanted(mount_point="/mnt/other"), IDENTITIES[0])
    assert kinds(result.actions) == [
        "WriteRecord", "Unmount", "MakeFolder", "EditFstab", "MountFilesystem", "EditFstab", "SetRoot", "WriteRecord",
        "Declare",
    ]  # fmt: skip


def test_new_mount_options_take_effect_at_once():
    machine = built()
    result = plan(machine.observe(), wanted(mount_options=["noatime", "largeio"]), IDENTITIES[0])
    # An option that the mount does not take is neither declared nor written to fstab.
    assert kinds(result.actions) == ["MountFilesystem", "EditFstab", "Declare"] and result.actions[0].remount


@pytest.mark.parametrize(
    "live, asked, remounts, waits",
    [
        ("rw noexec noatime", "noatime", True, ""),
        ("rw noatime noexec", "noatime noexec", False, ""),
        ("rw relatime", "noexec exec", False, ""),
        ("rw noexec relatime", "exec noexec", False, ""),
        ("rw nosuid nodev relatime", "group", False, ""),
        ("rw nosuid nodev relatime", "owner suid", True, ""),
        ("rw nodev relatime", "owner suid", False, ""),
        ("rw relatime", "group", True, ""),
        ("rw noatime", "defaults", True, ""),
        ("rw relatime", "defaults x-systemd.requires=a.service _netdev comment=x", False, ""),
        ("rw", "strictatime", False, ""),
        ("rw", "noatime strictatime", False, ""),
        ("rw nodiratime relatime", "nodiratime", False, ""),
        ("rw nodiratime relatime", "nodiratime diratime", True, ""),
        ("rw noatime attr2 inode64 noquota", "noatime", False, ""),
        ("rw noatime allocsize=65536k logbsize=256k", "noatime allocsize=64m logbsize=256k", False, ""),
        ("rw noatime noquota", "noatime pquota", False, "no prjquota"),
        ("rw noatime prjquota", "noatime pquota", False, ""),
        ("rw noatime prjquota", "noatime", False, "still prjquota"),
        ("rw noatime noquota", "noatime prjquota noquota", False, ""),
        ("rw noatime discard", "noatime", False, "still discard"),
        ("rw noatime", "noatime discard", False, "no discard"),
        ("rw noatime", "noatime discard nodiscard", False, ""),
        ("rw noatime sync wsync", "noatime sync", False, ""),
        ("rw noexec noatime", "noatime discard", True, "no discard"),
    ],
)
def test_the_live_mount_decides_whether_its_options_are_active(live, asked, remounts, waits):
    asked = asked.split()
    machine = built(mount_options=asked)
    state = machine.observe()
    mounts = tuple(dataclasses.replace(one, options=tuple(live.split())) for one in state.mounts)
    result = plan(dataclasses.replace(state, mounts=mounts), wanted(mount_options=asked), IDENTITIES[0])
    assert not result.refusals
    assert [one.remount for one in result.actions if isinstance(one, act.MountFilesystem)] == [True] * remounts
    notes = [note for note in result.notes if "does not follow mount_options" in note]
    assert len(notes) == bool(waits) and all("({0})".format(waits) in note for note in notes), notes


def test_a_scratch_that_was_mounted_by_hand_gets_its_line_and_its_options_in_one_converge():
    asked = ["noatime", "nodev"]
    state = built(mount_options=asked).observe()
    mounts = tuple(dataclasses.replace(one, options=("rw", "relatime")) for one in state.mounts)
    state = dataclasses.replace(state, mounts=mounts, fstab="")
    result = plan(state, wanted(mount_options=asked), IDENTITIES[0])
    assert kinds(result.actions) == ["MountFilesystem", "EditFstab"] and result.actions[0].remount
