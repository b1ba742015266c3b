# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the checks of GPUs share: which GPUs can be judged, and how a finding names one.

A GPU with a fault is told once, by ``gpu_lost``; a driver that does not answer once, by ``gpu_driver``.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

from ...gpu_info import GpuInformation, Information
from ...nvml.status import Status
from ..types import Certainty, Expected, Finding, Judgement, Measured, Outcome, Remedy

RESET = "drain the node, then reset the GPU with nvidia-smi --gpu-reset, or reboot"
REPLACE = "drain the node; redeploy the machine or have the GPU replaced"
NO_GPU = "this machine has no NVIDIA GPU"
NOT_OPENED = "NVML cannot be opened, see gpu_driver"
# NVML was opened; single GPUs may have failed.
_OPENED = (Status.OK.value, Status.PARTIAL.value)
OneGpu = Callable[[GpuInformation, Expected], Judgement]


def nothing(information: Information) -> Optional[str]:
    """Why there is no GPU to judge here, or None."""
    if information.status == Status.NO_GPU.value:
        return NO_GPU
    if information.status not in _OPENED:
        return NOT_OPENED
    if not answering(information):
        return "no GPU answers, see gpu_lost"
    return None


def answering(information: Information) -> Tuple[GpuInformation, ...]:
    return tuple(gpu for gpu in information.gpus if gpu.fault is None)


def key(gpu: GpuInformation) -> str:
    """The name of a GPU for good. The index is the last resort: it may move with a reboot."""
    identity = gpu.identity
    return identity.pci_address or identity.uuid or "gpu{0}".format(identity.index)


def finding(
    gpu: GpuInformation,
    outcome: Outcome,
    reason: str,
    remedy: str,
    action: Remedy,
    code: str = "",
    certainty: Certainty = Certainty.CERTAIN,
) -> Finding:
    return Finding(outcome, gpu.identity.label, reason, remedy, action, certainty, key(gpu), code)


def each(seen: str, one: OneGpu) -> Callable[[Information, Expected], Judgement]:
    """A judge that asks ``one`` for every GPU that answers. ``seen`` tells what was looked at, for all of them."""

    def judge(information: Information, expected: Expected) -> Judgement:
        none = nothing(information)
        if none is not None:
            return Judgement(not_applicable=none)
        judgements = [one(gpu, expected) for gpu in answering(information)]
        apply = [judgement for judgement in judgements if judgement.not_applicable is None]
        if judgements and not apply:
            return Judgement(not_applicable=judgements[0].not_applicable)
        findings = tuple(found for judgement in apply for found in judgement.findings)
        measured = tuple(figure for judgement in apply for figure in judgement.measured)
        return Judgement("{0} of {1} GPUs".format(seen, len(apply)), findings, measured)

    return judge


def unread(gpu: GpuInformation, *paths: str) -> List[Finding]:
    """One finding for what this GPU has and could not tell under these paths of gpu_info."""
    failed = [path for path in sorted(gpu.failed) if any(path == one or path.startswith(one + ".") for one in paths)]
    if not failed:
        return []
    reason = "{0} could not be read: {1}".format(", ".join(failed[:3]), gpu.absent.get(failed[0], "no reason told"))
    remedy = "run it as root; look for NVRM and Xid lines in the kernel log"
    return [finding(gpu, Outcome.UNKNOWN, reason, remedy, Remedy.LOOK, "unread")]


def over(expected: Expected, figure: str, value: Optional[float]) -> Tuple[Outcome, Optional[float]]:
    """What a value is by the limits of this node, and the limit that it is beyond."""
    threshold = expected.thresholds.get(figure)
    if threshold is None or value is None:
        return Outcome.PASS, None
    return threshold.outcome(value), threshold.limit(value)


def figure(
    gpu: GpuInformation, name: str, value: Optional[float], counter: bool = False, better: str = ""
) -> Tuple[Measured, ...]:
    """The measured figure; nothing where NVML does not tell it."""
    return () if value is None else (Measured(name, float(value), key(gpu), counter, better),)
