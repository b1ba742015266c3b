# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts at random moments of a build: after the next boot the node has healed itself, or a run heals it.

SOAK_CUTS (20) is the number of cuts, SOAK_SEED the seed of the moments, which is printed.
"""

from __future__ import annotations

import json
import os
import random
import time

import pytest

CUTS = int(os.environ.get("SOAK_CUTS", "20"))
SEED = int(os.environ.get("SOAK_SEED", str(time.time_ns() % 1000000)))
# A build takes about this long in an emulated guest; cuts fall from its first moment to just after its end.
BUILD_SECONDS = 20.0
OPTIONS = {"models": ["QEMU NVMe Ctrl"], "count": 8, "mount_point": "/mnt/scratch"}


@pytest.fixture(scope="module", autouse=True)
def boot_unit(shared_node):
    """The declaration and the boot unit, as the role makes them, and blank disks."""
    variables = {"nvme_scratch_mount_point": "/mnt/scratch", "node_profile_name": "virtual"}
    shared_node.ansible(["playbooks/site.yml", "-e", json.dumps(variables)])
    print("seed of the moments: {0}".format(SEED))


@pytest.mark.parametrize("moment", [random.Random(SEED + cut).uniform(0.0, BUILD_SECONDS) for cut in range(CUTS)])
def test_a_cut_at_any_moment_of_a_build_is_healed(node, moment):
    node.ssh("umount /mnt/scratch; true")
    node.blank_disks()
    node.ssh("sync; nohup gpunode apply nvme_scratch >/run/apply.log 2>&1 </dev/null & sleep {0:.2f}".format(moment))
    node.cut_power()
    node.start()
    node.ssh("systemctl is-system-running --wait || true", timeout=300)
    status = json.loads(node.ssh("gpunode scratch status --json", check=False).stdout)
    if not status["in_order"]:
        told = node.ssh("gpunode apply nvme_scratch 2>&1", check=False)
        assert told.returncode == 0, told.stdout
        status = json.loads(node.ssh("gpunode scratch status --json").stdout)
    assert status["in_order"], status
    node.ssh("findmnt /mnt/scratch && touch /mnt/scratch/alive")
    assert node.ssh("systemctl --failed --plain --no-legend").stdout == ""
