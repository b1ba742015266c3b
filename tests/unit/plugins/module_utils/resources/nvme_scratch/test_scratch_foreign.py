# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data, disks, mounts and options that are not ours: the planner refuses and names them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Content,
    Member,
    Mount,
    MountPoint,
)

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import Drive, Volume
from scratch_wishes import FOREIGN, IDENTITIES, blank, built, converge, kinds, plan, says, wanted

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
