# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that runs this test, as we read it and as hwloc does: two readers of sysfs that share no code."""

from __future__ import annotations

import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology

LSTOPO = shutil.which("lstopo-no-graphics")


def cpus(mask):
    value = int("".join(part[2:].rjust(8, "0") for part in mask.split(",")), 16)
    return tuple(cpu for cpu in range(value.bit_length()) if value >> cpu & 1)


@pytest.mark.skipif(LSTOPO is None, reason="hwloc is not installed here")
def test_hwloc_and_we_see_the_same_cores_numa_nodes_and_caches():
    # --whole-system: what this process may not use is part of the machine all the same.
    done = subprocess.run(
        [LSTOPO, "--whole-system", "--no-io", "--of", "xml"], capture_output=True, text=True, check=True, timeout=60
    )
    theirs = {}
    for element in ElementTree.fromstring(done.stdout).iter("object"):
        theirs.setdefault(element.get("type"), set()).add(cpus(element.get("cpuset") or "0x0"))
    ours = topology.observe(Host())
    assert {tuple(sorted(group)) for group in ours.cpus.sibling_groups} == theirs["Core"]
    assert {node.cpus for node in ours.numa_nodes} == theirs["NUMANode"]
    caches = {tuple(group.cpus) for node in ours.numa_nodes for group in node.l3_groups}
    assert caches == theirs.get("L3Cache", set())
