# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVLinks of each GPU: as many as the profile says, or as the other GPUs have, and without errors.

A product whose links go to a bridge may have some of them, or none, by design (an H100 NVL has 12 of 18); so without a
profile only a GPU with fewer links than its siblings is named, and one without any link only where they go to switches.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ...gpu_info import GpuInformation, Information
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy
from .gpu_common import answering, figure, finding, nothing, over, unread

_RESET = "drain the node, reset all GPUs with nvidia-smi --gpu-reset or reboot; redeploy the machine when it stays"
# Counter of each link → figure of the GPU, its limit, what the people call it.
_ERRORS = (
    (("replay_errors",), "gpu_nvlink_replay_errors", "gpu_nvlink_replay_errors_per_day", "replays"),
    (("recovery_errors",), "gpu_nvlink_recovery_errors", "gpu_nvlink_recovery_errors_per_day", "recoveries"),
    (("crc_flit_errors", "crc_data_errors"), "gpu_nvlink_crc_errors", "gpu_nvlink_crc_errors_per_second", "CRC errors"),
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
    findings: List[Finding] = list(failed)
    measured: Tuple[Measured, ...] = ()
    for gpu in gpus:
        measured += figure(gpu, "gpu_nvlink_active_links", _active(gpu), better="higher")
        if not unread(gpu, "nvlink"):
            findings += _links(gpu, gpus, wanted, expected)
        for names, name, limit, what in _ERRORS:
            counted = figure(gpu, name, _sum(gpu, names), True, "lower")
            measured += counted
            findings += _errors(gpu, counted, limit, what, expected)
    active = sum(_active(gpu) or 0 for gpu in gpus)
    return Judgement("{0} active links of {1} GPUs".format(active, len(gpus)), tuple(findings), measured)


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


def _sum(gpu: GpuInformation, names: Tuple[str, ...]) -> Optional[int]:
    links: Any = gpu.groups.get("nvlink")
    told = [getattr(link, name) for link in (links.links if links is not None else ()) for name in names]
    counts = [value for value in told if value is not None]
    return sum(counts) if counts else None


def _errors(
    gpu: GpuInformation, counted: Tuple[Measured, ...], limit_name: str, what: str, expected: Expected
) -> List[Finding]:
    growth = expected.growth(counted[0]) if counted else None
    if growth is None or growth.hours <= 0:
        return []
    value = growth.by / (growth.hours * 3600.0) if limit_name.endswith("_per_second") else growth.by
    outcome, limit = over(expected, limit_name, value)
    if limit is None:
        return []
    reason = "its NVLinks had {0:g} {1} within {2:.0f} h".format(growth.by, what, growth.hours)
    remedy = "watch it; reset all GPUs when no job runs, redeploy the machine when they come again"
    code = what.split()[-1] if what != "CRC errors" else "crc_errors"
    return [finding(gpu, outcome, reason, remedy, Remedy.WATCH, code, Certainty.LIKELY)]


CHECKS = (
    Check(
        "gpu_nvlink",
        "All NVLinks that should be there are active",
        Cost.PASSIVE,
        judge,
        lane=GPU_LANE,
        gpu_groups=("nvlink",),
    ),
)
