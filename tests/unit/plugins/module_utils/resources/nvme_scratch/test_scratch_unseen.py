# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing on an array of ours is erased before its signatures were read; no remedy destroys data of another owner."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Array,
    Content,
    Disk,
    Filesystem,
    Identity,
    Member,
    MountPoint,
    Signature,
    State,
)

sys.path.insert(0, str(Path(__file__).parent))
from scratch_wishes import plan

OURS, VOLUME, THEIRS = "a" * 32, "1" * 32, "9" * 32
MODEL = "Microsoft NVMe Direct Disk"
LEVELS = ("raid0", "raid4", "linear", None)
READABLE = ("clean", "readonly")
RUNS = (*READABLE, "broken")
STATES = (*READABLE, "inactive", "broken", "none")
ON_IT = {
    "ours": Signature("xfs", VOLUME),
    "ext4": Signature("ext4", THEIRS, "theirs"),
    "table": Signature("gpt"),
    "lvm": Signature("LVM2_member", "odd"),
    "luks": Signature("crypto_LUKS", THEIRS),
    "md": Signature("linux_raid_member", THEIRS),
    "bcache": Signature("bcache", THEIRS),
}
DESTROYS = ("wipe", "erase", "xfs_repair", "e2fsck", "rebuild", "absent", "zero-superblock", "take it out", "take that")


def node(level, state, on_it, missing=0, finished=True, reshaping=False, spare=None, serials=2):
    """Our array after a user changed it. ``missing``: members that are gone; ``spare``: a disk added to it."""
    disks = []
    for number in range(serials - missing + (spare is not None)):
        member = Member(OURS, "any:gpu_node_scratch", level, serials + (spare is not None), number, 524288, reshaping)
        disks.append(
            Disk(
                "nvme{0}n1".format(number),
                "S{0}".format(number) if number < serials else spare,
                MODEL,
                10**9,
                holders=("md127",) if state != "none" else (),
                openers=(),
                signatures=(Signature("linux_raid_member", OURS),),
                member=member,
            )
        )
    arrays = ()
    if state != "none":
        # Signatures are read on each array that runs, also without a member.
        shown = (ON_IT[on_it],) if state in RUNS and on_it else ()
        inside = Filesystem("xfs", VOLUME, "gpu_scratch") if shown == (ON_IT["ours"],) else None
        arrays = (
            Array(
                "md127",
                OURS,
                "any:gpu_node_scratch",
                level if state in READABLE else None,
                len(disks) + missing,
                state,
                tuple(disk.name for disk in disks),
                524288,
                10**9,
                reshaping=reshaping,
                signatures=shown,
                filesystem=inside,
                content=None if shown else Content(4096, 0),
            ),
        )
    build = Build(OURS, VOLUME, "xfs", tuple("S{0}".format(n) for n in range(serials)), finished)
    point = MountPoint("/mnt/scratch", "folder")
    return State(tuple(disks), arrays, mount_point=point, fstab="", record=Record((build,)), machine="dmi:1")


def planned(node_state, **options):
    desired = of(Desired, dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))
    return plan(node_state, desired, Identity("d" * 32, "e" * 32))


def erases(found):
    # mkfs looks at the device itself: it writes to a blank one, or over a mkfs of ours that did not end.
    kinds = (act.EraseMark, act.EraseFilesystem, act.ClearDisk, act.CreateArray)
    return [action for action in found.actions if isinstance(action, kinds)]


EVERY = list(itertools.product(LEVELS, STATES, (*ON_IT, None), (0, 1), (True, False), (True, False)))


@pytest.mark.parametrize(
    "options", [{"state": "absent"}, {"rebuild": True}, {"rebuild": True, "count": 1}, {}], ids=str
)
def test_nothing_is_erased_that_was_not_read_or_belongs_to_another_owner(options):
    erased = 0
    for case in EVERY:
        level, state, on_it, missing, finished, reshaping = case
        found = planned(node(*case), **options)
        assert not (found.refusals and found.actions), case
        unseen = state not in READABLE and (level != "raid0" or reshaping or not missing)
        foreign = state in RUNS and on_it not in ("ours", None)
        if unseen or foreign:
            assert not erases(found), case
            # An unseen array of ours that is whole may be assembled, which shows what is on it.
            assembles = any(isinstance(action, act.AssembleArray) for action in found.actions)
            assert found.refusals or (assembles and unseen), case
        erased += bool(erases(found))
    assert erased > 10 or not options


@pytest.mark.parametrize("options", [{"state": "absent"}, {"rebuild": True}, {}, {"count": 3}], ids=str)
@pytest.mark.parametrize("spare", [None, "NEW"])
def test_no_remedy_destroys_while_another_owner_or_a_reshape_is_there(options, spare):
    told = 0
    for case in EVERY:
        level, state, on_it, missing, finished, reshaping = case
        seen = node(*case, spare=spare)
        if not (reshaping or (state in READABLE and on_it not in ("ours", None))):
            continue
        for refusal in planned(seen, **options).refusals:
            # A wrong number of disks is one more refusal: it names an option, and rebuild with consent to a loss.
            if refusal.thing == "local NVMe disks" and not reshaping:
                continue
            told += 1
            assert not any(word in refusal.remedy for word in DESTROYS), (case, str(refusal))
    assert told > 100


