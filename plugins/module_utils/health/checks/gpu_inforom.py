# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the InfoROM of each GPU, where it keeps its configuration and its errors, is intact."""

from __future__ import annotations

from typing import Iterator, List, Tuple, Union

from ...core.frozen import frozen
from ...facts.nvml.call import ENDS_GPU, ENDS_SESSION, CallError, Gpu, Kind
from ...facts.nvml.session import survey
from ...facts.nvml.status import Status
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from .gpu_common import NO_GPU, NOT_OPENED, REPLACE

_CALL = "nvmlDeviceValidateInforom"  # it reads the flash of the GPU and checks its sums
_CALL_SECONDS = 4.0
_TOTAL_SECONDS = 15.0
_CORRUPTED = 14  # nvml.h, NVML_ERROR_CORRUPTED_INFOROM
INTACT, CORRUPTED, NOT_TOLD = "intact", "corrupted", "not told"


@frozen
class Inforom:
    """``state`` is one of the words above, or why it could not be read."""

    gpu: str
    pci_address: str
    state: str


def look(evidence: Evidence) -> Union[Tuple[Inforom, ...], str]:
    """A text says why there is nothing to look at. A GPU that does not answer at all is left to gpu_lost."""
    found = survey(_ask, call_timeout=_CALL_SECONDS, total_timeout=_TOTAL_SECONDS, host=evidence.host)
    if found.status not in (Status.OK, Status.PARTIAL):
        return NO_GPU if found.status is Status.NO_GPU else NOT_OPENED
    answer: List[Inforom] = []
    for visit in found.visits:
        identity, fault = visit.identity, visit.fault
        states = list(visit.parts)
        if fault is not None and fault.call == _CALL and fault.kind is Kind.HUNG:
            states = [fault.reason]
        answer += [Inforom(identity.label, identity.pci_address or identity.uuid or "", state) for state in states]
    return tuple(answer)


def _ask(gpu: Gpu) -> Iterator[str]:
    try:
        gpu.call(_CALL)
    except CallError as error:
        if error.kind in ENDS_GPU or error.kind in ENDS_SESSION:
            raise
        if error.code == _CORRUPTED:
            yield CORRUPTED
        else:
            yield NOT_TOLD if error.kind is Kind.ABSENT else error.reason
        return
    yield INTACT


def judge(seen: Union[Tuple[Inforom, ...], str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    told = [one for one in seen if one.state != NOT_TOLD]
    if not told:
        return Judgement(not_applicable="no GPU here, or not this driver, can check its InfoROM")
    return Judgement(
        "InfoROM of {0} GPUs".format(len(told)), tuple(_finding(one) for one in told if one.state != INTACT)
    )


def _finding(one: Inforom) -> Finding:
    if one.state == CORRUPTED:
        outcome, code, reason, remedy, action = (
            Outcome.FAIL,
            "corrupted",
            "its InfoROM is corrupted, so neither its settings nor its count of errors can be trusted",
            REPLACE,
            Remedy.REPLACE,
        )
    else:
        outcome, code, reason, remedy, action = (
            Outcome.UNKNOWN,
            "unread",
            "its InfoROM could not be checked: {0}".format(one.state),
            "run it as root; look for NVRM and Xid lines in the kernel log",
            Remedy.LOOK,
        )
    return Finding(outcome, one.gpu, reason, remedy, action, Certainty.CERTAIN, one.pci_address, code)


CHECKS = (
    Check("gpu_inforom", "The InfoROM of every GPU is intact", Cost.PASSIVE, judge, look, "inforom", seconds=20.0),
)
