# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the driver answers, whether all GPUs are there, and whether each of them answers."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ...facts.gpu_info import GpuInformation, Information
from ...facts.nvml.call import REBOOT, Kind
from ...facts.nvml.status import Status
from ..types import GPU_LANE, Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, RESET, finding, nothing

# Status of NVML → outcome, what to do. There is a GPU on the bus then: without one the status is NO_GPU.
_DRIVER = {
    Status.NO_LIBRARY.value: (Outcome.FAIL, Remedy.CONFIGURE),
    Status.NO_BINDING.value: (Outcome.UNKNOWN, Remedy.CONFIGURE),
    Status.DRIVER_NOT_LOADED.value: (Outcome.FAIL, Remedy.REBOOT),
    Status.DRIVER_MISMATCH.value: (Outcome.FAIL, Remedy.REBOOT),
    Status.NO_PERMISSION.value: (Outcome.UNKNOWN, Remedy.CONFIGURE),
    Status.HUNG.value: (Outcome.FAIL, Remedy.REBOOT),
    Status.FAILED.value: (Outcome.FAIL, Remedy.LOOK),
}
# How a GPU does not answer → code, outcome, what to do, how sure.
_FAULTS = {
    Kind.LOST: ("lost", Outcome.FAIL, Remedy.REBOOT, Certainty.CERTAIN),
    Kind.HUNG: ("hung", Outcome.FAIL, Remedy.REBOOT, Certainty.CERTAIN),
    Kind.RESET_REQUIRED: ("reset_required", Outcome.FAIL, Remedy.RESET_GPU, Certainty.CERTAIN),
    Kind.OUT_OF_TIME: ("not_asked", Outcome.UNKNOWN, Remedy.LOOK, Certainty.CERTAIN),
    Kind.PERMISSION: ("no_permission", Outcome.UNKNOWN, Remedy.CONFIGURE, Certainty.CERTAIN),
}


def driver(information: Information, expected: Expected) -> Judgement:
    if information.status == Status.NO_GPU.value:
        return Judgement(not_applicable=NO_GPU)
    if information.status not in _DRIVER:
        return Judgement("driver {0}".format(information.driver_version or "of unknown version"))
    outcome, action = _DRIVER[information.status]
    thing, dummy, rest = information.message.partition(": ")
    reason, dummy, remedy = rest.rpartition("; ")
    found = Finding(
        outcome, thing or "NVML", reason or information.message, remedy or REBOOT, action, code=information.status
    )
    return Judgement(findings=(found,))


def count(information: Information, expected: Expected) -> Judgement:
    wanted = expected.profile.get("gpus", {}).get("count")
    on_bus = len(information.pci_gpus)
    found = information.gpu_count
    if found is None:  # the driver does not answer, or there is no GPU
        found = on_bus
    if not found and not wanted and not on_bus:
        return Judgement(not_applicable="this machine has no NVIDIA GPU, and none is expected")
    findings: List[Finding] = []
    unknown_to_driver = _unclaimed(information)
    for address in unknown_to_driver:
        reason = "the PCI bus has it, the driver does not"
        findings.append(_of_node("GPU " + address, reason, REBOOT, Remedy.REBOOT, address, "unclaimed"))
    there = found + len(unknown_to_driver)
    if wanted is not None and there < wanted:
        reason = "{0} of {1} are there; the PCI bus does not have the rest".format(there, wanted)
        remedy = "drain the node; redeploy the machine, or switch it off and on and open a ticket when they stay away"
        findings.append(_of_node("GPUs", reason, remedy, Remedy.REPLACE, "", "missing"))
    elif wanted is not None and there > wanted:
        reason = "there are {0}, and the profile {1} says {2}".format(there, expected.profile_name, wanted)
        findings.append(_of_node("GPUs", reason, "choose the right profile", Remedy.CONFIGURE, "", "too_many"))
    return Judgement("{0} GPUs".format(found), tuple(findings))


def _of_node(thing: str, reason: str, remedy: str, action: Remedy, key: str, code: str) -> Finding:
    return Finding(Outcome.FAIL, thing, reason, remedy, action, Certainty.CERTAIN, key, code)


def _unclaimed(information: Information) -> Tuple[str, ...]:
    """GPUs on the bus that NVML does not count. One that lost its name may be any of them."""
    if information.status != Status.PARTIAL.value:  # what is given away to a guest makes no machine partial
        return ()
    known = [gpu.identity.pci_address for gpu in information.gpus]
    left = tuple(address for address in information.pci_gpus if address not in known)
    return left if len(left) > known.count(None) else ()


def lost(information: Information, expected: Expected) -> Judgement:
    none = nothing(information)
    if none is not None and not information.gpus:
        return Judgement(not_applicable=none)
    findings = tuple(found for gpu in information.gpus for found in (_fault(gpu),) if found is not None)
    return Judgement("{0} GPUs answered".format(len(information.gpus) - len(findings)), findings)


def _fault(gpu: GpuInformation) -> Optional[Finding]:
    fault = gpu.fault
    if fault is None:
        if Kind.RESET_REQUIRED in gpu.failed.values():
            reason = "the driver says that it needs a reset before it can be used again"
            return finding(gpu, Outcome.FAIL, reason, RESET, Remedy.RESET_GPU, "reset_required")
        return None
    code, outcome, action, certainty = _FAULTS.get(
        fault.kind, ("failed", Outcome.FAIL, Remedy.REBOOT, Certainty.LIKELY)
    )
    if fault.kind is Kind.FAILED and fault.call is None:  # it was our own code that failed, not a call
        outcome, action = Outcome.UNKNOWN, Remedy.LOOK
    return finding(gpu, outcome, fault.reason, fault.remedy, action, code, certainty)


CHECKS = (
    Check("gpu_driver", "The NVIDIA driver answers", Cost.QUICK, driver, lane=GPU_LANE),
    Check("gpu_count", "All GPUs are there", Cost.QUICK, count, lane=GPU_LANE),
    Check("gpu_lost", "Every GPU answers", Cost.QUICK, lost, lane=GPU_LANE),
)
