# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner against every small machine: it never touches what is not ours, always arrives, survives power cuts."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Array,
    Build,
    Content,
    Disk,
    Filesystem,
    Identity,
    Member,
    Mount,
    MountPoint,
    Record,
    Signature,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.whole import with_tools

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL, Drive, Machine, StepFailed, Volume

OURS = "a" * 32
OLDER = "b" * 32
FOREIGN = "c" * 32
VOLUME = "1" * 32
OLD_VOLUME = "2" * 32
SINGLE_VOLUME = "3" * 32
IDENTITIES = [Identity("d{0:031x}".format(n), "e{0:031x}".format(n)) for n in range(40)]


_WANTED = {}


def wanted(**options):
    """A wish cannot be changed, so that equal ones are made once."""
    key = repr(sorted(options.items()))
    if key not in _WANTED:
        _WANTED[key] = of(Desired, dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))
    return _WANTED[key]


def converge(machine, desired, identity=IDENTITIES[0], first=None):
    """One run; gives the plan, ``first`` where it is known. The plan against the new state has to be empty."""
    machine.consented = desired.rebuild or not desired.present
    first = first or plan(machine.observe(), desired, identity)
    for action in first.actions:
        machine.apply(action)
    if desired.rebuild:
        desired = dataclasses.replace(desired, rebuild=False)
    rest = plan(machine.observe(), desired, identity)
    assert rest.refusals == first.refusals
    assert [action.describe() for action in rest.actions] == []
    return first


def kinds(actions):
    return [type(action).__name__ for action in actions]


def blank(count):
    return Machine([Drive("S{0}".format(n)) for n in range(count)])


def built(count=3, **options):
    machine = blank(count)
    converge(machine, wanted(**options), IDENTITIES[20])
    return machine


def says(result, *parts):
    text = " ".join(str(refusal) for refusal in result.refusals)
    assert result.refusals and not result.actions
    for part in parts:
        assert part in text, text
    # A play knows the variables of the role only.
    for option in ("rebuild: true", "overwrite_serials: ["):
        assert text.count(option) == text.count("nvme_scratch_" + option.partition(":")[0]), text
    return text


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
    first = with_tools(state, desired, found)
    assert [action.describe() for action in first.actions] == ["install the package(s) mdadm of the distribution"]
    assert first.actions[0].then_look() and "mdadm was not installed; what the array of" in first.notes[-1]
    text = says(
        with_tools(state, wanted(manage_packages=False, **options), found), "mdadm", "not installed", "S0", "S1"
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
    found = with_tools(state, desired, plan(state, desired, IDENTITIES[1]))
    says(found, "mdadm: not installed on this node; install mdadm")


def test_without_mdadm_what_is_not_ours_does_not_hold_up_an_undo():
    machine = Machine([Drive("A", foreign=("linux_raid_member",))])
    state = dataclasses.replace(machine.observe(), missing_tools=("mdadm",))
    desired = wanted(state="absent")
    assert not with_tools(state, desired, plan(state, desired, IDENTITIES[0])).refusals


def test_a_mount_that_is_adopted_needs_no_mdadm():
    machine = built(2)
    state = dataclasses.replace(machine.observe(), record=None, missing_tools=("mdadm",))
    disks = tuple(dataclasses.replace(disk, member=None) for disk in state.disks)
    arrays = tuple(dataclasses.replace(array, uuid=None, array_name="") for array in state.arrays)
    state = dataclasses.replace(state, disks=disks, arrays=arrays)
    desired = wanted(manage_packages=False)
    found = plan(state, desired, IDENTITIES[0])
    assert "used as it is" in found.notes[0] and with_tools(state, desired, found) == found


def test_without_mdadm_other_refusals_stay():
    machine = Machine([Drive("A", foreign=("LVM2_member",)), Drive("B", model="M2", foreign=("linux_raid_member",))])
    state = dataclasses.replace(machine.observe(), missing_tools=("mdadm",))
    found = plan(state, wanted(), IDENTITIES[0])
    assert found.refusals and with_tools(state, wanted(), found) == found


# Refusals ----------------------------------------------------------------------------------------------


def test_seven_of_eight_is_refused_with_and_without_a_count():
    machine = built(8)
    machine.drives.pop(3)
    machine.reboot()
    for options in ({"count": 8}, {}):
        says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "expected 8, found 7", "count")


def test_seven_of_eight_is_rebuilt_only_when_the_user_says_so():
    machine = built(8)
    machine.drives.pop(3)
    machine.reboot()
    text = says(
        plan(machine.observe(), wanted(count=7), IDENTITIES[0]), "7 of its 8 disks are here, and disk S3 is not"
    )
    assert "run nvme_scratch once with rebuild: true (role: nvme_scratch_rebuild), which erases" in text
    says(plan(machine.observe(), wanted(count=8, rebuild=True), IDENTITIES[0]), "expected 8, found 7")
    first = converge(machine, wanted(count=7, rebuild=True))
    assert kinds(first.actions).count("EraseMark") == 7
    assert "rebuild" not in first.actions[-1].content
    assert "As rebuild says" in first.notes[0]


def test_a_replaced_blank_disk_among_ours_is_no_proof_of_loss():
    machine = built(4)
    machine.drives[2] = Drive("NEW", name="nvme2n1")
    machine.reboot()
    for options in ({}, {"count": 4}):
        says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "3 of its 4 disks", "disk S2 is not", "rebuild")
    assert "CreateArray" in kinds(converge(machine, wanted(rebuild=True)).actions)


def test_a_member_that_was_blanked_is_no_proof_that_the_others_are_lost():
    machine = built(4)
    machine.drives[2].superblock, machine.drives[2].residue = None, False
    machine.reboot()
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "3 of its 4 disks are here", "gone from disk S2")
    assert "rebuild: true" in text
    assert "CreateArray" in kinds(converge(machine, wanted(rebuild=True)).actions)


def test_a_finished_array_of_which_mdadm_says_too_little_is_kept():
    state = built(2).observe()
    disks = tuple(
        dataclasses.replace(
            disk, holders=(), busy=False, openers=(), mount_points=(), member=Member(disk.member.array_uuid)
        )
        for disk in state.disks
    )
    state = dataclasses.replace(state, disks=disks, arrays=(), mounts=())
    says(plan(state, wanted(), IDENTITIES[1]), "2 of its 2 disks are here, and they make no whole array")


@pytest.mark.parametrize("left, goes", [(2, False), (3, True), (4, True)])
def test_a_deallocation_that_brings_fewer_blank_disks_wants_a_count(left, goes):
    machine = built(3)
    anew = blank(left)
    anew.record, anew.fstab = machine.record, machine.fstab
    if goes:
        assert "CreateArray" in kinds(converge(anew, wanted()).actions)
    else:
        says(plan(anew.observe(), wanted(), IDENTITIES[1]), "expected 3, found 2")


def test_as_many_disks_are_expected_as_the_largest_of_what_is_known_had():
    """A smaller build that was begun, and what was built last of more."""
    machine = blank(3)
    machine.drives[0].superblock = (OLDER, 0, 2)
    last = Build(OURS, VOLUME, "xfs", ("S0", "S1", "S2", "S3"), True)
    machine.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S0", "S1"), False), last), machine="dmi:1")
    says(plan(machine.observe(), wanted(), IDENTITIES[1]), "expected 4, found 3")


