# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of the memory, as the kernel has it."""

from __future__ import annotations

from ...core.resource import NodeError
from ...facts.sysfs_numa import memory_bytes
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

_GIB = 1024.0**3


def look(evidence: Evidence) -> int:
    found = memory_bytes(evidence.host)
    if found is None:
        raise NodeError("/proc/meminfo", "it tells no MemTotal", "see that /proc is mounted")
    return found


def judge(seen: int, expected: Expected) -> Judgement:
    findings = []
    wanted = expected.profile.get("memory")
    if wanted and abs(seen - wanted["bytes"]) * 100 > wanted["bytes"] * wanted["tolerance_percent"]:
        reason = "{0:.1f} GiB instead of {1:.1f} GiB (± {2:g} %)".format(
            seen / _GIB, wanted["bytes"] / _GIB, wanted["tolerance_percent"]
        )
        less = seen < wanted["bytes"]
        remedy = "see with 'dmidecode -t memory' which module is missing" if less else "correct memory in the profile"
        action = Remedy.REPLACE if less else Remedy.CONFIGURE
        findings.append(Finding(Outcome.WARN, "memory", reason, remedy, action, code="size"))
    measured = Measured("memory_bytes", float(seen), better="higher")
    return Judgement("{0:.1f} GiB".format(seen / _GIB), tuple(findings), (measured,))


CHECKS = (Check("memory_size", "The whole memory is there", Cost.QUICK, judge, look),)
