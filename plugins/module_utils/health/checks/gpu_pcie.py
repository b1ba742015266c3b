# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe link of each GPU: as wide and as fast as its siblings', and without many replays.

The generation of the moment is not looked at: an idle link slows down.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

from ...facts.gpu_info import GpuInformation, Information
from ..data.gpu_limits import pcie_replays_per_minute
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import answering, digits, figure, finding, nothing, unread, untold

REPLAYS = "gpu_pcie_replays"
REPLAY_RATE = "gpu_pcie_replays_per_minute"
_NEEDED = ("current_width_lanes", "max_width_lanes", "max_generation", "replay_count")
_RESEAT = "drain the node, switch it off and on; redeploy the machine or have the board seated anew when it stays"


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
    findings += _slow(gpus)
    return Judgement("{0} links".format(len(gpus)), tuple(findings), measured)


def _best(
    gpus: Tuple[GpuInformation, ...], gpu: GpuInformation, value: Callable[[GpuInformation], Optional[int]]
) -> int:
    """The best value among the GPUs of the same product."""
    same = [value(one) for one in gpus if one.identity.name == gpu.identity.name]
    return max([one for one in same if one is not None], default=0)


def _narrow(gpus: Tuple[GpuInformation, ...], expected: Expected) -> List[Finding]:
    findings = []
    for gpu in gpus:
        now, most = _value(gpu, "current_width_lanes"), _value(gpu, "max_width_lanes")
        if now is None:
            continue
        siblings = _best(gpus, gpu, lambda one: _value(one, "current_width_lanes"))
        if now < siblings:
            reason = "its PCIe link has {0} lanes, and those of the other GPUs have {1}".format(now, siblings)
            findings.append(finding(gpu, Outcome.FAIL, reason, _RESEAT, Remedy.REPLACE, "width"))
        elif most is not None and now < most and expected.profile:
            # On a machine that nobody has described, fewer lanes for all may be how it was built.
            reason = "its PCIe link has {0} lanes, and could have {1}".format(now, most)
            findings.append(finding(gpu, Outcome.WARN, reason, _RESEAT, Remedy.LOOK, "width", Certainty.LIKELY))
    return findings


def _slow(gpus: Tuple[GpuInformation, ...]) -> List[Finding]:
    """The highest generation that GPU and slot can do together. Slots older than the GPUs are no fault, all alike."""
    findings = []
    for gpu in gpus:
        most = _value(gpu, "max_generation")
        siblings = _best(gpus, gpu, lambda one: _value(one, "max_generation"))
        if most is not None and most < siblings:
            reason = "its PCIe link can do generation {0}, and those of the other GPUs {1}".format(most, siblings)
            findings.append(finding(gpu, Outcome.FAIL, reason, _RESEAT, Remedy.REPLACE, "generation", Certainty.LIKELY))
    return findings


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
