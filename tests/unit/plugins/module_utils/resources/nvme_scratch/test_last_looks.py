# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each step proves right before it writes, one condition at a time: the world may have changed since the plan."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import (
    apply,
    devices,
    observe,
    samples,
    writer,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.builds import judge_builds
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.disks import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Content,
    Filesystem,
    Member,
    Signature,
)

sys.path.insert(0, str(Path(__file__).parent))

from scratch_wishes import IDENTITIES, built, plan, wanted

OURS, THEIRS = "a" * 32, "b" * 32
WISH = of(Desired, {"models": ["M"]})
CREATE = act.CreateArray(OURS, "scratch", 512, ("a", "b"), ("a", "b"))
MKFS = act.MakeFilesystem("xfs", OURS, "gpu_scratch", serial="a")
ARRAY_MARK = (Signature("linux_raid_member", OURS),)


class World:
    """A node on which all is as it was planned; a test changes one thing. ``done`` is what was written."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch
        self.done = []
        self.step = writer.Writer(Host("/nowhere"), 1.0)
        monkeypatch.setattr(Host, "run", lambda host, argv, *rest, **more: self.done.append(argv[0]))
        monkeypatch.setattr(writer, "settle", lambda host: None)
        monkeypatch.setattr(writer, "disk_path", lambda host, serial: "/dev/" + serial)
        monkeypatch.setattr(writer, "array_path", lambda *arguments, **options: "/dev/md127")
        monkeypatch.setattr(writer, "sync_device", lambda host, path: self.done.append("sync"))
        monkeypatch.setattr(samples, "clear", lambda path, size: self.done.append("clear"))
        monkeypatch.setattr(samples, "look", lambda path, size: Content(1 << 30))
        monkeypatch.setattr(writer.proof, "demand", lambda *arguments: None)
        monkeypatch.setattr(writer.proof, "nobody", lambda *arguments: None)
        for name, answer in {
            "signatures": (),
            "examined": {},
            "holders": (),
            "in_use": False,
            "size_bytes": 1 << 30,
            "filesystem": None,
            "array_names": ["md127"],
            "array_detail": (OURS, "any:scratch"),
            "array_members": (),
            "disk_names": [],
        }.items():
            self.has(name, answer)

    def has(self, name, answer):
        module = writer.disks if hasattr(writer.disks, name) else observe
        self.patch.setattr(module, name, lambda *arguments, answer=answer: answer)


@pytest.fixture(name="world")
def _world(monkeypatch):
    return World(monkeypatch)


def test_what_the_plan_saw_is_done(world):
    world.step.create(CREATE)
    world.step.make_filesystem(MKFS)
    world.step.clear(act.ClearDisk("a", "a"))
    # What mkfs wrote is on the medium before the record says so.
    assert world.done == ["mdadm", "mkfs.xfs", "sync", "clear"]


@pytest.mark.parametrize(
    "step, changes, said",
    [
        (("create", CREATE), {"holders": ("dm-0",)}, "dm-0 is built on it"),
        (("create", CREATE), {"in_use": True}, "it is still in use"),
        (("create", CREATE), {"signatures": (Signature("ext4", THEIRS),)}, "it carries ext4 data"),
        (("make_filesystem", MKFS), {"in_use": True}, "it is still in use"),
        (("make_filesystem", MKFS), {"holders": ("dm-0",)}, "dm-0 is built on it"),
        (("make_filesystem", MKFS), {"signatures": (Signature("ext4", THEIRS),)}, "it carries ext4 data"),
        (("clear", act.ClearDisk("a", "a")), {"signatures": (Signature("ext4", THEIRS),)}, "it carries ext4 data"),
        (("clear", act.ClearDisk("a", "a")), {"in_use": True}, "it is still in use"),
        (("stop", act.StopArray(OURS, "md127")), {"array_detail": (THEIRS, "any:x")}, "it is not our array any more"),
        (
            ("erase_mark", act.EraseMark("a", "a", OURS)),
            {"signatures": ARRAY_MARK, "examined": {"/dev/a": Member(THEIRS)}},
            "its superblock is not that of our array any more",
        ),
        (
            ("erase_mark", act.EraseMark("a", "a", OURS)),
            {"signatures": (*ARRAY_MARK, Signature("ext4", THEIRS)), "examined": {"/dev/a": Member(OURS)}},
            "it does not carry our mark alone any more",
        ),
        (
            ("erase_filesystem", act.EraseFilesystem(OURS, OURS)),
            {"signatures": (Signature("xfs", THEIRS),)},
            "it contains xfs data of another owner",
        ),
    ],
)
def test_one_thing_that_changed_stops_the_step(world, step, changes, said):
    for name, answer in changes.items():
        world.has(name, answer)
    name, action = step
    with pytest.raises(NodeError, match=said):
        getattr(world.step, name)(action)
    assert world.done == []


# --- which device it is
def test_two_disks_of_one_serial_are_none(world):
    world.has("disk_names", ["nvme0n1", "nvme1n1"])
    world.has("serial_of", "S")
    with pytest.raises(NodeError, match="2 disks bear this serial number"):
        devices.disk_path(Host("/nowhere"), "S")


@pytest.mark.parametrize(
    "state, found", [("clean", "/dev/md127"), ("inactive", None), ("clear", None), ("broken", None)]
)
def test_an_array_that_does_not_run_is_none(world, tmp_path, state, found):
    folder = tmp_path / "sys/block/md127/md"
    folder.mkdir(parents=True)
    (folder / "array_state").write_text(state + "\n")
    assert devices.array_path(Host(str(tmp_path)), OURS, running=True) == found
    assert devices.array_path(Host(str(tmp_path)), OURS) == "/dev/md127"


def test_a_disk_is_blank_when_both_programs_find_nothing(monkeypatch):
    answers = {"wipefs": (0, ""), "blkid": (0, "TYPE=ext4\nUUID=2f0e9f5e-3c5a-4d2b-9a55-1f0d2f6f3a11\n")}
    monkeypatch.setattr(Host, "run", lambda host, argv, *rest, **more: Completed(tuple(argv), *answers[argv[0]], ""))
    (found,) = observe.signatures(Host(), "/dev/x")
    assert found.type == "ext4"
    answers["blkid"] = (8, "")
    assert observe.signatures(Host(), "/dev/x")[0].type == "ambivalent content"
    answers["blkid"] = (2, "")
    assert observe.signatures(Host(), "/dev/x") == ()


def test_what_is_mounted_bears_our_uuid(world):
    step = act.MountFilesystem(OURS, "xfs", "/mnt/scratch", ("noatime",), serial="a")
    world.patch.setattr(apply, "disk_path", lambda host, serial: "/dev/" + serial)
    for seen in (None, Filesystem("xfs", THEIRS, "gpu_scratch")):
        world.has("filesystem", seen)
        with pytest.raises(NodeError, match="it does not carry our file system"):
            apply.STEPS[act.MountFilesystem](Host("/nowhere"), step, WISH)
    assert world.done == []


def test_the_root_of_a_mount_that_has_gone_is_a_folder_of_somebody(tmp_path):
    folder = tmp_path / "mnt"
    folder.mkdir(mode=0o700)
    with pytest.raises(NodeError, match="it is not mounted any more"):
        apply.STEPS[act.SetRoot](Host(), act.SetRoot(str(folder), None, None, 0o1777), WISH)
    assert os.stat(str(folder)).st_mode & 0o7777 == 0o700


# --- the plan
def complete(state):
    """The complete arrays and single disks of ours."""
    return judge_builds(judge(state, wanted()))[0]


def test_an_array_is_whole_with_all_of_its_disks_and_nothing_else_on_them():
    machine = built(3)
    state = machine.observe()
    assert complete(state)
    # The kernel has the array, and one of its members is no disk that we see.
    assert not complete(dataclasses.replace(state, disks=state.disks[1:]))
    machine.mounts.clear()
    machine.arrays.clear()
    state = machine.observe()
    assert complete(state)
    first = state.disks[0]
    for more in (
        {"signatures": (*first.signatures, Signature("ext4", THEIRS))},
        {"partitions": (first.name + "p1",)},
        {"read_only": True},
        {"read_error": "EIO"},
    ):
        disks = (dataclasses.replace(first, **more), *state.disks[1:])
        assert not complete(dataclasses.replace(state, disks=disks)), more


def test_a_folder_of_a_file_system_is_not_the_file_system():
    """A bind mount of a folder at the mount point: neither ours that stands there, nor one to take over."""
    state = built().observe()
    bound = tuple(dataclasses.replace(mount, whole=False) for mount in state.mounts)
    found = plan(dataclasses.replace(state, mounts=bound), wanted(), IDENTITIES[0])
    assert "is mounted there" in str(found.refusals[0]) and not found.actions
    other = built(1)
    other.record, other.drives[0].volume.label = None, "theirs"
    state = other.observe()
    assert "it is used as it is" in plan(state, wanted(), IDENTITIES[0]).notes[0]
    bound = tuple(dataclasses.replace(mount, whole=False) for mount in state.mounts)
    assert plan(dataclasses.replace(state, mounts=bound), wanted(), IDENTITIES[0]).refusals


@pytest.mark.parametrize(
    "remote", [{"transport": "rdma"}, {"model": "Amazon Elastic Block Store"}], ids=["rdma", "ebs"]
)
def test_a_mount_of_somebody_on_a_disk_that_is_not_local_is_no_scratch(remote):
    machine = built(1)
    machine.record, machine.fstab, machine.drives[0].volume.label = None, "# empty\n", "theirs"
    state = machine.observe()
    disks = tuple(dataclasses.replace(disk, **remote) for disk in state.disks)
    wish = wanted(models=["Amazon*"]) if "model" in remote else wanted()
    found = plan(dataclasses.replace(state, disks=disks), wish, IDENTITIES[0])
    assert found.refusals and not found.actions and not found.notes, found


def test_absent_asks_of_each_disk_whether_it_may_be_touched():
    machine = built(1)
    machine.mounts.clear()
    state = machine.observe()
    disks = (dataclasses.replace(state.disks[0], swap=True),)
    found = plan(dataclasses.replace(state, disks=disks), wanted(state="absent"), IDENTITIES[0])
    assert "it is in use as swap space" in str(found.refusals[0]) and not found.actions


def test_blank_disks_of_a_rebuild_are_looked_at_once_more_before_any_is_erased():
    machine = built(3)
    machine.mounts.clear()
    machine.arrays.clear()
    machine.drives[0].superblock = None
    machine.drives[0].residue = False
    found = plan(machine.observe(), wanted(rebuild=True), IDENTITIES[1])
    (check,) = [step for step in found.actions if isinstance(step, act.CheckDisks)]
    assert check.blank == (machine.drives[0].serial,) and len(check.marks) == 2


def test_a_superblock_of_ours_in_another_array_of_ours_is_no_proof():
    machine = built(3)
    state = machine.observe()
    build = machine.record.builds[-1]
    second = dataclasses.replace(build, array_uuid="d" * 32, filesystem_uuid="e" * 32)
    record = dataclasses.replace(machine.record, builds=(second, build))
    arrays = tuple(dataclasses.replace(array, uuid="d" * 32) for array in state.arrays)
    found = judge(dataclasses.replace(state, record=record, arrays=arrays), wanted()).disks[0].reason
    assert found is not None and "its superblock and the running array differ" in found.reason
