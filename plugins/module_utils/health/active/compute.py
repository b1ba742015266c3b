# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic of each GPU: how fast, and whether all multiprocessors (SMs) compute the same, bit by bit.

All GPUs compute at the same time (:mod:`.compute_on_gpu`), which loads power and cooling of the machine as a job does.
An SM whose result differs from the others computes wrong without an error message, and an SM that takes longer is slow.
NVML is read in the meantime.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Dict, List, Optional, Sequence, Tuple

from ...core.resource import NodeError
from ..data.product_limits import limit_of
from ..evidence import Evidence
from ..settings import number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Measured, Outcome, Remedy, Span
from . import apart, equality, survey, under_load
from .compute_on_gpu import Answer, Done, compute
from .cuda import Cuda
from .ptx.arithmetic import KINDS
from .readings import Figure, Reading, Readings, code_of, of_silent, unmeasured
from .readings import judge as judge_readings

SETTING = "compute_seconds"
SLOWEST = "compute_slowest_multiprocessor_percent"
# The context, the compiler of the driver, and the launches that find the number of rounds.
_SETUP_SECONDS = 3.0
# The context: GPUs without persistence need many seconds each when all begin at once.
_CONTEXT_SECONDS = 60.0
_REMEDY = "look at its clocks, power limit and temperature under load; replace it if it stays slow"
_REPLACE = "keep jobs off it, and have the GPU replaced: it computes wrong without an error message"
_REPLACE_MEMORY = "keep jobs off it, and have the GPU replaced: its memory does not keep what is written"
_BAD_MEMORY = "the memory that holds its results changes them, so nobody knows whether it computes wrong: {0}"
FIGURES: Dict[str, Figure] = {
    kind.figure: Figure(
        kind.title,
        "Top/s" if kind.integer else "Tflop/s",
        _REMEDY,
        Remedy.LOOK,
        "compute_share_of_siblings",
        limit_of(kind.figure),
    )
    for kind in KINDS
}


@dataclasses.dataclass(frozen=True)
class Computed:
    thing: str
    key: str
    product: str
    done: Tuple[Done, ...]


@dataclasses.dataclass(frozen=True)
class Seen:
    readings: Readings
    computed: Tuple[Computed, ...] = ()
    loads: Tuple[under_load.Load, ...] = ()


def look(evidence: Evidence) -> Seen:
    seconds = evidence.bounded(number(evidence.settings, SETTING), _SETUP_SECONDS)
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Seen(Readings(not_applicable="no GPU of this node is available as a whole"))
    watch = under_load.Watch(evidence.host)
    tasks = [
        apart.Task(gpu.label, functools.partial(_compute, gpu.uuid, seconds), gpu.numa_node, gpu.cpus)
        for gpu in found.gpus
    ]
    readings: List[Reading] = list(of_silent(found))
    computed: List[Computed] = []
    for gpu, answer in zip(found.gpus, apart.side_by_side(tasks, _CONTEXT_SECONDS, watch.look)):
        try:
            one = answer()
        except NodeError as error:
            readings.append(unmeasured(gpu.label, gpu.pci_address, error))
            continue
        reading = reading_of(gpu.label, gpu.pci_address, gpu.name, one)
        readings.append(dataclasses.replace(reading, no_limit=gpu.no_limit))
        computed.append(Computed(gpu.label, gpu.pci_address, gpu.name, one.done))
    loads = tuple(watch.load(gpu.label, gpu.pci_address) for gpu in found.gpus)
    return Seen(Readings("all at once", tuple(readings)), tuple(computed), loads)


def reading_of(thing: str, key: str, product: str, answer: Answer) -> Reading:
    """Pure. The figures of a GPU, and the reason if a kind failed or the driver accepts no kernel at all."""
    figures = tuple((one.kind.figure, one.rate) for one in answer.done if one.refused is None)
    error, reason = answer.error, ""
    if answer.failed is not None and error is not None:
        reason = "{0}: {1}".format(answer.failed.title, error.reason)
    elif answer.done and not figures:
        error = answer.done[0].refused
    if error is None:
        return Reading(thing, key, figures, kind=product)
    fault, code = getattr(error, "fault", None), getattr(error, "code", "")
    return Reading(thing, key, figures, reason or error.reason, error.remedy, fault, product, code)


