# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy node with data in its scratch boots healthy, each time, also while other work slows the boot down.

SOAK_REBOOTS (10) is the number of plain reboots.
"""

from __future__ import annotations

import json
import os

import pytest

REBOOTS = int(os.environ.get("SOAK_REBOOTS", "10"))
VARIABLES = {"nvme_scratch_mount_point": "/mnt/scratch", "node_profile_name": "virtual"}
# fstab's mount and the boot unit race when both wait for a processor.
BUSY = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'for n in 1 2; do (while :; do :; done) & done; sleep 60; kill 0'
[Install]
WantedBy=sysinit.target
"""


@pytest.fixture(scope="module", autouse=True)
def scratch(shared_node):
    """The scratch and its boot unit, as the roles make them, with data of a user."""
    shared_node.ansible(["playbooks/site.yml", "-e", json.dumps(VARIABLES)])
    shared_node.write("/etc/systemd/system/busy.service", BUSY)
    shared_node.ssh("systemctl enable -q busy.service; echo precious > /mnt/scratch/file; sync")


def healthy(node):
    node.ssh("systemctl is-system-running --wait || true", timeout=600)
    log = node.ssh("journalctl -b -o cat -u gpu-node-nvme_scratch.service -u mnt-scratch.mount").stdout
    failed = node.ssh("systemctl --failed --plain --no-legend").stdout
    assert failed == "", (
        failed,
        node.ssh("journalctl -b -o short-monotonic -u 'gpu-node-*' -u mnt-scratch.mount").stdout,
    )
    assert node.ssh("cat /mnt/scratch/file").stdout == "precious\n"
    status = json.loads(node.ssh("gpunode scratch status --json", check=False).stdout)
    assert status["in_order"], (status, log)
    return log


@pytest.mark.parametrize("turn", range(REBOOTS))
def test_the_scratch_with_its_data_is_there_and_nothing_failed(node, turn):
    node.reboot()
    log = healthy(node)
    # Mostly fstab has mounted it. Where the device came too late for that on a busy machine, the unit has.
    assert "scratch: as declared" in log or "scratch: brought to its declaration" in log, log
    after = node.ssh("systemctl show -p After --value gpu-node-nvme_scratch.service").stdout.split()
    assert {"mnt-scratch.mount", "mnt-scratch.automount"} <= set(after)


def test_an_automount_of_the_scratch_boots_as_healthy(node):
    options = dict(VARIABLES, nvme_scratch_mount_options=["noatime", "x-systemd.automount"])
    node.ansible(["playbooks/site.yml", "--tags", "nvme_scratch", "-e", json.dumps(options)])
    for _ in range(2):
        node.reboot()
        healthy(node)
    assert "autofs" in node.ssh("findmnt -n -o FSTYPE /mnt/scratch").stdout
    again = node.ansible(["playbooks/site.yml", "--tags", "nvme_scratch", "-e", json.dumps(options)]).stdout
    assert "changed=0" in again, again
