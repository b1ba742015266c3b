# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record: what is written is read again, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch import record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.nvme_scratch.types import Build, Record


def build(number, finished=True):
    return Build("{0:032x}".format(number + 1), "{0:032x}".format(number + 1000), "xfs", ("S0", "S1"), finished)


def test_what_is_written_is_read_again():
    full = Record(
        (build(1, False), Build(None, "a" * 32, "ext4", ("S0",), True)), "/mnt/scratch", ("/mnt/scratch",), True
    )
    assert record.load(record.dump(full)) == full


def test_the_history_is_bounded_and_keeps_the_newest():
    full = None
    for number in range(40):
        full = record.extend(full, build(number))
    assert len(full.builds) == record.MOST_BUILDS and full.builds[-1] == build(39)


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
    ],
)
def test_anything_else_is_no_record(text):
    with pytest.raises(ValueError):
        record.load(text)