def test_a_single_file_system_that_could_not_be_read_is_not_called_unfinished():
    machine = built(1)
    machine.mounts.clear()
    machine.record = dataclasses.replace(
        machine.record, builds=(dataclasses.replace(machine.record.builds[0], finished=False),)
    )
    state = machine.observe()
    state = dataclasses.replace(state, disks=(dataclasses.replace(state.disks[0], filesystem=None),))
    says(plan(state, wanted(), IDENTITIES[1]), "its superblock could not be read", "rebuild: true")


@pytest.mark.parametrize("mounted", [False, True])
def test_an_older_file_system_that_shows_through_is_not_recorded_as_the_new_one(mounted):
    """A power cut in a rebuild between mdadm --create and the clearing; at boot fstab's line mounts what shows."""
    machine = built(2)
    old = machine.record.builds[-1]
    machine.record = dataclasses.replace(
        machine.record, builds=(old, Build(OLDER, OLD_VOLUME, "xfs", old.serials, False))
    )
    for role, drive in enumerate(machine.drives):
        drive.superblock = (OLDER, role, 2)
    machine.volumes[OLDER] = machine.volumes.pop(old.array_uuid)
    machine.mounts.clear()
    machine.arrays.clear()
    if mounted:
        machine.reboot()
        assert machine.mounts
    else:
        machine.arrays["md127"] = (OLDER, old.serials)
    refused = plan(machine.observe(), wanted(adopt=False), IDENTITIES[1])
    says(refused, "no file system of ours, although its own was never finished")
    if mounted:
        # All of it is there and mounted: it is used, and neither the record nor fstab calls it the new one.
        assert kinds(plan(machine.observe(), wanted(), IDENTITIES[1]).actions) == []
    else:
        assert "EraseMark" in kinds(plan(machine.observe(), wanted(rebuild=True), IDENTITIES[1]).actions)


@pytest.mark.parametrize("finished, rebuild", list(itertools.product([True, False], repeat=2)))
def test_a_finished_file_system_that_shows_through_a_new_array_goes_only_with_consent(finished, rebuild):
    machine = blank(3)
    machine.record = Record((Build(OURS, VOLUME, "xfs", ("S0", "S1", "S2"), finished),), machine="dmi:1")
    actions = plan(machine.observe(), wanted(rebuild=rebuild), IDENTITIES[0]).actions
    (create,) = [action for action in actions if isinstance(action, act.CreateArray)]
    assert create.earlier == ((VOLUME,) if rebuild or not finished else ())


def test_data_that_only_a_new_array_shows_stay_until_they_are_given_up():
    """The disks read as blank; the samples of the array lie elsewhere."""
    machine = blank(3)
    machine.hidden = True
    with pytest.raises(StepFailed):
        converge(machine, wanted())
    for options in ({}, {"overwrite_serials": ["S0", "S1", "S2"]}, {"count": 3}):
        told = says(
            plan(machine.observe(), wanted(**options), IDENTITIES[1]), "no file system of ours", "rebuild: true"
        )
        assert "Array" not in told
    machine.reboot()
    says(plan(machine.observe(), wanted(), IDENTITIES[1]), "rebuild: true")
    converge(machine, wanted(rebuild=True), IDENTITIES[1])
    assert machine.mounts and not machine.hidden


def test_a_power_cut_while_the_array_is_made_is_no_consent_to_lose_what_it_shows():
    machine = blank(4)
    machine.hidden = True
    for action in plan(machine.observe(), wanted(), IDENTITIES[0]).actions:
        machine.apply(action, half=isinstance(action, act.CreateArray))
        if isinstance(action, act.CreateArray):
            break
    machine.reboot()
    again = plan(machine.observe(), wanted(), IDENTITIES[1])
    assert "EraseMark" in kinds(again.actions)
    with pytest.raises(StepFailed):
        converge(machine, wanted(), IDENTITIES[1])


@pytest.mark.parametrize(
    "options, given_up",
    [
        ({}, False),
        ({"overwrite_serials": ["S0", "S1"]}, False),
        ({"overwrite_serials": ["S2", "S1", "S0", "X"]}, True),
        ({"rebuild": True}, True),
    ],
)
def test_what_a_new_array_shows_is_given_up_by_consent_to_all_of_its_disks(options, given_up):
    (create,) = [
        one
        for one in plan(blank(3).observe(), wanted(**options), IDENTITIES[0]).actions
        if isinstance(one, act.CreateArray)
    ]
    assert create.given_up is given_up


def test_the_rest_of_a_mkfs_that_did_not_end_is_ours_to_clear():
    """Another layout is asked for by then, and the new array shows it."""
    machine = blank(3)
    machine.record = Record((Build(OURS, VOLUME, "xfs", ("S0", "S1", "S2"), False),), machine="dmi:1")
    for role, drive in enumerate(machine.drives):
        drive.superblock = (OURS, role, 3)
    machine.arrays["md127"] = (OURS, ("S0", "S1", "S2"))
    for volume, given_up in ((None, False), (Volume(VOLUME, in_progress=True), True)):
        machine.volumes = {} if volume is None else {OURS: volume}
        actions = plan(machine.observe(), wanted(chunk_kib=64), IDENTITIES[0]).actions
        assert "EraseMark" in kinds(actions)
        assert [one.given_up for one in actions if isinstance(one, act.CreateArray)] == [given_up]


@pytest.mark.parametrize("damaged", [False, True])
def test_absent_clears_the_array_where_a_new_one_of_its_layout_is_looked_at(damaged):
    machine = built(3)
    machine.hidden = True
    machine.volumes[machine.record.builds[-1].array_uuid].damaged = damaged
    if damaged:
        machine.mounts.clear()
    gone = converge(machine, wanted(state="absent"))
    steps = kinds(gone.actions)
    assert steps.count("EraseFilesystem") == 1 and steps.index("EraseFilesystem") < steps.index("StopArray")
    converge(machine, wanted(), IDENTITIES[1])
    assert machine.mounts


def test_rebuild_leaves_a_whole_scratch_as_it_is():
    machine = built(4)
    assert converge(machine, wanted(rebuild=True)).actions == ()


def test_rebuild_erases_no_copy_and_no_disk_that_is_not_named():
    machine = built(3)
    machine.drives.append(Drive("COPY", machine.drives[1].superblock, residue=True, name="nvme8n1"))
    machine.drives.pop(1)
    machine.drives.pop(0)
    machine.reboot()
    says(
        plan(machine.observe(), wanted(rebuild=True, count=2), IDENTITIES[0]),
        "disk COPY (nvme8n1): it bears the mark of our array",
        "wipefs --all /dev/nvme8n1",
    )
    machine.drives.pop()
    machine.drives.append(Drive("S7", name="nvme7n1"))
    machine.reboot()
    says(plan(machine.observe(), wanted(models=[], serials=["S7"]), IDENTITIES[0]), "1 of its 3 disks are here")
    machine.protected.add("S2")
    converge(machine, wanted(models=[], serials=["S7"], rebuild=True))


