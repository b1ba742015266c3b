# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load without a job: something runs here that should not. Only where prologs tell which jobs run."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.sysfs import parse_cpulist
from ...facts.sysfs_numa import CPUS
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

HOOKS = "slurm_hooks"  # slurm_job.types.SECTION; only its prologs and epilogs know which jobs run
FIGURE = "idle_load_per_cpu"


@frozen
class Seen:
    """``averages`` are those of 1, 5 and 15 minutes. ``jobs`` None: nobody tells which jobs run."""

    averages: Tuple[float, ...]
    cpus: int
    jobs: Optional[int]


def look(evidence: Evidence) -> Seen:
    host = evidence.host
    found = re.match(r"([\d.]{1,20}) ([\d.]{1,20}) ([\d.]{1,20}) ", host.read("/proc/loadavg") or "")
    try:
        averages = tuple(float(one) for one in found.groups()) if found else ()
    except ValueError:
        averages = ()
    if not averages:
        raise NodeError("/proc/loadavg", "it cannot be read", "see that /proc is mounted")
    cpus = len(parse_cpulist(host.read_line(CPUS + "/online"))) or 1
    if HOOKS not in evidence.declared:
        return Seen(averages, cpus, None)
    from ...slurm import jobs

    return Seen(averages, cpus, len(jobs.all_of(host)))


def judge(seen: Seen, expected: Expected) -> Judgement:
    load = Measured("load_15_minutes", seen.averages[-1])
    if seen.jobs is None:
        return Judgement(not_applicable="no hooks of ours are declared, so it is not known which jobs run")
    if seen.jobs:
        return Judgement(seen="{0} jobs run".format(seen.jobs), measured=(load,))
    # The least of the three: a job that has just ended leaves its load in the averages for minutes.
    value = min(seen.averages) / seen.cpus
    findings: Tuple[Finding, ...] = ()
    limit = expected.thresholds.get(FIGURE)
    if limit is not None and limit.outcome(value) is not Outcome.PASS:
        reason = "no job runs, and the load has been {0:.0f} on {1} CPUs for 15 minutes".format(
            min(seen.averages), seen.cpus
        )
        remedy = "look with 'ps -eo pid,user,stat,pcpu,comm --sort=-pcpu' for what runs, or hangs in state D"
        findings = (Finding(limit.outcome(value), "CPUs", reason, remedy, Remedy.LOOK, code="without_job"),)
    return Judgement("no job runs, load {0:g}".format(seen.averages[0]), findings, (load,))


CHECKS = (Check("cpu_load", "Nothing but jobs loads the CPUs", Cost.PASSIVE, judge, look),)
