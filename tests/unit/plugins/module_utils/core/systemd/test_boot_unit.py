# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot units: every state that the folder of units can be in, and the files themselves under another root."""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Tuple

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import options, systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import converge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd import boot_unit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import (
    BEFORE_UNITS,
    BootUnit,
    BootUnitState,
    at_boot,
    boot_timeout,
    plan,
)

UNIT = BootUnit(
    "raid",
    "Local disks",
    after=("local-fs.target", "systemd-udev-settle.service"),
    before=("slurmd.service", "docker.service"),
    timeout_seconds=120,
)
OLD = UNIT.text().replace("120", "60")
FOREIGN = "[Service]\nExecStart=/usr/local/sbin/our-own-raid\n"


def names(plan_):
    return [action.to_dict()["action"] for action in plan_.actions]


def run(host, unit=UNIT, wanted=True, check_mode=False):
    """As a resource that is nothing but its boot unit."""
    return converge(
        lambda: boot_unit.look(host, unit),
        lambda seen: plan(seen, unit, wanted),
        lambda action: boot_unit.STEPS[type(action)](host, action, None),
        check_mode,
    )


@pytest.fixture
def host(tmp_path):
    return Host(str(tmp_path))


@pytest.mark.parametrize(
    "text, enabled, stale, expected",
    [
        (None, False, False, ["write_unit", "enable_unit", "reload_systemd"]),
        (OLD, True, False, ["write_unit", "reload_systemd"]),
        (UNIT.text(), False, False, ["enable_unit", "reload_systemd"]),
        # A run that was ended between its last two steps: systemd still has the old text.
        (UNIT.text(), True, True, ["reload_systemd"]),
        (UNIT.text(), True, False, []),
    ],
)
def test_only_what_is_missing_is_done(text, enabled, stale, expected):
    assert names(plan(BootUnitState(text, None, enabled, stale), UNIT, True)) == expected


def test_every_state_has_a_plan_and_what_is_not_ours_is_never_touched():
    states = itertools.product(
        (None, OLD, UNIT.text(), FOREIGN), (None, "/dev/null", "/lib/other"), *[(True, False)] * 2
    )
    for text, link, enabled, stale in states:
        for wanted in (True, False):
            seen = BootUnitState(None if link else text, link, enabled, stale)
            result = plan(seen, UNIT, wanted)
            if link or text == FOREIGN:
                assert not result.actions and bool(result.refusals) == wanted
                assert boot_unit.text(seen, UNIT) == ""


def test_it_is_made_changed_and_removed_and_each_second_run_changes_nothing(host, tmp_path):
    unit = tmp_path / (systemd.DIRECTORY + "/gpu-node-raid.service").lstrip("/")
    link = tmp_path / (systemd.DIRECTORY + "/multi-user.target.wants" + "/gpu-node-raid.service").lstrip("/")
    assert run(host, UNIT, check_mode=True).changed and not unit.exists()
    assert run(host, UNIT).changed and not run(host, UNIT).changed
    assert unit.read_text() == UNIT.text() and unit.stat().st_mode & 0o777 == 0o644
    assert os.readlink(str(link)) == systemd.DIRECTORY + "/gpu-node-raid.service"
    longer = BootUnit("raid", "Local disks", timeout_seconds=900)
    assert run(host, longer).changed and not run(host, longer).changed
    assert "TimeoutStartSec=900" in unit.read_text() and "Before=" not in unit.read_text()
    assert run(host, wanted=False).changed and not run(host, wanted=False).changed
    assert not unit.exists() and not os.path.lexists(str(link))


def test_it_waits_for_mounts_of_fstab_and_does_not_need_them(host):
    """local-fs.target does not wait for nofail; Requires= or RequiresMountsFor= would fail with the mount."""
    desired = dataclasses.replace(UNIT, after_mounts=("/mnt/resource_nvme", "/nvme/"))
    after = next(line for line in desired.text().splitlines() if line.startswith("After="))
    assert after == (
        "After=local-fs.target systemd-udev-settle.service mnt-resource_nvme.mount mnt-resource_nvme.automount "
        "nvme.mount nvme.automount"
    )
    assert "Requires" not in desired.text() and "Wants" not in desired.text()
    assert run(host, desired).changed and not run(host, desired).changed
    assert run(host, UNIT).changed


def test_a_masked_unit_is_the_administrators_word(host, tmp_path):
    unit = tmp_path / (systemd.DIRECTORY + "/gpu-node-raid.service").lstrip("/")
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    with pytest.raises(Refused, match=r"it is masked; run 'systemctl unmask gpu-node-raid.service', or ask for no"):
        run(host, UNIT)
    assert not run(host, wanted=False).changed and unit.is_symlink()


def test_the_unit_of_somebody_else_is_left_and_named(host, tmp_path):
    unit = tmp_path / (systemd.DIRECTORY + "/gpu-node-raid.service").lstrip("/")
    unit.parent.mkdir(parents=True)
    unit.write_text(FOREIGN)
    with pytest.raises(Refused, match=r"gpu-node-raid.service: it is there and is not ours; move it away"):
        run(host, UNIT)
    assert unit.read_text() == FOREIGN


@options.options
class Options:
    boot_unit: bool = at_boot("raid", "does nothing")
    before_units: Tuple[str, ...] = BEFORE_UNITS
    boot_timeout_seconds: int = boot_timeout(300)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"before_units": ["slurmd.service\n"]}, r"is no name of a unit"),
        ({"before_units": ["slurmd"]}, r"option before_units: 'slurmd' is no name of a unit; give one such as slurmd"),
        ({"before_units": ["a.service\nExecStart=/bin/sh"]}, r"is no name of a unit"),
        ({"boot_timeout_seconds": 0}, r"option boot_timeout_seconds: 0 seconds is out of range; give 1 to 86400"),
    ],
)
def test_a_wrong_option_is_told_in_one_sentence(given, message):
    with pytest.raises(NodeError, match=message):
        options.of(Options, given)


def test_the_options_say_which_unit_it_is():
    told = options.described(Options)["boot_unit"].help
    assert told[0] == "Install and enable C(gpu-node-raid.service). It does nothing."


def test_diff_mode_shows_the_unit_before_and_after(host):
    seen = boot_unit.look(host, UNIT)
    assert boot_unit.text(seen, UNIT) == ""
    written = boot_unit.text(seen, UNIT, plan(seen, UNIT, True).actions)
    assert written == "==> {0}/gpu-node-raid.service <==\n{1}".format(systemd.DIRECTORY, UNIT.text())
    run(host)
    seen = boot_unit.look(host, UNIT)
    assert boot_unit.text(seen, UNIT) == written
    assert boot_unit.text(seen, UNIT, plan(seen, UNIT, False).actions) == ""
