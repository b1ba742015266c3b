# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One judgement of two looks of a check, before the active checks and after them. Pure."""

from __future__ import annotations

from typing import Dict, List, Set, Tuple

from ..core.frozen import replaced
from .types import Finding, Judgement, Measured, Outcome, Remedy, finding_name, worst

# Counters that only go up when memory of a GPU was damaged, in words. Corrected errors are not among them: some are
# normal, and gpu_ecc has limits for them.
_DAMAGE: Dict[str, str] = {
    "gpu_ecc_uncorrected_aggregate_errors": "uncorrectable memory errors came",
    "gpu_remapped_uncorrectable_rows": "memory rows were remapped for uncorrectable errors",
    "gpu_remapped_correctable_rows": "memory rows were remapped for correctable errors",
    "gpu_retired_pages": "memory pages were retired",
}


def both(check: str, before: Judgement, after: Judgement) -> Judgement:
    """What either look told counts, once and at its worst; of two alike the later one. Figures are the later ones."""
    if before.not_applicable is not None:
        return after
    if after.not_applicable is not None:
        return before
    findings = {finding_name(check, one): one for one in before.findings}
    told: Set[str] = set()  # for these GPUs the node fails now, and did not before
    for one in after.findings:
        name = finding_name(check, one)
        known = findings.get(name)
        if known is None or worst((known.outcome, one.outcome)) is one.outcome:
            findings[name] = one
            if one.outcome is Outcome.FAIL and (known is None or known.outcome is not Outcome.FAIL):
                told.add(one.key)
    grown = _grown(before, after)
    more = tuple(_damaged(one, by) for one, by in grown if one.key not in told)
    return replaced(after, findings=tuple(findings.values()) + more)


def _grown(before: Judgement, after: Judgement) -> List[Tuple[Measured, float]]:
    """The counters of damage that went up between the two looks, and by how much."""
    was = {(one.name, one.key): one.value for one in before.measured}
    growth = [(one, one.value - was.get((one.name, one.key), one.value)) for one in after.measured]
    return [(one, by) for one, by in growth if by > 0 and one.name in _DAMAGE]


def _damaged(figure: Measured, by: float) -> Finding:
    reason = "{0} {1} while the active checks ran".format(int(by), _DAMAGE[figure.name])
    remedy = "run the active checks again; replace the GPU if it recurs"
    thing = "GPU {0}".format(figure.key)
    return Finding(Outcome.WARN, thing, reason, remedy, Remedy.WATCH, key=figure.key, code="memory_damaged")
