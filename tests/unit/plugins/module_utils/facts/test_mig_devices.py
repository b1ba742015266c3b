# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Device files of MIG instances: read from the driver's folder, and made as nvidia-modprobe makes them."""

from __future__ import annotations

import os
import stat

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import devices as mig_devices
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.devices import Capability

ACCESS = "DeviceFileMinor: {0}\nDeviceFileMode: {1}\nDeviceFileModify: {2}\n"
MAJOR = 240


def may_make_devices(folder):
    try:
        os.mknod(folder / "probe", stat.S_IFCHR | 0o600, os.makedev(MAJOR, 1))
    except OSError:
        return False
    os.unlink(folder / "probe")
    return True


@pytest.fixture
def machine(tmp_path):
    """GPU 0 with instances 1 (one compute instance) and 2 (none yet); GPU 3 with none."""
    top = tmp_path / "proc/driver/nvidia/capabilities"
    for path, minor in (("gpu0/mig/gi1/ci0", 13), ("gpu0/mig/gi1", 12), ("gpu0/mig/gi2", 21)):
        (top / path).mkdir(parents=True, exist_ok=True)
        (top / path / "access").write_text(ACCESS.format(minor, 0o444, 1))
    (top / "gpu3" / "mig").mkdir(parents=True)
    (tmp_path / "proc/devices").write_text("Character devices:\n  1 mem\n195 nvidia-frontend\n240 nvidia-caps\n")
    (tmp_path / "dev/char").mkdir(parents=True)
    return Host(str(tmp_path))


def test_capabilities_are_read_by_instance(machine):
    found = mig_devices.of_gpu(machine, 0)
    assert found == {(1, None): Capability(12), (1, 0): Capability(13), (2, None): Capability(21)}
    assert found[1, 0].file == "/dev/nvidia-caps/nvidia-cap13"
    assert mig_devices.of_gpu(machine, 3) == mig_devices.of_gpu(machine, 7) == {}


@pytest.mark.parametrize(
    "text, expected",
    [
        (None, None),
        ("", None),
        ("DeviceFileMode: 292\n", None),
        ("DeviceFileMinor: -1\n", None),
        ("DeviceFileMinor: 5\n", Capability(5)),
        ("DeviceFileMinor: 5\nDeviceFileMode: 256\nDeviceFileModify: 0\n", Capability(5, 0o400, False)),
    ],
)
def test_an_access_file_is_read(text, expected):
    assert mig_devices.parse(text) == expected


def test_missing_files_are_made_with_their_numbers_and_mode(machine, tmp_path):
    if not may_make_devices(tmp_path):
        pytest.skip("making device files needs root outside of a user namespace")
    files = ["/dev/nvidia-caps/nvidia-cap{0}".format(minor) for minor in (12, 13, 21)]
    assert sorted(mig_devices.missing(machine, 0)) == files
    mig_devices.make(machine, 0)
    assert mig_devices.missing(machine, 0) == ()
    for minor in (12, 13, 21):
        seen = os.lstat(tmp_path / "dev/nvidia-caps/nvidia-cap{0}".format(minor))
        assert stat.S_ISCHR(seen.st_mode) and stat.S_IMODE(seen.st_mode) == 0o444
        assert seen.st_rdev == os.makedev(MAJOR, minor)
        assert os.readlink(tmp_path / "dev/char/{0}:{1}".format(MAJOR, minor)) == "../nvidia-caps/nvidia-cap%d" % minor
    assert len(os.listdir(tmp_path / "dev/nvidia-caps")) == 3


def test_what_lies_there_and_is_no_such_device_is_replaced(machine, tmp_path):
    if not may_make_devices(tmp_path):
        pytest.skip("making device files needs root outside of a user namespace")
    folder = tmp_path / "dev/nvidia-caps"
    folder.mkdir()
    (folder / "nvidia-cap12").write_text("")
    os.mknod(folder / "nvidia-cap13", stat.S_IFCHR | 0o444, os.makedev(MAJOR, 99))
    os.mknod(folder / "nvidia-cap21", stat.S_IFCHR | 0o444, os.makedev(MAJOR, 21))
    os.chmod(folder / "nvidia-cap21", 0o400)
    os.mknod(folder / "nvidia-cap13.new", stat.S_IFCHR | 0o444, os.makedev(MAJOR, 13))  # of a run that was killed
    assert len(mig_devices.missing(machine, 0)) == 3
    mig_devices.make(machine, 0)
    assert mig_devices.missing(machine, 0) == ()


def test_a_file_that_the_driver_wants_left_alone_is_not_missed(machine, tmp_path):
    top = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig"
    for path, minor in (("gi1/ci0", 13), ("gi1", 12), ("gi2", 21)):
        (top / path / "access").write_text(ACCESS.format(minor, 0o444, 0))
    assert mig_devices.missing(machine, 0) == ()
    mig_devices.make(machine, 0)
    assert not (tmp_path / "dev/nvidia-caps").exists()


def test_a_driver_that_has_no_number_for_them_is_told(machine, tmp_path):
    (tmp_path / "proc/devices").write_text("195 nvidia-caps-imex-channels\n")
    with pytest.raises(NodeError, match="/proc/devices: it has no nvidia-caps"):
        mig_devices.make(machine, 0)


def test_a_folder_that_cannot_be_made_is_one_sentence(machine, tmp_path):
    (tmp_path / "dev/nvidia-caps").write_text("a file")
    with pytest.raises(NodeError, match="/dev/nvidia-caps: the device files of MIG instances cannot be made"):
        mig_devices.make(machine, 0)
