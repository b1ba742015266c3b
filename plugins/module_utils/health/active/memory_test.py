# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write patterns into all free memory of all GPUs at the same time and compare what they return.

The kernels of :mod:`memory_on_gpu` compare on the GPU, which takes a fraction of a second for a round of six patterns,
and measure the rate of the memory. Where the driver does not accept them, the host compares (:mod:`memory_by_host`).
ECC corrects one bad bit and reports two; this finds what neither sees, and the checks of ECC, which run once more
afterwards, report what ECC saw of it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, List, Optional, Tuple

from ...core.resource import NodeError
from ..data import product_limits
from ..evidence import Evidence
from ..settings import number
from ..types import NOT_COVERED, Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, memory_by_host, memory_on_gpu, survey
from .cuda import Cuda, PtxRefused
from .memory_on_gpu import Tested
from .readings import Figure, Reading, Readings, of_silent, unmeasured
from .readings import judge as judge_readings

SETTING = "memory_test_seconds"
FIGURE = "gpu_memory_gigabytes_per_second"
_REMEDY = "look at its memory clock and at the check of ECC; replace it if it stays slow"
FIGURES: Dict[str, Figure] = {
    FIGURE: Figure(
        "memory reads",
        "GB/s",
        _REMEDY,
        Remedy.LOOK,
        "gpu_memory_share_of_siblings",
        product_limits.limit_of(FIGURE),
    )
}
# CUDA's start in one process for each GPU, and the survey of the node.
_SETUP_SECONDS = 3.0
# A limit for a process that reports nothing; it sets its own limits as it goes on.
_START_SECONDS = 60.0
# The host compares 80 GB with two patterns in about 100 s.
_HOST_SECONDS = 300.0
# What the kernels leave free, and what is too small for a piece, is less than a hundredth.
_COVERED = 0.98
# The driver, a context and a display hold less than the rest, also of small GPUs.
_FREE = 0.8
_WRONG = "keep jobs off it, and have the GPU replaced: its memory does not keep what is written"


@dataclasses.dataclass(frozen=True)
class Seen:
    """(thing, key, what was tested) of each GPU; ``readings`` have the rates, and the GPUs that were not tested."""

    readings: Readings
    tested: Tuple[Tuple[str, str, Tested], ...] = ()


def look(evidence: Evidence) -> Seen:
    seconds = evidence.bounded(number(evidence.settings, SETTING), _SETUP_SECONDS)
    most = seconds + _HOST_SECONDS if evidence.seconds is None else seconds
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Seen(Readings(not_applicable="no GPU of this node is there to be tested as a whole"))
    readings: List[Reading] = list(of_silent(found))
    tested: List[Tuple[str, str, Tested]] = []
    tasks = [
        apart.Task(gpu.label, functools.partial(_one, gpu.uuid, seconds, most), gpu.numa_node, gpu.cpus)
        for gpu in found.gpus
    ]
    for gpu, answer in zip(found.gpus, apart.side_by_side(tasks, _START_SECONDS)):
        try:
            one = answer()
        except NodeError as error:
            readings.append(unmeasured(gpu.label, gpu.pci_address, error))
            continue
        tested.append((gpu.label, gpu.pci_address, one))
        rate = one.gigabytes_per_second
        figures = () if rate is None else ((FIGURE, rate),)
        readings.append(Reading(gpu.label, gpu.pci_address, figures, kind=gpu.name, no_limit=gpu.no_limit))
    return Seen(Readings("", tuple(readings)), tuple(tested))


def _one(uuid: str, seconds: float, most: float) -> Tested:
    apart.become([uuid])
    cuda = Cuda()
    try:
        return memory_on_gpu.test(cuda, seconds, most)
    except PtxRefused as error:
        device = cuda.open(0)
        chunk = memory_by_host.chunk_of(device.memory_sizes()[1])
        tested = memory_by_host.test(cuda, device, seconds, most, chunk, 2 * chunk)
        return dataclasses.replace(tested, by_host=error.reason)


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure. Memory of which not every bit was read both ways is not known to be well."""
    judgement = judge_readings(seen.readings, expected, FIGURES)
    if judgement.not_applicable is not None:
        return judgement
    findings = [finding for thing, key, tested in seen.tested for finding in _of(thing, key, tested)]
    text = ", ".join(part for part in (_covered([one for dummy, dummy1, one in seen.tested]), judgement.seen) if part)
    return dataclasses.replace(judgement, seen=text, findings=(*findings, *judgement.findings))


def _of(thing: str, key: str, tested: Tested) -> List[Finding]:
    if tested.wrong:
        reason = "{0} reads of its memory returned wrong data ({1})".format(tested.wrong, tested.where)
        return [Finding(Outcome.FAIL, thing, reason, _WRONG, Remedy.REPLACE, Certainty.CERTAIN, key, "memory_mismatch")]
    code = NOT_COVERED
    if tested.both_ways_bytes < tested.memory_bytes:
        reason = "only {0:.0%} of its memory was read back as 0 and as 1 in the time".format(
            tested.both_ways_bytes / tested.memory_bytes
        )
        remedy = "give setting {0} of section health, or the budget of this run, more seconds".format(SETTING)
    elif tested.memory_bytes < _COVERED * tested.free_bytes:
        reason = "only {0:.0%} of its free memory could be allocated".format(tested.memory_bytes / tested.free_bytes)
        remedy, code = "find what uses the GPU, and reset it if nothing does", "memory_not_allocated"
    elif tested.free_bytes < _FREE * tested.total_bytes:
        # A process that computes would have stopped the check before.
        reason = "only {0:.0%} of its memory is free, and no process computes on it".format(
            tested.free_bytes / tested.total_bytes
        )
        remedy = "close what displays on it; if nothing does, reset the GPU: a process that has ended left its memory"
        return [Finding(Outcome.WARN, thing, reason, remedy, Remedy.LOOK, Certainty.POSSIBLE, key, "memory_held")]
    else:
        return []
    return [Finding(Outcome.UNKNOWN, thing, reason, remedy, Remedy.CONFIGURE, key=key, code=code)]


def _covered(tested: List[Tested]) -> str:
    """``every bit of 84.6 GB or more of each of 8 GPUs (99.4 % of all memory) read as 0 and as 1, 66 patterns``."""
    if not tested:
        return ""
    least = min(tested, key=lambda one: one.both_ways_bytes / one.total_bytes)
    text = "every bit of {0:.4g} GB ({1:.1f} % of all memory) of {2} read as 0 and as 1, {3} patterns".format(
        least.both_ways_bytes / 1e9,
        100 * least.both_ways_bytes / least.total_bytes,
        "1 GPU" if len(tested) == 1 else "each of {0} GPUs".format(len(tested)),
        min(one.patterns for one in tested),
    )
    by_host = next((one.by_host for one in tested if one.by_host), "")
    return text + (", compared on the host, and no rate measured: {0}".format(by_host) if by_host else "")


def span(machine: Machine) -> Optional[Span]:
    """All GPUs at the same time. The first round visits all memory twelve times, at 600 GB/s or more."""
    if not machine.gpus:
        return None
    least = _SETUP_SECONDS + 1.0 + 12 * machine.memory_bytes / 600e9
    return Span(least, max(least, _SETUP_SECONDS + number(machine.settings, SETTING)))


CHECK = Check(
    id="gpu_memory_test",
    title="GPU memory keeps what is written",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    # The longest setting, and 300 s more where the host compares.
    seconds=600.0,
    span=span,
)
