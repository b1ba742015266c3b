# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own diagnosis: ``dcgmi diag``, level 1 to 3 as setting ``dcgm_level`` says (1 takes seconds, 3 a quarter of
an hour), and what the health watches of its host engine say afterwards, where somebody has enabled them."""

from __future__ import annotations

import dataclasses
import functools
import signal
from typing import Dict, List, Optional, Tuple

from ...core.resource import NodeError
from ..data.tools import DCGM_SEVERITIES
from ..evidence import Evidence
from ..parse import ParseError, dcgmi, dcgmi_health
from ..settings import number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Machine, Outcome, Remedy, Span
from . import apart, survey, tools
from .readings import Reading, of_silent, unmeasured, untold

SETTING = "dcgm_level"
# NVIDIA: level 1 some seconds, 2 about two minutes, 3 about fifteen; eight GPUs and a cold host engine take longer.
LEVEL_SECONDS: Dict[int, float] = {1: 180.0, 2: 600.0, 3: 2100.0}
_HEALTH_SECONDS = 30.0
_STATUS = {"fail": Outcome.FAIL, "warn": Outcome.WARN, "not_run": Outcome.UNKNOWN}


@dataclasses.dataclass(frozen=True)
class Seen:
    """``things`` are the GPUs (name, key) in the order in which DCGM numbers them, too; ``count``: how many there are.
    ``health``: None where nothing is watched."""

    level: int = 1
    diagnosis: Optional[dcgmi.Diagnosis] = None
    things: Tuple[Tuple[str, str], ...] = ()
    count: int = 0
    silent: Tuple[Reading, ...] = ()
    health: Optional[dcgmi_health.Report] = None
    not_applicable: Optional[str] = None


def look(evidence: Evidence) -> Seen:
    level = int(number(evidence.settings, SETTING))
    found = survey.gpus(evidence)
    if found is None:
        return Seen(not_applicable="this node has no GPU")
    if found.partitioned:
        return Seen(not_applicable="DCGM does not diagnose GPUs in MIG mode")
    # An additional check: memory, arithmetic and links need no tool.
    program = tools.find(evidence.host, evidence.settings, "dcgmi")
    if program is None:
        return Seen(not_applicable="dcgmi is not installed")
    argv = [program, "diag", "-r", str(level), "-j"]
    # It stops the diagnosis in the host engine when it is interrupted; killed, it would leave it running.
    task = functools.partial(apart.run, argv, LEVEL_SECONDS[level], apart.environment(), signal.SIGINT)
    ended = apart.measure("dcgmi diag", LEVEL_SECONDS[level] + 30, task, None, ())
    try:
        diagnosis = dcgmi.parse(ended.stdout)
    except ParseError as error:
        raise error.beside(ended.words) from None
    things = sorted((gpu.index, gpu.label, gpu.pci_address) for gpu in found.gpus)
    whole = [index for index, dummy1, dummy2 in things] == list(range(len(things)))
    named = tuple((name, key) for dummy, name, key in things) if whole else ()
    silent, health = of_silent(found), None
    try:
        health = _watched(program)
    except NodeError as error:  # it costs the diagnosis nothing
        silent += (unmeasured("DCGM", "dcgm_health", error),)
    return Seen(level, diagnosis, named, len(things), silent, health)


def _watched(program: str) -> Optional[dcgmi_health.Report]:
    """Reads only: the watches of the host engine are its administrator's."""
    ended = apart.run([program, "health", "-c", "-j"], _HEALTH_SECONDS, apart.environment())
    if dcgmi_health.NOT_WATCHED in ended.stdout:
        return None
    return dcgmi_health.parse(ended.stdout)


