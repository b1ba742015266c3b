# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operating system and the scratch of another tool on disks that are named as scratch material."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import (
    Content,
    Disk,
    Filesystem,
    Identity,
    Mount,
    MountPoint,
    Signature,
    State,
)

sys.path.insert(0, str(Path(__file__).parent))
from scratch_wishes import plan

MODEL = "KIOXIA KCD8"


def disk(number, **other):
    known = {"size_bytes": 10**12, "openers": (), "content": Content(4096)}
    return Disk("nvme{0}n1".format(number), "SN{0}".format(number), MODEL, **dict(known, **other))


def used(number, *signatures, **other):
    return disk(number, content=None, signatures=tuple(Signature(kind) for kind in signatures), **other)


def planned(disks, mounts=(), fstab="", **options):
    point = MountPoint("/mnt/scratch", "missing", True, ("/mnt/scratch",))
    state = State(tuple(disks), mounts=tuple(mounts), mount_point=point, fstab=fstab)
    wish = of(Desired, dict({"models": [MODEL], "mount_point": "/mnt/scratch"}, **options))
    return plan(state, wish, Identity("d" * 32, "e" * 32))


def mount(place, device, *numbers, filesystem="ext4", whole=True):
    names = tuple("nvme{0}n1".format(number) for number in numbers)
    return Mount(place, device, filesystem, True, "/dev/" + device, whole, names)


# Disk 0 → the mounts that make it the system's.
SYSTEMS = {
    "partition": (used(0, "gpt", partitions=("nvme0n1p1",), mount_points=("/",)), [mount("/", "nvme0n1p1", 0)]),
    "LVM": (used(0, "gpt", partitions=("nvme0n1p3",), holders=("dm-0",)), [mount("/", "dm-0", 0)]),
    "LVM on the whole disk": (used(0, "LVM2_member", holders=("dm-0",)), [mount("/var", "dm-0", 0)]),
    "LUKS": (used(0, "crypto_LUKS", holders=("dm-0",)), [mount("/", "dm-1", 0)]),
    "md": (used(0, "linux_raid_member", holders=("md0",)), [mount("/boot", "md0", 0)]),
    "btrfs": (used(0, "btrfs"), [mount("/", "nvme0n1", 0, filesystem="btrfs", whole=False)]),
    "ZFS": (used(0, "zfs_member"), [mount("/", "rpool", 0, filesystem="zfs")]),
    "EFI": (used(0, "gpt", partitions=("nvme0n1p1",), mount_points=("/boot/efi",)), []),
    "swap": (used(0, "gpt", partitions=("nvme0n1p2",), swap=True), []),
    "ostree": (used(0, "gpt", partitions=("nvme0n1p2",)), [mount("/", "nvme0n1p2", 0, whole=False)]),
}


@pytest.mark.parametrize("kind", SYSTEMS)
def test_the_system_disk_is_left_out_and_never_to_be_wiped(kind):
    system, mounts = SYSTEMS[kind]
    found = planned([system, disk(1), disk(2)], mounts)
    assert any("SN0 (nvme0n1): the system is on it" in note for note in found.notes), found
    made = [one for one in found.actions if type(one).__name__ == "CreateArray"]
    assert [one.serials for one in made] == [("SN1", "SN2")]
    named = planned([system, disk(1)], mounts, serials=["SN0"])
    text = " ".join(map(str, named.refusals))
    assert "the system is on it" in text and "wipe" not in text and "overwrite" not in text
    alone = planned([system], mounts)
    assert not alone.refusals and not alone.actions and "the system is on it" in (alone.skipped or "")
    counted = " ".join(map(str, planned([system], mounts, count=1).refusals))
    assert "the system is on it" in counted and "wipe" not in counted


def test_a_data_disk_that_looks_almost_like_a_system_disk_is_refused_as_before():
    theirs = used(0, "gpt", partitions=("nvme0n1p1",), mount_points=("/data",))
    text = " ".join(map(str, planned([theirs, disk(1)], [mount("/data", "nvme0n1p1", 0)]).refusals))
    assert "it is mounted at /data" in text


@pytest.mark.parametrize("place", ["/var", "/var/log", "/var/lib"])
def test_a_directory_of_another_disk_that_is_bound_to_a_system_directory_makes_it_the_system(place):
    theirs = used(0, "gpt", partitions=("nvme0n1p1",), mount_points=("/data", place))
    mounts = [mount("/data", "nvme0n1p1", 0), mount(place, "nvme0n1p1", 0, whole=False)]
    found = planned([theirs, disk(1)], mounts)
    assert any("the system is on it ({0})".format(place) in note for note in found.notes), found
    text = " ".join(map(str, planned([theirs, disk(1)], mounts, serials=["SN0"]).refusals))
    assert "the system is on it" in text and "wipe" not in text


UUID = "a" * 32


