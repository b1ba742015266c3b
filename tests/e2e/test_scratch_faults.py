# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be wrong with disks and mounts, in a guest with real md, XFS and NVMe.

Each case asserts the sentence that the user gets and that the bytes of whatever is not ours are as before. The library
is driven by Python in the guest, which takes seconds a case; a few cases go through Ansible.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest
from conftest import GuestFailure  # type: ignore[import-not-found]
from scratch_guest import (  # type: ignore[import-not-found]
    CUT,
    HOME,
    MOUNT_POINT,
    SAMPLES,
    SERIALS,
    Scratch,
)
from virtual_machine.qmp import Qmp  # type: ignore[import-not-found]

from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import samples

# With four CPUs the emulator takes a fifth longer; no test here looks at a GPU.
NODE = {"cpus": 2, "numa_nodes": 2, "gpus": 0, "machine": "none"}


@pytest.fixture(scope="module")
def shared_node(own_node):
    return own_node


@pytest.fixture(scope="module")
def guest(shared_node):
    Scratch(shared_node).install()
    return shared_node


@pytest.fixture
def scratch(guest, node, request):
    whole = [one for one in ("soak", "all_samples") if request.node.get_closest_marker(one)]
    one = Scratch(node, samples.SAMPLES if whole else SAMPLES)
    one.blank()
    return one


# --- one scratch from blank disks to absent: each build of one costs a minute of an emulated node


def a_full_root_disk_stops_it_before_any_disk_is_touched(scratch):
    scratch.node.fill_root()
    try:
        scratch.refused("No space left on device", "free some space", count=8)
    finally:
        scratch.node.free_root()


def a_blank_seven_of_eight_is_refused_until_the_disk_is_back(scratch):
    scratch.node.detach(SERIALS[6])
    try:
        scratch.refused("expected 8, found 7", count=8, wait_seconds=0)
    finally:
        back(scratch, 6)
    scratch.good(count=8)


def a_file_system_that_the_kernel_shut_down_is_reported_with_advice_that_helps(scratch):
    scratch.sh("echo precious > {0}/file; sync; xfs_io -x -c shutdown {0}".format(MOUNT_POINT))
    message = scratch.run()["msg"]
    assert "the kernel has shut it down" in message and "umount {0}".format(MOUNT_POINT) in message
    scratch.sh("umount " + MOUNT_POINT)
    scratch.good()
    scratch.precious()


def absent_takes_nothing_that_was_mounted_over_the_scratch(scratch):
    for place in (MOUNT_POINT, MOUNT_POINT + "/inside"):
        scratch.sh("mkdir -p {0} && mount -t tmpfs theirs {0} && echo precious > {0}/file".format(place))
        before = scratch.sh("cat /proc/self/mounts")
        message = scratch.run(state="absent")["msg"]
        assert "{0}: something is mounted over our file system".format(MOUNT_POINT) in message
        assert "theirs (tmpfs) at {0}".format(place) in message
        assert scratch.sh("cat /proc/self/mounts") == before
        assert scratch.sh("cat {0}/file; umount {0}".format(place)) == "precious\n"


def a_damaged_superblock_is_repaired_and_not_made_again(scratch):
    scratch.sh("umount {0} && udevadm settle".format(MOUNT_POINT))
    scratch.sh("dd if=/dev/zero of=/dev/md127 bs=512 count=1 conv=fsync status=none; udevadm settle")
    for options in ({}, {"count": 8}):
        scratch.refused("is not recognised any more", "xfs_repair -n /dev/md127", "rebuild: true", **options)
    scratch.sh("xfs_repair /dev/md127 >/dev/null 2>&1; udevadm settle")
    scratch.good()
    scratch.precious()


def a_check_writes_nothing(scratch):
    before = scratch.digests(), scratch.node.files()
    foreseen = scratch.good(check=True, count=8)
    assert "create_array" in [action["action"] for action in foreseen["actions"]]
    assert (scratch.digests(), scratch.node.files()) == before


def test_a_scratch_keeps_its_data_through_faults_and_absent_leaves_what_it_found(scratch):
    scratch.node.ssh("sync")
    before = scratch.node.files()
    a_check_writes_nothing(scratch)
    a_full_root_disk_stops_it_before_any_disk_is_touched(scratch)
    a_blank_seven_of_eight_is_refused_until_the_disk_is_back(scratch)
    a_file_system_that_the_kernel_shut_down_is_reported_with_advice_that_helps(scratch)
    absent_takes_nothing_that_was_mounted_over_the_scratch(scratch)
    a_damaged_superblock_is_repaired_and_not_made_again(scratch)
    scratch.settled()
    scratch.good(state="absent")
    assert scratch.node.files() == before
    assert scratch.sh("lsblk -n -o FSTYPE {0}".format(" ".join(scratch.every_disk()))).strip() == ""
    assert not scratch.good(state="absent")["changed"]


# --- disks that are not ours, or not the expected ones


# The kernel goes on writing to a lazily made ext4 for minutes; here every later change of a byte would be ours.
MAKE_MOUNTED = "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {0} && mkdir -p /data && mount {0} /data"
MAKE_LVM_IN_USE = "pvcreate -q -y {0} && vgcreate -q theirs {0} && lvcreate -q -y -Zn -Wn -n data -l 10 theirs"
# Serial number → how somebody's things come onto the disk, and the words that tell it.
FOREIGN = {
    "TYSCRATCH0": ("parted -s {0} mklabel gpt mkpart data 1MiB 100MiB", "partition table with {1}p1"),
    "TYSCRATCH1": ("parted -s {0} mklabel msdos", "a partition table (dos)"),
    "TYSCRATCH2": ("pvcreate -q -y {0}", "an LVM physical volume"),
    "TYSCRATCH3": (MAKE_LVM_IN_USE, "it is part of dm-0, which is not ours"),
    "TYSCRATCH4": ("python3 /opt/scratch_test/zfs.py {0}", "a ZFS label"),
    "TYSCRATCH5": ("mkfs.ext4 -q -L theirs {0}", "ext4 data labelled 'theirs'"),
    "TYSCRATCH6": (MAKE_MOUNTED, "it is mounted at /data; unmount it"),
    "TYSCRATCH7": ("mkswap -q {0} && swapon {0}", "it is in use as swap space"),
}


