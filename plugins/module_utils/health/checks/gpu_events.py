# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a GPU is slowed down by heat or power."""

from __future__ import annotations

from typing import List

from ...gpu_info import GpuInformation
from ..data.event_reasons import known
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import each, finding, unread


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    missed = unread(gpu, "clocks.event_reasons", "clocks.event_reasons_mask")
    clocks = gpu.groups.get("clocks")
    names = None if clocks is None else clocks.event_reasons
    if missed:
        return Judgement(findings=tuple(missed[:1]))
    if names is None:
        return Judgement(not_applicable="this driver does not tell why clocks are low")
    findings: List[Finding] = []
    for name in names:
        reason = known(name)
        if reason is None:
            text = "its clocks are held by a reason that is newer than this check: {0}".format(name)
            remedy = "see nvidia-smi -q -d PERFORMANCE"
            findings.append(finding(gpu, Outcome.WARN, text, remedy, Remedy.LOOK, "unknown", Certainty.POSSIBLE))
        elif reason.outcome is not Outcome.PASS and not set(reason.part_of) & set(names):
            findings.append(
                finding(gpu, reason.outcome, reason.text, reason.remedy, reason.action, name, reason.certainty)
            )
    return Judgement(findings=tuple(findings))


CHECKS = (
    Check(
        "gpu_slowdown",
        "No GPU is slowed down by heat or power",
        Cost.PASSIVE,
        each("clock event reasons", _one),
        lane=GPU_LANE,
        gpu_groups=("clocks",),
    ),
)
