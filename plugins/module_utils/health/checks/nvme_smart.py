# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the NVMe disks themselves say of their health."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.sysfs import nvme_controllers
from ..container import contained
from ..data.nvme_warnings import WARNINGS
from ..evidence import Evidence
from ..nvme_smart import Smart, read
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

USED = "nvme_life_used_percent"
MEDIA_ERRORS = "nvme_media_errors"
MEDIA_ERRORS_LIMIT = "nvme_media_errors_per_day"
# A controller that resets or is dead would hold the question until its time is up; nvme_state tells of it.
_ANSWERING = (None, "live")
_REPLACE = "copy off what is needed, then redeploy the machine or replace the disk"


@frozen
class Disk:
    """``smart`` None: ``error`` and ``remedy`` tell why; where they are empty, the disk has no such log."""

    name: str
    serial: str
    smart: Optional[Smart]
    error: str = ""
    remedy: str = ""


def look(evidence: Evidence) -> Tuple[Disk, ...]:
    host = evidence.host
    found = []
    for one in nvme_controllers(host):
        if not host.exists("/dev/" + one.name) and contained(host):
            continue  # sysfs shows a container the disks of its host
        if one.transport not in (None, "pcie") or one.state not in _ANSWERING:
            continue
        serial = one.serial or ""
        try:
            found.append(Disk(one.name, serial, read(host, one.name)))
        except NodeError as error:
            found.append(Disk(one.name, serial, None, error.reason, error.remedy))
    return tuple(found)


def judge(seen: Tuple[Disk, ...], expected: Expected) -> Judgement:
    if not seen:
        return Judgement(not_applicable="this machine has no NVMe disk that answers")
    findings: List[Finding] = []
    measured: List[Measured] = []
    silent = [one for one in seen if one.smart is None and one.error]
    if len(silent) == len(seen):  # one reason for all of them: no root, no tool
        thing, key = "health logs of {0} NVMe disks".format(len(seen)), ""
        findings.append(_unread(silent[0], thing, key))
    else:
        findings += [_unread(one, _thing(one), _key(one)) for one in silent]
    for disk in seen:
        if disk.smart is not None:
            figures = _figures(disk, disk.smart)
            measured += figures
            findings += _judge(disk, disk.smart, figures, expected)
    told = sum(1 for one in seen if one.smart is not None)
    return Judgement("{0} of {1} disks have a health log".format(told, len(seen)), tuple(findings), tuple(measured))


def _thing(disk: Disk) -> str:
    return "disk {0} ({1})".format(disk.name, disk.serial or "without serial number")


def _key(disk: Disk) -> str:
    return disk.serial or disk.name


def _unread(disk: Disk, thing: str, key: str) -> Finding:
    return Finding(
        Outcome.UNKNOWN, thing, disk.error, disk.remedy, Remedy.CONFIGURE, Certainty.CERTAIN, key, "unreadable"
    )


def _figures(disk: Disk, smart: Smart) -> List[Measured]:
    found = [
        Measured(MEDIA_ERRORS, float(smart.media_errors), _key(disk), counter=True, better="lower"),
        Measured(USED, float(smart.percentage_used), _key(disk), better="lower"),
    ]
    if smart.temperature_celsius is not None:
        found.append(Measured("nvme_temperature_celsius", float(smart.temperature_celsius), _key(disk), better="lower"))
    return found


def _judge(disk: Disk, smart: Smart, figures: List[Measured], expected: Expected) -> List[Finding]:
    thing, key = _thing(disk), _key(disk)
    found = [
        Finding(one.outcome, thing, one.meaning, _REPLACE, one.action, Certainty.CERTAIN, key, one.code)
        for one in WARNINGS
        if smart.critical_warning >> one.bit & 1
    ]
    limit, growth = expected.thresholds.get(MEDIA_ERRORS_LIMIT), expected.growth(figures[0])
    if limit is not None and growth is not None and limit.outcome(growth.by) is not Outcome.PASS:
        reason = "{0:.0f} errors of its medium within {1:.0f} h".format(growth.by, growth.hours)
        outcome = limit.outcome(growth.by)
        found.append(Finding(outcome, thing, reason, _REPLACE, Remedy.REPLACE, Certainty.LIKELY, key, "media_errors"))
    limit = expected.thresholds.get(USED)
    if limit is not None and limit.outcome(smart.percentage_used) is not Outcome.PASS:
        reason = "{0} % of the life that its maker estimates is used up".format(smart.percentage_used)
        outcome = limit.outcome(smart.percentage_used)
        found.append(Finding(outcome, thing, reason, _REPLACE, Remedy.REPLACE, Certainty.LIKELY, key, "life_used"))
    return found


CHECKS = (
    Check("nvme_smart", "No NVMe disk says that it is ill", Cost.PASSIVE, judge, look, lane="programs", seconds=20.0),
)
