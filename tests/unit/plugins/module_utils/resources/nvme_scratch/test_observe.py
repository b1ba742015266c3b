# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking: sysfs trees of odd machines, real libblkid on image files, real folders as mount points."""

from __future__ import annotations

import dataclasses
import os
import shutil
import struct
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import machine as identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch import record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import (
    mounted,
    observe,
    users,
    waiting,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.disks import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Content, State

WISH = of(Desired, {"models": ["M"]})
needs_tools = pytest.mark.skipif(
    shutil.which("wipefs", path="/usr/sbin:/sbin:/usr/bin") is None
    or shutil.which("mke2fs", path="/usr/sbin:/sbin:/usr/bin") is None,
    reason="needs util-linux and e2fsprogs on this machine",
)


def tree(root, **files):
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.fixture
def machine(tmp_path):
    def disk(name, serial, nsid="1", model="M  x ", transport="pcie"):
        tree(
            tmp_path,
            **{
                "sys/block/{0}/device/serial".format(name): serial + "   \n",
                "sys/block/{0}/device/model".format(name): model + "\n",
                "sys/block/{0}/device/transport".format(name): transport + "\n",
                "sys/block/{0}/nsid".format(name): nsid + "\n",
                "sys/block/{0}/size".format(name): "2097152\n",
            },
        )

    disk.host = Host(str(tmp_path))
    disk.root = tmp_path
    return disk


def test_disks_are_listed_with_serial_model_and_size(machine):
    machine("nvme0n1", "A")
    machine("nvme10n1", "B")
    seen = observe.visible_disks(machine.host, WISH)
    assert [(disk.name, disk.serial, disk.model, disk.size_bytes) for disk in seen] == [
        ("nvme0n1", "A", "M x", 2**30),
        ("nvme10n1", "B", "M x", 2**30),
    ]


def test_hidden_multipath_names_other_disks_and_controllers_without_namespace_are_no_disks(machine):
    machine("nvme0n1", "A")
    machine("nvme0c1n1", "A")
    machine("sda", "X")
    tree(machine.root, **{"sys/class/nvme/nvme7/serial": "Z"})
    assert [disk.name for disk in observe.visible_disks(machine.host, WISH)] == ["nvme0n1"]


def test_further_namespaces_of_a_controller_have_names_of_their_own(machine):
    machine("nvme0n1", "A")
    machine("nvme0n2", "A", nsid="2")
    assert [disk.serial for disk in observe.visible_disks(machine.host, WISH)] == ["A", "A_n2"]


def test_a_wwid_is_no_serial_number(machine):
    machine("nvme0n1", "")
    tree(machine.root, **{"sys/block/nvme0n1/wwid": "nvme.1234-20-4d-00000001\n"})
    (disk,) = observe.visible_disks(machine.host, WISH)
    assert disk.serial == ""
    disk = dataclasses.replace(disk, openers=(), content=Content(1))
    told = judge(State(disks=(disk,)), WISH).disks[0].reason
    assert "it has no serial number" in told.reason


@pytest.mark.parametrize(
    "uuid, expected",
    [
        ("4C4C4544-0046-3310-8057-B7C04F305A33", "dmi:44454c4c460010338057b7c04f305a33"),
        ("44454C4C-4600-1033-8057-B7C04F305A33", "dmi:44454c4c460010338057b7c04f305a33"),
        ("00000000-0000-0000-0000-000000000000", "machine-id:" + "5a" * 16),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "machine-id:" + "5a" * 16),
        ("03000200-0400-0500-0006-000700080009", "machine-id:" + "5a" * 16),
        ("00020003-0004-0005-0006-000700080009", "machine-id:" + "5a" * 16),
        ("Not Settable", "machine-id:" + "5a" * 16),
        (None, "machine-id:" + "5a" * 16),
    ],
)
def test_a_machine_is_known_by_its_firmware(tmp_path, uuid, expected):
    assert identity.identity(Host(str(tmp_path))) is None
    tree(tmp_path, **{"etc/machine-id": "uninitialized\n"})
    assert identity.identity(Host(str(tmp_path))) is None
    tree(tmp_path, **{"etc/machine-id": "5a" * 16 + "\n"})
    if uuid is not None:
        tree(tmp_path, **{"sys/class/dmi/id/product_uuid": uuid + "\n"})
    assert identity.identity(Host(str(tmp_path))) == expected


def test_the_record_of_another_machine_is_seen_as_that(tmp_path):
    host = Host(str(tmp_path))
    built = Build("a" * 32, "1" * 32, "xfs", ("S0",), True)
    for wrote, proven in (("dmi:" + "12" * 16, False), ("machine-id:" + "5a" * 16, True), (None, True)):
        text = record.FILE.text(Record((built,), "/mnt/scratch", ("/mnt/scratch",), True, wrote))
        tree(tmp_path, **{"etc/machine-id": "5a" * 16, "var/lib/gpu_node/nvme_scratch.json": text})
        state = observe.observe(host, WISH)
        assert state.machine == "machine-id:" + "5a" * 16
        assert (state.record.builds, state.others) == (((built,), ()) if proven else ((), (built,)))
        # What it made outside of the disks is in the image as well, and can be undone here.
        assert state.record.created_folders == ("/mnt/scratch",)