def _compute(uuid: str, seconds: float) -> Answer:
    """In a child that is bound to the node of the GPU."""
    apart.become([uuid])
    return compute(Cuda(), seconds)


def judge(seen: Seen, expected: Expected) -> Judgement:
    """Pure."""
    judgement = judge_readings(seen.readings, expected, FIGURES)
    odd, unclear = _against_siblings(seen.computed)
    findings = [found for one in seen.computed for found in _wrong(one, odd.get(one.key, []))]
    findings += [found for one in seen.computed for found in _idle(one)]
    slow = [found for one in seen.computed for found in _slow(one, expected)]
    measured: List[Measured] = []
    for one in seen.computed:
        worst = [100.0 * (max(done.times.values()) - 1) for done in one.done if done.times]
        if worst:
            measured.append(Measured(SLOWEST, max(0.0, *worst), one.key, better="lower"))
    slowed = under_load.findings(seen.loads)
    measured += [figure for load in seen.loads for figure in under_load.measured(load)]
    parts = (judgement.seen, under_load.summary(seen.loads), _refused(seen.computed))
    return dataclasses.replace(
        judgement,
        seen=", ".join(part for part in parts if part),
        findings=(*findings, *unclear, *slow, *_unexplained(seen, judgement.findings, expected), *slowed),
        measured=judgement.measured + tuple(measured),
    )


def _wrong(one: Computed, different: Sequence[str]) -> List[Finding]:
    """One finding for all kinds of a GPU."""
    reasons = [reason for reason in map(_difference, one.done) if reason]
    if different:
        reasons.append("{0}: another result than the other GPUs of this product".format(" and ".join(different)))
    if not reasons:
        return []
    reason, remedy, code = "it computes wrong: " + "; ".join(reasons), _REPLACE, "wrong_result"
    if any(done.memory for done in one.done):
        reason, remedy = _BAD_MEMORY.format("; ".join(reasons)), _REPLACE_MEMORY
    return [Finding(Outcome.FAIL, one.thing, reason, remedy, Remedy.REPLACE, Certainty.CERTAIN, one.key, code)]


def _difference(done: Done) -> str:
    """``FP16 tensor cores: SM 17 differs from the majority in 3 of 40 launches``."""
    parts = []
    if done.wrong:
        named = ["SM {0} differs from the majority in {1}".format(sm, launches) for sm, launches in done.wrong[:8]]
        more = " and {0} more SMs".format(len(done.wrong) - 8) if len(done.wrong) > 8 else ""
        parts.append("{0}{1} of {2} launches".format(", ".join(named), more, done.launches))
    if done.undecided:
        text = "the SMs differ in {0} of {1} launches, and no majority shows which ones are wrong"
        parts.append(text.format(done.undecided, done.launches))
    if done.changed:
        parts.append("{0} of {1} launches differ from the first one".format(done.changed, done.launches))
    return "{0}: {1}".format(done.kind.title, ", ".join(parts)) if parts else ""


def _against_siblings(computed: Sequence[Computed]) -> Tuple[Dict[str, List[str]], List[Finding]]:
    """(titles of kinds whose result differs from the other GPUs, by key; findings where no majority shows which)."""
    odd: Dict[str, List[str]] = {}
    unclear: Dict[str, List[str]] = {}
    for product in sorted({one.product for one in computed}):
        for kind in KINDS:
            results = {
                one.key: done.result
                for one in computed
                for done in one.done
                if one.product == product and done.kind == kind and done.result is not None
            }
            keys = equality.odd_gpus(results)
            if keys is None:
                unclear.setdefault(product, []).append(kind.title)
            for key in keys or ():
                odd.setdefault(key, []).append(kind.title)
    remedy = "compare them with another GPU of this product, for example in another node"
    findings = [
        Finding(
            Outcome.UNKNOWN,
            "the GPUs of product {0}".format(product),
            "{0}: they have different results for the same work, and no majority shows which one is wrong".format(
                " and ".join(titles)
            ),
            remedy,
            Remedy.LOOK,
            code="different_results",
        )
        for product, titles in unclear.items()
    ]
    return odd, findings


