# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are lost, replaced, copied or unfinished: what the planner refuses, and what consent allows."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Member

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import Drive, StepFailed, Volume
from scratch_wishes import (
    IDENTITIES,
    OLD_VOLUME,
    OLDER,
    OURS,
    VOLUME,
    blank,
    built,
    converge,
    kinds,
    plan,
    says,
    wanted,
)

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