def test_disks_with_somebodys_things_are_refused_and_stay_as_they_are(scratch):
    disks = scratch.node.disks()
    scratch.sh(
        "set -e; " + "; ".join(FOREIGN[serial][0].format(disks[serial]) for serial in SERIALS) + "; udevadm settle"
    )
    scratch.sh("echo precious > /data/file; sync")
    message = scratch.refused(count=8)
    for serial, (_, words) in FOREIGN.items():
        name = disks[serial][len("/dev/") :]
        assert "disk {0} ({1}): ".format(serial, name) in message
        own = message.split("disk {0} ({1}): ".format(serial, name))[1].split(" disk TYSCRATCH")[0]
        assert words.format(disks[serial], name) in own, own
    assert scratch.sh("cat /data/file") == "precious\n"


def test_members_of_foreign_arrays_and_an_open_disk_are_refused(scratch):
    create = "mdadm --create /dev/md/{0} --run --level=0 --homehost=any --name={0} --raid-devices=2 {1} {2}"
    disks = scratch.every_disk()
    scratch.sh(
        "; ".join(
            [
                "set -e",
                create.format("running", disks[0], disks[1]),
                create.format("stopped", disks[2], disks[3]),
                "udevadm settle",
                "mdadm --stop /dev/md/stopped",
                "udevadm settle",
            ]
        )
    )
    hold = "import os, time; os.open('{0}', os.O_RDONLY | os.O_EXCL); time.sleep(100)".format(disks[4])
    scratch.sh('nohup python3 -c "{0}" >/dev/null 2>&1 & sleep 2'.format(hold))
    message = scratch.refused(count=8)
    scratch.sh("pkill -f [O]_EXCL; true")
    for number, words in (
        (0, "which is not ours"),
        (1, "which is not ours"),
        (2, "named any:stopped, which is not in our record"),
        (3, "named any:stopped, which is not in our record"),
        (4, "holds it open exclusively"),
    ):
        start = "disk {0} ({1}): ".format(SERIALS[number], disks[number][len("/dev/") :])
        assert words in message.split(start)[1].split(" disk TYSCRATCH")[0], message


# What libblkid recognises nothing in, and where.
UNKNOWN = (
    "dd if=/dev/urandom of={0} bs=1M count=8 status=none",
    "dd if=/dev/urandom of={0} bs=1M count=4 seek=500 status=none",
    "printf 'SPDKBLOB\\003' | dd of={0} status=none",
    "printf x | dd of={0} bs=1 seek=$(($(blockdev --getsize64 {0}) - 1)) status=none",
)


@pytest.mark.soak
@pytest.mark.all_samples
def test_what_nobody_recognises_is_not_blank_and_wants_consent_by_serial(scratch):
    disks = scratch.every_disk()
    scratch.sh("set -e; " + "; ".join(make.format(disk) for make, disk in zip(UNKNOWN, disks)) + "; sync")
    scratch.sh('for d in {0}; do [ -z "$(wipefs $d)" ] || exit 1; done'.format(" ".join(disks[:4])))
    scratch.sh("sleep 300 <>{0} >/dev/null 2>&1 & sleep 1".format(disks[4]))
    message = scratch.refused(count=8)
    for number in range(4):
        start = "disk {0} ({1}): ".format(SERIALS[number], disks[number][len("/dev/") :])
        own = message.split(start)[1].split(" disk TYSCRATCH")[0]
        assert "data of an unknown kind" in own and "overwrite_serials: [{0}]".format(SERIALS[number]) in own, own
    assert "(sleep) holds it open" in message.split(SERIALS[4])[1], message
    message = scratch.refused(count=8, overwrite_serials=SERIALS)
    assert "(sleep) holds it open" in message and "unknown kind" not in message
    scratch.sh("pkill sleep; sleep 1")
    scratch.refused("unknown kind", count=8, overwrite_serials=SERIALS[1:])
    # All of them: what is left of the four shows on the new array, where nobody can tell whose it is.
    result = scratch.good(count=8, overwrite_serials=SERIALS)
    assert [one["action"] for one in result["actions"]].count("clear_disk") == 4
    scratch.settled(8)
    # What we leave behind is blank by the same measure.
    scratch.sh("dd if=/dev/urandom of={0}/data bs=1M count=64 status=none; sync".format(MOUNT_POINT))
    scratch.good(state="absent")
    scratch.good(count=8)
    scratch.settled(8)


@pytest.mark.soak
def test_a_disk_of_ours_that_drops_out_stops_us_and_its_return_brings_the_data_back(scratch):
    scratch.good()
    scratch.sh(
        "echo precious > {0}/file && umount {0} && mdadm --stop /dev/md127 && udevadm settle".format(MOUNT_POINT)
    )
    scratch.node.detach(SERIALS[6])
    try:
        for options in ({}, {"count": 8}):
            scratch.refused("expected 8, found 7", "count", wait_seconds=0, **options)
    finally:
        scratch.node.attach(SERIALS[6])
    for _ in range(60):
        if SERIALS[6] in scratch.node.disks():
            break
        time.sleep(0.5)
    result = scratch.good(count=8)
    assert {action["action"] for action in result["actions"]} <= {
        "declare", "stop_array", "assemble_array", "mount_filesystem", "set_root"
    }  # fmt: skip
    assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"
    scratch.settled(8)


def back(scratch, number):
    scratch.node.attach(SERIALS[number])
    for _ in range(60):
        if SERIALS[number] in scratch.node.disks():
            return
        time.sleep(0.5)
    raise AssertionError("disk {0} did not come back".format(number))


@pytest.mark.soak
def test_a_blank_disk_beside_an_array_with_a_late_one_takes_nobodys_place(scratch):
    """With and without a count, and as the boot unit does it: the data come back with the disk."""
    scratch.good(models=[], serials=SERIALS[:7], count=7)
    scratch.taken_down()
    scratch.node.detach(SERIALS[3])
    try:
        for options in ({}, {"count": 7}):
            words = ("6 of its 7 disks are here, and disk {0} is not".format(SERIALS[3]), "rebuild: true")
            scratch.refused(*words, wait_seconds=0, **options)
        # What the boot unit runs: a declaration that a blank disk fits, in which somebody has written rebuild.
        change = "s['nvme_scratch'].update(models=['QEMU NVMe Ctrl'], serials=[], rebuild=True, wait_seconds=0)"
        scratch.sh(
            "python3 -c \"import json; p = '/etc/gpu_node/node.json'; s = json.load(open(p)); {0}; "
            "json.dump(s, open(p, 'w'))\"".format(change)
        )
        scratch.refused("6 of its 7 disks are here", boot=True)
    finally:
        back(scratch, 3)
    scratch.good(models=[], serials=SERIALS[:7])
    scratch.precious()