@pytest.mark.parametrize("original", [False, True])
def test_the_only_disk_with_a_part_of_the_data_is_not_to_be_wiped(original):
    """A disk that fails is copied to a new one (ddrescue), or new firmware tells another serial number; then another
    disk is late. The advice was to wipe that disk, in each case."""
    machine = built(3)
    late, first = machine.drives.pop(2), machine.drives.pop(1)
    machine.late.append(late)
    machine.drives.append(Drive("NEW", first.superblock, residue=True, name="nvme8n1"))
    if original:
        machine.drives.append(first)
    machine.protected.add("NEW")
    machine.reboot()
    told = plan(machine.observe(), wanted(), IDENTITIES[0])
    (about,) = [str(one) for one in told.refusals if one.thing == "disk NEW (nvme8n1)"]
    assert ("wipefs" in about) == original, about
    assert original or "leave the disk where it is" in about


def test_a_copy_beside_a_running_array_is_told_and_left():
    machine = built(3)
    machine.drives.append(Drive("COPY", machine.drives[1].superblock, residue=True, name="nvme8n1"))
    machine.protected.add("COPY")
    machine.reboot()
    for desired in (wanted(), wanted(state="absent")):
        first = converge(machine, desired)
        assert any("COPY" in note and "left as it is" in note for note in first.notes), first.notes


def test_a_copy_that_runs_in_the_place_of_its_original_is_refused():
    machine = built(3)
    machine.drives.insert(0, Drive("COPY", machine.drives[1].superblock, residue=True, name="nvme8n1"))
    machine.reboot()
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S1 (nvme1n1)", "which runs with disk COPY (nvme8n1)")


@pytest.mark.parametrize("level, words", [("raid4", "its level is raid4 now"), ("reshape", "a reshape has begun")])
def test_an_array_that_was_changed_by_hand_is_refused(level, words):
    machine = built(3)
    uuid = machine.drives[0].superblock[0]
    machine.levels[uuid] = "raid4"
    machine.reshaping = {uuid} if level == "reshape" else set()
    machine.reboot()
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), words)
    # While md moves data, no remedy erases them.
    assert ("rebuild: true" in text) == (level == "raid4")


def test_a_file_system_that_is_not_recognised_any_more_is_not_made_again():
    machine = built(3)
    machine.volumes[IDENTITIES[20].array_uuid].damaged = True
    machine.reboot()
    before = machine.record
    text = says(
        plan(machine.observe(), wanted(), IDENTITIES[0]), "is not recognised any more", "xfs_repair -n /dev/md127"
    )
    assert "(role: nvme_scratch_rebuild), which erases all" in text
    first = converge(machine, wanted(rebuild=True))
    recorded = [action.record for action in first.actions if isinstance(action, act.WriteRecord)]
    # What was finished stays so on record: an old mark is never taken for that of a build without a file system.
    assert all(record.builds[0] == before.builds[0] for record in recorded)


def test_a_finished_array_that_reads_as_blank_is_not_taken_for_a_new_one():
    machine = built(3)
    machine.volumes.clear()
    machine.reboot()
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "is not recognised any more", "rebuild: true")
    assert "CreateArray" in kinds(converge(machine, wanted(rebuild=True)).actions)


def test_a_single_disk_whose_superblock_is_gone_is_told_as_that():
    machine = built(1)
    machine.drives[0].volume.damaged = True
    machine.mounts.clear()
    for options in ({}, {"rebuild": True}):
        text = says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "xfs_repair -n /dev/nvme0n1")
        assert text.count("disk S0") == 1 and "overwrite_serials: [S0]" in text
    machine.consented = True
    converge(machine, wanted(overwrite_serials=["S0"]))


def test_an_unfinished_build_with_a_whole_file_system_is_finished_without_mkfs():
    machine = built(3)
    machine.record = dataclasses.replace(
        machine.record, builds=(dataclasses.replace(machine.record.builds[-1], finished=False),)
    )
    machine.reboot()
    machine.mounts.clear()
    for assembled in (True, False):
        if not assembled:
            machine.arrays.clear()
        first = plan(machine.observe(), wanted(), IDENTITIES[0])
        assert ("MakeFilesystem" in kinds(first.actions)) is not assembled
    converge(machine, wanted())
    assert machine.volumes[IDENTITIES[20].array_uuid].data and machine.mounts


def test_one_of_ours_that_is_held_open_stops_it_before_any_is_erased():
    machine = built(3)
    machine.drives.pop(0)
    machine.reboot()
    machine.drives[1].held = True
    says(plan(machine.observe(), wanted(rebuild=True), IDENTITIES[0]), "disk S2", "process 7 (dd) holds it open")
    says(plan(machine.observe(), wanted(state="absent"), IDENTITIES[0]), "disk S2", "process 7 (dd) holds it open")
    machine.drives[1].held = False
    for desired in (wanted(rebuild=True), wanted(state="absent")):
        steps = kinds(plan(machine.observe(), desired, IDENTITIES[0]).actions)
        assert steps.index("CheckDisks") < min(steps.index("EraseMark"), steps.index("StopArray"))


def test_the_record_of_another_machine_proves_nothing():
    """A node made from the image of another one, and a disk of that one in it."""
    machine = built(3)
    machine.reboot()
    stray = machine.drives[0]
    clone = blank(4)
    clone.record, clone.fstab, clone.machine = machine.record, machine.fstab, "dmi:2"
    clone.drives[3] = Drive(stray.serial + "A", stray.superblock, residue=True, name="nvme3n1")
    clone.protected.add(clone.drives[3].serial)
    text = says(plan(clone.observe(), wanted(), IDENTITIES[0]), "disk S0A (nvme3n1)", "another machine")
    assert "wipefs --all" in text
    says(plan(clone.observe(), wanted(rebuild=True), IDENTITIES[0]), "another machine")
    assert "EraseMark" not in kinds(plan(clone.observe(), wanted(state="absent"), IDENTITIES[0]).actions)
    clone.drives.pop()
    converge(clone, wanted())
    assert clone.record.machine == "dmi:2" and len(clone.record.builds) == 1


def test_a_whole_scratch_is_taken_up_after_a_new_mainboard():
    machine = built(3)
    machine.machine = "dmi:2"
    machine.reboot()
    first = converge(machine, wanted())
    assert kinds(first.actions) == ["WriteRecord"] and machine.record.machine == "dmi:2"


def test_an_old_record_is_bound_to_the_machine_that_has_its_scratch():
    machine = built(3)
    machine.record = dataclasses.replace(machine.record, machine=None)
    assert kinds(converge(machine, wanted()).actions) == ["WriteRecord"]
    assert machine.record.machine == "dmi:1"


