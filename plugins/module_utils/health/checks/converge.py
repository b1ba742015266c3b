# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that converges itself at each boot: the last run came to its end, and it was ready then."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core import systemd
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

# Of core.converge_record, whose import would cost more than this check where there is no record.
_RECORD = "/var/lib/gpu_node/converge.json"
_UNIT = "gpu-node-converge.service"
_REMEDY = "see 'journalctl -b -t gpu-node-converge', then run 'gpunode converge'"

#: Standing and reason, as converge.record has them, and whether the unit converges this node at each boot.
Seen = Tuple[str, str, bool]


def look(evidence: Evidence) -> Optional[Seen]:
    if not systemd.is_enabled(evidence.host, _UNIT) and not evidence.host.exists(_RECORD):
        return None
    from ...core import converge_record as record

    known, enabled = record.known(evidence.host), record.each_boot(evidence.host)
    if known.standing is record.Standing.NONE and not enabled:
        return None
    return known.standing.value, known.reason, enabled


def judge(seen: Optional[Seen], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="this node does not converge itself")
    standing, reason, enabled = seen
    # It did once, in an earlier boot, and no boot has to any more.
    if standing == "ready" or (standing == "other_boot" and not enabled):
        return Judgement("it came to its end" if standing == "ready" else "it came to its end in an earlier boot")
    if standing == "running":
        # Nothing is known of the node until then, and nothing is wrong with it: it is not drained for that.
        told = Finding(Outcome.UNKNOWN, "converge", reason, "wait until it has ended", Remedy.WATCH, code=standing)
    else:
        told = Finding(Outcome.FAIL, "converge", reason, _REMEDY, Remedy.CONFIGURE, code=standing)
    return Judgement(findings=(told,))


CHECKS = (Check("converge", "The node has converged itself in this boot", Cost.QUICK, judge, look),)
