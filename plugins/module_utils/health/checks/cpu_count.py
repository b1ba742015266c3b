# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs: as many online as the profile says, and none switched off that nobody wanted off."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.sysfs import format_cpulist, parse_cpulist
from ...facts.sysfs_numa import CPUS
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

# Documentation/ABI/testing/sysfs-devices-system-cpu: somebody switched the second threads of all cores off.
_SMT_OFF = ("off", "forceoff")


@frozen
class Seen:
    present: Tuple[int, ...]
    online: Tuple[int, ...]
    smt: str


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    online = parse_cpulist(host.read_line(CPUS + "/online"))
    if not online:
        raise NodeError(CPUS + "/online", "it cannot be read", "see that sysfs is mounted at /sys")
    present = parse_cpulist(host.read_line(CPUS + "/present")) or online
    return Seen(present, online, host.read_line(CPUS + "/smt/control") or "")


def judge(seen: Seen, expected: Expected) -> Judgement:
    online = frozenset(seen.online)
    off = tuple(cpu for cpu in seen.present if cpu not in online)
    wanted = _wanted(expected.profile)
    findings = []
    if wanted is not None and wanted != len(seen.online):
        reason = "{0} are online instead of {1}".format(len(seen.online), wanted)
        action, remedy = Remedy.LOOK, "compare lscpu with the size of the machine, and with the profile"
        if off:
            reason += ", {0} are offline".format(format_cpulist(off))
            action, remedy = Remedy.CONFIGURE, _switch_on(off)
        findings.append(Finding(Outcome.FAIL, "CPUs", reason, remedy, action, code="count"))
    # Without SMT the other threads of each core are offline by right.
    elif wanted is None and off and seen.smt not in _SMT_OFF:
        reason = "{0} are offline".format(format_cpulist(off))
        findings.append(Finding(Outcome.WARN, "CPUs", reason, _switch_on(off), Remedy.CONFIGURE, code="offline"))
    return Judgement(
        seen="{0} online".format(len(seen.online)),
        findings=tuple(findings),
        measured=(Measured("cpus_online", float(len(seen.online)), better="higher"),),
    )


def _wanted(profile: Mapping[str, Any]) -> Optional[int]:
    """Of a profile that only says how many each NUMA node has, the sum."""
    if "cpus" in profile:
        return int(profile["cpus"])
    counts = [node.get("cpus") for node in profile.get("numa_nodes", ())]
    return sum(counts) if counts and None not in counts else None


def _switch_on(off: Tuple[int, ...]) -> str:
    return "run 'chcpu -e {0}', and find out who switched them off".format(format_cpulist(off))


CHECKS = (Check("cpu_count", "All CPUs are online", Cost.QUICK, judge, look),)
