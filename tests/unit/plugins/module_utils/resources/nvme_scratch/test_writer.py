# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What writes to a device, on loop devices with real XFS: it looks once more, and stops where the plan is outdated."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import (
    apply,
    mounted,
    observe,
    proof,
    samples,
    writer,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.apply import STEPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.disks import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.mount import plan as plan_mount
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Content,
    Filesystem,
    Member,
    Mount,
    Signature,
    State,
    filesystem_form,
)

OURS = "a" * 32
SIZE = 400 << 20
WISH = of(Desired, {"models": ["M"]})
TOOLS = ("losetup", "mkfs.xfs", "xfs_db", "xfs_io", "xfs_repair")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def held_by(holders):
    return lambda dummy, disks: {name: holders for name, partitions in disks}


def sh(*argv, **options):
    return subprocess.run(argv, check=True, env=dict(os.environ, PATH=PATH), capture_output=True, text=True, **options)


def lacks():
    gone = [tool for tool in TOOLS if shutil.which(tool, path=PATH) is None]
    if os.geteuid() != 0:
        return "needs root for loop devices"
    if gone:
        return "needs {0} on this machine".format(", ".join(gone))
    if not os.path.exists("/dev/loop-control"):
        return "needs loop devices"
    return "xfs" not in open("/proc/filesystems").read() and "needs XFS in this kernel"


