# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's own diagnosis: ``dcgmi diag``, level 1 to 3 as setting ``dcgm_level`` says (1 takes seconds, 3 a quarter of
an hour)."""

from __future__ import annotations

import dataclasses
import functools
import signal
from typing import Dict, Optional, Tuple

from ..data.tools import DCGM_SEVERITIES
from ..evidence import Evidence
from ..parse import dcgmi
from ..parse.problem import ParseError
from ..settings import number
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy
from . import apart, survey, tools

SETTING = "dcgm_level"
# NVIDIA: level 1 some seconds, 2 about two minutes, 3 about fifteen; eight GPUs and a cold host engine take longer.
LEVEL_SECONDS: Dict[int, float] = {1: 180.0, 2: 600.0, 3: 2100.0}
_STATUS = {"fail": Outcome.FAIL, "warn": Outcome.WARN, "not_run": Outcome.UNKNOWN}


@dataclasses.dataclass(frozen=True)
class Seen:
    """``things`` are the GPUs (name, key) in the order in which DCGM numbers them, too."""

    level: int = 1
    diagnosis: Optional[dcgmi.Diagnosis] = None
    things: Tuple[Tuple[str, str], ...] = ()
    not_applicable: Optional[str] = None


def look(evidence: Evidence) -> Seen:
    level = int(number(evidence.settings, SETTING))
    found = survey.gpus(evidence)
    if found is None:
        return Seen(not_applicable="this node has no GPU")
    if found.partitioned:
        return Seen(not_applicable="DCGM does not diagnose GPUs in MIG mode")
    program = tools.need(evidence.host, evidence.settings, "dcgmi")
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
    return Seen(level, diagnosis, tuple((name, key) for dummy, name, key in things) if whole else ())


def judge(seen: Seen, dummy: Expected) -> Judgement:
    """Pure."""
    if seen.not_applicable is not None or seen.diagnosis is None:
        return Judgement(not_applicable=seen.not_applicable or "it was not run")
    diagnosis = seen.diagnosis
    if diagnosis.refused is not None:
        remedy = "mend what it says, then run dcgmi diag -r {0} by hand".format(seen.level)
        return Judgement(findings=(Finding(Outcome.UNKNOWN, "DCGM", diagnosis.refused, remedy, Remedy.LOOK),))
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
    skipped = len({one.test for one in diagnosis.results}) - len({one.test for one in ran})
    text = "dcgmi diag -r {0} of DCGM {1}, {2} tests, {3} skipped".format(
        seen.level, diagnosis.version or "of an untold version", len({one.test for one in ran}), skipped
    )
    return Judgement(text, tuple(findings))


def _finding(seen: Seen, one: dcgmi.Result) -> Finding:
    outcome, action = _STATUS[one.status], Remedy.LOOK
    remedy = "run dcgmi diag -r {0} by hand, and look at /var/log/nvidia-dcgm".format(seen.level)
    severity = None if one.severity is None else DCGM_SEVERITIES.get(one.severity)
    if severity is not None and outcome is not Outcome.UNKNOWN:
        outcome, action, remedy = Outcome(severity.outcome), Remedy(severity.action), severity.remedy
    thing, key = "DCGM", ""
    if one.gpu is not None:
        thing, key = "GPU {0} as DCGM numbers them".format(one.gpu), "dcgm_gpu_{0}".format(one.gpu)
        if one.gpu < len(seen.things):
            thing, key = seen.things[one.gpu]
    reason = "test {0}: {1}".format(one.test, " ".join(one.messages) or one.status.replace("_", " "))
    return Finding(outcome, thing, reason, remedy, action, Certainty.LIKELY, key, _code(one.test))


def _code(test: str) -> str:
    return "dcgm_" + "_".join(word for word in "".join(c if c.isalnum() else " " for c in test.lower()).split())


CHECK = Check(
    id="dcgm_diagnosis",
    title="NVIDIA's own diagnosis passes",
    cost=Cost.ACTIVE,
    judge=judge,
    look=look,
    lane="active",
    seconds=2200.0,
)
