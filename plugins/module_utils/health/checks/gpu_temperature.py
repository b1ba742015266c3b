# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far each GPU is from the temperature at which it slows itself down."""

from __future__ import annotations

from typing import List

from ...gpu_info import GpuInformation
from ..types import GPU_LANE, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import each, figure, finding, over, unread

GPU = "gpu_temperature_celsius"
MEMORY = "gpu_memory_temperature_celsius"
_REMEDY = "look at the fans, the inlet temperature and the heat sink; redeploy the machine when it stays"


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    seen = gpu.groups.get("temperature")
    findings: List[Finding] = unread(gpu, "temperature.gpu_celsius")
    if seen is None or (seen.gpu_celsius is None and not findings):
        return Judgement(not_applicable="no GPU here tells its temperature")
    measured = figure(gpu, GPU, seen.gpu_celsius, better="lower")
    measured += figure(gpu, MEMORY, seen.memory_celsius, better="lower")
    # Newer GPUs tell the distance to the limit in its place.
    at_limit = seen.margin_celsius is not None and seen.margin_celsius <= 0
    if seen.gpu_celsius is not None and seen.slowdown_celsius is not None:
        at_limit = at_limit or seen.gpu_celsius >= seen.slowdown_celsius
    outcome, limit = over(expected, GPU, seen.gpu_celsius)
    if at_limit:
        reason = "it has reached the temperature at which it slows itself down ({0} °C)".format(seen.gpu_celsius)
        findings.append(finding(gpu, Outcome.FAIL, reason, _REMEDY, Remedy.LOOK, "slowdown"))
    elif limit is not None:
        reason = "it is at {0} °C, above {1:g} °C".format(seen.gpu_celsius, limit)
        findings.append(finding(gpu, outcome, reason, _REMEDY, Remedy.LOOK, "limit"))
    outcome, limit = over(expected, MEMORY, seen.memory_celsius)
    if None not in (seen.memory_celsius, seen.memory_max_celsius) and seen.memory_celsius >= seen.memory_max_celsius:
        reason = "its memory has reached its highest temperature ({0} °C)".format(seen.memory_celsius)
        findings.append(finding(gpu, Outcome.FAIL, reason, _REMEDY, Remedy.LOOK, "memory"))
    elif limit is not None:
        reason = "its memory is at {0} °C, above {1:g} °C".format(seen.memory_celsius, limit)
        findings.append(finding(gpu, outcome, reason, _REMEDY, Remedy.LOOK, "memory_limit"))
    return Judgement(findings=tuple(findings), measured=measured)


CHECKS = (
    Check(
        "gpu_temperature",
        "No GPU is too hot",
        Cost.PASSIVE,
        each("temperatures", _one),
        lane=GPU_LANE,
        gpu_groups=("temperature",),
    ),
)