@pytest.mark.parametrize("known", ["dmi:1", None])
def test_a_run_that_does_not_know_its_machine_leaves_the_name_on_record(known):
    """Else the next image of this node would be taken for the node itself."""
    machine = built(3)
    machine.record = dataclasses.replace(machine.record, machine=known)
    machine.machine = None
    machine.reboot()
    whole = copy.deepcopy(machine)
    converge(whole, wanted())
    assert whole.record.machine == known and len(whole.record.builds) == 1
    for drive in machine.drives:
        drive.superblock = None
        drive.residue = False
    machine.reboot()
    converge(machine, wanted(), IDENTITIES[1])
    # What this run could not call its own proves it again for one that knows.
    assert machine.record.machine == known and len(machine.record.builds) == 2


@pytest.mark.parametrize("assembled", [False, True])
def test_an_array_that_another_machine_built_is_told_as_that(assembled):
    machine = built(4)
    machine.machine = "dmi:2"
    machine.mounts.clear()
    if not assembled:
        machine.arrays.clear()
    text = says(plan(machine.observe(), wanted(adopt=False, array_name="new"), IDENTITIES[1]), "another machine built")
    assert "which is not ours" not in text and "take the disk back" in text


def test_a_build_that_was_never_finished_is_not_said_to_have_data():
    machine = blank(3)
    machine.record = Record((Build(OURS, VOLUME, "xfs", ("S0", "S1", "S9"), False),), machine="dmi:1")
    for role, drive in enumerate(machine.drives[:2]):
        drive.superblock, drive.residue = (OURS, role, 3), True
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S9 is not", "rebuild: true", "never finished")
    assert "bring the data back" not in text and "its data" not in text
    machine.record = dataclasses.replace(machine.record, builds=(Build(OURS, VOLUME, "xfs", ("S0", "S1", "S9"), True),))
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "bring the data back")


def test_a_disk_that_is_stale_from_an_older_build_is_erased_only_on_request():
    machine = blank(3)
    machine.drives[1].superblock = (OLDER, 0, 2)
    machine.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S1", "S9"), True),))
    says(plan(machine.observe(), wanted(count=3), IDENTITIES[0]), "1 of its 2 disks are here, and disk S9 is not")
    first = converge(machine, wanted(count=3, rebuild=True))
    erased = [action for action in first.actions if isinstance(action, act.EraseMark)]
    assert [(action.serial, action.array_uuid) for action in erased] == [("S1", OLDER)]


FOREIGN_THINGS = {
    "gpt": "partition table (gpt)",
    "LVM2_member": "LVM physical volume",
    "zfs_member": "ZFS label",
    "crypto_LUKS": "LUKS",
    "xfs": "xfs data",
    "ambivalent content": "ambivalent",
}


@pytest.mark.parametrize("kind", sorted(FOREIGN_THINGS))
def test_a_foreign_signature_is_refused_with_the_disk_named(kind):
    machine = blank(3)
    machine.drives[1].foreign = (kind,)
    says(
        plan(machine.observe(), wanted(), IDENTITIES[0]),
        "disk S1 (nvme1n1)",
        FOREIGN_THINGS[kind],
        "wipefs --all /dev/nvme1n1",
    )


def test_unknown_content_is_overwritten_only_with_consent_by_serial():
    machine = blank(3)
    machine.drives[1].residue = True
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S1 (nvme1n1)", "overwrite_serials: [S1]")
    says(plan(machine.observe(), wanted(overwrite_serials=["S0", "S2"]), IDENTITIES[0]), "disk S1 (nvme1n1)")
    first = plan(machine.observe(), wanted(overwrite_serials=["S1", "OF-ANOTHER-NODE"]), IDENTITIES[0])
    assert [note for note in first.notes if "S1" in note or "OF-ANOTHER-NODE" in note] == [
        "No disk of this node has a serial number of overwrite_serials: OF-ANOTHER-NODE."
    ]
    assert kinds(first.actions)[:3] == ["WriteRecord", "CheckDisks", "ClearDisk"]
    assert "overwrite_serials" not in first.actions[-1].content
    converge(machine, wanted(overwrite_serials=["S1"]))


@pytest.mark.parametrize(
    "extra", [{"openers": ("process 7 (dd)",)}, {"openers": None}, {"busy": True}, {"swap": True}, {"content": None}]
)
def test_consent_to_lose_unknown_content_is_no_consent_to_anything_else(extra):
    machine = blank(2)
    machine.drives[0].residue, machine.drives[0].extra = True, extra
    says(plan(machine.observe(), wanted(overwrite_serials=["S0"]), IDENTITIES[0]), "disk S0")
    machine.drives[0].extra, machine.drives[0].foreign = {}, ("gpt",)
    says(plan(machine.observe(), wanted(overwrite_serials=["S0"]), IDENTITIES[0]), "disk S0", "wipefs --all")


def test_after_absent_the_disks_are_blank_and_serve_again_without_consent():
    machine = built()
    converge(machine, wanted(state="absent"))
    assert not any(drive.residue for drive in machine.drives)
    assert "CreateArray" in kinds(converge(machine, wanted(), IDENTITIES[1]).actions)


def test_our_mark_together_with_something_else_is_not_ours():
    machine = built(3)
    machine.drives.pop(0)
    machine.drives[0].foreign = ("dos",)
    machine.reboot()
    says(plan(machine.observe(), wanted(count=2), IDENTITIES[0]), "disk S1", "partition table (dos)")


def test_a_foreign_array_member_is_refused_assembled_or_not():
    for assembled in (True, False):
        machine = blank(2)
        for role, drive in enumerate(machine.drives):
            drive.superblock = (FOREIGN, role, 2)
        machine.array_names[FOREIGN] = "data"
        if assembled:
            machine.reboot()
        says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S0", "cccccccc:cccccccc:cccccccc:cccccccc")


@pytest.mark.parametrize(
    "extra, words",
    [
        ({"partitions": ("nvme1n1p1",)}, "partition table with nvme1n1p1"),
        ({"holders": ("dm-0",), "busy": True}, "part of dm-0"),
        ({"mount_points": ("/data",)}, "mounted at /data"),
        ({"swap": True}, "swap"),
        ({"busy": True}, "open exclusively"),
        ({"openers": ("process 7 (spdk_tgt)",)}, "process 7 (spdk_tgt) holds it open"),
        ({"openers": None}, "could not be found out whether a process holds it open"),
        ({"content": None}, "its content was not read"),
        ({"content": Content(4096, 512)}, "it holds data of an unknown kind (at byte 512)"),
        ({"read_only": True}, "read-only"),
        ({"size_bytes": 0}, "size is zero"),
        ({"read_error": "Input/output error"}, "could not be read (Input/output error)"),
        ({"transport": "tcp"}, "network (tcp)"),
    ],
)
def test_a_disk_in_use_or_unusable_is_refused(extra, words):
    machine = blank(3)
    machine.drives[1].extra = extra
    machine.protected.add("S1")
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "disk S1 (nvme1n1)", words)


def test_more_disks_than_asked_for_are_refused():
    says(plan(blank(9).observe(), wanted(count=8), IDENTITIES[0]), "expected 8, found 9")


def test_equal_serials_are_refused():
    machine = blank(3)
    state = machine.observe()
    twins = (state.disks[0], dataclasses.replace(state.disks[1], serial="S0"), state.disks[2])
    says(plan(dataclasses.replace(state, disks=twins), wanted(), IDENTITIES[0]), "serial number S0", "nvme0n1, nvme1n1")