def judge(seen: Seen, dummy: Expected) -> Judgement:
    """Pure."""
    if seen.not_applicable is not None or seen.diagnosis is None:
        return Judgement(not_applicable=seen.not_applicable or "it was not run")
    diagnosis = seen.diagnosis
    if diagnosis.refused is not None:
        remedy = "repair what it says, then run dcgmi diag -r {0} by hand".format(seen.level)
        findings = [Finding(Outcome.UNKNOWN, "DCGM", diagnosis.refused, remedy, Remedy.LOOK)]
        return Judgement(findings=(*findings, *_others(seen)))
    single = {one.test for one in diagnosis.results if one.gpu is not None and one.status in _STATUS}
    findings = [
        _finding(seen, one)
        for one in diagnosis.results
        # A test that names its GPUs also has a line for all of them together.
        if one.status in _STATUS and not (one.gpu is None and one.test in single and not one.messages)
    ]
    ran = [one for one in diagnosis.results if one.status != "skip"]
    if not ran:
        findings.append(
            Finding(
                Outcome.UNKNOWN,
                "DCGM",
                "it skipped every test",
                "run dcgmi diag -r {0} by hand as root".format(seen.level),
                Remedy.LOOK,
            )
        )
    findings += _others(seen)
    skipped = len({one.test for one in diagnosis.results}) - len({one.test for one in ran})
    text = "dcgmi diag -r {0} of DCGM {1}, {2} tests, {3} skipped".format(
        seen.level, diagnosis.version or "of an untold version", len({one.test for one in ran}), skipped
    )
    return Judgement(text, tuple(findings))


def _others(seen: Seen) -> List[Finding]:
    """The GPUs that were not diagnosed, and what the watches say."""
    findings = [untold(reading) for reading in seen.silent]
    found = None if seen.diagnosis is None else seen.diagnosis.gpus
    if found is not None and found < seen.count:
        reason = "it found {0} of {1} GPUs".format(found, seen.count)
        remedy = "restart nvidia-dcgm, which counts GPUs when it starts, then run the diagnosis again"
        findings.append(Finding(Outcome.UNKNOWN, "DCGM", reason, remedy, Remedy.RESTART_SERVICE, code="gpus_missing"))
    return findings + _of_watches(seen)


def _of_watches(seen: Seen) -> List[Finding]:
    if seen.health is None:
        return []
    incidents = [one for one in seen.health.incidents if one.status in _STATUS]
    if dcgmi_health.worse(seen.health.status, incidents):  # DCGM 2.x leaves some out
        incidents.append(dcgmi_health.Incident("", None, dcgmi_health.OVERALL, seen.health.status, "no more is told"))
    findings = []
    for one in incidents:
        thing, key = _thing(seen, one.number if one.group == "GPU" else None)
        reason = "health watch, {0}: {1}".format(one.system, one.message or one.status)
        remedy = "run dcgmi health -c by hand, and look at /var/log/nvidia-dcgm"
        code = _code("health " + one.system)
        findings.append(Finding(_STATUS[one.status], thing, reason, remedy, Remedy.LOOK, Certainty.LIKELY, key, code))
    return findings


def _thing(seen: Seen, number: Optional[int]) -> Tuple[str, str]:
    """(name, key) of a GPU by DCGM's number of it, or of DCGM itself."""
    if number is None:
        return "DCGM", ""
    if number < len(seen.things):
        return seen.things[number]
    return "GPU {0} as DCGM numbers them".format(number), "dcgm_gpu_{0}".format(number)


def _finding(seen: Seen, one: dcgmi.Result) -> Finding:
    outcome, action = _STATUS[one.status], Remedy.LOOK
    remedy = "run dcgmi diag -r {0} by hand, and look at /var/log/nvidia-dcgm".format(seen.level)
    severity = None if one.severity is None else DCGM_SEVERITIES.get(one.severity)
    if severity is not None and outcome is not Outcome.UNKNOWN:
        outcome, action, remedy = Outcome(severity.outcome), Remedy(severity.action), severity.remedy
    thing, key = _thing(seen, one.gpu)
    reason = "test {0}: {1}".format(one.test, " ".join(one.messages) or one.status.replace("_", " "))
    return Finding(outcome, thing, reason, remedy, action, Certainty.LIKELY, key, _code(one.test))


def _code(test: str) -> str:
    return "dcgm_" + "_".join(word for word in "".join(c if c.isalnum() else " " for c in test.lower()).split())


def span(machine: Machine) -> Optional[Span]:
    """NVIDIA, DCGM user guide, "DCGM Diagnostics": level 1 takes seconds, 2 about two minutes, 3 about fifteen."""
    seconds = {1: 20.0, 2: 150.0, 3: 1000.0}[int(number(machine.settings, SETTING))]
    return Span(seconds, seconds) if machine.gpus and "dcgmi" in machine.tools else None


CHECK = Check(
    id="dcgm_diagnosis",
    title="NVIDIA's own diagnosis passes",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=2200.0,
    span=span,
)
