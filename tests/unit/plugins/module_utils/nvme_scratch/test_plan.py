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
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch.desired import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch.types import (
    Array,
    Build,
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

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import MODEL, Drive, Machine, StepFailed, Volume

OURS = "a" * 32
OLDER = "b" * 32
FOREIGN = "c" * 32
VOLUME = "1" * 32
OLD_VOLUME = "2" * 32
SINGLE_VOLUME = "3" * 32
IDENTITIES = [Identity("d{0:031x}".format(n), "e{0:031x}".format(n)) for n in range(40)]


def wanted(**options):
    return Desired.from_options(dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))


def converge(machine, desired, identity=IDENTITIES[0]):
    """One run; gives the plan. The plan against the new state has to be empty."""
    first = plan(machine.observe(), desired, identity)
    for action in first.actions:
        machine.apply(action)
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
    return text


# The plain ways ----------------------------------------------------------------------------------------


def test_blank_disks_become_one_mounted_array_and_the_second_plan_is_empty():
    machine = blank(8)
    first = converge(machine, wanted(count=8))
    assert kinds(first.actions) == [
        "Declare",
        "WriteRecord",
        "CreateArray",
        "MakeFilesystem",
        "WriteRecord",
        "MakeFolder",
        "EditFstab",
        "MountFilesystem",
        "SetRoot",
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
    assert result.skipped and "MSFT NVMe Accelerator v1.0 (nvme0n1)" in result.skipped and not result.actions


@pytest.mark.parametrize("options", [{"count": 8}, {"require_disks": True}])
def test_no_disk_is_refused_when_disks_are_required(options):
    says(plan(State(), wanted(**options), IDENTITIES[0]), "found 0")


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
        drive.superblock, drive.serial = None, "NEW{0}".format(number)
    machine.volumes.clear()
    machine.reboot()
    converge(machine, wanted())
    assert machine.fstab != old and machine.fstab.count("/mnt/scratch") == 1
    assert machine.mounts == {"/mnt/scratch": "md127"}


# Refusals ----------------------------------------------------------------------------------------------


def test_seven_of_eight_is_refused_with_and_without_a_count():
    machine = built(8)
    machine.drives.pop(3)
    machine.reboot()
    for options in ({"count": 8}, {}):
        says(plan(machine.observe(), wanted(**options), IDENTITIES[0]), "expected 8, found 7", "count")


def test_seven_of_eight_is_rebuilt_only_when_the_user_says_seven():
    machine = built(8)
    machine.drives.pop(3)
    machine.reboot()
    first = converge(machine, wanted(count=7))
    assert kinds(first.actions).count("EraseMark") == 7
    assert "data are lost already" in first.notes[0]


def test_a_replaced_blank_disk_among_ours_leads_to_a_rebuild():
    machine = built(4)
    machine.drives[2] = Drive("NEW", name="nvme2n1")
    machine.reboot()
    assert "CreateArray" in kinds(converge(machine, wanted()).actions)


def test_a_disk_that_is_stale_from_an_older_build_is_erased_and_used():
    machine = blank(3)
    machine.drives[1].superblock = (OLDER, 0, 2)
    machine.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S1", "S9"), True),))
    first = converge(machine, wanted(count=3))
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
    assert kinds(first.actions) == ["Declare", "WriteRecord", "EditFstab", "MountFilesystem", "SetRoot"]
    assert machine.record.builds[-1].finished


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
        "Declare", "WriteRecord", "Unmount", "MakeFolder", "EditFstab", "MountFilesystem", "SetRoot"
    ]  # fmt: skip


def test_new_mount_options_take_effect_at_once():
    machine = built()
    result = plan(machine.observe(), wanted(mount_options=["noatime", "largeio"]), IDENTITIES[0])
    assert kinds(result.actions) == ["Declare", "MountFilesystem", "EditFstab"] and result.actions[1].remount


# Power cuts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("start", ["blank", "stale", "built"])
def test_a_power_cut_at_any_step_is_made_good_by_the_next_run(count, half, start):
    """present from three starts, and absent: cut at each step, twice in a row, then converge."""
    for choice in ("present", "absent"):
        origin = blank(count)
        if start == "stale":
            origin.drives[0].superblock = (OLDER, 0, 3)
            origin.record = Record((Build(OLDER, OLD_VOLUME, "xfs", ("S0", "X", "Y"), True),))
        elif start == "built":
            origin = built(count)
        desired = wanted(state=choice, count=count)
        steps = len(plan(origin.observe(), desired, IDENTITIES[0]).actions)
        for first_cut, second_cut in itertools.product(range(steps), range(steps + 6)):
            machine = copy.deepcopy(origin)
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
def test_every_small_machine_is_left_alone_or_brought_home(remembered, assembled, finished, volume):
    """All machines of one to three disks: the model asserts that nothing foreign is touched and no data are lost."""
    outcomes = {"refused": 0, "done": 0}
    for size in (1, 2, 3):
        for contents in itertools.product(CONTENTS if size < 3 else CONTENTS[:7], repeat=size):
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
                    converge(machine, desired)
                except StepFailed:
                    # What is on an array shows only once it is assembled; here its file system had been wiped.
                    assert "AssembleArray" in kinds(first.actions)
                    converge(machine, desired)
                outcomes["done"] += 1
                for serial in machine.protected:
                    drive = machine.drive(serial)
                    assert (drive.superblock, drive.volume and drive.volume.uuid, drive.foreign) == before[serial]
    assert outcomes["refused"] > 300 and outcomes["done"] > 300


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
    signatures=signatures,
    member=st.one_of(
        st.none(),
        st.builds(
            Member, uuids, st.just("any:gpu_node_scratch"), st.sampled_from(["raid0", None]), numbers, numbers, numbers
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
    state=st.sampled_from(["clean", "inactive", "broken", ""]),
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
    owner=numbers,
    group=numbers,
)
desireds = st.builds(
    wanted,
    state=st.sampled_from(["present", "present", "absent"]),
    count=st.one_of(st.none(), st.integers(1, 4)),
    adopt=st.booleans(),
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
                stopped = {a.name for a in result.actions if isinstance(a, act.StopArray)}
                assert not set(disk.holders) - stopped
        elif isinstance(action, act.StopArray):
            assert action.array_uuid in ours_arrays
        elif isinstance(action, act.EraseFilesystem):
            assert action.array_uuid in ours_arrays and action.filesystem_uuid in ours_volumes
