# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the checks of GPUs share: which GPUs can be judged, and how a finding names one.

A GPU with a fault is told once, by ``gpu_lost``; a driver that does not answer once, by ``gpu_driver``.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

from ...facts.gpu_info import GpuInformation, Information
from ...facts.nvml import call
from ...facts.nvml.status import Status
from ..types import Certainty, Expected, Finding, Judgement, Measured, Outcome, Remedy

RESET = call.RESET
REPLACE = call.REPLACE
NO_GPU = "this machine has no NVIDIA GPU"
NOT_OPENED = "NVML cannot be opened, see gpu_driver"
# NVML was opened; single GPUs may have failed.
_OPENED = (Status.OK.value, Status.PARTIAL.value)
OneGpu = Callable[[GpuInformation, Expected], Judgement]
# With MIG instances a GPU tells no remapped rows and no volatile errors.
_HIDDEN_BY_MIG = ("repair.", "ecc.total", "ecc.dram", "ecc.sram")


def parted(text: str, otherwise: str) -> Tuple[str, str]:
    """A sentence of an error as a finding's reason and remedy; ``otherwise``: where it has no remedy of its own."""
    reason, _semicolon, remedy = text.rstrip(".").partition("; ")
    return reason, remedy or otherwise


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


def each(seen: str, one: OneGpu, alike: Sequence[str] = ()) -> Callable[[Information, Expected], Judgement]:
    """A judge that asks ``one`` for every GPU that answers. ``seen`` tells what was looked at, for all of them.

    ``alike``: paths of :func:`untold`.
    """

    def judge(information: Information, expected: Expected) -> Judgement:
        none = nothing(information)
        if none is not None:
            return Judgement(not_applicable=none)
        gpus = answering(information)
        judgements = [one(gpu, expected) for gpu in gpus]
        apply = [judgement for judgement in judgements if judgement.not_applicable is None]
        silent = tuple(untold(gpus, *alike))
        if judgements and not apply and not silent:
            return Judgement(not_applicable=judgements[0].not_applicable)
        findings = tuple(found for judgement in apply for found in judgement.findings) + silent
        measured = tuple(figure for judgement in apply for figure in judgement.measured)
        return Judgement("{0} of {1} GPUs".format(seen, len(apply)), findings, measured)

    return judge


def unread(gpu: GpuInformation, *paths: str) -> List[Finding]:
    """One finding for what this GPU has and could not tell under these paths of gpu_info."""
    failed = [path for path in sorted(gpu.failed) if any(path == one or path.startswith(one + ".") for one in paths)]
    return [_unread(gpu, failed)] if failed else []


def unnamed(gpu: GpuInformation) -> List[Finding]:
    """As :func:`unread`, of the product: every GPU has one, so there is no good reason not to tell it."""
    return [_unread(gpu, ["name"])] if gpu.identity.name is None else []


def untold(gpus: Sequence[GpuInformation], *paths: str) -> List[Finding]:
    """One finding for each GPU that does not tell what another one of its kind tells under one of these paths: what one
    has, all have. What it failed to tell is left to :func:`unread`."""
    findings = []
    for gpu in gpus:
        alike = [one for one in gpus if one.identity.name == gpu.identity.name]
        missed = [
            path
            for path in paths
            if _value(gpu, path) is None
            and not any(path == failed or path.startswith(failed + ".") for failed in gpu.failed)
            and not _hidden(gpu, path)
            and any(_value(one, path) is not None for one in alike)
        ]
        if missed:
            why = gpu.absent.get(missed[0], "no reason told")
            reason = "it does not tell {0}, and others of its kind do: {1}".format(", ".join(missed[:3]), why)
            findings.append(finding(gpu, Outcome.UNKNOWN, reason, call.LOG, Remedy.LOOK, "untold"))
    return findings


def _value(gpu: GpuInformation, path: str) -> Any:
    group, *names = path.split(".")
    value = gpu.groups.get(group)
    for name in names:
        value = getattr(value, name, None)
    return value


def _hidden(gpu: GpuInformation, path: str) -> bool:
    """Whether a mode of this GPU is reason enough not to tell it."""
    if path.startswith("ecc.") and path != "ecc.current" and _value(gpu, "ecc.current") is False:
        return True
    return in_mig(gpu) and path.startswith(_HIDDEN_BY_MIG)


def in_mig(gpu: GpuInformation) -> bool:
    return bool(_value(gpu, "settings.mig_current"))


def _unread(gpu: GpuInformation, paths: List[str]) -> Finding:
    reason = "{0} could not be read: {1}".format(", ".join(paths[:3]), gpu.absent.get(paths[0], "no reason told"))
    refused = any(gpu.failed.get(path) is call.Kind.PERMISSION for path in paths)
    remedy = call.permitted() if refused else call.LOG
    return finding(gpu, Outcome.UNKNOWN, reason, remedy, Remedy.LOOK, "unread")


def declared(gpu: GpuInformation, expected: Expected, name: str) -> Optional[Any]:
    """What section gpu_settings of the declaration has for this GPU. None: nothing."""
    section = expected.declared.get("gpu_settings")
    if section is None:
        return None
    # Not at the top: most checks do not come here, and those before a job would pay for the import.
    from ...core.options import of_section
    from ...gpus.settings.options import Settings, asked_of

    return asked_of(of_section(Settings, section), gpu.identity, name)


def over(expected: Expected, figure: str, value: Optional[float]) -> Tuple[Outcome, Optional[float]]:
    """What a value is by the limits of this node, and the limit that it is beyond."""
    threshold = expected.thresholds.get(figure)
    if threshold is None or value is None:
        return Outcome.PASS, None
    return threshold.outcome(value), threshold.limit(value)


def digits(value: float) -> str:
    """A count or a limit in digits: people do not read 9e+06."""
    return "{0:.0f}".format(value) if value == int(value) or abs(value) >= 1000 else "{0:g}".format(value)


def lasted(seconds: float) -> str:
    """A time in the unit in which it is a number of two or three digits."""
    for unit, size, least in (("days", 86400, 3), ("h", 3600, 2), ("min", 60, 2)):
        if seconds >= least * size:
            return "{0:.0f} {1}".format(seconds / size, unit)
    return "{0:.0f} s".format(seconds)


def figure(
    gpu: GpuInformation, name: str, value: Optional[float], counter: bool = False, better: str = ""
) -> Tuple[Measured, ...]:
    """The measured figure; nothing where NVML does not tell it."""
    return () if value is None else (Measured(name, float(value), key(gpu), counter, better),)