def test_a_named_disk_that_is_missing_is_refused():
    says(plan(blank(2).observe(), wanted(models=[], serials=["S0", "S7"]), IDENTITIES[0]), "disk S7", "no NVMe disk")
    says(
        plan(blank(2).observe(), wanted(models=[], devices=["/dev/sda"]), IDENTITIES[0]),
        "/dev/sda",
        "not a whole NVMe disk",
    )


def test_a_record_that_cannot_be_used_stops_everything():
    state = dataclasses.replace(blank(2).observe(), record_error="it is not JSON")
    for choice in ("present", "absent"):
        says(plan(state, wanted(state=choice), IDENTITIES[0]), "nvme_scratch.json", "it is not JSON")


@pytest.mark.parametrize(
    "point, words",
    [
        (MountPoint("/mnt/scratch", "file", False), "it is a file"),
        (MountPoint("/mnt/scratch", "symlink", False), "symbolic link"),
        (MountPoint("/mnt/scratch", "folder", False), "not empty"),
        (MountPoint("/mnt/scratch", "blocked"), "parents is not a folder"),
        (MountPoint("/mnt/scratch", "other", False), "not a folder"),
    ],
)
def test_a_mount_point_that_cannot_serve_is_refused_before_any_disk_is_touched(point, words):
    state = dataclasses.replace(blank(2).observe(), mount_point=point)
    says(plan(state, wanted(), IDENTITIES[0]), "/mnt/scratch", words)


def test_a_mount_point_in_use_by_somebody_is_refused():
    state = dataclasses.replace(blank(2).observe(), mounts=(Mount("/mnt/scratch", "vda1", "ext4", True, "/dev/vda1"),))
    says(plan(state, wanted(), IDENTITIES[0]), "/dev/vda1 (ext4) is mounted there")


def test_a_foreign_fstab_line_for_the_mount_point_is_refused():
    machine = blank(2)
    machine.fstab = "# x\nLABEL=data\t/mnt/scratch/ ext4 defaults 0 2\n"
    says(plan(machine.observe(), wanted(), IDENTITIES[0]), "/etc/fstab line 2", "LABEL=data")


@pytest.mark.parametrize("options", [{"filesystem": "ext4"}, {"chunk_kib": 64}])
def test_another_layout_than_the_standing_one_is_told_not_made(options):
    says(plan(built().observe(), wanted(**options), IDENTITIES[0]), "is asked for", "state: absent")


def test_a_user_who_made_a_file_system_of_their_own_on_our_array_keeps_it():
    machine = built()
    machine.mounts.clear()
    machine.volumes[IDENTITIES[20].array_uuid] = Volume("9" * 32, data=True)
    for choice in ("present", "absent"):
        says(plan(machine.observe(), wanted(state=choice), IDENTITIES[0]), "not in our record")


def test_an_owner_that_does_not_exist_is_refused():
    says(
        plan(dataclasses.replace(blank(2).observe(), owner=None), wanted(owner="nobodyhere"), IDENTITIES[0]),
        "owner nobodyhere",
    )


@pytest.mark.parametrize("what", ["owner", "group"])
def test_a_directory_that_is_not_up_at_boot_does_not_keep_a_healthy_scratch_away(what):
    options = {what: "gpu-users"}
    machine = blank(2)
    state = dataclasses.replace(machine.observe(), **{what: 7})
    for action in plan(state, wanted(**options), IDENTITIES[0]).actions:
        machine.apply(action)
    machine.reboot()
    machine.mounts.clear()
    state = dataclasses.replace(machine.observe(), **{what: None})
    result = plan(state, wanted(**options), IDENTITIES[0])
    assert kinds(result.actions) == ["MountFilesystem", "SetRoot"] and getattr(result.actions[1], what) is None
    assert "None" not in result.actions[1].describe()
    assert any("{0} gpu-users: this node does not know it now".format(what) in note for note in result.notes)
    # A name that was never accepted here is a mistake all the same.
    says(plan(state, wanted(**{what: "misspelt"}), IDENTITIES[0]), what + " misspelt")


@pytest.mark.parametrize(
    "model",
    [
        "MSFT NVMe Accelerator v1.0",
        "Amazon Elastic Block Store",
        "nvme_card-pd",
        "MSFT NVMe Accelerator v2.0",
        "Alibaba Cloud Elastic Block Storage",
    ],
)
def test_a_disk_of_the_clouds_storage_is_not_taken_by_a_wide_pattern(model):
    machine = blank(2)
    machine.drives.append(Drive("REMOTE", model=model, name="nvme2n1"))
    machine.protected.add("REMOTE")
    for options in ({"models": ["*"]}, {"serials": ["REMOTE"]}):
        says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "disk REMOTE (nvme2n1)", "cloud's storage")
    assert "CreateArray" in kinds(converge(machine, wanted()).actions)


def test_without_record_an_array_that_is_not_assembled_is_not_called_somebodys():
    machine = built(3)
    machine.record = None
    machine.reboot()
    machine.arrays.clear()
    machine.mounts.clear()
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "not in our record and not assembled")
    assert "mdadm --assemble --scan" in text and "wipe" not in text
    machine.arrays["md127"] = (IDENTITIES[20].array_uuid, ("S0", "S1", "S2"))
    converge(machine, wanted())


def test_our_own_mark_is_never_called_one_that_is_not_in_our_record():
    machine = built(3)
    machine.drives.pop(0)
    machine.reboot()
    machine.arrays.clear()
    machine.drives[0].extra = {"member": None}
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "mdadm --examine does not say the same")
    assert "not in our record" not in text
    machine.drives[0].extra = {"member": Member(FOREIGN)}  # mdadm sees a member of another array than libblkid
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "mdadm --examine does not say the same")
    machine.drives[0].extra, machine.drives[0].foreign = {}, ("dos",)
    text = says(plan(machine.observe(), wanted(), IDENTITIES[0]), "our mark and something else")
    assert "not in our record" not in text


@pytest.mark.parametrize("state", ["read-auto", "readonly"])
def test_a_read_only_array_is_whole(state):
    machine = built(3)
    machine.reboot()
    seen = machine.observe()
    array = dataclasses.replace(seen.arrays[0], state=state)
    result = plan(dataclasses.replace(seen, arrays=(array,)), wanted(), IDENTITIES[0])
    if state == "read-auto":
        assert result.actions == () and not result.refusals
    else:
        says(result, "it is read-only; run mdadm --readwrite /dev/md127")


def test_no_count_is_advised_as_if_it_erased_nothing():
    machine = built(8)
    machine.drives.pop(3)
    machine.reboot()
    text = says(plan(machine.observe(), wanted(count=8), IDENTITIES[0]), "expected 8, found 7")
    assert (
        "set count: 7 if that is all there is; to erase a scratch that was built of more, run nvme_scratch once with "
        in text
    )


def test_without_any_disk_the_selection_is_named_and_no_count():
    machine = blank(2)
    text = says(plan(machine.observe(), wanted(models=("nomodel",), count=8), IDENTITIES[0]), "expected 8, found 0")
    assert "correct models, serials or devices" in text and "set count" not in text


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


