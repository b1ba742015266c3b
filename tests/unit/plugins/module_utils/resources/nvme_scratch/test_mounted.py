# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts: what covers what, a mount that comes in the middle of a look, automounts, and what may be unmounted."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import actions as act
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import (
    mounted,
    observe,
    users,
    writer,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.apply import STEPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Disk,
    Identity,
    Mount,
    Signature,
    State,
)

sys.path.insert(0, str(Path(__file__).parent))
from scratch_wishes import plan

WISH = of(Desired, {"models": ["M"], "mount_point": "/mnt/scratch", "adopt_mount_points": []})
TABLE = "/proc/self/mountinfo"
ROOT = "20 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
OURS = "30 20 9:127 / /mnt/scratch rw,noatime - xfs /dev/md127 rw\n"
AUTOFS = "28 20 0:33 / /mnt/scratch rw - autofs systemd-1 rw,fd=53,timeout=0,direct\n"


@pytest.fixture
def node(tmp_path):
    """A tree with our array; what is mounted is written into its table."""
    for number, name in (("9:127", "md127"), ("254:1", "vda1"), ("259:0", "nvme0n1")):
        block = tmp_path / "sys/class/block" / name
        block.mkdir(parents=True)
        (block / "dev").write_text(number + "\n")
        by_number = tmp_path / "sys/dev/block"
        by_number.mkdir(parents=True, exist_ok=True)
        (by_number / number).symlink_to("../../class/block/" + name)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "mnt/scratch").mkdir(parents=True)

    def mounts(*lines):
        (tmp_path / TABLE.lstrip("/")).write_text("".join(lines))

    mounts(ROOT)
    return Node(tmp_path, mounts)


class Node:
    def __init__(self, root, mounts):
        self.root, self.mounts, self.host = root, mounts, Host(str(root))


class Meanwhile(Host):
    """A machine on which something happens just after the mount table was read for the Nth time."""

    def __init__(self, root, events):
        super().__init__(root)
        self.events, self.reads = dict(events), 0

    def read(self, path, limit=None):
        text = super().read(path)
        if path == TABLE:
            self.reads += 1
            self.events.pop(self.reads, lambda: None)()
        return text


# A mount that comes while we look ------------------------------------------------------------------------


def test_a_mount_that_comes_between_the_table_and_the_folder_makes_no_foreign_file(node):
    """The race of a boot: fstab's mount of our own file system, with a user's file in it, comes in the middle."""

    def comes():
        node.mounts(ROOT, OURS)
        (node.root / "mnt/scratch/file").write_text("precious")

    host = Meanwhile(str(node.root), {1: comes})
    state = observe.observe(host, WISH)
    assert state.mounted_at("/mnt/scratch").device == "md127"
    assert not any("not empty" in str(one) for one in plan(state, WISH, Identity("a" * 32, "b" * 32)).refusals)


def test_it_is_looked_at_anew_until_it_stands_still_and_not_for_ever(node):
    tables = [(ROOT,), (ROOT, OURS)]

    def flip(turn):
        return lambda: node.mounts(*tables[turn % 2])

    # Each look has a table before and one after it; here they always differ.
    restless = Meanwhile(str(node.root), {turn: flip(turn) for turn in range(1, 100)})
    with pytest.raises(NodeError, match=r"/mnt/scratch: what is mounted there or .* changed .* 5 times; wait until"):
        observe.observe(restless, WISH)
    assert restless.reads == 2 * observe.LOOKS
    # What comes in the middle of a look is in the state; what comes after it is the next run's.
    for last in range(1, 2 * observe.LOOKS - 1, 2):
        node.mounts(ROOT)
        events = {turn: flip(turn) for turn in range(1, last + 1)}
        state = observe.observe(Meanwhile(str(node.root), events), WISH)
        there = state.mounted_at("/mnt/scratch")
        assert (there is None) == ("md127" not in node.host.read(TABLE))


def test_mounts_elsewhere_and_inside_come_and_go_as_they_like(node):
    other = "40 20 0:50 / /var/lib/kubelet/pods/{0} rw - tmpfs tmpfs rw\n"
    inside = "41 30 0:51 / /mnt/scratch/docker/{0} rw - overlay overlay rw\n"

    def event(turn):
        return lambda: node.mounts(ROOT, OURS, other.format(turn), inside.format(turn))

    host = Meanwhile(str(node.root), {turn: event(turn) for turn in range(1, 50)})
    node.mounts(ROOT, OURS)
    observe.observe(host, WISH)
    assert host.reads == 2


