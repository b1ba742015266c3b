# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs are set as it was declared for this node, and alike in their MIG mode.

Of MIG it is told that a change of the mode waits for a reset, and, where no layout was declared (gpu_mig_layout), that
some GPUs are in MIG mode and others are not.
"""

from __future__ import annotations

from typing import Dict, List, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.gpu_info import GpuInformation, Information
from ..evidence import Evidence
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED, RESET, answering, each, finding, unread

_SECTION = "gpu_settings"
_CALL_SECONDS = 4.0
_REMEDY = "run 'gpunode apply gpu_settings'; see why gpu-node-gpu_settings.service did not"


@frozen
class Drift:
    """A GPU that is not as declared: what would have to be done, in words."""

    gpu: str
    pci_address: str
    steps: Tuple[str, ...]


@frozen
class Seen:
    drifts: Tuple[Drift, ...]
    refusals: Tuple[str, ...]
    gpus: int


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare."""
    declared = evidence.declared.get(_SECTION)
    if declared is None:
        return "no settings of GPUs were declared for this node"
    # Not at the top: a check before each job does not come here, and would pay for the import.
    from ...core.options import of_section
    from ...gpus.settings.observe import observe
    from ...gpus.settings.options import Settings
    from ...gpus.settings.plan import decide
    from ...gpus.settings.types import GpuAction, SetEcc

    settings = of_section(Settings, declared)
    try:
        state = observe(evidence.host, _CALL_SECONDS, with_declaration=False)
    except NodeError:
        return NOT_OPENED
    if state.absent is not None:
        return NO_GPU
    plan = decide(state, settings).plan
    addresses = {gpu.uuid: gpu.pci_address for gpu in state.gpus}
    steps: Dict[Tuple[str, str], List[str]] = {}
    for action in plan.actions:
        # ECC is the subject of gpu_ecc_mode.
        if isinstance(action, GpuAction) and not isinstance(action, SetEcc):
            steps.setdefault((action.gpu, addresses[action.uuid]), []).append(action.describe().partition(": ")[2])
    drifts = tuple(Drift(gpu, address, tuple(texts)) for (gpu, address), texts in steps.items())
    return Seen(drifts, tuple(str(refusal) for refusal in plan.refusals), len(state.gpus))


def judge(seen: Union[Seen, str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    findings = [
        Finding(
            Outcome.WARN,
            drift.gpu,
            "it is not set as declared; to do: {0}".format(", ".join(drift.steps)),
            _REMEDY,
            Remedy.CONFIGURE,
            Certainty.CERTAIN,
            drift.pci_address,
            "drift",
        )
        for drift in seen.drifts
    ]
    findings += [
        Finding(Outcome.WARN, "GPU settings", text, "correct what was declared", Remedy.CONFIGURE, code="refused")
        for text in seen.refusals
    ]
    return Judgement("{0} GPUs".format(seen.gpus), tuple(findings))


def _mig(information: Information, expected: Expected) -> Judgement:
    judgement = _PENDING(information, expected)
    if judgement.not_applicable is not None or judgement.findings or "mig_layout" in expected.declared:
        return judgement
    gpus: Dict[bool, List[GpuInformation]] = {True: [], False: []}
    for gpu in answering(information):
        settings = gpu.groups.get("settings")
        if settings is not None and settings.mig_current is not None:
            gpus[settings.mig_current].append(gpu)
    odd = len(gpus[True]) < len(gpus[False])  # the mode of the fewer; of equal parts, those that are off
    if not gpus[odd]:
        return judgement
    words = ("on", "off") if odd else ("off", "on")
    reason = "its MIG mode is {0}, and {1} on {2} GPUs beside it".format(*words, len(gpus[not odd]))
    remedy = "set one mode on all with 'nvidia-smi -mig', or silence it where the node is shared out so"
    findings = (
        finding(gpu, Outcome.WARN, reason, remedy, Remedy.CONFIGURE, "differs", Certainty.POSSIBLE) for gpu in gpus[odd]
    )
    return Judgement(judgement.seen, tuple(findings))


def _pending(gpu: GpuInformation, expected: Expected) -> Judgement:
    settings = gpu.groups.get("settings")
    missed = unread(gpu, "settings.mig_current", "settings.mig_pending")
    if missed:
        return Judgement(findings=tuple(missed))
    if settings is None or settings.mig_current is None:
        return Judgement(not_applicable="no GPU here has MIG")
    if settings.mig_pending is None or settings.mig_pending == settings.mig_current:
        return Judgement()
    reason = "MIG mode is {0} and becomes {1} at the next reset".format(
        *("on" if mode else "off" for mode in (settings.mig_current, settings.mig_pending))
    )
    return Judgement(findings=(finding(gpu, Outcome.WARN, reason, RESET, Remedy.RESET_GPU, "pending"),))


_PENDING = each("MIG mode", _pending)
CHECKS = (
    Check("gpu_settings", "The GPUs are set as declared", Cost.PASSIVE, judge, look, "settings", seconds=20.0),
    Check(
        "gpu_mig_mode",
        "All GPUs are in the same MIG mode, and no change of it waits",
        Cost.PASSIVE,
        _mig,
        lane=GPU_LANE,
        gpu_groups=("settings",),
    ),
)
