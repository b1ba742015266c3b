# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sick node from the first failed check to the next job, and jobs that would outlive the lease of the node."""

from __future__ import annotations

import datetime
import re

import slurm_root

# As the module writes the section with its defaults.
LEASE = {"reset": True, "reservation": True, "motd": True, "slurm_node": "", "on_expiry": []}


def ran(node):
    return node.run("[ -e /tmp/ran ]", check=False).returncode == 0


def test_a_sick_node_takes_no_job_and_comes_back_when_it_is_well(node):
    node.start(conf=slurm_root.WATCHED)
    node.gate(proof=True)
    node.sick()
    number = node.sbatch("touch /tmp/ran")
    reason = node.drained()
    assert reason.startswith("gpu_node: health: reboot: GPU 2"), reason
    node.wait("job that waits", lambda: node.job(number).startswith("PENDING"))
    node.look()
    assert "DRAIN" in node.state() and node.reason() == reason and not ran(node)

    node.well()
    # Before it returns it has to pass a validation, which no simulated GPU can: clean looks alone do not bring it back.
    looks = [node.look() for _turn in range(4)]
    assert "DRAIN" in node.state() and node.reason() == reason, looks
    assert "owes a passing" in looks[-1], looks
    # Without that duty it returns. The clean looks from before count.
    node.gate(proof=False)
    looks = [node.look() for _turn in range(3)]
    assert "DRAIN" not in node.state(), looks
    # Slurm lets a job that it requeued wait for two minutes.
    node.run("scontrol update JobId={0} StartTime=now".format(number))
    node.wait("start of the job", lambda: ran(node))

    node.wait("end of the job", lambda: node.state() == "IDLE")
    node.run("scontrol update NodeName=gpu01 State=DRAIN Reason='anna: keep out'")
    for _turn in range(4):
        node.look()
    assert "DRAIN" in node.state() and node.reason() == "anna: keep out"


def test_no_job_that_would_outlive_a_lease_starts_until_it_is_extended(node):
    def lease(hours):
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
        until = end.strftime("%Y-%m-%dT%H:%M:%SZ")
        node.declare("node_lease", **LEASE, until=until)
        node.run("gpunode lease follow", variables={})  # as its timer does
        shown = node.run("scontrol -o show reservation").stdout
        start = re.search(r"ReservationName=gpu_node_lease_gpu01 StartTime=(\S+)", shown)
        assert start and start.group(1) + "Z" == until, shown  # the zone of the root is UTC
        assert "Nodes=gpu01 " in shown and "MAINT" in shown, shown

    node.start()
    lease(1)
    number = node.sbatch("touch /tmp/ran; sleep 100", "--time=120")
    node.wait("job that waits", lambda: node.job(number).startswith("PENDING ReqNodeNotAvail"))
    lease(4)
    node.wait("start of the job", lambda: ran(node), 90)
    assert node.job(number).startswith("RUNNING")
