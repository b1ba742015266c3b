# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether every GPU may run as fast as its profile and its board say, where nothing else was declared.

What was declared for ``gpu_settings`` is compared by the check of that name; here is what nobody declared.
"""

from __future__ import annotations

from typing import List

from ...facts.gpu_info import GpuInformation
from ...facts.nvml import values
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import declared, digits, each, finding, unread

_DECLARE = "declare the wanted settings in gpu_settings, then run 'gpunode converge'"
# Reading of clocks → key of the profile's gpus, what people call it, and by how much a reading may be off: the highest
# memory clock of an H200 reads 3199 or 3201 MHz.
_CLOCKS = (
    ("max_graphics_mhz", "graphics_clock_max_mhz", "graphics clock", 0),
    ("max_memory_mhz", "memory_clock_max_mhz", "memory clock", values.CLOCK_STEP_MHZ),
)
_NEEDED = (
    "clocks.graphics_mhz",
    "clocks.memory_mhz",
    "clocks.max_graphics_mhz",
    "clocks.max_memory_mhz",
    "power.limit_watts",
    "power.enforced_limit_watts",
    "power.default_limit_watts",
    "settings.persistence",
)
_TOLD = (
    "clocks.max_graphics_mhz",
    "clocks.max_memory_mhz",
    "power.limit_watts",
    "power.default_limit_watts",
    "settings.persistence",
)
# Limits are told in milliwatts and set in whole watts here and there.
_LESS_WATTS = 1.0


def _one(gpu: GpuInformation, expected: Expected) -> Judgement:
    findings: List[Finding] = unread(gpu, *_NEEDED)
    clocks, power, settings = (gpu.groups.get(name) for name in ("clocks", "power", "settings"))
    wanted = expected.profile.get("gpus", {})
    for name, key, what, off in _CLOCKS:
        most = None if clocks is None else getattr(clocks, name)
        if most is not None and key in wanted and most < wanted[key] - off:
            reason = "its highest {0} is {1} MHz, and the profile {2} says {3}".format(
                what, most, expected.profile_name, wanted[key]
            )
            remedy = "compare VBIOS and driver with those of other nodes; choose the right profile"
            findings.append(finding(gpu, Outcome.WARN, reason, remedy, Remedy.LOOK, key, Certainty.LIKELY))
    if power is not None and declared(gpu, expected, "power_limit_watts") is None:
        limits = [limit for limit in (power.limit_watts, power.enforced_limit_watts) if limit is not None]
        if limits and power.default_limit_watts is not None and min(limits) < power.default_limit_watts - _LESS_WATTS:
            reason = "its power limit is {0} W of {1} W, and none was declared".format(
                digits(min(limits)), digits(power.default_limit_watts)
            )
            findings.append(finding(gpu, Outcome.WARN, reason, _DECLARE, Remedy.CONFIGURE, "power_limit"))
    # On a machine that nobody has described, such as a workstation, the driver may unload.
    if expected.profile and settings is not None and declared(gpu, expected, "persistence") is None:
        if settings.persistence is False:
            reason = "persistence mode is off, so clocks, limits and counters go when no process uses the GPU"
            findings.append(finding(gpu, Outcome.WARN, reason, _DECLARE, Remedy.CONFIGURE, "persistence"))
    return Judgement(findings=tuple(findings))


CHECKS = (
    Check(
        "gpu_performance",
        "No GPU has lower limits than its profile and its board say, unless declared",
        Cost.PASSIVE,
        each("limits", _one, _TOLD),
        lane=GPU_LANE,
        gpu_groups=("clocks", "power", "settings"),
    ),
)