# Power cuts --------------------------------------------------------------------------------------------


@pytest.fixture(name="every_order")
def _every_order(request):
    """`make soak` tries all of what is alike but for the order or the number of disks."""
    return request.config.getoption("--hypothesis-profile", None) == "thorough"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("start", ["blank", "stale", "built"])
def test_a_power_cut_at_any_step_is_made_good_by_the_next_run(every_order, count, half, start):
    """present from three starts, and absent: cut at each step, twice in a row, then converge. In `make test` each
    number of disks has a third of the pairs of steps, another one each."""
    for choice in ("present", "absent"):
        origin = blank(count)
        if start == "stale":
            origin.drives[0].superblock = (OLDER, 0, 2)
            origin.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S0",), False),))
        elif start == "built":
            origin = built(count)
        desired = wanted(state=choice, count=count)
        steps = len(plan(origin.observe(), desired, IDENTITIES[0]).actions)
        for first_cut, second_cut in itertools.product(range(steps), range(steps + 6)):
            if not every_order and (first_cut + second_cut) % 3 != (1, 2, 4).index(count):
                continue
            machine = copy.deepcopy(origin)
            machine.consented = choice == "absent"
            for turn, cut in enumerate((first_cut, second_cut)):
                actions = plan(machine.observe(), desired, IDENTITIES[turn]).actions
                for action in actions[:cut]:
                    machine.apply(action)
                if half and cut < len(actions):
                    machine.apply(actions[cut], half=True)
                machine.reboot()
            result = converge(machine, desired, IDENTITIES[5])
            assert not result.refusals
            assert bool(machine.mounts) == (choice == "present")


@pytest.mark.parametrize("half", [False, True])
def test_a_power_cut_in_a_rebuild_wants_the_users_word_once_more_and_no_more(half):
    origin = built(4)
    origin.drives[1] = Drive("NEW", name="nvme1n1")
    origin.reboot()
    steps = len(plan(origin.observe(), wanted(rebuild=True), IDENTITIES[0]).actions)
    refused = 0
    for cut in range(steps):
        machine = copy.deepcopy(origin)
        machine.consented = True
        actions = plan(machine.observe(), wanted(rebuild=True), IDENTITIES[0]).actions
        for action in actions[:cut]:
            machine.apply(action)
        if half:
            machine.apply(actions[cut], half=True)
        machine.reboot()
        machine.consented = False
        # As the boot unit runs it: it goes on when nothing of the old scratch is left, and leaves the rest alone.
        plain = plan(machine.observe(), wanted(), IDENTITIES[1])
        refused += bool(plain.refusals)
        converge(machine, wanted(rebuild=bool(plain.refusals)), IDENTITIES[1])
    assert 3 < refused < steps


def test_many_power_cuts_in_a_row_do_not_lose_the_proof():
    machine = blank(4)
    for turn in range(30):
        actions = plan(machine.observe(), wanted(), IDENTITIES[turn]).actions
        for action in actions:
            machine.apply(action, half=isinstance(action, act.CreateArray))
            if isinstance(action, act.CreateArray):
                break
        machine.reboot()
    assert not converge(machine, wanted(), IDENTITIES[35]).refusals
    assert len(machine.record.builds) <= 16


# Every small machine -----------------------------------------------------------------------------------

CONTENTS = (
    "blank",
    "unknown",
    "ours",
    "older",
    "foreign_md",
    "gpt",
    "volume",
    "ours_and_gpt",
    "ours_other_role",
    "foreign_volume",
    "read_only",
)


def small_machine(contents, finished, volume, assembled, remembered):
    drives = []
    for number, content in enumerate(contents):
        drive = Drive("S{0}".format(number))
        if content in ("ours", "ours_and_gpt"):
            drive.superblock = (OURS, number, len(contents))
        elif content == "ours_other_role":
            drive.superblock = (OURS, (number + 1) % len(contents), len(contents))
        elif content == "older":
            drive.superblock = (OLDER, number, len(contents))
        elif content == "foreign_md":
            drive.superblock = (FOREIGN, number, len(contents))
        elif content == "volume":
            drive.volume = Volume(SINGLE_VOLUME, in_progress=not finished, data=finished)
        elif content == "foreign_volume":
            drive.volume = Volume("9" * 32, label="data", data=True)
        if content in ("gpt", "ours_and_gpt"):
            drive.foreign = ("gpt",)
        drive.residue = content not in ("blank", "read_only")
        if content == "read_only":
            drive.extra = {"read_only": True}
        drives.append(drive)
    builds = (
        Build(OLDER, OLD_VOLUME, "xfs", ("S0", "S1"), True),
        Build(None, SINGLE_VOLUME, "xfs", ("S0",), finished),
        Build(OURS, VOLUME, "xfs", tuple(d.serial for d in drives), finished),
    )
    machine = Machine(drives, Record(builds) if remembered else None)
    proven = {"blank"} | ({"ours", "ours_other_role", "older", "volume"} if remembered else set())
    machine.protected = {d.serial for d, content in zip(drives, contents) if content not in proven}
    if volume:
        machine.volumes[OURS] = Volume(
            VOLUME, in_progress=not finished, data=finished, stripe=(512 * 1024, 512 * 1024 * len(drives))
        )
    if assembled:
        machine.reboot()
    return machine


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("volume", [True, False])
def test_every_small_machine_is_left_alone_or_brought_home(every_order, remembered, assembled, finished, volume):
    """All machines of one to three disks: the model asserts that nothing foreign is touched and no data are lost.

    `make test` has each three contents in one order of their disks, another one in each parameter set."""
    outcomes = {"refused": 0, "done": 0}
    number = 8 * remembered + 4 * assembled + 2 * finished + volume
    for size in (1, 2, 3):
        all_contents = itertools.product(CONTENTS if size < 3 else CONTENTS[:8], repeat=size)
        if size == 3 and not every_order:
            all_contents = (
                list(itertools.permutations(contents))[(place + number) % 6]
                for place, contents in enumerate(itertools.combinations_with_replacement(CONTENTS[:8], size))
            )
        for contents in all_contents:
            for options in ({}, {"count": size}, {"state": "absent"}):
                machine = small_machine(contents, finished, volume, assembled, remembered)
                before = {d.serial: (d.superblock, d.volume and d.volume.uuid, d.foreign) for d in machine.drives}
                desired = wanted(**options)
                first = plan(machine.observe(), desired, IDENTITIES[0])
                if first.refusals:
                    assert not first.actions
                    outcomes["refused"] += 1
                    continue
                try:
                    converge(machine, desired, first=first)
                except StepFailed:
                    # What is on an array shows only once it is assembled; here its file system had been wiped.
                    assert "AssembleArray" in kinds(first.actions)
                    converge(machine, desired)
                outcomes["done"] += 1
                for serial in machine.protected:
                    drive = machine.drive(serial)
                    assert (drive.superblock, drive.volume and drive.volume.uuid, drive.foreign) == before[serial]
    assert min(outcomes.values()) > (300 if every_order else 100), outcomes


# What could still be read --------------------------------------------------------------------------------