def ours(place, device, whole, recorded=True):
    """One disk, or two in an array, with our file system, and a bind mount of it at ``place``."""
    bound = mount(place, device, 0, whole=whole, filesystem="xfs")
    at = mount("/mnt/scratch", device, 0, filesystem="xfs")
    signature = Signature("xfs", UUID, "gpu_scratch")
    inside = Filesystem("xfs", UUID, "gpu_scratch")
    one = disk(0, content=None, signatures=(signature,), filesystem=inside, mount_points=("/mnt/scratch", place))
    record = Record((Build(None, UUID if recorded else "b" * 32, "xfs", ("SN0",), True),), "/mnt/scratch")
    point = MountPoint("/mnt/scratch", "folder", False, (), 0, 0, 0o1777)
    state = State((one,), mounts=(at, bound), mount_point=point, fstab="", record=record, machine="dmi:1")
    return state


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("place", ["/var/log", "/var/lib", "/var"])
def test_a_bind_mount_of_our_recorded_scratch_does_not_make_it_the_system(place, whole):
    wish = of(Desired, {"models": [MODEL], "mount_point": "/mnt/scratch"})
    found = plan(ours(place, "nvme0n1", whole), wish, Identity("d" * 32, "e" * 32))
    assert not found.refusals and not found.skipped, found
    assert not any("the system is on it" in note for note in found.notes)
    # The same mounts of a file system that our record does not prove ours: the /var of the system.
    found = plan(ours(place, "nvme0n1", whole, recorded=False), wish, Identity("d" * 32, "e" * 32))
    assert "the system is on it ({0})".format(place) in str(found), found


def test_a_root_file_system_is_the_system_whatever_the_record_says():
    wish = of(Desired, {"models": [MODEL], "mount_point": "/mnt/scratch"})
    for place in ("/", "/usr", "/boot"):
        found = plan(ours(place, "nvme0n1", True), wish, Identity("d" * 32, "e" * 32))
        assert "the system is on it ({0})".format(place) in str(found), found


PAIR = (used(0, "LVM2_member", holders=("dm-0",)), used(1, "LVM2_member", holders=("dm-0",)))


@pytest.mark.parametrize("place", ["/mnt", "/opt/dlami/nvme", "/local"])
def test_the_scratch_of_another_tool_is_one_refusal_that_says_how_to_adopt_it(place):
    mounts = [mount(place, "dm-0", 0, 1)]
    found = planned(PAIR, mounts)
    assert len(found.refusals) == 1 and found.refusals[0].thing == place
    assert "adopt_mount_points" in found.refusals[0].remedy and '"{0}"'.format(place) in found.refusals[0].remedy
    adopted = planned(PAIR, mounts, adopt_mount_points=[place])
    assert not adopted.refusals and any("it is used as it is" in note for note in adopted.notes)


@pytest.mark.parametrize("options", [{"adopt": False}, {"count": 3}], ids=str)
def test_a_scratch_of_another_tool_is_not_offered_where_it_would_not_be_adopted(options):
    found = planned(PAIR, [mount("/mnt", "dm-0", 0, 1)], **options)
    assert found.refusals and all("adopt_mount_points" not in refusal.remedy for refusal in found.refusals)


def test_mnt_on_some_of_the_disks_or_on_another_is_not_adopted():
    found = planned((*PAIR, disk(2)), [mount("/mnt", "dm-0", 0, 1)], adopt_mount_points=["/mnt"])
    assert len(found.refusals) == 2 and not found.actions
    with pytest.raises(NodeError):
        of(Desired, {"adopt_mount_points": ["/"]})
    with pytest.raises(NodeError):
        of(Desired, {"mount_point": "/mnt"})


@pytest.mark.parametrize(
    "line, words",
    [
        ("/dev/md128 /local xfs", ["without nofail", "Use its UUID"]),
        ("/dev/md128 /local xfs defaults 0 0", ["without nofail", "Use its UUID"]),
        ("UUID=1-2 /local xfs defaults 0 0", ["without nofail"]),
        ("/dev/nvme0n1 /local xfs defaults,nofail 0 0", ["Use its UUID"]),
        ("UUID=1-2 /local xfs defaults,nofail 0 0", []),
        ("UUID=1-2 /local xfs noauto 0 0", []),
        ("UUID=1-2 /local xfs noatime,x-systemd.automount 0 0", []),
        ("# /dev/md128 /local xfs", []),
        ("UUID=1-2 /elsewhere xfs defaults 0 0", []),
    ],
)
def test_a_line_of_an_adopted_mount_that_stops_a_boot_is_noted(line, words):
    found = planned(PAIR, [mount("/local", "dm-0", 0, 1)], line + "\n", adopt_mount_points=["/local"])
    notes = [note for note in found.notes if "fstab" in note]
    assert len(notes) == len(words) and all(word in note for word, note in zip(words, notes)), notes


def test_the_boot_unit_waits_for_every_mount_above_and_for_cloud_init():
    text = of(Desired, {"mount_point": "/a/b/c", "adopt_mount_points": ["/mnt/x"]}).unit.text()
    after = next(line for line in text.splitlines() if line.startswith("After=")).split("=")[1].split()
    for unit in ("a.mount", "a-b.mount", "a-b-c.mount", "mnt.mount", "mnt-x.mount", "cloud-init.service"):
        assert unit in after
    assert "-.mount" not in after
