# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of this node: that it ends soon, that it is over, or that it ended before this machine ever ran."""

from __future__ import annotations

import time
from typing import Optional, Tuple

from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# Of core.lease, which is loaded only where there is one.
_SECTION = "node_lease"
_EXTEND = "extend node_lease_until and run site.yml, or let it end"
#: (stage, the end for people, how long it still is, days of the warning that was reached, what holds its end up)
Seen = Tuple[str, str, str, Optional[int], str]


def look(evidence: Evidence) -> Optional[Seen]:
    section = evidence.declared.get(_SECTION)
    if not section:
        return None
    from ...core import lease as leases
    from ...core import machine

    lease = leases.declared(section)
    if lease is None:
        return "wrong", "", "", None, ""
    now, memory = time.time(), leases.read(evidence.host)
    right = leases.confirmed(memory, leases.clocks(evidence.host, now))
    stage = leases.stage(lease, memory, machine.identity(evidence.host), now, right)
    days = leases.threshold(lease, now)
    return stage.value, leases.utc(lease.ends), leases.left(lease, now), days, memory.why


def judge(seen: Optional[Seen], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="this node has no lease")
    stage, end, left, days, why = seen
    if stage == "runs" and days is None:
        return Judgement("until {0}".format(end))
    if stage == "runs":
        reason, remedy = "it ends in {0}, at {1}".format(left, end), _EXTEND
    elif stage == "never_ran":
        reason = "it ended at {0}, before this machine was seen to run under it, so nothing is reset".format(end)
        remedy = "extend node_lease_until and run site.yml, or set node_lease_state: absent"
    elif stage == "unsure":
        reason = "it ended at {0} by a clock that made a step, or that a start of the machine set".format(end)
        remedy = "check the clock with 'timedatectl'; the lease ends after a day without another step"
    elif stage == "wrong":
        reason, remedy = "its section of the declaration cannot be understood", "run site.yml again"
    else:
        reason = "it ended at {0}{1}".format(end, ", and the hand-back waits: " + why if why else "")
        remedy = "run 'gpunode lease' to see how far the hand-back is"
    code = "days_{0}".format(days) if stage == "runs" else stage
    return Judgement(findings=(Finding(Outcome.WARN, "lease", reason, remedy, Remedy.WATCH, code=code),))


CHECKS = (Check("lease", "The lease of this node does not end soon", Cost.PASSIVE, judge, look),)
