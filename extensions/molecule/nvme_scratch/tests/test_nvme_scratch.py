# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scratch as a job finds it."""

from __future__ import annotations

import re


def test_it_is_mounted_by_uuid_and_never_stops_a_boot(host):
    mount = host.mount_point("/mnt/resource_nvme")
    assert mount.exists
    assert mount.filesystem == "xfs"
    line = next(line for line in host.file("/etc/fstab").content_string.splitlines() if "/mnt/resource_nvme" in line)
    assert re.match(r"UUID=[0-9a-f-]{36}\s", line)
    assert "nofail" in line.split()[3].split(",")


def test_everybody_may_write_and_nobody_may_delete_the_work_of_others(host):
    assert host.file("/mnt/resource_nvme").mode == 0o1777
    assert host.run("runuser -u nobody -- touch /mnt/resource_nvme/nobodys").succeeded
    assert not host.run("runuser -u daemon -- rm -f /mnt/resource_nvme/nobodys").succeeded
    assert host.run("rm /mnt/resource_nvme/nobodys").succeeded


def test_it_is_one_array_of_all_eight_disks(host):
    detail = host.check_output("mdadm --detail /dev/md/gpu_node_scratch")
    assert "Raid Level : raid0" in detail
    assert "Active Devices : 8" in detail
    assert "Chunk Size : 512K" in detail


def test_the_boot_unit_is_enabled_and_clean(host):
    unit = host.service("gpu-node-nvme_scratch")
    assert unit.is_enabled
    assert host.run("systemctl start gpu-node-nvme_scratch").succeeded
    assert "systemd-analyze" not in host.run("systemd-analyze verify gpu-node-nvme_scratch.service").stderr


def test_system_folders_kept_their_permissions(host):
    assert {path: host.file(path).mode for path in ("/etc", "/mnt", "/usr/local/bin", "/var/lib")} == {
        "/etc": 0o755,
        "/mnt": 0o755,
        "/usr/local/bin": 0o755,
        "/var/lib": 0o755,
    }
