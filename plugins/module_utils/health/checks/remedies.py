# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A breaker of remedies that is latched: a person has to look, so each verdict tells it."""

from __future__ import annotations

from .. import attempts
from ..attempts import Record
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_GATE = "health_gate"


def look(evidence: Evidence) -> Record:
    return attempts.read(evidence.host)


def judge(seen: Record, expected: Expected) -> Judgement:
    if not expected.declared.get(_GATE, {}).get("remedies") and not seen.held:
        return Judgement(not_applicable="no remedy is on (health_gate_remedies)")
    if seen.held:
        reason = "the breaker is latched, so no remedy is tried: {0}".format(seen.held)
        found = Finding(Outcome.WARN, "remedies", reason, attempts.RELEASE, Remedy.LOOK, code="latched")
        return Judgement(findings=(found,))
    return Judgement("{0} remedies are on record".format(len(seen.attempts)))


CHECK = Check("remedies", "The breaker of remedies is not latched", Cost.PASSIVE, judge, look)
