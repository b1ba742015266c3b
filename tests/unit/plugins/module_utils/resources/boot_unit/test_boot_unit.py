# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot units: every state that the folder of units can be in, and the files themselves under another root."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import unit_name
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import boot_unit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.boot_unit.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.boot_unit.types import FOLDER, WANTS, State

DESIRED = boot_unit.Desired("settings", before=("slurmd.service", "docker.service"), timeout_seconds=120)
ABSENT = boot_unit.Desired("settings", present=False)
OLD = DESIRED.text().replace("120", "60")
FOREIGN = "[Service]\nExecStart=/usr/local/sbin/our-own-raid\n"


def names(plan_):
    return [action.to_dict()["action"] for action in plan_.actions]


@pytest.fixture
def host(tmp_path):
    return Host(str(tmp_path))


@pytest.mark.parametrize(
    "text, enabled, stale, expected",
    [
        (None, False, False, ["write_unit", "enable_unit", "reload_systemd"]),
        (OLD, True, False, ["write_unit", "reload_systemd"]),
        (DESIRED.text(), False, False, ["enable_unit", "reload_systemd"]),
        # A run that was ended between its last two steps: systemd still has the old text.
        (DESIRED.text(), True, True, ["reload_systemd"]),
        (DESIRED.text(), True, False, []),
    ],
)
def test_only_what_is_missing_is_done(text, enabled, stale, expected):
    assert names(plan(State(text, None, enabled, stale), DESIRED)) == expected


def test_every_state_has_a_plan_and_what_is_not_ours_is_never_touched():
    states = itertools.product(
        (None, OLD, DESIRED.text(), FOREIGN), (None, "/dev/null", "/lib/other"), *[(True, False)] * 2
    )
    for text, link, enabled, stale in states:
        for desired in (DESIRED, ABSENT):
            result = plan(State(None if link else text, link, enabled, stale), desired)
            if link or text == FOREIGN:
                assert not result.actions and bool(result.refusals) == desired.present


def test_it_is_made_changed_and_removed_and_each_second_run_changes_nothing(host, tmp_path):
    unit = tmp_path / (FOLDER + "/gpu-node-settings.service").lstrip("/")
    link = tmp_path / (WANTS + "/gpu-node-settings.service").lstrip("/")
    assert boot_unit.run(host, DESIRED, check_mode=True).changed and not unit.exists()
    assert boot_unit.run(host, DESIRED).changed and not boot_unit.run(host, DESIRED).changed
    assert unit.read_text() == DESIRED.text() and unit.stat().st_mode & 0o777 == 0o644
    assert os.readlink(str(link)) == FOLDER + "/gpu-node-settings.service"
    longer = boot_unit.Desired("settings", timeout_seconds=900)
    assert boot_unit.run(host, longer).changed and not boot_unit.run(host, longer).changed
    assert "TimeoutStartSec=900" in unit.read_text() and "Before=" not in unit.read_text()
    assert boot_unit.run(host, ABSENT).changed and not boot_unit.run(host, ABSENT).changed
    assert not unit.exists() and not os.path.lexists(str(link))


def test_it_waits_for_mounts_of_fstab_and_does_not_need_them(host):
    """local-fs.target does not wait for nofail; Requires= or RequiresMountsFor= would fail with the mount."""
    desired = boot_unit.Desired("settings", after_mounts=("/mnt/resource_nvme", "/nvme/"))
    after = next(line for line in desired.text().splitlines() if line.startswith("After="))
    assert after == (
        "After=nvidia-persistenced.service nvidia-fabricmanager.service mnt-resource_nvme.mount "
        "mnt-resource_nvme.automount nvme.mount nvme.automount"
    )
    assert "Requires" not in desired.text() and "Wants" not in desired.text()
    assert boot_unit.run(host, desired).changed and not boot_unit.run(host, desired).changed
    assert boot_unit.run(host, DESIRED).changed


@pytest.mark.parametrize(
    "path", ["/", "/a", "//a//b/", "/mnt/resource_nvme", "/mnt/a-b/c d", "/.hidden/x", "/ä/@%\\x2d", "/a/.b", "/a;b\n"]
)
def test_units_of_places_are_named_as_systemd_names_them(path):
    tool = shutil.which("systemd-escape")
    if tool is None:
        pytest.skip("needs systemd-escape on this machine")
    done = subprocess.run([tool, "--path", "--suffix=mount", path], stdout=subprocess.PIPE, check=True)
    assert unit_name.of_path(path, "mount") == done.stdout.decode()[:-1]


def test_a_masked_unit_is_the_administrators_word(host, tmp_path):
    unit = tmp_path / (FOLDER + "/gpu-node-settings.service").lstrip("/")
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    with pytest.raises(Refused, match=r"it is masked; run 'systemctl unmask gpu-node-settings.service', or ask for no"):
        boot_unit.run(host, DESIRED)
    assert not boot_unit.run(host, ABSENT).changed and unit.is_symlink()


def test_the_unit_of_somebody_else_is_left_and_named(host, tmp_path):
    unit = tmp_path / (FOLDER + "/gpu-node-settings.service").lstrip("/")
    unit.parent.mkdir(parents=True)
    unit.write_text(FOREIGN)
    with pytest.raises(Refused, match=r"gpu-node-settings.service: it is there and is not ours; move it away"):
        boot_unit.run(host, DESIRED)
    assert unit.read_text() == FOREIGN


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("disks",), r"resource 'disks': no boot unit is known for it; use one of settings\."),
        (("settings", True, ("slurmd.service\n",)), r"this is no unit name"),
        (("settings", True, ("slurmd",)), r"before 'slurmd': this is no unit name; write it as in slurmd.service\."),
        (("settings", True, ("a.service\nExecStart=/bin/sh",)), r"this is no unit name"),
        (("settings", True, (), 9, ("mnt",)), r"after_mounts 'mnt': this is no absolute path; write it as in /mnt/res"),
        (("settings", True, (), 9, ("/mnt/../x",)), r"this is no absolute path"),
        (("settings", True, (), 0), r"timeout_seconds 0: .*; give at least 1\."),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(arguments, message):
    with pytest.raises(NodeError, match=message):
        boot_unit.Desired(*arguments)
