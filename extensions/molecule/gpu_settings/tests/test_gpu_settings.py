# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPUs as a job finds them."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(scope="module")
def gpus(host):
    return json.loads(host.check_output("gpunode info --json"))["gpus"]


def test_persistence_is_on_for_all(gpus):
    assert [gpu["settings"]["persistence"] for gpu in gpus] == [True] * 8


def test_clocks_are_the_highest_for_all(gpus):
    assert [gpu["clocks"]["graphics_mhz"] for gpu in gpus] == [1410] * 8
    assert [gpu["clocks"]["memory_mhz"] for gpu in gpus] == [1215] * 8


def test_the_boot_unit_is_enabled_and_finds_nothing_to_do(host):
    assert host.service("gpu-node-gpu_settings").is_enabled
    done = json.loads(host.check_output("gpunode apply gpu_settings --json"))
    assert [one["status"] for one in done["resources"]] == ["ok"]


def test_the_record_is_not_writable_by_others(host):
    for path in ("/etc/gpu_node/node.json", "/var/lib/gpu_node/gpu_settings.json"):
        assert host.file(path).user == "root"
        assert host.file(path).mode & 0o022 == 0
