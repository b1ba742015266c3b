# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe link of each GPU: as wide and as fast as its siblings', and without many replays.

An idle link of most GPUs slows down, so its current generation is compared only on GPUs whose idle links stay fast.
"""

from __future__ import annotations

import fnmatch
from typing import Callable, List, Optional, Tuple

from ...facts.gpu_info import GpuInformation, Information
from ..data.gpu_limits import pcie_replays_per_minute
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import answering, digits, figure, finding, nothing, unread, untold

REPLAYS = "gpu_pcie_replays"
REPLAY_RATE = "gpu_pcie_replays_per_minute"
_NEEDED = ("current_width_lanes", "max_width_lanes", "max_generation", "replay_count")
# Measured on an idle H100 80GB HBM3 and an idle H200, driver 580: both links stay at generation 5.
_FAST_WHEN_IDLE = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")
_SLOT = "compare the slots in the board's manual; if they should be equal, move the GPU or have the board reseated"
_RESEAT = "drain the node, switch it off and on; if it recurs, redeploy the machine or have the board reseated"


def _value(gpu: GpuInformation, name: str) -> Optional[int]:
    pcie = gpu.groups.get("pcie")
    return None if pcie is None else getattr(pcie, name)


def judge(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None:
        return Judgement(not_applicable=none)
    gpus = answering(information)
    findings: List[Finding] = untold(gpus, *("pcie." + name for name in _NEEDED))
    measured: Tuple[Measured, ...] = ()
    for gpu in gpus:
        findings += unread(gpu, *("pcie." + name for name in _NEEDED))
        measured += figure(gpu, "gpu_pcie_width_lanes", _value(gpu, "current_width_lanes"), better="higher")
        replays = figure(gpu, REPLAYS, _value(gpu, "replay_count"), True, "lower")
        measured += replays
        findings += _replays(gpu, replays, expected)
    findings += _narrow(gpus, expected)
    findings += _slow(gpus, expected)
    return Judgement("{0} links".format(len(gpus)), tuple(findings), measured)


def _alike(gpus: Tuple[GpuInformation, ...], gpu: GpuInformation) -> Tuple[GpuInformation, ...]:
    """The GPUs of the same product."""
    return tuple(one for one in gpus if one.identity.name == gpu.identity.name)


def _best(gpus: Tuple[GpuInformation, ...], value: Callable[[GpuInformation], Optional[int]]) -> int:
    return max([number for number in map(value, gpus) if number is not None], default=0)


def _narrow(gpus: Tuple[GpuInformation, ...], expected: Expected) -> List[Finding]:
    """NVML's highest width combines GPU and slot, so only links with the same highest width must be equal."""
    findings = []
    for gpu in gpus:
        now, most = _value(gpu, "current_width_lanes"), _value(gpu, "max_width_lanes")
        if now is None:
            continue
        alike = _alike(gpus, gpu)
        same = [one for one in alike if most is None or _value(one, "max_width_lanes") in (most, None)]
        siblings = _best(tuple(same), lambda one: _value(one, "current_width_lanes"))
        widest = _best(alike, lambda one: _value(one, "max_width_lanes"))
        if now < siblings:
            reason = "its PCIe link has {0} lanes, and the other GPUs' links have {1}".format(now, siblings)
            findings.append(finding(gpu, Outcome.FAIL, reason, _RESEAT, Remedy.REPLACE, "width"))
        elif most is not None and most < widest:
            reason = "its PCIe link has {0} lanes, its slot allows {1}, and other GPUs' slots allow {2}".format(
                now, most, widest
            )
            findings.append(finding(gpu, Outcome.WARN, reason, _SLOT, Remedy.LOOK, "width", Certainty.POSSIBLE))
        elif most is not None and now < most and (expected.profile or len(same) < len(alike)):
            # On a machine that nobody has described, fewer lanes for all may be how it was built.
            reason = "its PCIe link has {0} lanes, and could have {1}".format(now, most)
            findings.append(finding(gpu, Outcome.WARN, reason, _RESEAT, Remedy.LOOK, "width", Certainty.LIKELY))
    return findings


def _slow(gpus: Tuple[GpuInformation, ...], expected: Expected) -> List[Finding]:
    """The highest generation that GPU and slot can do together. Slots older than the GPUs are not a fault if all are
    equal; on a machine without a profile the slots may differ by design."""
    findings = []
    for gpu in gpus:
        most = _value(gpu, "max_generation")
        alike = _alike(gpus, gpu)
        siblings = _best(alike, lambda one: _value(one, "max_generation"))
        now = _value(gpu, "current_generation")
        if most is not None and most < siblings and not expected.profile:
            reason = "its PCIe link supports generation {0}, the other GPUs' links {1}".format(most, siblings)
            findings.append(finding(gpu, Outcome.WARN, reason, _SLOT, Remedy.LOOK, "generation", Certainty.POSSIBLE))
        elif most is not None and most < siblings:
            reason = "its PCIe link supports generation {0}, the other GPUs' links {1}".format(most, siblings)
            findings.append(finding(gpu, Outcome.FAIL, reason, _RESEAT, Remedy.REPLACE, "generation", Certainty.LIKELY))
        elif most is not None and now is not None and now < most and _others_are_fast(gpu, alike):
            reason = "its PCIe link runs at generation {0} of {1}, and the other GPUs' links at their highest".format(
                now, most
            )
            findings.append(finding(gpu, Outcome.WARN, reason, _RESEAT, Remedy.LOOK, "slow_now", Certainty.LIKELY))
    return findings


def _others_are_fast(gpu: GpuInformation, alike: Tuple[GpuInformation, ...]) -> bool:
    """Whether the links of this product stay fast while idle, and most of the others run at their highest."""
    if not any(fnmatch.fnmatchcase(gpu.identity.name or "", product) for product in _FAST_WHEN_IDLE):
        return False
    others = [one for one in alike if one is not gpu]
    fast = [
        one
        for one in others
        if _value(one, "current_generation") is not None
        and _value(one, "current_generation") == _value(one, "max_generation")
    ]
    return 2 * len(fast) > len(others)


def _replays(gpu: GpuInformation, replays: Tuple[Measured, ...], expected: Expected) -> List[Finding]:
    growth = expected.growth(replays[0], 60.0) if replays else None  # DCGM counts those of one minute
    if growth is None or growth.hours <= 0:
        return []
    rate = growth.by / max(1.0, growth.hours * 60.0)
    generation, lanes = _value(gpu, "max_generation"), _value(gpu, "current_width_lanes")
    # A link that does not tell what it is counts as Gen3 x16, for which DCGM has its limit of 8.
    threshold = expected.thresholds.get(REPLAY_RATE) or pcie_replays_per_minute(generation or 3, lanes or 16)
    outcome, limit = threshold.outcome(rate), threshold.limit(rate)
    if limit is None:
        return []
    reason = "its PCIe link sent {0:.1f} packets a minute again, more than {1}".format(rate, digits(limit))
    return [finding(gpu, outcome, reason, _RESEAT, Remedy.LOOK, "replays", Certainty.LIKELY)]


CHECKS = (
    Check(
        "gpu_pcie",
        "Every GPU has its whole PCIe link",
        Cost.PASSIVE,
        judge,
        lane=GPU_LANE,
        gpu_groups=("pcie",),
    ),
)
