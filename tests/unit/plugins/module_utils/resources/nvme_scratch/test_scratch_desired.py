# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong option ends in one sentence that names it."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import _declared
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired

GOOD = {"models": ["M"]}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"models": "M"}, "option models: 'M' is not a list"),
        ({"models": [""]}, "option models: '' is empty; give a text, or leave it out."),
        ({"overwrite_serials": [" "]}, "option overwrite_serials: ' ' is empty"),
        ({"models": [7]}, "7 is not a text"),
        ({"devices": ["nvme0n1"]}, "not a path under /dev"),
        ({"devices": ["/dev/../etc/passwd"]}, "not a path under /dev"),
        ({"count": 0}, "option count: 0 is out of range; give a number from 1 to 384"),
        ({"count": -1}, "out of range"),
        ({"count": "8"}, "not a whole number"),
        ({"count": True}, "not a whole number"),
        ({"chunk_kib": 500}, "not a power of two"),
        ({"chunk_kib": 2}, "out of range"),
        ({"filesystem": "btrfs"}, "give one of xfs, ext4"),
        ({"state": "there"}, "give one of present, absent"),
        ({"filesystem_label": "thirteen_chrs"}, "does not fit xfs; give at most 12"),
        ({"filesystem_label": "a b"}, "does not fit xfs"),
        ({"filesystem_label": "data\n"}, "has control characters; give a text without any"),
        ({"array_name": "md127"}, "not a name that md keeps"),
        ({"array_name": "a" * 25}, "at most 24"),
        ({"array_name": "a/b"}, "array_name"),
        ({"array_name": "-rf"}, "array_name"),
        ({"mount_point": "scratch"}, "not an absolute path"),
        ({"mount_point": "/mnt/../etc"}, "not an absolute path"),
        ({"mount_point": "/"}, "belongs to the system"),
        ({"mount_point": "//usr/"}, "belongs to the system"),
        ({"mount_point": "/dev/shm/x"}, "belongs to the system"),
        ({"mount_point": "/mnt/a\nb"}, "has control characters; give a text without any"),
        ({"adopt_mount_points": ["x"]}, "option adopt_mount_points"),
        ({"mount_options": ["noauto"]}, "noauto contradicts"),
        ({"mount_options": ["ro"]}, "ro contradicts"),
        ({"mount_options": ["a b"]}, "cannot stand in /etc/fstab"),
        ({"mode": "888"}, "not an octal mode"),
        ({"mode": "77777"}, "not an octal mode"),
        ({"owner": "a b"}, "not an account name"),
        ({"adopt": "yes"}, "neither true nor false"),
        ({"wait_seconds": 601}, "out of range"),
        ({"lock_timeout_seconds": -1}, "out of range"),
        ({"command_timeout_seconds": 0}, "out of range"),
        ({"raid_level": 5}, "option raid_level: there is no such option"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, words):
    with pytest.raises(NodeError) as caught:
        of(Desired, dict(GOOD, **options))
    text = str(caught.value)
    assert words in text and "\n" not in text and text.endswith(".")


def test_nofail_and_the_marker_are_always_there_once():
    options = of(Desired, dict(GOOD, mount_options=["noatime,nofail", "x-systemd.device-timeout=5s"])).mount_options
    assert options == ("noatime", "nofail", "x-systemd.device-timeout=5s", "x-gpu-node.scratch")


def test_what_is_declared_gives_the_same_wish_again():
    desired = of(
        Desired,
        {
            "serials": ["A"],
            "count": 3,
            "mode": "0750",
            "owner": 1000,
            "filesystem": "ext4",
            "mount_options": ["lazytime"],
            "adopt": False,
        },
    )
    assert of(Desired, json.loads(json.dumps(desired.to_dict()))) == desired


def test_absent_needs_no_disk_named():
    assert of(Desired, {"state": "absent"}).state == "absent"


def test_models_are_exact_or_patterns():
    desired = of(Desired, {"models": ["Microsoft NVMe Direct Disk", "QEMU*"]})
    assert desired.matches_model("Microsoft NVMe Direct Disk") and desired.matches_model("QEMU NVMe Ctrl")
    assert not desired.matches_model("Microsoft NVMe Direct Disk v2") and not desired.matches_model(
        "MSFT NVMe Accelerator v1.0"
    )


def test_consent_for_one_run_is_not_honoured_from_a_declaration(tmp_path):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    section = {"models": ["M"], "overwrite_serials": ["S0"], "rebuild": True}
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"nvme_scratch": section}))
    assert _declared(Host(str(tmp_path))) == of(Desired, {"models": ["M"]})
    assert of(Desired, section).overwrite_serials == ("S0",) and of(Desired, section).rebuild
