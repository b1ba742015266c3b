# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe disks: as many local ones as the profile says, and every controller alive."""

from __future__ import annotations

from typing import List, Tuple

from ...facts.topology.types import Nvme, Topology
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .profile_parts import differences, outcome

# drivers/nvme/host/core.c, nvme_sysfs_show_state: a controller comes back from these by itself, or becomes dead.
_ON_ITS_WAY = ("new", "resetting", "connecting")


def look(evidence: Evidence) -> Topology:
    return evidence.topology


def judge_count(seen: Topology, expected: Expected) -> Judgement:
    wanted = expected.profile.get("nvme")
    if not wanted:
        return Judgement(not_applicable="no profile says how many disks this machine has")
    findings: List[Finding] = []
    for one in differences(expected, "nvme", seen):
        if one.subject != "local NVMe disks":
            continue  # told by the check of their states
        reason = "{0} are there instead of {1}".format(one.found, one.expected)
        less = one.found < one.expected
        remedy = "compare 'nvme list' with the size of the machine, then redeploy it" if less else "correct the profile"
        action = Remedy.REPLACE if less else Remedy.CONFIGURE
        findings.append(Finding(outcome(one), "local NVMe disks", reason, remedy, action, code="count"))
    if not wanted["count"] and not findings:
        return Judgement(not_applicable="this machine has no local NVMe disk")
    return Judgement("{0} local disks".format(wanted["count"]), tuple(findings))


def judge_state(seen: Topology, expected: Expected) -> Judgement:
    if not seen.nvme:
        return Judgement(not_applicable="this machine has no NVMe disk")
    findings = tuple(found for one in seen.nvme for found in _state(one))
    alive = sum(1 for one in seen.nvme if one.state in (None, "live"))
    measured = (Measured("nvme_controllers_live", float(alive), better="higher"),)
    return Judgement("{0} of {1} controllers live".format(alive, len(seen.nvme)), findings, measured)


def _state(disk: Nvme) -> Tuple[Finding, ...]:
    thing = "disk {0} ({1})".format(disk.name, disk.serial or "without serial number")
    key = disk.serial or disk.name
    if disk.state not in (None, "live"):
        reason = "the state of its controller is {0} instead of live".format(disk.state)
        if disk.state in _ON_ITS_WAY:
            remedy = "look again in a minute, and at 'dmesg' for timeouts of {0}".format(disk.name)
            return (Finding(Outcome.WARN, thing, reason, remedy, Remedy.WATCH, Certainty.POSSIBLE, key, "state"),)
        remedy = "reboot; when it stays so, redeploy the machine or replace the disk"
        return (Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, key=key, code="state"),)
    if not disk.namespaces and disk.transport in (None, "pcie"):
        reason = "it has no namespace, so there is no block device"
        remedy = "reboot; when it stays so, redeploy the machine or replace the disk"
        return (Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, key=key, code="namespaces"),)
    return ()


CHECKS = (
    Check("nvme_count", "All local NVMe disks are there", Cost.PASSIVE, judge_count, look),
    Check("nvme_state", "Every NVMe controller is alive", Cost.PASSIVE, judge_state, look),
)