HELD = ("process 499 (mdadm)",)


@pytest.mark.parametrize("on_it", ["ours", "ext4"])
@pytest.mark.parametrize("spare", [None, "NEW"])
@pytest.mark.parametrize("options", [{"state": "absent"}, {"rebuild": True}, {}, {"count": 3}], ids=str)
def test_a_reshape_is_the_only_refusal_until_it_has_ended(options, spare, on_it):
    """mdadm holds the disks open meanwhile: to end that process destroys data."""
    seen = node("raid4", "clean", on_it, reshaping=True, spare=spare)
    held = replaced(seen, disks=tuple(replaced(disk, openers=HELD) for disk in seen.disks))
    (refusal,) = planned(held, **options).refusals
    assert "a reshape has begun on it" in refusal.reason
    assert "wait until the reshape or recovery has ended" in refusal.remedy
    assert "mdadm --grow --continue /dev/md127" in refusal.remedy


def test_a_reshape_that_was_stopped_is_assembled_first():
    (refusal,) = planned(node("raid4", "none", None, reshaping=True, spare="NEW"), state="absent").refusals
    assert "assemble it (mdadm --assemble --scan)" in refusal.remedy and "wait" not in refusal.remedy


def test_without_a_reshape_a_process_that_holds_a_disk_is_named():
    seen = node("raid0", "clean", "ours")
    held = replaced(seen, disks=tuple(replaced(disk, openers=HELD) for disk in seen.disks))
    assert "process 499 (mdadm) holds it open" in str(planned(held, state="absent").refusals[0])
    assert planned(seen, state="absent").actions


@pytest.mark.parametrize("options", [{"state": "absent"}, {"rebuild": True}, {}], ids=str)
def test_an_array_that_could_not_be_read_has_nothing_to_move(options):
    seen = node("raid4", "clean", None)
    failed = replaced(seen.arrays[0], content=None, read_error="did not end within 30 s")
    refusals = planned(replaced(seen, arrays=(failed,)), **options).refusals
    assert refusals and all("could not be read" in one.reason for one in refusals)
    assert all("kernel log" in one.remedy and "move it" not in one.remedy for one in refusals)


def test_our_complete_array_is_still_removed():
    assert len(planned(node("raid0", "clean", "ours"), state="absent").actions) > 3


MARK = Signature("linux_raid_member", OURS)


@pytest.mark.parametrize("on_it", ["ours", None])
@pytest.mark.parametrize("found", [(MARK, Signature("dos")), (Signature("gpt"),), (Signature("LVM2_member", THEIRS),)])
def test_a_member_of_a_running_array_that_carries_something_else_is_not_written_to(found, on_it):
    seen = node("raid0", "clean", on_it)
    state = replaced(seen, disks=(replaced(seen.disks[0], signatures=found), *seen.disks[1:]))
    (refusal,) = planned(state, state="absent").refusals
    assert "S0" in refusal.thing
    for options in ({}, {"rebuild": True}):
        assert not erases(planned(state, **options))


@pytest.mark.parametrize("options", [{}, {"rebuild": True}], ids=str)
@pytest.mark.parametrize("state", ["clean", "inactive", "none"])
@pytest.mark.parametrize(
    "change",
    [
        {"signatures": (MARK, Signature("dos"))},
        {"signatures": (Signature("gpt"),)},
        {"signatures": (Signature("LVM2_member", THEIRS),)},
        {"partitions": ("nvme0n1p1",)},
    ],
    ids=str,
)
def test_a_build_that_did_not_end_is_not_continued_over_a_member_that_carries_something_else(change, state, options):
    seen = node("raid0", state, None, finished=False)
    blank = replaced(seen, arrays=tuple(replaced(array, content=Content(4096)) for array in seen.arrays))
    assert planned(blank, **options).actions
    found = planned(replaced(blank, disks=(replaced(blank.disks[0], **change), *blank.disks[1:])), **options)
    assert not found.actions and any("S0" in refusal.thing for refusal in found.refusals), found


def test_a_member_of_a_running_array_that_cannot_be_read_does_not_stop_absent():
    seen = node("raid0", "clean", "ours")
    for change in ({"signatures": (), "read_error": "Input/output error"}, {"signatures": ()}):
        state = replaced(seen, disks=(replaced(seen.disks[0], **change), *seen.disks[1:]))
        assert erases(planned(state, state="absent")), change


def test_what_remains_of_an_array_that_lacks_a_disk_can_still_be_given_up():
    state = node("raid0", "inactive", None, missing=1)
    assert erases(planned(state, state="absent"))
    assert erases(planned(state, rebuild=True))


def test_a_broken_array_with_an_unknown_mount_is_not_given_up():
    found = node("raid0", "broken", None, missing=1)
    mounted = replaced(found, arrays=(replaced(found.arrays[0], mount_points=("/data",)),))
    for options in ({"state": "absent"}, {"rebuild": True, "count": 1}):
        (refusal,) = planned(mounted, **options).refusals[:1]
        assert "/data" in refusal.reason and not erases(planned(mounted, **options))
        assert erases(planned(found, **options)), "one without a mount can be given up"