@pytest.mark.soak
def test_a_disk_that_is_gone_for_good_wants_the_users_word(scratch):
    scratch.good()
    scratch.taken_down()
    scratch.sh("blkdiscard -z {0}; udevadm settle".format(scratch.disk(5)))
    scratch.refused("7 of its 8 disks are here", "its mark has gone from disk {0}".format(SERIALS[5]), count=8)
    holder = "import os, time; os.open('{0}', os.O_RDWR); time.sleep(60)".format(scratch.disk(2))
    scratch.sh('nohup python3 -c "{0}" >/dev/null 2>&1 & sleep 2'.format(holder))
    scratch.refused("disk " + SERIALS[2], "holds it open", count=8, rebuild=True)
    scratch.sh("pkill -f [o]s.O_RDWR; sleep 1")
    scratch.good(count=8, rebuild=True)
    scratch.settled(8)


def test_an_array_whose_level_was_changed_by_hand_is_refused(scratch):
    scratch.good(models=[], serials=SERIALS[:4])
    scratch.sh("umount {0} && mdadm --grow /dev/md127 --level=4 && udevadm settle".format(MOUNT_POINT))
    scratch.refused("its level is raid4 now", "rebuild: true", models=[], serials=SERIALS[:4])
    scratch.refused("its level is raid4 now", models=[], serials=SERIALS[:5], count=5)


@pytest.mark.soak
def test_a_copy_of_one_of_our_disks_is_not_erased(scratch):
    scratch.good(models=[], serials=SERIALS[:4])
    scratch.taken_down()
    scratch.sh(
        "dd if={0} of={1} bs=4M conv=sparse status=none; udevadm settle".format(scratch.disk(1), scratch.disk(7))
    )
    scratch.sh("mdadm --stop --scan 2>/dev/null; udevadm settle; true")
    mine = dict(models=[], serials=SERIALS[:4] + SERIALS[7:])
    for options in ({}, {"rebuild": True}, {"count": 5, "rebuild": True}):
        scratch.refused("disk " + SERIALS[7], "is none of the disks that it was built of", **mine, **options)
    scratch.sh("wipefs -q -a {0}; udevadm settle".format(scratch.disk(7)))
    scratch.good(models=[], serials=SERIALS[:4])
    scratch.precious()


@pytest.mark.soak
def test_the_record_of_another_machine_proves_nothing(scratch):
    """The record of node A in its clone B: a whole scratch is taken up, a single disk of A is refused."""
    scratch.good()
    scratch.sh("echo precious > {0}/file".format(MOUNT_POINT))
    move = 'sed -i \'s/"machine": "[^"]*"/"machine": "dmi:{0}"/\' /var/lib/gpu_node/nvme_scratch.json'.format("12" * 16)
    scratch.sh(move + " && grep -q dmi:1212 /var/lib/gpu_node/nvme_scratch.json")
    assert [action["action"] for action in scratch.good()["actions"]] == ["write_record"]
    scratch.precious()
    scratch.settled()
    scratch.taken_down()
    scratch.sh(move)
    others = [scratch.disk(number) for number in range(8) if number != 4]
    scratch.sh("; ".join("blkdiscard -z " + disk for disk in others) + "; udevadm settle")
    for options in ({}, {"count": 8, "rebuild": True}):
        scratch.refused("disk " + SERIALS[4], "another machine built", **options)
    scratch.good(models=[], serials=[serial for serial in SERIALS if serial != SERIALS[4]])


@pytest.mark.soak
def test_a_stale_member_of_an_older_build_of_ours_is_erased_only_on_request(scratch):
    scratch.good(serials=SERIALS[:2], models=[])
    scratch.sh(
        "umount {0}; mdadm --stop /dev/md127; udevadm settle; wipefs -q -a {1}; udevadm settle".format(
            MOUNT_POINT, scratch.disk(0)
        )
    )
    # Its data are not recognised without the mark that was wiped.
    scratch.refused("its mark has gone from disk " + SERIALS[0], count=8, overwrite_serials=SERIALS[:1])
    result = scratch.good(count=8, overwrite_serials=SERIALS[:1], rebuild=True)
    erased = [action for action in result["actions"] if action["action"] == "erase_mark"]
    assert [action["serial"] for action in erased] == [SERIALS[1]]
    assert len(scratch.settled(8)["disks"]) == 8


@pytest.mark.soak
def test_our_array_under_another_number_is_left_as_it_is(scratch):
    scratch.good()
    scratch.sh(
        "echo precious > {0}/file && umount {0} && mdadm --stop /dev/md127 && udevadm settle".format(MOUNT_POINT)
    )
    scratch.sh("mdadm --assemble /dev/md77 {0} && udevadm settle".format(" ".join(scratch.every_disk())))
    scratch.good()
    assert scratch.settled()["device"] == "/dev/md77"
    assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"


@pytest.mark.soak
def test_signatures_wiped_by_hand_lead_to_a_new_build(scratch):
    """The way many people free disks: the old file system is still behind the start of the new array."""
    first = scratch.good()["scratch"]
    scratch.sh("umount {0}; mdadm --stop /dev/md127; udevadm settle".format(MOUNT_POINT))
    scratch.sh("; ".join("wipefs -q -a " + disk for disk in scratch.every_disk()) + "; udevadm settle")
    scratch.refused("data of an unknown kind", "overwrite_serials: [{0}]".format(SERIALS[0]), count=8)
    scratch.good(count=8, overwrite_serials=SERIALS)
    assert scratch.settled(8)["array_uuid"] != first["array_uuid"]


