# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far each GPU is from the temperature at which it slows itself down.

Newer GPUs tell a distance (T.Limit) in place of a temperature: at 0 the GPU is at its highest operating temperature,
below it the driver may slow it down, and some degrees below the hardware does.
"""

from __future__ import annotations

from typing import Any, List, Optional

from ...facts.gpu_info import GpuInformation
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import digits, each, figure, finding, over, unread

GPU = "gpu_temperature_celsius"
MEMORY = "gpu_memory_temperature_celsius"
_REMEDY = "look at the fans, the inlet temperature and the heat sink; redeploy the machine when it stays"
_NEEDED = ("gpu_celsius", "memory_celsius", "margin_celsius", "slowdown_margin_celsius", "slowdown_celsius")
# Where neither NVML field 194 nor a temperature says where the hardware slows down: the lowest distance known.
_LOWEST_SLOWDOWN_MARGIN = -3  # github.com/NVIDIA/NVSentinel, ADR-042: B200; H100, GB200, L40S have -2

# github.com/leptonai/gpud, temperature/component.go: some H100 tell distances of 0 and less that mean nothing. The
# hottest place of a chip is some degrees above its sensor; so far below a slowdown it is not hot, whatever is told.
_COOL_CELSIUS = 30


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    seen = gpu.groups.get("temperature")
    findings: List[Finding] = unread(gpu, *("temperature." + name for name in _NEEDED))
    if seen is None or (seen.gpu_celsius is None and seen.margin_celsius is None):
        none = "no GPU here tells its temperature"
        return Judgement(findings=tuple(findings)) if findings else Judgement(not_applicable=none)
    measured = figure(gpu, GPU, seen.gpu_celsius, better="lower")
    measured += figure(gpu, MEMORY, seen.memory_celsius, better="lower")
    slowed = _slowed(gpu, seen)
    outcome, limit = over(expected, GPU, seen.gpu_celsius)
    if slowed is not None:
        findings.append(slowed)
    elif limit is not None:
        reason = "it is at {0} °C, above {1} °C".format(seen.gpu_celsius, digits(limit))
        findings.append(finding(gpu, outcome, reason, _REMEDY, Remedy.LOOK, "limit"))
    outcome, limit = over(expected, MEMORY, seen.memory_celsius)
    if None not in (seen.memory_celsius, seen.memory_max_celsius) and seen.memory_celsius >= seen.memory_max_celsius:
        reason = "its memory has reached its highest temperature ({0} °C)".format(seen.memory_celsius)
        findings.append(finding(gpu, Outcome.FAIL, reason, _REMEDY, Remedy.LOOK, "memory"))
    elif limit is not None:
        reason = "its memory is at {0} °C, above {1} °C".format(seen.memory_celsius, digits(limit))
        findings.append(finding(gpu, outcome, reason, _REMEDY, Remedy.LOOK, "memory_limit"))
    return Judgement(findings=tuple(findings), measured=measured)


def _slowed(gpu: GpuInformation, seen: Any) -> Optional[Finding]:
    """By the distance and its limit, which take the place of temperatures since Ada (nvml.h); where the GPU does not
    tell that limit, by the temperature of a slowdown; without both, by the distance and the lowest limit known."""
    limit, source = seen.slowdown_margin_celsius, "NVML field 194"
    if seen.margin_celsius is None or limit is None:
        if seen.slowdown_celsius is not None and seen.gpu_celsius is not None:
            if seen.gpu_celsius < seen.slowdown_celsius:
                return None
            reason = "it is at {0} °C, and its hardware slows it down from {1} °C on".format(
                seen.gpu_celsius, seen.slowdown_celsius
            )
            return finding(gpu, Outcome.FAIL, reason, _REMEDY, Remedy.LOOK, "slowdown")
        if seen.margin_celsius is None:
            return None
        limit, source = _LOWEST_SLOWDOWN_MARGIN, "the lowest of any GPU, as this one does not tell its own"
    if seen.margin_celsius >= 0:
        return None
    reason = "it is {0} °C beyond its highest operating temperature".format(-seen.margin_celsius)
    if None not in (seen.gpu_celsius, seen.slowdown_celsius):
        if seen.gpu_celsius < seen.slowdown_celsius - _COOL_CELSIUS:
            reason += ", by its distance, and at {0} °C, far below the {1} °C of a slowdown".format(
                seen.gpu_celsius, seen.slowdown_celsius
            )
            return finding(gpu, Outcome.WARN, reason, _REMEDY, Remedy.LOOK, "operating", Certainty.POSSIBLE)
    if seen.margin_celsius >= limit:
        return finding(gpu, Outcome.WARN, reason, _REMEDY, Remedy.LOOK, "operating")
    reason += ", and its hardware slows it down beyond {0} °C ({1})".format(-limit, source)
    return finding(gpu, Outcome.FAIL, reason, _REMEDY, Remedy.LOOK, "slowdown")


CHECKS = (
    Check(
        "gpu_temperature",
        "No GPU is too hot",
        Cost.PASSIVE,
        each("temperatures", _one, ("temperature.gpu_celsius", "temperature.memory_celsius")),
        lane=GPU_LANE,
        gpu_groups=("temperature",),
    ),
)