# Automounts ----------------------------------------------------------------------------------------------


def test_an_automount_that_waits_is_used_and_what_it_mounts_is_seen(node, monkeypatch):
    def collect(task, seconds):
        assert seconds <= 60 and list(task(lambda *dummy: None)) == [0]
        node.mounts(ROOT, AUTOFS, OURS.replace("30 20", "30 28"))

    monkeypatch.setattr(mounted.child, "collect", collect)
    node.mounts(ROOT, AUTOFS)
    state = observe.observe(node.host, WISH)
    assert state.mounted_at("/mnt/scratch").device == "md127"


def test_an_automount_that_gets_nothing_is_no_mount_and_its_folder_is_not_looked_into(node, monkeypatch):
    """After a deallocation: the file system of fstab is gone, and a new one is to be mounted there."""
    monkeypatch.setattr(mounted.child, "collect", lambda task, seconds: None)
    (node.root / "mnt/scratch/beneath").write_text("hidden by the automount, whatever we do")
    node.mounts(ROOT, AUTOFS)
    state = observe.observe(node.host, WISH)
    assert state.mounted_at("/mnt/scratch") is None
    assert (state.mount_point.kind, state.mount_point.empty) == ("folder", True)


# What covers what ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines, covered_by",
    [
        ((ROOT, OURS), ()),
        ((ROOT, OURS, "31 30 0:60 / /mnt/scratch rw - tmpfs theirs rw\n"), ("theirs (tmpfs) at /mnt/scratch",)),
        # The order of the table is not the order in the tree.
        ((ROOT, "31 30 0:60 / /mnt/scratch rw - tmpfs theirs rw\n", OURS), ("theirs (tmpfs) at /mnt/scratch",)),
        ((ROOT, OURS, "31 30 0:60 / /mnt/scratch/a/b rw - tmpfs x rw\n"), ("x (tmpfs) at /mnt/scratch/a/b",)),
        ((ROOT, OURS, "31 20 0:60 / /mnt rw - tmpfs x rw\n"), ("x (tmpfs) at /mnt",)),
        ((ROOT, AUTOFS, OURS.replace("30 20", "30 28")), ()),
        ((ROOT, "29 20 0:61 / /mnt rw - tmpfs x rw\n", OURS.replace("30 20", "30 29")), ()),
        # Our own file system a second time is ours, too.
        ((ROOT, OURS, "31 30 9:127 /a /mnt/scratch/b rw - xfs /dev/md127 rw\n"), ()),
        ((ROOT, OURS, "31 20 0:60 / /mnt/scratch2 rw - tmpfs x rw\n"), ()),
    ],
)
def test_what_lies_over_a_mount_or_in_it_is_told(node, lines, covered_by):
    node.mounts(*lines)
    found = next(one for one in mounted.mounts(node.host) if one.device == "md127")
    assert found.covered_by == covered_by


def test_what_hides_a_mount_is_told_apart_from_what_is_inside_of_it(node):
    over = "31 30 0:40 / /mnt/scratch rw - tmpfs over rw\n"
    above = "32 20 0:41 / /mnt rw - tmpfs above rw\n"
    inside = "33 30 0:42 / /mnt/scratch/in rw - tmpfs in rw\n"
    beside = "34 20 0:43 / /mnt/scratch2 rw - tmpfs beside rw\n"
    for lines, hidden in (
        ((over,), ("over (tmpfs) at /mnt/scratch",)),
        ((above,), ("above (tmpfs) at /mnt",)),
        ((inside, beside), ()),
    ):
        for order in ((ROOT, OURS, *lines), (ROOT, *lines, OURS)):
            node.mounts(*order)
            found = next(one for one in mounted.mounts(Host(str(node.root))) if one.device == "md127")
            assert found.hidden_by == hidden, order
    # An automount lies beneath what it mounts.
    node.mounts(ROOT, AUTOFS, OURS.replace("30 20", "30 28"))
    found = next(one for one in mounted.mounts(Host(str(node.root))) if one.device == "md127")
    assert found.hidden_by == ()


def test_an_fstab_that_cannot_be_read_is_not_replaced(node):
    """A folder stands for a file on a failing disk: neither a look nor the step takes it for missing."""
    fstab = node.root / "etc/fstab"
    fstab.mkdir(parents=True)
    step = act.EditFstab("UUID=x /mnt/scratch xfs nofail 0 0", "/mnt/scratch", ("1" * 32,))
    with pytest.raises(NodeError, match=r"^/etc/fstab: it cannot be read "):
        STEPS[act.EditFstab](node.host, step, WISH)
    with pytest.raises(NodeError, match=r"^/etc/fstab: it cannot be read "):
        observe.observe(node.host, WISH)
    assert fstab.is_dir()