@pytest.mark.soak
def test_what_an_older_array_left_behind_blank_disks_is_not_overwritten(scratch):
    disks = " ".join(scratch.every_disk())
    scratch.sh(
        "mdadm --create /dev/md/theirs --run --level=0 --chunk=512 --homehost=any --raid-devices=8 {0}".format(disks)
    )
    scratch.sh("dd if=/dev/urandom of=/dev/md/theirs bs=1M seek=1000 count=512 conv=fsync status=none; udevadm settle")
    scratch.sh("mdadm --stop /dev/md/theirs")
    scratch.sh("mdadm --zero-superblock " + disks)
    scratch.refused("data of an unknown kind", count=8)
    # With consent by serial to one disk after the other all of them read as blank; their array does not.
    scratch.sh("python3 {0}/clear_disks.py {1}; udevadm settle".format(HOME, disks))
    message = scratch.run(count=8)["msg"]
    assert message is not None and "data of an unknown kind (at byte" in message and "rebuild: true" in message, message
    # What they left is on our array, which has no file system yet; that it was nobody's, only the user knows.
    scratch.refused("no file system of ours", "rebuild: true")
    scratch.refused("no file system of ours", "rebuild: true", overwrite_serials=SERIALS)
    scratch.good(rebuild=True)
    scratch.settled()
    # What we leave behind is blank on the array, too.
    scratch.sh("dd if=/dev/urandom of={0}/data bs=1M count=512 status=none; sync".format(MOUNT_POINT))
    scratch.good(state="absent")
    scratch.good(count=8)


@pytest.mark.soak
def test_a_lost_record_with_a_whole_array_of_ours_loses_nothing(scratch):
    scratch.good()
    scratch.sh("echo precious > {0}/file; rm -rf /var/lib/gpu_node /etc/gpu_node/node.json".format(MOUNT_POINT))
    result = scratch.good()
    assert {action["action"] for action in result["actions"]} == {"declare", "write_record"}
    assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"


@pytest.mark.soak
def test_one_disk_gets_a_file_system_and_no_array(scratch):
    for filesystem in ("xfs", "ext4"):
        before = scratch.digests()
        result = scratch.good(models=[], serials=[SERIALS[4]], filesystem=filesystem)
        assert result["scratch"]["device"] == scratch.disk(4) and result["scratch"]["array_uuid"] is None
        assert not scratch.good(models=[], serials=[SERIALS[4]], filesystem=filesystem)["changed"]
        scratch.good(state="absent")
        after = scratch.digests()
        assert {serial for serial in after if after[serial] != before[serial]} <= {SERIALS[4]}
        assert scratch.sh("wipefs " + scratch.disk(4)) == ""


@pytest.mark.soak
def test_ext4_is_aligned_to_the_array(scratch):
    facts = scratch.good(filesystem="ext4", chunk_kib=64)["scratch"]
    assert (facts["stripe_unit_bytes"], facts["stripe_width_bytes"], facts["chunk_kib"]) == (65536, 8 * 65536, 64)
    assert "Stripe width:" not in facts
    shown = scratch.sh("dumpe2fs -h {0} 2>/dev/null".format(facts["device"]))
    assert "RAID stride:              16" in shown and "RAID stripe width:        128" in shown


# --- mount points and fstab


# What is in the place of the mount point, and the words of the refusal.
UNFIT = {
    "touch {0}": ("it is a file", "another mount_point"),
    "mkdir -p /srv/real && ln -s /srv/real {0}": ("symbolic link", "real path"),
    "mkdir {0} && touch {0}/file": ("the folder is not empty", "another mount_point"),
    "mkdir {0} && mount -t tmpfs theirs {0}": ("theirs (tmpfs) is mounted there", "another mount_point"),
    "echo 'LABEL=theirs {0} ext4 noauto,nofail 0 0' >> /etc/fstab": ("/etc/fstab line", "LABEL=theirs", "not ours"),
}


def test_a_mount_point_that_cannot_serve_and_one_in_a_foreign_line_of_fstab_are_refused(scratch):
    for make, words in UNFIT.items():
        scratch.sh(make.format(MOUNT_POINT))
        try:
            scratch.refused(MOUNT_POINT, *words)
        finally:
            scratch.sh("umount {0} 2>/dev/null; rm -rf {0}".format(MOUNT_POINT))


@pytest.mark.soak
def test_fstab_keeps_every_other_byte(scratch):
    odd = "\n# a comment\t\n\tLABEL=none\t/none\tauto noauto,nofail\t0 0   # odd\n   \n"
    odd += "proc /proc/no\\040such proc noauto,nofail"
    scratch.sh("cat >> /etc/fstab <<'END'\n{0}\nEND\ntruncate -s -1 /etc/fstab".format(odd))
    before = scratch.sh("cat /etc/fstab")
    assert not before.endswith("\n")
    scratch.good()
    within = scratch.sh("cat /etc/fstab")
    added = [line for line in within.split("\n") if "x-gpu-node.scratch" in line]
    assert len(added) == 1 and "nofail" in added[0] and within == before + "\n" + added[0]
    scratch.good(state="absent")
    assert scratch.sh("cat /etc/fstab") == before


@pytest.mark.soak
def test_an_existing_good_mount_at_nvme_is_used_as_it_is(scratch):
    disks = " ".join(scratch.every_disk())
    scratch.sh(
        "mdadm --create /dev/md/theirs --run --level=0 --homehost=any --name=theirs --raid-devices=8 {0}".format(disks)
    )
    scratch.sh(
        "mkfs.xfs -q /dev/md/theirs && mkdir -p /nvme && mount /dev/md/theirs /nvme && echo precious > /nvme/file; sync"
    )
    result = scratch.good(count=8)
    assert [action["action"] for action in result["actions"]] == ["declare"]
    assert result["scratch"]["adopted"] and result["scratch"]["mount_point"] == "/nvme"
    assert "stands already" in result["notes"][0]
    assert not scratch.good(count=8)["changed"]
    scratch.good(state="absent")
    assert scratch.sh("cat /nvme/file") == "precious\n"


# --- the way back


@pytest.mark.soak
def test_absent_says_who_keeps_the_scratch_busy_and_takes_nothing(scratch):
    scratch.good()
    scratch.sh("(cd {0} && exec sleep 90) </dev/null >/dev/null 2>&1 & sleep 1".format(MOUNT_POINT))
    result = scratch.run(state="absent")
    assert MOUNT_POINT in result["msg"] and "(sleep)" in result["msg"], result["msg"]
    assert scratch.sh("findmnt -n -o FSTYPE {0}".format(MOUNT_POINT)) == "xfs\n"
    scratch.sh("pkill sleep; sleep 1")
    scratch.good(state="absent")


