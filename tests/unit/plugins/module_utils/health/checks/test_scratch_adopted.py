# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted scratch beside the record of one that we built before."""

from __future__ import annotations

import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch import record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import RECORD_PATH, Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import scratch_array


@pytest.mark.parametrize(
    "built_of, mounted, missing",
    [
        (
            ("OLD0", "OLD1"),
            True,
            [],
        ),  # other local disks since a deallocation, and a tool of the image was first
        (("OLD0", "OLD1"), False, ["disk OLD0", "disk OLD1"]),
        (("NEW0", "OLD1"), True, ["disk OLD1"]),
    ],
)
def test_disks_of_an_earlier_scratch_are_not_missed_under_an_adopted_one(tmp_path, built_of, mounted, missing):
    def write(path, text):
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    array = "/sys/devices/md127"
    for number in (0, 1):
        disk = "nvme{0}n1".format(number)
        write("/sys/block/{0}/device/serial".format(disk), "NEW{0}".format(number))
        write("{0}/md/dev-{1}/state".format(array, disk), "in_sync")
        write("{0}/slaves/{1}/x".format(array, disk), "")
    write(array + "/md/array_state", "clean")
    write(array + "/md/raid_disks", "2")
    for folder, name in (("dev/block", "9:127"), ("class/block", "md127")):
        (tmp_path / "sys" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / folder / name).symlink_to("../../devices/md127")
    write("/proc/self/mountinfo", "2 1 9:127 / /nvme rw - xfs /dev/md127 rw\n" if mounted else "")
    write(RECORD_PATH, record.FILE.text(Record(builds=(Build("a" * 32, "b" * 32, "xfs", built_of, True),))))
    declared = {"nvme_scratch": {"mount_point": "/mnt/resource_nvme"}}
    evidence = types.SimpleNamespace(host=Host(str(tmp_path)), declared=declared)
    found = scratch_array.judge(scratch_array.look(evidence), evidence)
    assert [one.thing for one in found.findings] == missing
