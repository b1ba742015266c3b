# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of the shared scratch (BeeOND) of a job that is over, and connections of one that fell back to TCP.

It reads the table of mounts, the names in SCRATCH/beeond, the processes and /proc/fs/beegfs, and touches no file system
of BeeGFS: one whose servers are gone holds a call for ever.
"""

from __future__ import annotations

from typing import Optional, Tuple

from ...core import mounts
from ...core.frozen import frozen
from ...core.host import Host
from ...core.options import of_section
from ...slurm import jobs
from ...slurm.beeond import FOLDER, SECTION, node, rules
from ...slurm.beeond.remains import Remains, left_over
from .. import scratch
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_CLIENTS = "/proc/fs/beegfs"
# A word behind an address that the client took because a better one did not answer. Users look for it in the output of
# beegfs-net, which reads these files; it was not seen in its source or on a machine.
_FALLBACK = "fallback"


@frozen
class Seen:
    """``running``: the jobs that this node is busy with. ``fallback``: the clients with such a connection."""

    remains: Remains
    running: Tuple[int, ...]
    fallback: Tuple[str, ...] = ()


def look(evidence: Evidence) -> Optional[Seen]:
    host, section = evidence.host, evidence.declared.get(SECTION)
    if section is None and not host.exists(FOLDER):
        return None
    table = mounts.read(host)
    places = scratch.places(evidence.declared)
    point = next((one for one in places if mounts.at(table, one) is not None), None)
    remains = node.remains(host, of_section(rules.Settings, section), point)
    # Read after what there is: a job that begins meanwhile notes itself before anything of it is there.
    running = tuple(one.id for one in jobs.all_of(host))
    return Seen(remains, running, _fallback(host))


def _fallback(host: Host) -> Tuple[str, ...]:
    return tuple(
        one
        for one in sorted(host.names(_CLIENTS))
        if any(
            _FALLBACK in (host.read("{0}/{1}/{2}".format(_CLIENTS, one, name)) or "")
            for name in ("meta_nodes", "storage_nodes")
        )
    )


def judge(seen: Optional[Seen], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="no shared scratch was declared")
    findings = [
        Finding(
            Outcome.WARN,
            "shared scratch of job {0}".format(job),
            "the job is over here, and there is still {0}".format(what),
            "see docs/beeond.md, 'What a job left'",
            Remedy.LOOK,
            Certainty.CERTAIN,
            "beeond",
            "left_over",
        )
        for job, what in left_over(seen.remains, seen.running)
    ]
    if seen.fallback:
        reason = "the client talks to some servers by a fallback route, as TCP in place of RDMA"
        remedy = "run 'beegfs-net' and 'gpunode health'"
        findings.append(
            Finding(
                Outcome.WARN, "shared scratch", reason, remedy, Remedy.LOOK, Certainty.CERTAIN, "beeond", "fallback"
            )
        )
    return Judgement("{0} mounted".format(len(seen.remains.mounts)), tuple(findings))


CHECKS = (Check("beeond_leftover", "No job left its shared scratch here", Cost.PASSIVE, judge, look, lane="storage"),)