@pytest.mark.soak
def test_an_automount_of_the_scratch_is_used_and_goes_with_it(scratch):
    options = {"mount_options": ["noatime", "x-systemd.automount"]}
    first = scratch.good(**options)["scratch"]
    # As a boot has it: the automount alone.
    scratch.sh("echo precious > {0}/file; umount {0}; systemctl start mnt-resource_nvme.automount".format(MOUNT_POINT))
    assert scratch.sh("findmnt -n -o FSTYPE {0}".format(MOUNT_POINT)) == "autofs\n"
    again = scratch.good(**options)
    assert not again["changed"] and again["scratch"]["filesystem_uuid"] == first["filesystem_uuid"]
    assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"
    scratch.good(state="absent")
    assert scratch.node.ssh("ls {0}".format(MOUNT_POINT), check=False).returncode != 0
    assert not scratch.good(state="absent")["changed"]
    # After a deallocation it gets nothing, and the new file system is mounted on top of it.
    scratch.good(**options)
    scratch.sh("umount {0}; mdadm --stop /dev/md127; udevadm settle".format(MOUNT_POINT))
    scratch.sh("for d in /dev/nvme[0-7]n1; do blkdiscard -f $d; done; udevadm settle")
    scratch.sh("systemctl start mnt-resource_nvme.automount")
    renewed = scratch.good(**options)["scratch"]
    assert renewed["mounted"] and renewed["filesystem_uuid"] != first["filesystem_uuid"]
    assert not scratch.good(**options)["changed"]
    scratch.good(state="absent")


# --- runs that collide or may not write


@pytest.mark.soak
def test_two_runs_at_once_take_turns(scratch):
    command = scratch.command(count=8)
    scratch.sh("({0} > /tmp/one & {0} > /tmp/two; wait)".format(command))
    results = [json.loads(scratch.sh("cat /tmp/" + name)) for name in ("one", "two")]
    assert [result["msg"] for result in results] == [None, None]
    assert sorted(result["changed"] for result in results) == [False, True]


# tests/unit/plugins/modules has the same without a guest.
@pytest.mark.soak
def test_without_root_it_is_one_sentence(scratch):
    result = json.loads(scratch.sh("runuser -u nobody -- " + scratch.command()))
    assert "only root may" in result["msg"] and "become" in result["msg"]


# --- through Ansible


@pytest.mark.soak
def test_check_mode_tells_the_plan_and_writes_nothing_at_all(scratch):
    before = scratch.node.hash_disks()
    arguments = json.dumps({"models": ["QEMU*"], "count": 8})
    shown = scratch.node.ansible(["-m", "trainyard.gpu_node.nvme_scratch", "-a", arguments, "--check", "--diff"]).stdout
    # In the diff, under what is there now, in the order in which it would be done.
    steps = [
        "+planned:",
        "+  - create array gpu_node_scratch",
        "+  - make an xfs file",
        "+  - declare section nvme_scratch",
    ]
    places = [shown.find(step) for step in steps]
    assert -1 not in places and places == sorted(places), shown
    assert scratch.node.hash_disks() == before


@pytest.mark.soak
def test_through_ansible_it_refuses_changes_once_and_then_nothing(scratch):
    wrong = scratch.node.module("nvme_scratch", models=["QEMU*"], chunk_kib=500)
    assert wrong["failed"] and wrong["msg"].startswith("option chunk_kib: 500 is not a power of two")
    nothing = scratch.node.module("nvme_scratch")
    assert nothing["skipped_reason"].startswith("No NVMe disk fits Microsoft NVMe Direct Disk, ")
    assert "; this node has 8 x QEMU NVMe Ctrl of " in nothing["skipped_reason"]
    assert 'To use what is free, set nvme_scratch_models: ["QEMU NVMe Ctrl"].' in nothing["skipped_reason"]
    assert not nothing["changed"]
    refused = scratch.node.module("nvme_scratch", models=["QEMU*"], count=9)
    assert refused["failed"] and "expected 9, found 8" in refused["msg"] and refused["refusals"]
    assert scratch.node.module("nvme_scratch", models=["Microsoft*"])["skipped_reason"]
    assert scratch.node.module("nvme_scratch", models=["QEMU*"], boot_unit=False)["changed"]
    assert not scratch.node.module("nvme_scratch", models=["QEMU*"], boot_unit=False)["changed"]


# --- power cuts


