# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs are divided as it was declared: a node that lacks an instance offers what it does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Tuple, Union

from ...core.declaration import PATH
from ...core.frozen import frozen
from ...core.resource import NodeError, Refusal
from ...facts.nvml.call import LOG
from ..evidence import CALL_SECONDS, Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED, parted

if TYPE_CHECKING:
    from ...gpus.mig.plan import Decision

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
    """``refusals``: (PCI address or "", what a run would refuse). ``wrong``: why the declaration cannot be read."""

    drifts: Tuple[Drift, ...] = ()
    refusals: Tuple[Tuple[str, Refusal], ...] = ()
    gpus: int = 0
    silent: Tuple[str, ...] = ()
    wrong: str = ""


def look(evidence: Evidence) -> Union[Seen, str]:
    """A text says why there is nothing to compare."""
    declared = evidence.declared.get(_SECTION)
    if declared is None:
        return "no layout of GPUs was declared for this node"
    # Not at the top: a check before each job does not come here, and would pay for the import.
    from ...core import options
    from ...gpus.mig.choose import silent
    from ...gpus.mig.observe import observe
    from ...gpus.mig.options import Desired
    from ...gpus.mig.plan import decide, each

    try:
        desired = options.of(Desired, declared)
    except NodeError as error:
        return Seen(wrong=str(error))
    try:
        # The units that are to give way are no users, which only a look of its own can tell.
        stop_units = desired.stop_units
        state = observe(evidence.host, CALL_SECONDS, False, stop_units) if stop_units else evidence.mig
    except NodeError:
        return NOT_OPENED
    if state.absent is not None:
        return NO_GPU
    # Each GPU by itself: what is refused of one, or of all, keeps nothing that lacks from being told.
    decisions = each(state, desired)[0]
    own = tuple((one.gpu.pci_address, refusal) for one in decisions for refusal in one.refusals)
    rest = tuple(("", one) for one in decide(state, desired).refusals if one not in [told for dummy, told in own])
    drifts = tuple(drift for drift in map(_drift, decisions) if drift is not None)
    return Seen(drifts, own + rest, len(state.gpus), tuple(silent(state, desired)))


def _drift(one: Decision) -> Optional[Drift]:
    from ...gpus.mig.plan import waits
    from ...gpus.mig.types import EndCompute, EndInstance, MakeCompute, MakeInstance

    # gpu_mig_mode tells of a mode that waits for a reset; what the GPU lacks until then is told here.
    missing = ["its MIG mode"] if bool(one.gpu.mode) != one.layout.mig else []
    left = []
    for step in one.steps:
        if isinstance(step, (EndInstance, EndCompute)):
            left.append(step.describe().partition(": end ")[2])
        elif isinstance(step, (MakeInstance, MakeCompute)):
            missing.append(step.describe().partition(": make ")[2])
    if not (missing or left):
        return None
    return Drift(one.gpu.label, one.gpu.pci_address, tuple(missing), tuple(left), waits(one.gpu, one.layout.mig))


def judge(seen: Union[Seen, str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    if seen.wrong:
        reason = "it cannot be read, so nothing can be compared with it ({0})".format(seen.wrong.rstrip("."))
        thing = "section {0} of {1}".format(_SECTION, PATH)
        remedy = "correct it or take it out, then run 'gpunode converge'"
        return Judgement(findings=(Finding(Outcome.WARN, thing, reason, remedy, Remedy.CONFIGURE, code="declaration"),))
    findings: List[Finding] = []
    for drift in seen.drifts:
        if drift.waits:
            reason = "it gets the MIG mode that was declared, and what goes with it, at the next boot"
            findings.append(_finding(Outcome.WARN, drift, reason, "reboot the node", Remedy.REBOOT, "waits"))
            continue
        for outcome, code, words, things in (
            (Outcome.FAIL, "missing", "it lacks what was declared: {0}", drift.missing),
            (Outcome.WARN, "undeclared", "it has what was not declared: {0}", drift.left),
        ):
            if things:
                reason = words.format(", ".join(things))
                findings.append(_finding(outcome, drift, reason, _REMEDY, Remedy.CONFIGURE, code))
    findings += [
        # What is in use, and what cannot be: nothing is lacking that could be had.
        Finding(Outcome.WARN, one.thing, one.reason, one.remedy, Remedy.CONFIGURE, key=address, code="refused")
        for address, one in seen.refusals
    ]
    findings += [
        # Instances are told to root only; a GPU that is lost is told by another check as well.
        Finding(Outcome.UNKNOWN, "MIG layouts", *parted(text, LOG), Remedy.LOOK, code="unread")
        for text in seen.silent
    ]
    return Judgement("{0} GPUs".format(seen.gpus), tuple(findings))


def _finding(outcome: Outcome, drift: Drift, reason: str, remedy: str, action: Remedy, code: str) -> Finding:
    return Finding(outcome, drift.gpu, reason, remedy, action, Certainty.CERTAIN, drift.pci_address, code)


CHECKS = (
    Check("gpu_mig_layout", "The GPUs are divided as declared", Cost.PASSIVE, judge, look, "settings", seconds=20.0),
)