real = pytest.mark.skipif(bool(lacks()), reason=str(lacks()))


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A blank loop device that stands for the disk with serial S."""
    image = tmp_path / "image"
    with open(str(image), "wb") as stream:
        stream.truncate(SIZE)
    path = sh("losetup", "--find", "--show", str(image)).stdout.strip()
    monkeypatch.setattr(writer, "disk_path", lambda host, serial: path)
    # test_openers.py shows this; in some containers not even root may ask all processes.
    monkeypatch.setattr(writer.proof, "who", held_by(()))
    try:
        yield path
    finally:
        sh("losetup", "--detach", path)


def mkfs_step(uuid=OURS):
    return act.MakeFilesystem("xfs", uuid, "gpu_scratch", serial="S")


def made(path, uuid=OURS):
    sh("mkfs.xfs", "-q", "-f", "-K", "-m", "uuid=" + filesystem_form(uuid), "-L", "gpu_scratch", path)


@contextlib.contextmanager
def mounted_on(path, folder):
    folder.mkdir(exist_ok=True)
    sh("mount", "-t", "xfs", path, str(folder))
    try:
        yield
    finally:
        sh("umount", str(folder))


@real
def test_a_blank_disk_gets_a_file_system_and_the_step_is_safe_to_repeat(disk, tmp_path):
    step = writer.Writer(Host(), 60)
    step.make_filesystem(mkfs_step())
    with mounted_on(disk, tmp_path / "at"):
        (tmp_path / "at/file").write_text("precious")
    # The power went before it was on record that mkfs ended, and somebody has written to it since.
    step.make_filesystem(mkfs_step())
    with mounted_on(disk, tmp_path / "at"):
        assert (tmp_path / "at/file").read_text() == "precious"


@real
def test_a_mkfs_that_did_not_end_is_done_again(disk):
    made(disk)
    sh("xfs_db", "-x", "-c", "sb 0", "-c", "write inprogress 1", disk)
    assert observe.filesystem(Host(), disk).in_progress
    writer.Writer(Host(), 60).make_filesystem(mkfs_step())
    assert not observe.filesystem(Host(), disk).in_progress


@real
@pytest.mark.parametrize("what", ["zeroed superblock", "another file system", "held open"])
def test_no_file_system_is_made_over_anything_else(disk, what, monkeypatch):
    if what == "held open":
        monkeypatch.setattr(writer.proof, "who", held_by(("process 7 (dd)",)))
    else:
        made(disk, OURS if what == "zeroed superblock" else "b" * 32)
    if what == "zeroed superblock":
        with open(disk, "r+b") as stream:
            stream.write(bytes(512))
        assert observe.signatures(Host(), disk) == ()
    with pytest.raises(NodeError, match="not blank any more|carries xfs data|process 7 .dd. holds it open"):
        writer.Writer(Host(), 60).make_filesystem(mkfs_step())
    if what == "zeroed superblock":
        # It could have been repaired, and still can.
        sh("xfs_repair", disk)
        assert observe.filesystem(Host(), disk).uuid == OURS


@real
def test_a_device_that_was_mounted_meanwhile_is_not_cleared(disk, tmp_path):
    made(disk)
    with mounted_on(disk, tmp_path / "at"), pytest.raises(OSError, match="Device or resource busy"):
        samples.clear(disk, SIZE)
    assert observe.filesystem(Host(), disk).uuid == OURS


@real
def test_no_array_is_made_of_a_disk_that_is_not_blank_any_more(disk):
    with open(disk, "r+b") as stream:
        stream.write(b"data")
    with pytest.raises(NodeError, match="not blank any more"):
        writer.Writer(Host(), 60).create(act.CreateArray("f" * 32, "scratch", 512, ("S",), ("x",)))


@real
def test_no_mark_is_erased_under_the_hands_of_a_process(disk, monkeypatch):
    made(disk)
    monkeypatch.setattr(writer.proof, "who", held_by(("process 7 (dd)",)))
    with pytest.raises(NodeError, match="process 7 .dd. holds it open"):
        writer.Writer(Host(), 60).erase_mark(act.EraseMark("S", os.path.basename(disk), None, OURS))
    assert observe.filesystem(Host(), disk).uuid == OURS


@real
@pytest.mark.parametrize("earlier", [(), (OURS,)])
def test_a_file_system_that_shows_through_a_new_array_is_kept_unless_it_is_given_up(disk, earlier, monkeypatch):
    made(disk)
    monkeypatch.setattr(writer, "array_path", lambda *arguments, **options: disk)
    monkeypatch.setattr(Host, "run", lambda self, argv, *more, run=Host.run, **rest: argv[0] == "mdadm" or run(self, argv, *more, **rest))  # fmt: skip # noqa: E501
    create = act.CreateArray("f" * 32, "scratch", 512, (), (), earlier)
    if earlier:
        writer.Writer(Host(), 60).create(create)
        assert observe.signatures(Host(), disk) == ()
    else:
        with pytest.raises(NodeError, match="carries xfs data of an earlier use"):
            writer.Writer(Host(), 60).create(create)
        sh("xfs_repair", "-n", disk)


@real
def test_data_of_an_unknown_kind_on_a_new_array_stay_unless_they_are_given_up(disk, monkeypatch):
    """The disks were blank where they are looked at; the samples of the array lie elsewhere."""
    with open(disk, "r+b") as stream:
        stream.seek(SIZE // 2)
        stream.write(b"precious" * 500_000)
    monkeypatch.setattr(writer, "array_path", lambda *arguments, **options: disk)
    monkeypatch.setattr(Host, "run", lambda self, argv, *more, run=Host.run, **rest: argv[0] == "mdadm" or run(self, argv, *more, **rest))  # fmt: skip # noqa: E501
    step, create = writer.Writer(Host(), 60), act.CreateArray("f" * 32, "scratch", 512, (), ())
    with pytest.raises(
        NodeError, match=r"{0}: it holds data of an unknown kind \(at byte \d+\).* rebuild: true".format(disk)
    ):
        step.create(create)
    with open(disk, "rb") as stream:
        stream.seek(SIZE // 2)
        assert stream.read(4_000_000) == b"precious" * 500_000
    step.create(dataclasses.replace(create, given_up=True))
    assert samples.look(disk, SIZE).other_at is None


@real
def test_absent_leaves_an_array_on_which_a_new_one_of_its_layout_is_blank(disk, monkeypatch):
    monkeypatch.setattr(writer, "array_path", lambda *arguments, **options: disk)
    erase, step = act.EraseFilesystem("f" * 32, OURS), writer.Writer(Host(), 60)
    made(disk, "b" * 32)
    with pytest.raises(NodeError, match="contains xfs data of another owner"):
        step.erase_filesystem(erase)
    made(disk)
    with monkeypatch.context() as inside:
        inside.setattr(writer.proof, "who", held_by(("process 7 (dd)",)))
        with pytest.raises(NodeError, match="process 7 .dd. holds it open"):
            step.erase_filesystem(erase)
    assert observe.filesystem(Host(), disk).uuid == OURS
    step.erase_filesystem(erase)
    step.erase_filesystem(erase)
    assert samples.look(disk, SIZE).other_at is None


@real
def test_a_mark_is_erased_alone_and_what_was_behind_it_reads_as_blank(disk, tmp_path):
    step = writer.Writer(Host(), 60)
    mark = act.EraseMark("S", os.path.basename(disk), None, OURS)
    made(disk, "b" * 32)
    with pytest.raises(NodeError, match="it does not carry our mark alone"):
        step.check(act.CheckDisks((mark,)))
    made(disk)
    with mounted_on(disk, tmp_path / "at"), pytest.raises(NodeError, match="still in use"):
        step.check(act.CheckDisks((mark,)))
    step.check(act.CheckDisks((mark,)))
    step.erase_mark(mark)
    assert observe.signatures(Host(), disk) == () and samples.look(disk, SIZE).other_at is None
    step.erase_mark(mark)


@real
def test_a_file_system_that_the_kernel_has_shut_down_is_told_as_that(disk, request):
    made(disk)
    # A mount point may not lie below /dev, and the temporary folder may.
    folder = tempfile.mkdtemp(dir="/var/tmp")
    request.addfinalizer(lambda: os.rmdir(folder))
    at = pathlib.Path(folder)
    name = os.path.basename(disk)
    with mounted_on(disk, at):
        sh("xfs_io", "-x", "-c", "shutdown", str(at))
        seen = mounted.mount_point(Host(), str(at))
        assert seen.kind == "failed"
        state = State(mounts=(Mount(str(at), name, "xfs", True, disk, True, (name,)),), mount_point=seen)
        wish = of(Desired, {"models": ["M"], "mount_point": str(at)})
        (told,) = plan_mount(judge(state, wish), Build(None, OURS, "xfs", ("S",), True), name).refusals
        assert "has shut it down" in told.reason and "umount {0}".format(at) in told.remedy
        with pytest.raises(NodeError, match="has shut it down"):
            STEPS[act.SetRoot](Host(), act.SetRoot(str(at), 0, 0, 0o755), WISH)
    with mounted_on(disk, at):
        # What the advice promises.
        assert mounted.mount_point(Host(), str(at)).kind == "folder"
        sh("xfs_io", "-x", "-c", "shutdown", str(at))
        STEPS[act.Unmount](Host(), act.Unmount(str(at), name), WISH)
        sh("mount", "-t", "xfs", disk, str(at))


@pytest.mark.parametrize("discard", [False, True])
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_disks_are_discarded_while_a_file_system_is_made_only_on_request(filesystem, discard):
    """Terabytes of discards take minutes on some disks; mkfs.xfs and mkfs.ext4 send them unless told not to."""
    step = act.MakeFilesystem(filesystem, OURS, "gpu_scratch", serial="S", discard=discard)
    words = writer._mkfs(step, force=False)
    if filesystem == "xfs":
        assert ("-K" in words) is not discard
    else:
        assert words[words.index("-E") + 1].split(",")[0] == ("discard" if discard else "nodiscard")


class Stopping:
    """mdadm --stop that succeeds at its Nth attempt."""

    def __init__(self, succeeds_at):
        self.attempts, self.succeeds_at = 0, succeeds_at

    def run(self, argv, *dummy, **options):
        self.attempts += 1
        good = self.attempts == self.succeeds_at
        return Completed(tuple(argv), 0 if good else 1, "", "" if good else "mdadm: Cannot get exclusive access")

    def which(self, program):
        return None

    def names(self, path):
        return []


@pytest.mark.parametrize("succeeds_at", range(1, writer.STOP_TRIES + 2))
def test_an_array_that_was_stopped_at_last_is_no_error(monkeypatch, succeeds_at):
    monkeypatch.setattr(writer.observe, "array_names", lambda host: ["md127"])
    monkeypatch.setattr(writer.observe, "array_detail", lambda host, name: (OURS, ""))
    monkeypatch.setattr(writer.observe, "array_members", lambda host, name: ())
    host = Stopping(succeeds_at)
    step = writer.Writer(host, 1)
    if succeeds_at > writer.STOP_TRIES:
        with pytest.raises(NodeError, match="it could not be stopped"):
            step.stop(act.StopArray(OURS, "md127"))
    else:
        step.stop(act.StopArray(OURS, "md127"))
    assert host.attempts == min(succeeds_at, writer.STOP_TRIES)


@pytest.mark.parametrize("needs", ["nothing", "force", "a disk"])
@pytest.mark.parametrize("force", [True, False])
def test_an_array_is_assembled_by_force_only_where_its_user_gives_up_its_data(monkeypatch, needs, force):
    ran, running = [], []

    class Node(Stopping):
        def run(self, argv, *dummy, **options):
            ran.append(argv)
            if needs == "nothing" or (needs == "force" and "--force" in argv):
                running.append("/dev/md127")
            return Completed(tuple(argv), 0 if running else 1, "", "" if running else "mdadm: 3 of 4")

    monkeypatch.setattr(writer, "settle", lambda host: None)
    monkeypatch.setattr(writer, "disk_path", lambda host, serial: "/dev/" + serial)
    monkeypatch.setattr(writer, "array_path", lambda *dummy, running=False, there=running: there[0] if there else None)
    step = act.AssembleArray(OURS, "scratch", ("a", "b"), force)
    if needs == "nothing" or (needs == "force" and force):
        writer.Writer(Node(1), 1.0).assemble(step)
    else:
        with pytest.raises(NodeError, match="mdadm --assemble --force --run .*/dev/md/scratch /dev/a /dev/b"):
            writer.Writer(Node(1), 1.0).assemble(step)
    assert ["--force" in argv for argv in ran] == [False] + [True] * (force and needs != "nothing")


@pytest.mark.parametrize("in_progress, beside", [(True, True), (True, False), (False, True), (False, False)])
def test_an_array_that_the_run_assembled_is_looked_at_before_it_is_written(monkeypatch, in_progress, beside):
    """The plan saw members alone. A member of an array of others (its superblock lies at 4 KiB) leaves our superblock
    as it is, and mkfs -f went over it; a mount replays our log over it."""
    ran = []

    class Node(Stopping):
        def run(self, argv, *dummy, **options):
            ran.append(argv[0])
            return Completed(tuple(argv), 0, "", "")

    found = (Signature("xfs", OURS), *([Signature("linux_raid_member", "c" * 32)] if beside else []))
    seen = Filesystem("xfs", OURS, "gpu_scratch", in_progress)
    for module in (writer, apply):
        monkeypatch.setattr(module.observe, "filesystem", lambda *dummy: seen)
        monkeypatch.setattr(module.observe, "signatures", lambda *dummy: found)
    monkeypatch.setattr(writer, "array_path", lambda *dummy, **more: "/dev/md127")
    monkeypatch.setattr(apply, "array_path", lambda *dummy, **more: "/dev/md127")
    monkeypatch.setattr(writer, "settle", lambda host: None)
    monkeypatch.setattr(writer, "sync_device", lambda *dummy: None)
    monkeypatch.setattr(writer.Writer, "_free", lambda *dummy: None)
    monkeypatch.setattr(apply.mounted, "mounts", lambda host: (Mount("/mnt/scratch", "md127", "xfs", True),))
    steps = [act.MountFilesystem(OURS, "xfs", "/mnt/scratch", ("nofail",), "b" * 32)]
    steps += [act.MakeFilesystem("xfs", OURS, "gpu_scratch", array_uuid="b" * 32)] if in_progress else []
    for step in steps:
        ran.clear()
        if beside:
            with pytest.raises(NodeError, match="linux_raid_member data of another|superblock of array .*beside"):
                STEPS[type(step)](Node(1), step, WISH)
            assert ran == []
        else:
            STEPS[type(step)](Node(1), step, WISH)
            assert ran == ["mount" if isinstance(step, act.MountFilesystem) else "mkfs.xfs"]


def test_no_array_is_created_over_a_disk_that_is_not_blank_any_more(monkeypatch):
    ran = []
    monkeypatch.setattr(Host, "run", lambda dummy, argv, *rest, **options: ran.append(argv))
    monkeypatch.setattr(writer, "settle", lambda dummy: None)
    monkeypatch.setattr(writer, "disk_path", lambda dummy, serial: "/dev/" + serial)
    for name, answer in (("signatures", ()), ("holders", ()), ("in_use", False), ("size_bytes", 1 << 30)):
        module = writer.disks if hasattr(writer.disks, name) else observe
        monkeypatch.setattr(module, name, lambda *dummy, answer=answer: answer)
    monkeypatch.setattr(writer.proof, "nobody", lambda *dummy: None)
    monkeypatch.setattr(
        writer.proof,
        "contents",
        lambda dummy, sizes: {name: Content(1 << 30, 4096 if name == "b" else None) for name in sizes},
    )
    with pytest.raises(NodeError, match="disk b.*not blank any more"):
        writer.Writer(Host(), 1.0).create(act.CreateArray(OURS, "scratch", 512, ("a", "b"), ("a", "b")))
    assert ran == []


@pytest.mark.parametrize("array, refused", [(OURS, False), ("f" * 32, True)])
def test_a_member_whose_superblock_was_wiped_is_held_by_the_array_that_is_given_up(monkeypatch, array, refused):
    """Rebuild over a damaged array of ours that runs: its wiped member looks blank, and is in it."""
    made = writer.Writer(Host("/nowhere"), 1.0)
    monkeypatch.setattr(writer, "settle", lambda host: None)
    monkeypatch.setattr(writer, "disk_path", lambda host, serial: "/dev/" + serial)
    mark = (Signature("linux_raid_member", OURS),)
    monkeypatch.setattr(observe, "signatures", lambda host, path: () if path == "/dev/S0" else mark)
    monkeypatch.setattr(observe, "examined", lambda host, paths: {p: Member(OURS) for p in paths if p != "/dev/S0"})
    monkeypatch.setattr(writer.disks, "holders", lambda host, name: ("md127",))
    monkeypatch.setattr(observe, "array_detail", lambda host, name: (array if refused else OURS, "any:x"))
    monkeypatch.setattr(proof, "nobody", lambda *dummy: None)
    step = act.CheckDisks((act.EraseMark("S1", "S1", OURS),), (), ("S0",))
    if refused:
        with pytest.raises(NodeError, match="md127 is built on it"):
            made.check(step)
    else:
        made.check(step)
