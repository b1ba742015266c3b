# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record: what is written is read again, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch import record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch.record import Build, Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import State


def build(number, finished=True):
    return Build("{0:032x}".format(number + 1), "{0:032x}".format(number + 1000), "xfs", ("S0", "S1"), finished)


def test_what_is_written_is_read_again():
    full = Record(
        (build(1, False), Build(None, "a" * 32, "ext4", ("S0",), True)),
        "/mnt/scratch",
        ("/mnt/scratch",),
        True,
        "dmi:1",
    )
    assert record.FILE.parse(record.FILE.text(full)) == (full, "")


def test_a_machine_that_does_not_know_itself_owns_no_record_of_a_known_one():
    found = Record((build(1),), machine="dmi:1")
    assert record.of_machine(found, "dmi:1") == (found, ())
    assert State(record=Record(machine="dmi:1"), others=found.builds).base_record == found
    assert State(record=Record(machine="dmi:1"), others=found.builds, machine="dmi:2").base_record == Record(
        machine="dmi:2"
    )
    for machine in (None, "dmi:2"):
        assert record.of_machine(found, machine) == (Record(machine="dmi:1"), found.builds)


def test_a_record_is_that_of_the_machine_in_whichever_byte_order_its_firmware_told_its_number():
    """On Azure the order changes with the kernel or the generation of the machine."""
    orders = ["dmi:4c4c4544004633108057b7c04f305a33", "dmi:44454c4c460010338057b7c04f305a33"]
    for wrote in orders:
        found = Record((build(1),), machine=wrote)
        assert record.of_machine(found, orders[1]) == (dataclasses.replace(found, machine=orders[1]), ())
        assert record.of_machine(found, "dmi:" + "12" * 16)[1] == found.builds
    for wrote in ("dmi:short", "machine-id:4c4c4544004633108057b7c04f305a33", "x"):
        found = Record((build(1),), machine=wrote)
        assert record.of_machine(found, wrote) == (found, ())
        assert record.of_machine(found, orders[1])[1] == found.builds


def test_the_history_is_bounded_and_keeps_the_newest():
    full = None
    for number in range(40):
        full = record.extend(full, build(number))
    assert len(full.builds) == record.MOST_BUILDS and full.builds[-1] == build(39)
    # Attempts that fail push one another out, and never what was finished.
    for number in range(40, 80):
        full = record.extend(full, build(number, False))
    assert len(full.builds) == record.MOST_BUILDS and full.builds[-1] == build(79, False)
    assert [one for one in full.builds if one.finished] == [build(number) for number in range(25, 40)]


def test_finishing_a_build_replaces_its_entry():
    full = record.extend(record.extend(None, build(1, False)), build(1))
    assert full.builds == (build(1),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"version": 2, "builds": []}',
        '{"version": 1}',
        '{"version": 1, "builds": [3]}',
        '{"version": 1, "builds": [{"array_uuid": "", "filesystem_uuid": "x"}]}',
        '{"version": 1, "builds": [{"filesystem_uuid": "00000000000000000000000000000000", "serials": []}]}',
        '{"version": 1, "builds": [], "created_folders": "/mnt"}',
        '{"version": 1, "builds": [], "mount_point": 3}',
        '{"version": 1, "builds": [], "machine": 3}',
    ],
)
def test_anything_else_is_no_record(text):
    found, damage = record.FILE.parse(text)
    assert found is None and damage
