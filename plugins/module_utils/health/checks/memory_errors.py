# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the memory modules, as the kernel's EDAC drivers count them. They start at 0 with each boot."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...facts.sysfs import natural, parse_int
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

EDAC = "/sys/devices/system/edac/mc"
CORRECTED = "memory_corrected_errors"
UNCORRECTED = "memory_uncorrected_errors"
CORRECTED_LIMIT = "memory_corrected_errors_per_day"


@frozen
class Module:
    """A memory module, or what its controller could not tell to be of one (``label`` empty)."""

    name: str
    label: str
    corrected: int
    uncorrected: int


def look(evidence: Evidence) -> Tuple[Module, ...]:
    host = evidence.host
    controllers = sorted((one for one in host.names(EDAC) if re.fullmatch(r"mc\d+", one)), key=natural)
    return tuple(module for one in controllers for module in _modules(host, one))


def _modules(host: Host, controller: str) -> List[Module]:
    folder = "{0}/{1}".format(EDAC, controller)
    found: List[Module] = []
    for name in sorted(host.names(folder), key=natural):
        if not re.fullmatch(r"(dimm|rank)\d+", name):
            continue
        place = "{0}/{1}".format(folder, name)
        counts = [parse_int(host.read_line("{0}/dimm_{1}_count".format(place, kind))) for kind in ("ce", "ue")]
        label = " ".join((host.read_line(place + "/dimm_label") or "").split())
        found.append(Module("{0}/{1}".format(controller, name), label, *(_count(one) for one in counts)))
    whole = [parse_int(host.read_line("{0}/{1}_count".format(folder, kind))) for kind in ("ce", "ue")]
    if all(one is None for one in whole):
        return found
    # The controller counts them all; what is not counted for a module happened at a place that it could not tell.
    corrected = max(0, _count(whole[0]) - sum(one.corrected for one in found))
    uncorrected = max(0, _count(whole[1]) - sum(one.uncorrected for one in found))
    return found + [Module(controller, "", corrected, uncorrected)]


def _count(value: Optional[int]) -> int:
    return max(0, value or 0)


def judge(seen: Tuple[Module, ...], expected: Expected) -> Judgement:
    if not seen:
        return Judgement(not_applicable="no memory controller tells its errors (a virtual machine, or no EDAC driver)")
    findings: List[Finding] = []
    measured: List[Measured] = []
    for one in seen:
        corrected = Measured(CORRECTED, float(one.corrected), one.name, counter=True, better="lower")
        measured += [corrected, Measured(UNCORRECTED, float(one.uncorrected), one.name, counter=True, better="lower")]
        findings += _judge(one, corrected, expected)
    return Judgement(
        "{0} memory modules".format(sum(1 for one in seen if "/" in one.name)), tuple(findings), tuple(measured)
    )


def _judge(one: Module, corrected: Measured, expected: Expected) -> List[Finding]:
    thing = "memory module {0}".format(one.label or one.name) if "/" in one.name else "memory controller " + one.name
    if one.uncorrected:
        reason = "{0} errors since the boot could not be corrected".format(one.uncorrected)
        remedy = "reboot to have the bad pages left out; replace the module if it recurs"
        return [
            Finding(Outcome.FAIL, thing, reason, remedy, Remedy.REPLACE, Certainty.CERTAIN, one.name, "uncorrected")
        ]
    growth, limit = expected.growth(corrected), expected.thresholds.get(CORRECTED_LIMIT)
    if growth is None or limit is None or limit.outcome(growth.by) is Outcome.PASS:
        return []
    reason = "{0:.0f} errors were corrected within {1:.0f} h, more than {2:g}".format(
        growth.by, growth.hours, limit.limit(growth.by) or 0
    )
    remedy = "replace it at the next maintenance, before an error cannot be corrected"
    return [
        Finding(
            limit.outcome(growth.by), thing, reason, remedy, Remedy.REPLACE, Certainty.LIKELY, one.name, "corrected"
        )
    ]


CHECKS = (Check("memory_errors", "No memory module makes errors", Cost.PASSIVE, judge, look),)