@pytest.fixture(scope="module")
def cutter(guest, tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to build the library that stops a program at its Nth write")
    folder = tmp_path_factory.mktemp("cut")
    (folder / "cut.c").write_text(CUT)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", "cut.so", "cut.c", "-ldl"], cwd=str(folder), check=True)
    guest.node.ssh("cat > {0}/cut.so".format(HOME), 60, (folder / "cut.so").read_bytes())

    def arm(scratch, program, at, **options):
        """The program stops before its write number ``at``; gives a way to wait for that."""
        real = "/usr/sbin/" + program
        only = '[ "$1" = --create ] || exec {0} "$@"'.format(real) if program == "mdadm" else ":"
        text = '#!/bin/sh\n{0}\nexport CUT_AT={1} LD_PRELOAD={2}/cut.so\nexec {3} "$@"\n'.format(only, at, HOME, real)
        scratch.node.write("/usr/local/sbin/" + program, text, "0755")
        scratch.sh(
            "rm -f /run/cut-now /run/cut-go; PATH=/usr/local/sbin:$PATH nohup {0} > /tmp/cut.out 2>&1 &".format(
                scratch.command(**(options or {"count": 8}))
            )
        )
        for _ in range(120):
            if scratch.node.ssh("test -e /run/cut-now", check=False).returncode == 0:
                return
            time.sleep(0.5)
        raise GuestFailure("{0} did not reach write {1}: {2}".format(program, at, scratch.sh("cat /tmp/cut.out")))

    return arm


CUTS = [("mdadm", 3), ("mkfs.xfs", 12)]
CUTS += [pytest.param(*cut, marks=pytest.mark.soak) for cut in (("mdadm", 1), ("mkfs.xfs", 1))]


@pytest.mark.soak
@pytest.mark.parametrize("program, at", CUTS)
def test_after_a_run_that_was_killed_in_the_middle_the_next_one_finishes(scratch, cutter, program, at):
    cutter(scratch, program, at)
    scratch.sh("pkill -9 -f [d]river.py; pkill -9 -x {0}; rm /usr/local/sbin/{0}; udevadm settle; true".format(program))
    scratch.good(count=8)
    scratch.settled(8)


@pytest.mark.soak
@pytest.mark.parametrize("program, at", [("mdadm", 5), ("mkfs.xfs", 6)])
def test_after_a_power_cut_in_the_middle_the_next_run_finishes(scratch, cutter, program, at):
    cutter(scratch, program, at)
    scratch.node.cut_power()
    scratch.node.start()
    scratch.sh("rm -f /usr/local/sbin/" + program)
    result = scratch.good(count=8)
    assert result["changed"]
    scratch.settled(8)


@pytest.mark.soak
def test_swapped_disks_and_a_deallocation(scratch):
    """Data outlive a reboot with another enumeration order; after a deallocation the scratch is built anew."""
    first = scratch.good(count=8)["scratch"]
    names = scratch.node.disks()
    scratch.sh("echo precious > {0}/file; sync".format(MOUNT_POINT))
    scratch.node.swap_order()
    scratch.node.cut_power()
    scratch.node.start()
    assert scratch.node.disks() != names
    scratch.good(count=8)
    assert scratch.settled(8)["array_uuid"] == first["array_uuid"]
    assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "precious\n"
    scratch.node.wipe_disks()
    result = scratch.good(count=8)
    assert "create_array" in [action["action"] for action in result["actions"]]
    assert scratch.settled(8)["array_uuid"] != first["array_uuid"]
    assert scratch.sh("grep -c x-gpu-node.scratch /etc/fstab") == "1\n"


# --- arrays of ours with data of another owner


FOUR = {"models": [], "serials": SERIALS[:4]}
MAKE_THEIRS = (
    "umount {0}; {1} wipefs -q -a /dev/md127; mkfs.ext4 -q -F -L theirs /dev/md127 && mount /dev/md127 /mnt && "
    "echo precious > /mnt/file && umount /mnt && udevadm settle"
)


@pytest.mark.parametrize(
    "assembled, level",
    [*(pytest.param("running", level, marks=pytest.mark.soak) for level in "04"), ("inactive", "0")],
)
def test_a_file_system_of_another_owner_on_our_array_is_never_erased(scratch, level, assembled):
    scratch.good(**FOUR)
    grow = "mdadm --grow /dev/md127 --level=4 && udevadm settle;" if level == "4" else ""
    scratch.sh(MAKE_THEIRS.format(MOUNT_POINT, grow))
    if assembled == "inactive":
        scratch.sh("echo inactive > /sys/block/md127/md/array_state; udevadm settle")
        assert scratch.sh("cat /sys/block/md127/md/array_state") == "inactive\n"
    if assembled != "running":
        message = scratch.refused("its content is unknown", **{**FOUR, "state": "absent"})
        assert not any(word in message for word in ("wipefs --all", "xfs_repair", "erases")), message
        scratch.sh("mdadm --stop /dev/md127 2>/dev/null; mdadm --assemble --run --scan; udevadm settle; true")
    for options in ({"state": "absent"}, {"rebuild": True}, {}):
        message = scratch.refused("ext4 data labelled 'theirs'", **{**FOUR, **options})
        assert not any(word in message for word in ("wipefs --all", "xfs_repair", "erases")), message
    scratch.sh("mount /dev/md127 /mnt")
    assert scratch.sh("cat /mnt/file; umount /mnt") == "precious\n"


@pytest.mark.soak
def test_a_running_reshape_is_waited_for_and_its_data_stay(scratch):
    """mdadm holds the disks open meanwhile: no advice ends it, and none wipes or removes the disk that was added."""
    scratch.good(**FOUR)
    limit = "/proc/sys/dev/raid/speed_limit_{0}"
    scratch.sh("echo precious > {0}/file; sync; umount {0}".format(MOUNT_POINT))
    slow = "echo 10 > {0}; echo 20 > {1}; ".format(limit.format("min"), limit.format("max"))
    scratch.sh(slow + "mdadm --grow /dev/md127 --raid-devices=5 --add {0}; sleep 1".format(scratch.disk(4)))
    five = {"models": [], "serials": SERIALS[:5]}
    for options in (five, {**five, "rebuild": True}, {**FOUR, "rebuild": True}, {"state": "absent"}):
        message = scratch.run(**options)["msg"]
        assert message and message.count("a reshape has begun on it and not ended; wait until") == 1, message
        assert not any(word in message for word in ("wipe", "take it out", "erases", "end that use")), message
    scratch.sh("echo 1000 > {0}; echo 900000 > {1}".format(limit.format("min"), limit.format("max")))
    scratch.sh("mdadm --wait /dev/md127; sleep 1; udevadm settle; mount /dev/md127 /mnt")
    assert scratch.sh("cat /mnt/file; umount /mnt") == "precious\n"


# The superblock of md 1.2 with newer events: offsets of struct mdp_superblock_1.
NEWER_EVENTS = r"""
import struct, sys
with open(sys.argv[1], "r+b", buffering=0) as disk:
    disk.seek(4096)
    data = bytearray(disk.read(4096))
    size = 256 + 2 * struct.unpack_from("<I", data, 220)[0]
    struct.pack_into("<Q", data, 200, struct.unpack_from("<Q", data, 200)[0] + 7)
    struct.pack_into("<I", data, 216, 0)
    total = sum(struct.unpack_from("<%dI" % (size // 4), data))
    total += struct.unpack_from("<H", data, size - 2)[0] if size % 4 else 0
    struct.pack_into("<I", data, 216, (total & 0xFFFFFFFF) + (total >> 32) & 0xFFFFFFFF)
    disk.seek(4096)
    disk.write(data)
"""


@pytest.mark.soak
def test_newer_events_on_one_member_leave_a_way_out(scratch):
    scratch.good(**FOUR)
    scratch.taken_down()
    scratch.node.ssh("cat > /root/newer.py", stdin=NEWER_EVENTS)
    scratch.sh("python3 /root/newer.py {0}; sync; udevadm settle".format(scratch.disk(1)))
    scratch.sh("mdadm --stop --scan; udevadm settle; true")
    for options in ({"state": "absent"}, FOUR):
        message = scratch.run(**options)["msg"]
        assert message and "mdadm --assemble --force" in message, message
    scratch.good(rebuild=True, **FOUR)
    scratch.precious()


# --- mount options and other users of a mounted scratch


# mount_options, and what the kernel shows of them after a remount.
LIVE_OPTIONS = [
    (["noatime", "noexec"], {"noatime", "noexec"}),
    (["group", "noexec", "exec"], {"nosuid", "nodev", "relatime"}),
    (["nodiratime", "strictatime", "nosymfollow"], {"nodiratime", "nosymfollow"}),
    (["noatime", "discard", "prjquota"], {"noatime"}),
]
FLAGS = {"noexec", "nosuid", "nodev", "nosymfollow", "nodiratime", "noatime", "relatime", "lazytime"}


@pytest.mark.soak
def test_live_mount_options_are_judged_by_what_the_kernel_shows(scratch):
    live = "findmnt -n -o VFS-OPTIONS,FS-OPTIONS {0} | tr ' ' ,".format(MOUNT_POINT)
    files = "cat /etc/fstab /etc/gpu_node/node.json 2>/dev/null; true"
    message = scratch.run(mount_options=["no-such-option"], **FOUR)["msg"]
    assert message and "correct mount_options" in message, message
    assert "no-such-option" not in scratch.sh(files)
    scratch.good(**FOUR)
    for asked, shown in LIVE_OPTIONS:
        assert scratch.good(mount_options=asked, **FOUR)["changed"], asked
        assert set(scratch.sh(live).strip().split(",")) & FLAGS == shown, asked
        again = scratch.good(mount_options=asked, **FOUR)
        assert not again["changed"], (asked, again["actions"])
        waits = "prjquota" in asked
        assert any("does not follow mount_options" in note for note in again["notes"]) == waits, (asked, again["notes"])
    message = scratch.run(mount_options=["noatime", "no-such-option"], **FOUR)["msg"]
    assert message and "correct mount_options" in message, message
    assert "no-such-option" not in scratch.sh(files)
    scratch.sh("umount " + MOUNT_POINT)
    mounted = scratch.good(mount_options=["noatime", "prjquota"], **FOUR)
    assert "prjquota" in scratch.sh(live) and not any("follow" in note for note in mounted["notes"])


OVERLAY = (
    "mkdir -p {0}/up {0}/work /over && mount -t overlay over -o lowerdir=/srv,upperdir={0}/up,workdir={0}/work /over"
)
NAMESPACE = "systemd-run -q --unit=holder unshare --mount --propagation private sleep 600; sleep 2"
SWAP_FILE = (
    "dd if=/dev/zero of={0}/swap bs=1M count=8 status=none && chmod 600 {0}/swap && mkswap -q {0}/swap && "
    "swapon {0}/swap"
)
# What uses the scratch, how that ends, and the words of the refusal.
USERS = {
    "overlay": (OVERLAY, "umount /over", "the overlay at /over; {0} is mounted again"),
    "namespace": (NAMESPACE, "systemctl stop holder", "mount namespace of process"),
    "swap file": (SWAP_FILE, "swapoff {0}/swap", "swap file {0}/swap"),
    "loop device": ("truncate -s 8M {0}/image && losetup /dev/loop3 {0}/image", "losetup -d /dev/loop3", "loop3"),
    "bind mount": ("mkdir -p {0}/log /bound && mount --bind {0}/log /bound", "umount /bound", "/bound"),
}


@pytest.mark.soak
def test_absent_with_another_user_of_the_scratch_changes_nothing(scratch):
    scratch.good(**FOUR)
    scratch.sh("echo precious > {0}/file; modprobe loop; true".format(MOUNT_POINT))
    files = "cat /etc/fstab /etc/gpu_node/node.json /var/lib/gpu_node/nvme_scratch.json; findmnt " + MOUNT_POINT
    before = scratch.sh(files)
    for name, (begin, end, words) in USERS.items():
        scratch.sh(begin.format(MOUNT_POINT))
        message = scratch.run(state="absent")["msg"]
        assert message and words.format(MOUNT_POINT) in message, (name, message)
        assert scratch.sh(files) == before, name
        scratch.precious()
        scratch.sh(end.format(MOUNT_POINT) + "; sleep 1")
    # A service with mounts of its own gets the unmount, too.
    service = "systemd-run -q --unit=private -p PrivateMounts=yes -p ProtectSystem=strict sleep 600; sleep 1"
    scratch.sh(service)
    scratch.good(state="absent")
    scratch.sh("systemctl is-active private; systemctl stop private")


# --- disks and arrays of other owners beside ours; disks that are replaced, unplugged or of another kind


CREATE = (
    "mdadm --create /dev/md/theirs --run --level=0 --homehost={0} --name=gpu_node_scratch --raid-devices=2 {1} {2} && "
    "udevadm settle && mkfs.ext4 -q /dev/md/theirs && mdadm --stop /dev/md/theirs && udevadm settle"
)


@pytest.mark.soak
def test_one_disk_of_the_array_of_another_machine_is_refused(scratch):
    scratch.sh(CREATE.format("any", scratch.disk(2), scratch.disk(3)))
    mixed = {"models": [], "serials": SERIALS[3:6]}
    for options in (mixed, {**mixed, "rebuild": True, "overwrite_serials": SERIALS[3:6]}):
        message = scratch.refused("named any:gpu_node_scratch, which is not in our record", **options)
        assert message.count("disk TYSCRATCH") == 1 and SERIALS[3] in message, message
    before = scratch.digests()
    assert not scratch.good(state="absent")["changed"]
    assert scratch.digests() == before
    # The look-alike: its own blank disks alone.
    scratch.good(models=[], serials=SERIALS[4:6])
    after = scratch.digests()
    assert {serial for serial in after if after[serial] != before[serial]} == set(SERIALS[4:6])


@pytest.mark.soak
def test_an_array_of_another_homehost_with_our_name_stays_as_it_is_beside_ours(scratch):
    two = {"models": [], "serials": SERIALS[:2]}
    scratch.good(**two)
    scratch.taken_down()
    # Ours gets another homehost too: its UUID proves that it is ours.
    ours = "mdadm --assemble /dev/md/x --update=homehost --homehost=otherhost {0} {1} && mdadm --stop /dev/md/x"
    scratch.sh(ours.format(scratch.disk(0), scratch.disk(1)) + "; udevadm settle")
    scratch.sh(CREATE.format("otherhost", scratch.disk(4), scratch.disk(5)))
    scratch.sh("mdadm --assemble --scan; udevadm settle; true")
    before = scratch.digests()
    notes = " ".join(scratch.good(models=[], serials=SERIALS[:2] + SERIALS[4:6], rebuild=True)["notes"])
    assert all("disk " + serial in notes.split("Not part of our array")[1] for serial in SERIALS[4:6]), notes
    scratch.precious()
    notes = " ".join(scratch.good(state="absent")["notes"])
    assert "bears our name but is not in our record: it is left as it is" in notes, notes
    scratch.refused("bears it already", "choose another array_name", **two)
    after = scratch.digests()
    assert [after[serial] for serial in SERIALS[4:]] == [before[serial] for serial in SERIALS[4:]]


@pytest.mark.soak
def test_a_larger_disk_takes_the_place_of_one_of_ours_only_with_rebuild(scratch):
    scratch.good(**FOUR)
    scratch.taken_down()
    larger = {"models": [], "serials": SERIALS[:3] + SERIALS[7:], "wait_seconds": 0}
    scratch.node.detach(SERIALS[3])
    resized(scratch, 2)
    try:
        scratch.refused("3 of its 4 disks are here, and disk {0} is not".format(SERIALS[3]), "rebuild: true", **larger)
        notes = " ".join(scratch.good(rebuild=True, **larger)["notes"])
        assert "The disks differ in size" in notes, notes
        scratch.sh("echo newer > {0}/file; umount {0}; mdadm --stop --scan; udevadm settle".format(MOUNT_POINT))
        # The old disk returns: it is not part of the new array, and only absent erases its mark.
        back(scratch, 3)
        scratch.good(**larger)
        assert scratch.sh("cat {0}/file".format(MOUNT_POINT)) == "newer\n"
        scratch.good(state="absent")
        assert scratch.sh("wipefs " + scratch.disk(3)) == ""
    finally:
        scratch.node.attach(SERIALS[3])
        resized(scratch, 1)


def resized(scratch, gib):
    scratch.sh("umount {0}; mdadm --stop --scan; udevadm settle; true".format(MOUNT_POINT))
    scratch.node.detach(SERIALS[7])
    with Qmp(scratch.node.folder) as qmp:
        qmp.run("block_resize", {"node-name": "disk-" + SERIALS[7], "size": gib << 30})
    back(scratch, 7)


TABLE = (
    "truncate -s 1G /root/table; parted -s /root/table mklabel {1} mkpart {2} 1MiB 100MiB; "
    "dd if=/root/table of={0} bs=512 count=1 conv=notrunc,fsync status=none; udevadm settle"
)


@pytest.mark.soak
@pytest.mark.parametrize("kind, part", [("msdos", "primary"), ("gpt", "data")])
def test_a_partition_table_on_a_member_of_the_running_array_stops_absent(scratch, kind, part):
    scratch.good(**FOUR)
    scratch.sh("echo precious > {0}/file; sync".format(MOUNT_POINT))
    disk = scratch.disk(1)
    scratch.sh(TABLE.format(disk, kind, part))
    assert not scratch.good(**FOUR)["changed"]
    message = scratch.run(state="absent")["msg"]
    assert message and "disk {0}".format(SERIALS[1]) in message and "our mark and something else" in message, message
    scratch.precious()
    scratch.sh("dd if=/dev/zero of={0} bs=512 count=1 conv=notrunc,fsync status=none; udevadm settle".format(disk))
    scratch.good(state="absent")


@pytest.mark.soak
@pytest.mark.parametrize("program, at", [("mdadm", 3), ("mkfs.xfs", 12)])
def test_after_a_disk_was_unplugged_in_the_middle_of_a_build_the_next_run_finishes(scratch, cutter, program, at):
    cutter(scratch, program, at, **FOUR)
    scratch.node.detach(SERIALS[2])
    try:
        scratch.sh(
            "touch /run/cut-go; for _ in $(seq 300); do pgrep -f [d]river.py || break; sleep 0.3; done >/dev/null"
        )
        failed = json.loads(scratch.sh("cat /tmp/cut.out; rm -f /usr/local/sbin/mdadm /usr/local/sbin/mkfs.xfs"))
        assert failed["msg"] and "Traceback" not in failed["msg"], failed
        scratch.refused("disk " + SERIALS[2], wait_seconds=0, **FOUR)
    finally:
        back(scratch, 2)
    scratch.good(**FOUR)
    assert not scratch.good(**FOUR)["changed"]


@pytest.mark.soak
def test_after_several_power_cuts_in_a_row_the_next_run_finishes(scratch, cutter):
    for program, at in (("mdadm", 5), ("mkfs.xfs", 1), ("mkfs.xfs", 12)):
        cutter(scratch, program, at)
        scratch.node.cut_power()
        scratch.node.start()
        scratch.sh("rm -f /usr/local/sbin/" + program)
    scratch.good(count=8)
    scratch.settled(8)


# Formats disks with the LBA format of the first argument (QEMU: 0 has 512 bytes, 4 has 4096): NVME_IOCTL_ADMIN_CMD.
FORMAT = r"""
import fcntl, struct, sys
for path in sys.argv[2:]:
    with open(path) as disk:
        form = int(sys.argv[1])
        command = struct.pack("<BBHIIIQQ10I", 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, form, 0, 0, 0, 0, 0, 60000, 0)
        fcntl.ioctl(disk, 0xC0484E41, bytearray(command))
"""


@pytest.mark.soak
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_disks_with_sectors_of_4096_bytes_serve_and_become_blank_again(scratch, filesystem):
    disks = " ".join(scratch.disk(number) for number in range(3))
    three = {"models": [], "serials": SERIALS[:3], "filesystem": filesystem}
    scratch.node.ssh("cat > /root/format.py", stdin=FORMAT)
    try:
        # Two of them, and one with 512 bytes.
        scratch.sh("python3 /root/format.py 4 {0}; udevadm settle".format(disks.rsplit(" ", 1)[0]))
        sizes = scratch.sh("for d in {0}; do blockdev --getss $d; done".format(disks)).split()
        assert sizes == ["4096", "4096", "512"]
        scratch.good(**three)
        assert not scratch.good(**three)["changed"]
        scratch.taken_down()
        scratch.good(**three)
        scratch.precious()
        scratch.good(state="absent")
        scratch.good(**three)
        scratch.good(state="absent")
    finally:
        scratch.blank()
        scratch.sh("python3 /root/format.py 0 {0}; udevadm settle".format(disks))