@pytest.mark.parametrize(
    "built_of, here, waits",
    [
        (["A", "B"], ["A", "B"], False),
        (["A", "B"], ["A", "X"], True),  # one is late, and a blank disk makes up the number
        (["A", "B"], ["X", "Y"], False),  # after a deallocation
        (["A", "B"], ["A"], True),
        ([], ["A"], False),
    ],
)
def test_a_boot_waits_for_the_disks_that_the_scratch_was_built_of(machine, monkeypatch, built_of, here, waits):
    for number, serial in enumerate(here):
        machine("nvme{0}n1".format(number), serial, model="M")
    built = Build("a" * 32, "1" * 32, "xfs", tuple(built_of), True)
    text = record.FILE.text(Record((built,) if built_of else ()))
    tree(machine.root, **{"proc/uptime": "20.1 10", "var/lib/gpu_node/nvme_scratch.json": text})
    slept = []
    monkeypatch.setattr(waiting, "settle", lambda host: None)
    monkeypatch.setattr(waiting.time, "sleep", slept.append)
    clock = iter(range(1000))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(clock))
    waiting.wait_for_disks(machine.host, WISH)
    assert bool(slept) is waits


def test_a_device_path_stands_for_the_disk_it_links_to(machine):
    machine("nvme0n1", "A")
    machine("nvme1n1", "B")
    (machine.root / "dev/disk/by-id").mkdir(parents=True)
    (machine.root / "dev/nvme1n1").write_text("")
    (machine.root / "dev/disk/by-id/nvme-B").symlink_to("../../nvme1n1")
    wish = of(Desired, {"devices": ["/dev/disk/by-id/nvme-B"]})
    assert [disk.aliases for disk in observe.visible_disks(machine.host, wish)] == [(), ("/dev/disk/by-id/nvme-B",)]


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    with open(str(path), "wb") as stream:
        stream.truncate(64 * 1024 * 1024)
    return path


def ext4(path, uuid="11111111-1111-1111-1111-111111111111", options=""):
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-U", uuid, "-L", "gpu_scratch", *options.split(), str(path)], check=True)  # fmt: skip # noqa: E501


@needs_tools
def test_an_empty_image_is_blank_and_a_file_system_is_not(image):
    assert observe.signatures(Host(), str(image)) == ()
    ext4(image, options="-E stride=128,stripe_width=1024")
    (found,) = observe.signatures(Host(), str(image))
    assert (found.type, found.uuid, found.label) == ("ext4", "1" * 32, "gpu_scratch")
    seen = observe.filesystem(Host(), str(image))
    assert (seen.type, seen.uuid, seen.label) == ("ext4", "1" * 32, "gpu_scratch")
    assert (seen.stripe_unit_bytes, seen.stripe_width_bytes) == (512 * 1024, 8 * 512 * 1024)


@needs_tools
def test_a_zfs_label_is_seen(image):
    with open(str(image), "r+b") as stream:
        for number in range(8):
            stream.seek(128 * 1024 + number * 1024)
            stream.write(struct.pack("<QQQ", 0x00BAB10C, 5000, 100 + number))
    assert [signature.type for signature in observe.signatures(Host(), str(image))] == ["zfs_member"]


def test_a_device_that_cannot_be_read_is_an_error_not_a_blank_disk(tmp_path):
    with pytest.raises(NodeError):
        observe.signatures(Host(), str(tmp_path / "gone"))


def test_kinds_of_mount_points(tmp_path):
    host = Host()
    base = tmp_path.resolve()
    (base / "empty").mkdir()
    (base / "full").mkdir()
    (base / "full/file").write_text("x")
    (base / "link").symlink_to(base / "empty")
    os.mkfifo(str(base / "pipe"))
    cases = {
        "empty": ("folder", True),
        "full": ("folder", False),
        "full/file": ("file", False),
        "full/file/below": ("blocked", True),
        "link": ("symlink", False),
        "link/below": ("symlink", True),
        "pipe": ("other", False),
        "a/b/c": ("missing", True),
    }
    for path, (kind, empty) in cases.items():
        seen = mounted.mount_point(host, str(base / path))
        assert (seen.kind, seen.empty) == (kind, empty), path
    assert mounted.mount_point(host, str(base / "a/b")).missing_folders == (str(base / "a"), str(base / "a/b"))


def test_the_users_of_a_folder_are_named(tmp_path):
    process = subprocess.Popen(["sleep", "20"], cwd=str(tmp_path))
    try:
        found = users.of(Host(), str(tmp_path.resolve()))
        assert (process.pid, "sleep") in found
        assert "process {0} (sleep)".format(process.pid) in users.describe(found)
    finally:
        process.kill()
        process.wait()
