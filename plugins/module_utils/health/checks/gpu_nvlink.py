# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVLinks of each GPU: as many as the profile says, or as the other GPUs have, and without errors.

A product whose links go to a bridge may have some of them, or none, by design (an H100 NVL has 12 of 18); so without a
profile only a GPU with fewer links than its siblings is named, and one without any link only where they go to switches.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ...facts.gpu_info import GpuInformation, Information
from ...facts.gpu_info.types import NvLink
from ..types import GPU_LANE, ORDER, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import answering, digits, figure, finding, in_mig, key, lasted, nothing, over, unread

_RESET = "drain the node, reset all GPUs with nvidia-smi --gpu-reset or reboot; redeploy the machine when it stays"
# NVIDIA DCGM 4.6.0, modules/health (its bug 200682374), which takes such links for disabled.
_DOWN_IN_MIG = "in which NVML tells NVLinks as down"
# Counter of each link → figure of the GPU, what people call it. Its limits are FIGURE_per_day and FIGURE_per_second.
_ERRORS = (
    ("replay_errors", "gpu_nvlink_replay_errors", "replays"),
    ("recovery_errors", "gpu_nvlink_recovery_errors", "recoveries"),
    ("crc_errors", "gpu_nvlink_crc_errors", "CRC errors"),
    ("packets", "gpu_nvlink_packet_errors", "packet errors"),
)
# What counts as an error among the counters of NVLink 5: those that DCGM 4.6.0 watches (MonitorNVLink5Fields).
_PACKET_ERRORS = (
    "malformed",
    "buffer_overruns",
    "receive_errors",
    "remote_errors",
    "general_errors",
    "integrity_errors",
    "effective_errors",
    "symbol_errors",
)