def test_a_table_that_makes_no_sense_is_read_to_its_end(node):
    node.mounts(
        "5 6 0:1 / /a rw - tmpfs x rw\n",
        "6 5 0:2 / /a/b rw - tmpfs y rw\n",
        "nonsense\n",
        "7 7 9:127 / /a rw - xfs z rw\n",
    )
    assert len(mounted.mounts(node.host)) == 3


def single(covered_by=()):
    """Our file system on one disk, mounted."""
    disk = Disk("nvme0n1", "S0", "M", 10**9, mount_points=("/mnt/scratch",), signatures=(Signature("xfs", "b" * 32),))
    ours = Mount("/mnt/scratch", "nvme0n1", "xfs", True, "/dev/nvme0n1", True, ("nvme0n1",), covered_by)
    record = Record((Build(None, "b" * 32, "xfs", ("S0",), True),), "/mnt/scratch")
    return State(disks=(disk,), mounts=(ours,), record=record)


def test_absent_unmounts_ours_and_refuses_when_something_lies_on_top():
    wish = of(Desired, {"state": "absent", "mount_point": "/mnt/scratch"})
    assert any(isinstance(one, act.Unmount) for one in plan(single(), wish, Identity("", "")).actions)
    result = plan(single(("their\nname\x1b (tmpfs) at /mnt/scratch", "b", "c", "d")), wish, Identity("", ""))
    assert not result.actions
    assert str(result.refusals[0]) == (
        "/mnt/scratch: something is mounted over our file system or inside of it: their?name? (tmpfs) at "
        "/mnt/scratch, b, c and 1 more; unmount that first, then run again."
    )


BOUND = Mount("/var/log", "nvme0n1", "xfs", True, "/dev/nvme0n1", False, ("nvme0n1",))
TWICE = Mount("/data", "nvme0n1", "xfs", True, "/dev/nvme0n1", True, ("nvme0n1",))
STACKED = dataclasses.replace(TWICE, mount_point="/mnt/scratch")
ON_IT = Mount("/mnt/scratch/cache", "nvme0n1", "xfs", True, "/dev/nvme0n1", False, ("nvme0n1",))


@pytest.mark.parametrize("second", [BOUND, TWICE, STACKED, ON_IT], ids=["bound", "twice", "stacked", "inside"])
def test_absent_unmounts_nothing_while_a_second_mount_of_the_scratch_is_there(second):
    wish = of(Desired, {"state": "absent", "mount_point": "/mnt/scratch"})
    state = single()
    result = plan(dataclasses.replace(state, mounts=(*state.mounts, second)), wish, Identity("", ""))
    (refusal,) = result.refusals
    assert refusal.thing == second.mount_point and "umount " + second.mount_point in refusal.remedy
    assert not plan(state, wish, Identity("", "")).refusals


@pytest.mark.parametrize("mounts_again", [True, False])
@pytest.mark.parametrize("used", [True, False])
def test_a_scratch_that_is_still_used_after_umount_is_mounted_again(node, monkeypatch, used, mounts_again):
    calls = []

    def run(argv, *dummy, **dummies):
        calls.append(argv)
        return Completed(tuple(argv), 0 if mounts_again else 32, "", "mount: no")

    def check(self, action):
        if used:
            raise NodeError("/dev/md127", "it is still in use", "end that use")

    monkeypatch.setattr(node.host, "run", run)
    monkeypatch.setattr(writer.Writer, "check", check)
    mount = Mount("/mnt/scratch", "md127", "xfs", True, options=("rw", "noatime"))
    node.mounts(ROOT, "40 20 0:50 / /over rw - overlay over rw,lowerdir=/srv,upperdir=/mnt/scratch/up\n")
    step = act.CheckDisks(unmounted=mount)
    if not used:
        STEPS[act.CheckDisks](node.host, step, WISH)
        assert calls == []
        return
    with pytest.raises(NodeError) as caught:
        STEPS[act.CheckDisks](node.host, step, WISH)
    again = "mounted again" if mounts_again else "unmounted now"
    assert "still in use by the overlay at /over; /mnt/scratch is " + again in caught.value.reason
    assert calls == [["mount", "-t", "xfs", "-o", "rw,noatime", "/dev/md127", "/mnt/scratch"]]
    with pytest.raises(NodeError):
        STEPS[act.CheckDisks](node.host, act.CheckDisks(), WISH)
    assert len(calls) == 1, "what was not mounted is not mounted"