# What has become of each member of a whole, written scratch; late: it is there, and not visible now.
FATES = ("here", "late", "blank", "replaced", "dead", "wiped", "copied", "copied_and_late")


def aged(fates, extra, level, finished, volume):
    """A scratch with data after all that can happen to it."""
    count = len(fates)
    machine = Machine([Drive("S{0}".format(n), (OURS, n, count), residue=True) for n in range(count)])
    machine.volumes[OURS] = Volume(VOLUME, data=True, stripe=(512 * 1024, 512 * 1024 * count))
    machine.volumes[OURS].damaged = volume == "damaged"
    machine.record = Record((Build(OURS, VOLUME, "xfs", tuple(d.serial for d in machine.drives), finished),))
    for number, fate in enumerate(fates):
        drive = machine.drive("S{0}".format(number))
        if fate in ("late", "copied_and_late"):
            machine.late.append(drive)
        if fate in ("late", "dead", "replaced", "copied_and_late"):
            machine.drives.remove(drive)
        if fate in ("blank", "wiped"):
            drive.superblock, drive.residue = None, fate == "wiped"
        if fate == "replaced":
            machine.drives.append(Drive("NEW{0}".format(number), name=drive.name))
        if fate in ("copied", "copied_and_late"):
            machine.drives.append(
                Drive("COPY{0}".format(number), drive.superblock, residue=True, name=drive.name + "c")
            )
    if extra:
        machine.drives.insert(0, Drive("EXTRA", name="nvme9n1"))
    if level != "raid0":
        machine.levels[OURS] = "raid4"
    if level == "reshape":
        machine.reshaping.add(OURS)
    return machine


AGES = [
    (fates, extra, level, finished, volume)
    for count in (1, 2, 3)
    for fates in itertools.product(FATES if count < 3 else FATES[:4] + FATES[-1:], repeat=count)
    for extra in (False, True)
    for level in ("raid0", "raid4", "reshape")
    for finished in (True, False)
    for volume in ("sound", "damaged")
    if count < 3 or (level == "raid0" and volume == "sound")
]


@pytest.mark.parametrize("assembled", [True, False])
@pytest.mark.parametrize("option", ["plain", "as many", "as before"])
def test_nothing_that_could_still_be_read_is_erased(assembled, option):
    """The model asserts it: a member of an array whose disks are all somewhere, a file system with data."""
    built_anew = 0
    for age in AGES:
        machine = aged(*age)
        if assembled:
            machine.reboot()
        chosen = len(machine.drives)
        count = {"plain": None, "as many": max(chosen, 1), "as before": len(age[0])}[option]
        first = plan(machine.observe(), wanted(count=count), IDENTITIES[0])
        try:
            for action in first.actions:
                machine.apply(action)
        except StepFailed:
            assert "AssembleArray" in kinds(first.actions), age
        except AssertionError as error:
            raise AssertionError("{0}: {1}".format(age, error)) from error
        built_anew += "CreateArray" in kinds(first.actions)
        # The planner cannot know what is late: of a finished scratch it erases nothing, readable or not.
        assert not (age[3] and "EraseMark" in kinds(first.actions)), age
    assert built_anew > 10


# Any state at all --------------------------------------------------------------------------------------

