# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs are divided as it was declared: a node that lacks an instance offers what it does not have."""

from __future__ import annotations

from typing import Dict, List, Tuple, Union

from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.nvml.call import LOG
from ..evidence import CALL_SECONDS, Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED, parted

_SECTION = "mig_layout"
_REMEDY = "run 'gpunode apply mig_layout'; see why gpu-node-mig_layout.service did not"


@frozen
class Drift:
    """A GPU that is not divided as declared. ``missing``: what was declared and is not there; ``left``: what is there
    and was not declared, both in words. ``waits``: its mode comes with a reboot, and all else with that."""

    gpu: str
    pci_address: str
    missing: Tuple[str, ...]
    left: Tuple[str, ...] = ()
    waits: bool = False


@frozen
class Seen:
    drifts: Tuple[Drift, ...]
    refusals: Tuple[str, ...]
    gpus: int
    silent: Tuple[str, ...] = ()


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare."""
    declared = evidence.declared.get(_SECTION)
    if declared is None:
        return "no layout of GPUs was declared for this node"
    # Not at the top: a check before each job does not come here, and would pay for the import.
    from ...core import options
    from ...resources.mig_layout import Desired
    from ...resources.mig_layout.observe import observe
    from ...resources.mig_layout.plan import chosen_gpus, decide, silent, waits
    from ...resources.mig_layout.types import EndCompute, EndInstance, GpuAction, MakeCompute, MakeInstance

    try:
        desired = options.of(Desired, declared)
        # The units that are to give way are no users, which only a look of its own can tell.
        stop_units = desired.stop_units
        state = observe(evidence.host, CALL_SECONDS, False, stop_units) if stop_units else evidence.mig
    except NodeError:
        return NOT_OPENED
    if state.absent is not None:
        return NO_GPU
    plan = decide(state, desired)
    addresses = {gpu.uuid: gpu.pci_address for gpu in state.gpus}
    # gpu_mig_mode tells of a mode that waits for a reset; what the GPU lacks until then is told here.
    other = {gpu.uuid: gpu for gpu, layout in chosen_gpus(state, desired)[0] if gpu.mode != layout.mig}
    waiting = {gpu.uuid for gpu, layout in chosen_gpus(state, desired)[0] if waits(gpu, layout.mig)}
    missing: Dict[str, List[str]] = {uuid: ["its MIG mode"] for uuid in other}
    left: Dict[str, List[str]] = {}
    labels = {uuid: gpu.label for uuid, gpu in other.items()}
    for action in plan.actions:
        if not isinstance(action, GpuAction):
            continue
        labels[action.uuid] = action.gpu
        if isinstance(action, (EndInstance, EndCompute)):
            left.setdefault(action.uuid, []).append(action.describe().partition(": end ")[2])
        elif isinstance(action, (MakeInstance, MakeCompute)):
            missing.setdefault(action.uuid, []).append(action.describe().partition(": make ")[2])
    drifts = tuple(
        Drift(label, addresses[uuid], tuple(missing.get(uuid, ())), tuple(left.get(uuid, ())), uuid in waiting)
        for uuid, label in sorted(labels.items(), key=lambda pair: addresses[pair[0]])
    )
    refusals = tuple(str(refusal) for refusal in plan.refusals)
    return Seen(drifts, refusals, len(state.gpus), tuple(silent(state, desired)))


def judge(seen: Union[Seen, str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    findings = []
    for drift in seen.drifts:
        if drift.waits:
            reason = "it gets the MIG mode that was declared, and what goes with it, at the next boot"
            findings.append(
                Finding(
                    Outcome.WARN,
                    drift.gpu,
                    reason,
                    "reboot the node",
                    Remedy.REBOOT,
                    Certainty.CERTAIN,
                    drift.pci_address,
                    "waits",
                )
            )
            continue
        for outcome, code, words, things in (
            (Outcome.FAIL, "missing", "it lacks what was declared: {0}", drift.missing),
            (Outcome.WARN, "undeclared", "it has what was not declared: {0}", drift.left),
        ):
            if things:
                reason = words.format(", ".join(things))
                findings.append(
                    Finding(
                        outcome,
                        drift.gpu,
                        reason,
                        _REMEDY,
                        Remedy.CONFIGURE,
                        Certainty.CERTAIN,
                        drift.pci_address,
                        code,
                    )
                )
    findings += [
        # What is in use, and what cannot be: nothing is lacking that could be had.
        Finding(
            Outcome.WARN, "MIG layouts", *parted(text, "correct what was declared"), Remedy.CONFIGURE, code="refused"
        )
        for text in seen.refusals
    ]
    findings += [
        # Instances are told to root only; a GPU that is lost is told by another check as well.
        Finding(Outcome.UNKNOWN, "MIG layouts", *parted(text, LOG), Remedy.LOOK, code="unread")
        for text in seen.silent
    ]
    return Judgement("{0} GPUs".format(seen.gpus), tuple(findings))


CHECKS = (
    Check("gpu_mig_layout", "The GPUs are divided as declared", Cost.PASSIVE, judge, look, "settings", seconds=20.0),
)