def _slow(one: Computed, expected: Expected) -> List[Finding]:
    """One finding for all SMs of a GPU that take longer than the others."""
    threshold = expected.thresholds.get(SLOWEST)
    if threshold is None:
        return []
    worst: Dict[int, Tuple[float, str]] = {}
    for done in one.done:
        for sm, time in done.times.items():
            worst[sm] = max(worst.get(sm, (0.0, "")), (100.0 * (time - 1), done.kind.title))
    slow = {sm: seen for sm, seen in worst.items() if threshold.outcome(seen[0]) is not Outcome.PASS}
    if not slow:
        return []
    first = sorted(slow.items(), key=lambda item: -item[1][0])[:4]
    named = ["SM {0} takes {1:.0f} % longer than the median ({2})".format(sm, *seen) for sm, seen in first]
    more = " and {0} more".format(len(slow) - len(first)) if len(slow) > len(first) else ""
    outcome = max((threshold.outcome(percent) for percent, dummy in slow.values()), key=lambda out: out is Outcome.FAIL)
    remedy = "run it again; replace the GPU if the same SM stays slow"
    code, reason = "slow_multiprocessor", "for the same work, " + ", ".join(named) + more
    return [Finding(outcome, one.thing, reason, remedy, Remedy.LOOK, Certainty.LIKELY, one.key, code)]


def _unexplained(seen: Seen, findings: Sequence[Finding], expected: Expected) -> List[Finding]:
    """Without the warnings that a GPU is slow in a kind in which one of its SMs is: a launch lasts as long as its
    slowest SM."""
    threshold = expected.thresholds.get(SLOWEST)
    explained = {
        (one.key, code_of(done.kind.figure))
        for one in seen.computed
        for done in one.done
        for time in done.times.values()
        if threshold is not None and threshold.outcome(100.0 * (time - 1)) is not Outcome.PASS
    }
    return [one for one in findings if one.outcome is not Outcome.WARN or (one.key, one.code) not in explained]


def _idle(one: Computed) -> List[Finding]:
    """SMs that ran no block in any launch: nothing is known of them."""
    idle = max((done.idle for done in one.done), default=0)
    if not idle:
        return []
    reason = "{0} SM{1} ran nothing, so {2} not tested".format(idle, *("s", "they are") if idle > 1 else ("", "it is"))
    remedy = "find what else runs on it, for example a display, and run it again; reset the GPU if it recurs"
    code = "multiprocessors_not_covered"
    return [Finding(Outcome.WARN, one.thing, reason, remedy, Remedy.LOOK, Certainty.POSSIBLE, one.key, code)]


def _refused(computed: Sequence[Computed]) -> str:
    """``not covered: FP8 tensor cores on 8 GPUs (the driver does not accept the PTX: ...)``."""
    refused: Dict[str, List[str]] = {}
    for one in computed:
        for done in one.done:
            if done.refused is not None:
                refused.setdefault(done.kind.title, []).append(done.refused.reason)
    parts = [
        "{0} on {1} GPU{2} ({3})".format(title, len(reasons), "s" if len(reasons) > 1 else "", reasons[0])
        for title, reasons in refused.items()
    ]
    return "not covered: " + "; ".join(parts) if parts else ""


def span(machine: Machine) -> Optional[Span]:
    """All GPUs at the same time."""
    if not machine.gpus:
        return None
    seconds = number(machine.settings, SETTING)
    return Span(_SETUP_SECONDS + min(2.0, seconds), _SETUP_SECONDS + seconds)


CHECK = Check(
    id="gpu_compute",
    title="GPUs compute at full rate, and all multiprocessors compute the same",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=600.0,
    span=span,
)