uuids = st.sampled_from([OURS, OLDER, FOREIGN, VOLUME, SINGLE_VOLUME, "", "odd"])
maybe = st.one_of(st.none(), uuids)
names = st.sampled_from(["nvme0n1", "nvme1n1", "nvme2n1", "md127", "md126", "dm-0", ""])
tuples = st.lists(names, max_size=3).map(tuple)
kinds_of = st.sampled_from(["linux_raid_member", "xfs", "ext4", "gpt", "dos", "zfs_member", "LVM2_member", ""])
signatures = st.lists(
    st.builds(Signature, kinds_of, maybe, st.one_of(st.none(), st.just("gpu_scratch"))), max_size=2
).map(tuple)
numbers = st.one_of(st.none(), st.integers(-2, 5))
filesystems = st.one_of(
    st.none(),
    st.builds(
        Filesystem,
        st.sampled_from(["xfs", "ext4"]),
        uuids,
        st.sampled_from(["gpu_scratch", ""]),
        st.booleans(),
        numbers,
        numbers,
    ),
)
paths = st.lists(st.sampled_from(["/mnt/scratch", "/nvme", "/data"]), max_size=2).map(tuple)
disks = st.builds(
    Disk,
    name=names,
    serial=st.sampled_from(["S0", "S1", "S2", ""]),
    model=st.sampled_from([MODEL, "other"]),
    size_bytes=st.integers(-1, 3),
    transport=st.sampled_from(["pcie", "pcie", "loop", "tcp"]),
    aliases=st.just(()),
    read_only=st.booleans(),
    partitions=tuples,
    holders=tuples,
    mount_points=paths,
    swap=st.booleans(),
    busy=st.booleans(),
    openers=st.sampled_from([(), (), (), None, ("process 7 (dd)",)]),
    signatures=signatures,
    content=st.sampled_from([Content(1), Content(1), Content(1), Content(1, 0), None]),
    member=st.one_of(
        st.none(),
        st.builds(
            Member,
            uuids,
            st.just("any:gpu_node_scratch"),
            st.sampled_from(["raid0", "raid0", "raid4", None]),
            numbers,
            numbers,
            numbers,
            st.booleans(),
        ),
    ),
    filesystem=filesystems,
    read_error=st.one_of(st.none(), st.just("dead")),
)
arrays = st.builds(
    Array,
    name=names,
    uuid=maybe,
    array_name=st.sampled_from(["any:gpu_node_scratch", "x", ""]),
    level=st.sampled_from(["raid0", "raid1", None]),
    raid_devices=st.integers(0, 3),
    state=st.sampled_from(["clean", "inactive", "broken", "readonly", ""]),
    reshaping=st.booleans(),
    content=st.sampled_from([Content(1), Content(1, 0), None]),
    members=tuples,
    chunk_bytes=st.just(524288),
    size_bytes=st.just(9),
    holders=tuples,
    partitions=st.just(()),
    mount_points=paths,
    swap=st.booleans(),
    busy=st.booleans(),
    signatures=signatures,
    filesystem=filesystems,
    read_error=st.one_of(st.none(), st.just("dead")),
)
builds = st.builds(
    Build,
    st.one_of(st.none(), st.just(OURS), st.just(OLDER)),
    uuids,
    st.sampled_from(["xfs", "ext4"]),
    st.just(("S0", "S1")),
    st.booleans(),
)
states = st.builds(
    State,
    disks=st.lists(disks, max_size=4).map(tuple),
    arrays=st.lists(arrays, max_size=3).map(tuple),
    mounts=st.lists(
        st.builds(
            Mount,
            st.sampled_from(["/mnt/scratch", "/nvme"]),
            st.one_of(st.none(), names),
            st.just("xfs"),
            st.booleans(),
            st.just("x"),
            st.booleans(),
            tuples,
        ),
        max_size=2,
    ).map(tuple),
    mount_point=st.one_of(
        st.none(),
        st.builds(
            MountPoint,
            st.just("/mnt/scratch"),
            st.sampled_from(["missing", "folder", "file", "symlink", "blocked", "?"]),
            st.booleans(),
        ),
    ),
    fstab=st.one_of(
        st.none(),
        st.text(max_size=40),
        st.sampled_from(["UUID=" + VOLUME + " /mnt/scratch xfs nofail 0 0", "x /y z x-gpu-node.scratch"]),
    ),
    record=st.one_of(
        st.none(),
        st.builds(Record, st.lists(builds, max_size=3).map(tuple), st.one_of(st.none(), st.just("/mnt/scratch"))),
    ),
    record_error=st.sampled_from([None, None, None, "broken"]),
    machine=st.sampled_from([None, "dmi:1"]),
    others=st.lists(builds, max_size=1).map(tuple),
    owner=numbers,
    group=numbers,
)
desireds = st.builds(
    wanted,
    state=st.sampled_from(["present", "present", "absent"]),
    count=st.one_of(st.none(), st.integers(1, 4)),
    adopt=st.booleans(),
    overwrite_serials=st.sampled_from([[], ["S0"]]),
    rebuild=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(states, desireds)
def test_no_state_crashes_the_planner_and_no_action_names_an_unproven_disk(state, desired):
    result = plan(state, desired, IDENTITIES[0])
    assert not (result.actions and result.refusals)
    assert result == plan(state, desired, IDENTITIES[0])
    record = state.record or Record()
    ours_arrays = {build.array_uuid for build in record.builds}
    ours_volumes = {build.filesystem_uuid for build in record.builds}
    for action in result.actions:
        action.to_dict()
        if isinstance(action, act.EraseMark) and desired.present and not desired.rebuild:
            mark = action.array_uuid or action.filesystem_uuid
            assert mark not in {b.array_uuid or b.filesystem_uuid for b in record.builds if b.finished}
        if isinstance(action, act.MakeFilesystem):
            assert not any(b.finished and b.filesystem_uuid == action.filesystem_uuid for b in record.builds)
        if isinstance(action, act.EraseMark):
            disk = next(d for d in state.disks if d.serial == action.serial and d.name == action.name)
            assert len(disk.signatures) == 1 and not disk.partitions and not disk.swap and not disk.read_only
            mark = disk.signatures[0].uuid
            assert (action.array_uuid in ours_arrays and mark == action.array_uuid) or (
                action.filesystem_uuid in ours_volumes and mark == action.filesystem_uuid
            )
        elif isinstance(action, act.CreateArray):
            erased = {a.serial for a in result.actions if isinstance(a, act.EraseMark)}
            for serial, name in zip(action.serials, action.names):
                disk = next(d for d in state.disks if d.serial == serial and d.name == name)
                assert disk.model == MODEL and not disk.partitions and not disk.read_only and disk.size_bytes > 0
                assert not disk.signatures or serial in erased
                cleared = serial in desired.overwrite_serials and disk.content is not None
                assert disk.content == Content(1) or serial in erased or cleared
                assert disk.openers == () or serial in erased
                stopped = {a.name for a in result.actions if isinstance(a, act.StopArray)}
                assert not set(disk.holders) - stopped
        elif isinstance(action, act.StopArray):
            assert action.array_uuid in ours_arrays
        elif isinstance(action, act.EraseFilesystem):
            assert action.array_uuid in ours_arrays and action.filesystem_uuid in ours_volumes


# --- found by somebody who tried to have another's data erased


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("remote", [{"transport": "tcp"}, {"model": "Amazon Elastic Block Store"}], ids=["tcp", "ebs"])
def test_a_disk_that_another_machine_may_have_is_never_mounted(count, remote):
    """By its label alone, with the record lost, it would get a second writer."""
    m = built(count)
    m.record, m.declared, m.fstab = None, {}, "# empty\n"
    wish = wanted(models=["Amazon*"]) if "model" in remote else wanted()
    mounts = dict(m.mounts)
    for mounted in ({}, mounts):
        m.mounts = dict(mounted)
        state = m.observe()
        state = dataclasses.replace(state, disks=tuple(dataclasses.replace(disk, **remote) for disk in state.disks))
        found = plan(state, wish, IDENTITIES[0])
        assert found.refusals and not found.actions, found


def test_an_array_that_nobody_has_looked_into_is_not_erased():
    m = built()
    m.mounts.clear()
    m.arrays.clear()
    found = plan(m.observe(), wanted(state="absent"), IDENTITIES[0])
    assert "it is not assembled, so its content is unknown" in str(found.refusals[0])
    # Of one that is not whole nobody can have the data back.
    m.drives = m.drives[1:]
    assert not plan(m.observe(), wanted(state="absent"), IDENTITIES[0]).refusals


def test_a_machine_that_does_not_know_itself_forgets_nothing():
    m = built()
    m.machine = None
    found = plan(m.observe(), wanted(state="absent"), IDENTITIES[0])
    assert "nobody knows whether what is recorded is its own" in str(found.refusals[0]) and not found.actions


@pytest.mark.parametrize("by", ["tmpfs (tmpfs) at /mnt", "tmpfs (tmpfs) at /mnt/scratch"])
def test_a_scratch_that_nothing_reaches_is_no_scratch(by):
    state = built().observe()
    mounts = tuple(dataclasses.replace(mount, covered_by=(by,), hidden_by=(by,)) for mount in state.mounts)
    found = plan(dataclasses.replace(state, mounts=mounts), wanted(), IDENTITIES[0])
    assert str(found.refusals[0]).startswith(
        "/mnt/scratch: something is mounted over our file system, so that nothing reaches it: " + by
    )
    # What is mounted inside of it is in nobody's way.
    inside = tuple(
        dataclasses.replace(mount, covered_by=("overlay (overlay) at /mnt/scratch/a",)) for mount in state.mounts
    )
    assert plan(dataclasses.replace(state, mounts=inside), wanted(), IDENTITIES[0]) == plan(
        state, wanted(), IDENTITIES[0]
    )


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_mark_of_ours_whose_superblock_did_not_come_is_not_erased(rebuild):
    m = built()
    m.mounts.clear()
    state = m.observe()
    arrays = tuple(dataclasses.replace(array, filesystem=None) for array in state.arrays)
    found = plan(dataclasses.replace(state, arrays=arrays), wanted(rebuild=rebuild), IDENTITIES[0])
    assert "its superblock could not be read" in str(found.refusals[0]) and not found.actions


def test_a_move_that_could_not_unmount_is_tried_again():
    """A busy file system would stand at both places from then on, and nobody would say so."""
    m = built()
    wish = wanted(mount_point="/mnt/other")
    first = plan(m.observe("/mnt/other"), wish, IDENTITIES[0])
    for step in first.actions:
        if isinstance(step, act.Unmount):
            break  # busy
        m.apply(step)
    second = plan(m.observe("/mnt/other"), wish, IDENTITIES[1])
    assert any(isinstance(step, act.Unmount) for step in second.actions)
    for step in second.actions:
        m.apply(step)
    assert list(m.mounts) == ["/mnt/other"] and m.record.mount_point == "/mnt/other"
    assert not plan(m.observe("/mnt/other"), wish, IDENTITIES[2]).actions