def judge(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None:
        return Judgement(not_applicable=none)
    gpus = answering(information)
    wanted = expected.profile.get("gpus", {}).get("nvlinks")
    failed = [found for gpu in gpus for found in unread(gpu, "nvlink")]
    if not wanted and not failed and not any(_active(gpu) for gpu in gpus):
        return Judgement(not_applicable="no GPU here has an active NVLink, and none is expected")
    hidden = [gpu for gpu in gpus if in_mig(gpu)]
    if len(hidden) == len(gpus) and not failed:
        return Judgement(not_applicable="all GPUs here are in MIG mode, " + _DOWN_IN_MIG)
    findings: List[Finding] = list(failed)
    measured: Tuple[Measured, ...] = ()
    for gpu in gpus:
        measured += figure(gpu, "gpu_nvlink_active_links", None if in_mig(gpu) else _active(gpu), better="higher")
        if not unread(gpu, "nvlink") and not in_mig(gpu):
            down = _links(gpu, gpus, wanted, expected)
            # They may be down by MIG, where that is not known.
            findings += (unread(gpu, "settings.mig_current") or down) if down else []
        for counter, name, what in _ERRORS:
            counted = _sum(gpu, counter, name)
            measured += counted
            findings += _errors(gpu, counted, what, expected)
        findings += _bit_errors(gpu, expected)
    active = sum(_active(gpu) or 0 for gpu in gpus if not in_mig(gpu))
    told = "{0} active links of {1} GPUs".format(active, len(gpus) - len(hidden))
    if hidden:
        told += "; {0} in MIG mode are left out, {1}".format(len(hidden), _DOWN_IN_MIG)
    return Judgement(told, tuple(findings), measured)


def _active(gpu: GpuInformation) -> Optional[int]:
    links = gpu.groups.get("nvlink")
    return None if links is None else links.active_count


def _to_switches(gpu: GpuInformation) -> bool:
    links: Any = gpu.groups.get("nvlink")
    return links is not None and any(link.remote_type == "switch" for link in links.links)


def _links(
    gpu: GpuInformation, gpus: Tuple[GpuInformation, ...], wanted: Optional[int], expected: Expected
) -> List[Finding]:
    active = _active(gpu) or 0
    if wanted:
        if active >= wanted:
            return []
        reason = "{0} of {1} NVLinks are active{2}".format(active, wanted, _which(gpu))
        return [finding(gpu, Outcome.FAIL, reason, _RESET, Remedy.RESET_GPU, "links")]
    same = [one for one in gpus if one.identity.name == gpu.identity.name]
    most = max(_active(one) or 0 for one in same)
    if active >= most or (not active and not any(_to_switches(one) for one in same)):
        return []
    reason = "{0} of its NVLinks are active, and other GPUs of its kind have {1}{2}".format(active, most, _which(gpu))
    return [finding(gpu, Outcome.FAIL, reason, _RESET, Remedy.RESET_GPU, "links", Certainty.LIKELY)]


def _which(gpu: GpuInformation) -> str:
    links: Any = gpu.groups.get("nvlink")
    down = [str(link.link) for link in links.links if link.active is False] if links is not None else []
    return " (not active: link {0})".format(", ".join(down)) if 0 < len(down) <= 4 else ""


def _sum(gpu: GpuInformation, counter: str, name: str) -> Tuple[Measured, ...]:
    """The count of all links that tell it. A link that told none in an earlier look adds its whole past to the sum, so
    the figure says which are in it."""
    links: Any = gpu.groups.get("nvlink")
    told = [value for link in (links.links if links is not None else ()) for value in _counts(link, counter)]
    counts = [value for value in told if value is not None]
    if not counts:
        return ()
    parts = sum(1 << place for place, value in enumerate(told) if value is not None)
    return (Measured(name, float(sum(counts)), key(gpu), True, "lower", "{0:x}".format(parts)),)


def _counts(link: NvLink, counter: str) -> List[Optional[int]]:
    """What one link tells: a count, or the counters of its packets."""
    if counter != "packets":
        return [getattr(link, counter)]
    return [getattr(link.packets, name, None) for name in _PACKET_ERRORS]


def _errors(gpu: GpuInformation, counted: Tuple[Measured, ...], what: str, expected: Expected) -> List[Finding]:
    growth = expected.growth(counted[0]) if counted else None
    lately = expected.growth(counted[0], 60.0) if counted else None  # DCGM counts those of one minute
    if growth is None or lately is None or growth.hours <= 0:
        return []
    name = counted[0].name
    rate = lately.by / max(60.0, lately.hours * 3600.0)
    judged = [(over(expected, name + "_per_day", growth.by)[0], growth)]
    judged.append((over(expected, name + "_per_second", rate)[0], lately))
    outcome, shown = max(judged, key=lambda one: ORDER.index(one[0]))
    if outcome is Outcome.PASS:
        return []
    reason = "its NVLinks had {0} {1} within {2}".format(digits(shown.by), what, lasted(shown.hours * 3600.0))
    remedy = "watch it; reset all GPUs when no job runs, redeploy the machine if they recur"
    code = what.lower().replace(" ", "_")
    if outcome is Outcome.FAIL:
        return [finding(gpu, outcome, reason, _RESET, Remedy.RESET_GPU, code, Certainty.LIKELY)]
    return [finding(gpu, outcome, reason, remedy, Remedy.WATCH, code, Certainty.LIKELY)]


def _bit_errors(gpu: GpuInformation, expected: Expected) -> List[Finding]:
    """The worst link by its rate of bit errors that correction left; it needs no earlier look."""
    links: Any = gpu.groups.get("nvlink")
    packets = [link.packets for link in (links.links if links is not None else ()) if link.packets is not None]
    rates = [one.effective_bit_error_rate for one in packets if one.effective_bit_error_rate is not None]
    worst_rate = max(rates, default=None)
    outcome, limit = over(expected, "gpu_nvlink_effective_bit_error_rate", worst_rate)
    if limit is None or worst_rate is None:
        return []
    reason = "an NVLink of it has an effective bit error rate of {0:g}, above {1:g}".format(worst_rate, limit)
    return [finding(gpu, outcome, reason, _RESET, Remedy.RESET_GPU, "bit_error_rate", Certainty.LIKELY)]


CHECKS = (
    Check(
        "gpu_nvlink",
        "All NVLinks that should be there are active",
        Cost.PASSIVE,
        judge,
        lane=GPU_LANE,
        gpu_groups=("nvlink", "settings"),
    ),
)
