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
_LOCAL = (None, "pcie")
_DISKS = "local NVMe disks"


def look(evidence: Evidence) -> Topology:
    return evidence.topology


def judge_count(seen: Topology, expected: Expected) -> Judgement:
    wanted = expected.profile.get("nvme")
    if not wanted:
        return Judgement(not_applicable="no profile says how many disks this machine has")
    findings: List[Finding] = []
    for one in differences(expected, "nvme", seen):
        if one.subject != _DISKS:
            continue  # told by the check of their states
        reason = "{0} are there instead of {1}".format(one.found, one.expected)
        less = one.found < one.expected
        remedy = "compare 'nvme list' with the size of the machine, then redeploy it" if less else "correct the profile"
        action = Remedy.REPLACE if less else Remedy.CONFIGURE
        findings.append(Finding(outcome(one), _DISKS, reason, remedy, action, code="count"))
    if not wanted["count"] and not findings:
        return Judgement(not_applicable="this machine has no local NVMe disk")
    return Judgement("{0} local disks".format(wanted["count"]), tuple(findings))


def judge_state(seen: Topology, expected: Expected) -> Judgement:
    if not seen.nvme:
        return Judgement(not_applicable="this machine has no NVMe disk")
    known = expected.profile.get("nvme")
    missing = any(one.subject == _DISKS for one in differences(expected, "nvme", seen)) or not known
    findings = tuple(found for one in seen.nvme for found in _state(one, missing))
    alive = sum(1 for one in seen.nvme if one.state in (None, "live"))
    measured = (Measured("nvme_controllers_live", float(alive), better="higher"),)
    return Judgement("{0} of {1} controllers live".format(alive, len(seen.nvme)), findings, measured)


def _state(disk: Nvme, missing: bool) -> Tuple[Finding, ...]:
    """``missing``: local disks are missing, or no profile tells how many there are."""
    thing = "disk {0} ({1})".format(disk.name, disk.serial or "without serial number")
    key = disk.serial or disk.name
    if disk.state not in (None, "live"):
        reason = "the state of its controller is {0} instead of live".format(disk.state)
        if disk.transport not in _LOCAL:
            # Its target is another machine: to redeploy this one does not help.
            remedy = "look at 'nvme list-subsys' and at the machine that offers it by {0}".format(disk.transport)
            return (Finding(Outcome.WARN, thing, reason, remedy, Remedy.WATCH, Certainty.POSSIBLE, key, "state"),)
        if disk.state in _ON_ITS_WAY:
            remedy = "look again in a minute, and at 'dmesg' for timeouts of {0}".format(disk.name)
            return (Finding(Outcome.WARN, thing, reason, remedy, Remedy.WATCH, Certainty.POSSIBLE, key, "state"),)
        remedy = "reboot; when it stays so, redeploy the machine or replace the disk"
        return (Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, key=key, code="state"),)
    if not disk.namespaces and disk.transport in _LOCAL:
        reason = "it has no namespace, so there is no block device"
        if not missing:
            # One for administration has none (NVM Express Base Specification 2.0).
            remedy = (
                "nothing, if it is for administration alone ('nvme id-ctrl', cntrltype); create a namespace otherwise"
            )
            return (Finding(Outcome.WARN, thing, reason, remedy, Remedy.WATCH, Certainty.POSSIBLE, key, "namespaces"),)
        remedy = "reboot; when it stays so, redeploy the machine or replace the disk"
        return (Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, key=key, code="namespaces"),)
    return ()


CHECKS = (
    Check("nvme_count", "All local NVMe disks are there", Cost.PASSIVE, judge_count, look),
    Check("nvme_state", "Every NVMe controller is alive", Cost.PASSIVE, judge_state, look),
)
