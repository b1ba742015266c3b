# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured machines of all kinds are healthy: with their own profile, and without any."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import types, verdict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.checks.healthy_node import (
    CHECKS,
    KMSG,
    here,
)

PROFILES = pathlib.Path(__file__).resolve().parents[6] / "roles" / "node_profile" / "files" / "profiles"
OWN = {"ndv2": "nd40rs_v2", "ndv4": "nd96asr_v4", "ndv5": "nd96isr_h100_v5"}


class Layered(Host):
    """The captured /sys of one machine over the /proc of another."""

    def __init__(self, root, base):
        super().__init__(root)
        self.base = str(base)

    def path(self, path):
        captured = super().path(path)
        if path.startswith("/sys/") or os.path.lexists(captured):
            return captured
        return os.path.join(self.base, path.lstrip("/"))


def profile_of(name):
    return yaml.safe_load((PROFILES / (OWN[name] + ".yml")).read_text(encoding="utf-8")) if name in OWN else {}


def judged(node, name, profile, level=Cost.PASSIVE):
    """Nothing was declared on it but the profile."""
    if "memory" in profile:
        node.write("/proc/meminfo", "MemTotal: {0} kB".format(profile["memory"]["bytes"] // 1024))
    if name == "gb200":  # nothing else drives it
        node.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  550.54")
        node.write("/lib/firmware/nvidia/550.54/gsp_ga10x.bin", "")
    node.write("/dev/kmsg", "\n".join(KMSG[:5]))  # what a virtual machine may say, one of metal may not
    node._programs()  # a disk of any name answers as this one
    for controller in Host(unpack.shared(name)).names("/sys/class/nvme"):
        (node.bin / (controller + ".json")).write_text((node.bin / "nvme0.json").read_text(encoding="utf-8"))
    declared = {"profile": {"name": profile.get("name", "unknown"), "data": profile}}
    checks = CHECKS[level]
    host = Layered(unpack.shared(name), node.root)
    expected = types.Expected(declared["profile"]["name"], profile, declared, node.limits, {}, {}, time.time())
    return verdict.judge("node", level, checks, here(checks, Evidence(host, declared, {})), expected)


@pytest.mark.parametrize("level", [Cost.QUICK, Cost.PASSIVE])
@pytest.mark.parametrize("name", sorted(OWN))
def test_a_machine_of_a_profile_has_no_finding(node, name, level):
    found = judged(node, name, profile_of(name), level)
    assert found.findings == ()
    assert found.outcome.value == "pass"


@pytest.mark.parametrize("name", unpack.names())
def test_of_an_unknown_machine_nothing_is_said_but_that(node, name):
    found = judged(node, name, {})
    # Two of them are not in good health: CPUs 2, 3 and 7 are off; a disk over the network has lost its target.
    ill = {"offline": [("cpu_count", "offline")], "minus_one": [("nvme_state", "state")]}.get(name, [])
    assert [(check, one.code) for check, one in found.findings] == [("profile", "unknown_machine"), *ill]


@pytest.mark.parametrize("name", sorted(OWN))
@pytest.mark.parametrize("other", sorted(OWN))
def test_a_machine_held_against_the_profile_of_another_fails(node, name, other):
    if name == other:
        return
    found = judged(node, name, profile_of(other))
    assert found.outcome.value == "fail"
    assert {check for check, dummy in found.findings} <= {
        "cpu_count",
        "numa_layout",
        "memory_size",
        "ib_ports",
        "nvme_count",
    }
