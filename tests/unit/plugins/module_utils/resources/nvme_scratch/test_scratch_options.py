# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every wrong option ends in one sentence that names it."""

from __future__ import annotations

import fnmatch
import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.mounts import ADOPTED
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described, of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import _declared
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.options import Desired

GOOD = {"models": ["M"]}
LOCAL = [
    "Microsoft NVMe Direct Disk",
    "Microsoft NVMe Direct Disk v2",
    "Amazon EC2 NVMe Instance Storage",
    "nvme_card",
    "nvme_card0",
    "nvme_card31",
]
OTHER = [
    "MSFT NVMe Accelerator v1.0",
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "nvme_card0-pd",
    "SAMSUNG MZQL23T8",
]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"models": "M"}, "option models: 'M' is no list"),
        ({"models": [""]}, "option models: '' is no text in one line; give one, or leave it out."),
        ({"overwrite_serials": [" "]}, "option overwrite_serials: ' ' is no text in one line"),
        ({"models": [7]}, "option models: it is the number 7 and no text"),
        ({"devices": ["nvme0n1"]}, "is no path under /dev"),
        ({"devices": ["/dev/../etc/passwd"]}, "is no path under /dev"),
        ({"count": 0}, "option count: 0 is out of range; give 1 to 384"),
        ({"count": -1}, "out of range"),
        ({"count": "8"}, "no whole number"),
        ({"count": True}, "no whole number"),
        ({"chunk_kib": 500}, "not a power of two"),
        ({"chunk_kib": 2}, "out of range"),
        ({"filesystem": "btrfs"}, "use one of xfs, ext4"),
        ({"state": "there"}, "use one of present, absent"),
        ({"filesystem_label": "thirteen_chrs"}, "does not fit xfs; give at most 12"),
        ({"filesystem_label": "a b"}, "'a b' is no label"),
        ({"filesystem_label": "data\n"}, "is no label; give letters"),
        ({"array_name": "md127"}, "no name that md keeps"),
        ({"array_name": "a" * 25}, "at most 24"),
        ({"array_name": "a/b"}, "array_name"),
        ({"array_name": "-rf"}, "array_name"),
        ({"mount_point": "scratch"}, "not an absolute path"),
        ({"mount_point": "/mnt/../etc"}, "not an absolute path"),
        ({"mount_point": "/"}, "belongs to the system"),
        ({"mount_point": "//usr/"}, "belongs to the system"),
        ({"mount_point": "/dev/shm/x"}, "belongs to the system"),
        ({"mount_point": "/mnt/a\nb"}, "not an absolute path"),
        ({"adopt_mount_points": ["x"]}, "option adopt_mount_points"),
        ({"mount_options": ["noauto"]}, "noauto contradicts"),
        ({"mount_options": ["ro"]}, "ro contradicts"),
        ({"mount_options": ["a b"]}, "no option that can stand in /etc/fstab"),
        ({"mode": "888"}, "no octal mode"),
        ({"mode": "77777"}, "no octal mode"),
        ({"owner": "a b"}, "no name or number of an account"),
        ({"adopt": "yes"}, "neither true nor false"),
        ({"wait_seconds": 601}, "out of range"),
        ({"command_timeout_seconds": 0}, "out of range"),
        ({"boot_timeout_seconds": 0}, "out of range"),
        ({"before_units": ["a b"]}, "'a b' is no name of a unit"),
        ({"raid_level": 5}, "option raid_level: there is no such option"),
    ],
)
def test_a_wrong_option_is_one_sentence(options, words):
    with pytest.raises(NodeError) as caught:
        of(Desired, dict(GOOD, **options))
    text = str(caught.value)
    assert words in text and "\n" not in text and text.endswith(".")


def test_nofail_and_the_marker_are_always_there_once():
    options = of(Desired, dict(GOOD, mount_options=["noatime,nofail", "x-systemd.device-timeout=5s"])).all_mount_options
    assert options == ("noatime", "nofail", "x-systemd.device-timeout=5s", "x-gpu-node.scratch")


def test_what_is_declared_gives_the_same_wish_again():
    desired = of(
        Desired,
        {
            "serials": ["A"],
            "count": 3,
            "mode": "0750",
            "owner": "1000",
            "filesystem": "ext4",
            "mount_options": ["lazytime"],
            "adopt": False,
        },
    )
    assert of(Desired, json.loads(json.dumps(desired.section()))) == desired


def test_absent_needs_no_disk_named():
    assert not of(Desired, {"state": "absent"}).present


@pytest.mark.parametrize("profile", [None, {}, {"nvme": {}}, {"nvme": None}])
def test_without_a_profile_it_takes_the_local_disks_of_all_clouds_and_no_other(profile):
    patterns = of(Desired, {}, profile).models
    taken = [model for model in LOCAL + OTHER if any(fnmatch.fnmatchcase(model, one) for one in patterns)]
    assert taken == LOCAL


@pytest.mark.parametrize(
    "options", [{"mode": "888"}, {"chunk_kib": 500}, {"count": 0}, {"mount_options": ["ro"]}, {"before_units": ["a b"]}]
)
def test_absent_does_not_fail_for_what_only_matters_to_present(options):
    assert not of(Desired, dict(options, state="absent")).present
    with pytest.raises(NodeError):
        of(Desired, options)


def test_the_profile_has_the_models_and_the_count_that_are_not_given():
    profile = {"nvme": {"models": ["M*"], "count": 8}}
    assert (of(Desired, {}, profile).models, of(Desired, {}, profile).count) == (("M*",), 8)
    given = of(Desired, {"models": [], "count": 2}, profile)
    assert (given.models, given.count) == ((), 2)
    assert of(Desired, {}, {"nvme": {"models": [], "count": 0}}) == of(Desired, {"models": []})
    assert of(Desired, {}).adopt_mount_points == ADOPTED


def test_all_that_makes_the_scratch_is_declared_and_what_counts_once_is_not():
    section = of(Desired, GOOD).section()
    once = {name for name, one in described(Desired).items() if one.once}
    assert once == {"rebuild", "overwrite_serials"}
    unit = {"boot_unit", "before_units", "boot_timeout_seconds"}
    assert set(described(Desired)) - set(section) == once | unit | {"state", "declare", "manage_packages", "ahead"}


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
    assert _declared(Host(str(tmp_path))) == of(Desired, {"models": ["M"], "manage_packages": False})
    assert of(Desired, section).overwrite_serials == ("S0",) and of(Desired, section).rebuild


@pytest.mark.parametrize("given", [[], ["noatime"], ["noatime,discard"], ["nofail"], ["x-systemd.device-timeout=5s"]])
def test_a_lost_scratch_never_stops_a_boot(given):
    assert of(Desired, dict(GOOD, mount_options=given)).all_mount_options.count("nofail") == 1
