# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel remembers of itself until the next boot: oopses, warnings, machine checks, lockups."""

from __future__ import annotations

from ...core.resource import NodeError
from ...facts.sysfs import parse_int
from ..data.taints import TAINTS
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome

PATH = "/proc/sys/kernel/tainted"


def look(evidence: Evidence) -> int:
    found = parse_int(evidence.host.read_line(PATH))
    if found is None or found < 0:
        raise NodeError(PATH, "it cannot be read", "see that /proc is mounted")
    return found


def judge(seen: int, dummy: Expected) -> Judgement:
    set_ = [one for one in TAINTS if seen >> one.bit & 1]
    findings = tuple(
        Finding(one.outcome, "kernel", "{0} since the boot".format(one.meaning), one.remedy, one.action, code=one.code)
        for one in set_
        if one.outcome is not Outcome.PASS
    )
    return Judgement("taints: {0}".format("".join(one.letter for one in set_) or "none"), findings)


CHECKS = (Check("kernel_taint", "The kernel has had no fault since the boot", Cost.PASSIVE, judge, look),)