def test_swap_files_loop_devices_overlays_and_namespaces_are_named(node):
    (node.root / "proc/swaps").write_text("Filename Type\n/mnt/scratch/a\\040b file\n/mnt/scratch2/c file\n")
    for name, path in (("loop0", "/mnt/scratch/image"), ("loop1", "/srv/image"), ("loop2", None)):
        folder = node.root / "sys/block" / name / "loop"
        folder.mkdir(parents=True)
        if path is not None:
            (folder / "backing_file").write_text(path + "\n")
    node.mounts(
        ROOT,
        "40 20 0:50 / /over rw - overlay over rw,lowerdir=/srv:/mnt/scratch/low,upperdir=/up,workdir=/w\n",
        "41 20 0:51 / /other rw - overlay over rw,lowerdir=/srv:/mnt/scratches,upperdir=/up,workdir=/w\n",
    )
    found = users.without_process(node.host, "/mnt/scratch")
    assert found == ["swap file /mnt/scratch/a?b", "loop device loop0", "the overlay at /over"]
    for pid, space, line in (("7", "1", ROOT), ("8", "2", OURS), ("9", "2", OURS), ("10", "3", ROOT)):
        process = node.root / "proc" / pid
        (process / "ns").mkdir(parents=True)
        (process / "ns/mnt").symlink_to("mnt:[{0}]".format(space))
        (process / "mountinfo").write_text(line)
        (process / "comm").write_text("holder\n")
    assert users.namespaces(node.host, "md127") == ["the mount namespace of process 8 (holder)"]


def test_a_scratch_that_moves_is_not_unmounted_from_under_something():
    wish = of(Desired, {"models": ["M"], "mount_point": "/mnt/new"})
    assert any(isinstance(one, act.Unmount) for one in plan(single(), wish, Identity("", "")).actions)
    result = plan(single(("x (tmpfs) at /mnt/scratch",)), wish, Identity("", ""))
    assert not result.actions and "mounted over our file system" in str(result.refusals[0])


def test_absent_stops_the_automount_of_our_line_and_no_other():
    wish = of(Desired, {"state": "absent", "mount_point": "/mnt/scratch"})
    line = "UUID={0} /mnt/scratch xfs nofail,x-systemd.automount,x-gpu-node.scratch 0 0\n".format("b" * 32)
    autofs = Mount("/mnt/scratch", None, "autofs", True, "systemd-1")
    state = single()
    for fstab, mounts, stops in (
        (line, (autofs, *state.mounts), ["/mnt/scratch"]),
        (line, state.mounts, []),
        (line.replace("x-systemd.automount,", ""), (autofs, *state.mounts), []),
        (line.replace("x-gpu-node.scratch", "x-theirs").replace("b" * 32, "c" * 32), (autofs, *state.mounts), []),
    ):
        given = State(disks=state.disks, mounts=mounts, record=state.record, fstab=fstab)
        steps = plan(given, wish, Identity("", "")).actions
        kinds = [type(one).__name__ for one in steps]
        assert [one.mount_point for one in steps if isinstance(one, act.StopAutomount)] == stops
        if stops:
            assert kinds.index("Unmount") < kinds.index("StopAutomount") < kinds.index("EraseMark")


@pytest.mark.parametrize("ours_on_top", [True, False])
def test_umount_is_called_only_with_the_proof_that_it_takes_ours(node, monkeypatch, ours_on_top):
    node.mounts(ROOT, OURS)
    seen = (node.root / "mnt/scratch").stat().st_dev
    number = "{0}:{1}".format(mounted.os.major(seen), mounted.os.minor(seen)) if ours_on_top else "9:127"
    (node.root / "sys/class/block/md127/dev").write_text(number + "\n")
    calls = []

    def run(argv, *dummy, **dummies):
        calls.append(argv)
        node.mounts(ROOT)

    monkeypatch.setattr(node.host, "run", run)
    step = act.Unmount("/mnt/scratch", "md127")
    if ours_on_top:
        STEPS[act.Unmount](node.host, step, WISH)
        assert calls == [["umount", "/mnt/scratch"]]
        STEPS[act.Unmount](node.host, step, WISH)  # gone already
        assert len(calls) == 1
    else:
        with pytest.raises(NodeError, match="/mnt/scratch: something lies on top of our file system; unmount that"):
            STEPS[act.Unmount](node.host, step, WISH)
        assert calls == []
