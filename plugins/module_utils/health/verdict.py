# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was looked at to a verdict. Pure."""

from __future__ import annotations

import fnmatch
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.frozen import replaced
from .lanes import Looked
from .silences import observed_by
from .types import (
    NO_TOOL,
    NOT_COVERED,
    Certainty,
    Check,
    Cost,
    Expected,
    Finding,
    Judgement,
    NotCovered,
    NoTool,
    Observed,
    Outcome,
    Remedy,
    Result,
    Silence,
    Silenced,
    Verdict,
    finding_name,
    worst,
)


def judge(
    node: str,
    level: Cost,
    checks: Sequence[Check],
    looked: Mapping[str, Looked],
    expected: Expected,
    silences: Sequence[Silence] = (),
    seconds: float = 0.0,
    after: Optional[Tuple[Mapping[str, Looked], Expected]] = None,
    observe: Sequence[str] = (),
) -> Verdict:
    """The verdict on a node. A check of which nothing was seen, or whose judgement failed, is ``unknown``.

    ``after``: what was looked at once more after the active checks, and what it is held against then.
    ``observe``: patterns of checks and findings that are told and do not count, see :mod:`.silences`.
    """
    results: List[Result] = []
    not_applicable: Dict[str, str] = {}
    silenced: List[Silenced] = []
    observed: List[Observed] = []
    for check in checks:
        judgement = _judgement(check, looked.get(check.id), expected)
        if after is not None and check.id in after[0]:
            from . import two_looks  # not wanted before a job

            judgement = two_looks.both(check.id, judgement, _judgement(check, after[0][check.id], after[1]))
        if judgement.not_applicable is not None:
            not_applicable[check.id] = judgement.not_applicable
            continue
        counted, quiet = _split(check.id, judgement.findings, silences, expected.now)
        silenced += quiet
        if observe:
            counted, told = _observed(check.id, counted, observe)
            observed += told
        took = looked[check.id].seconds if check.id in looked else 0.0
        outcome = worst(tuple(finding.outcome for finding in counted))
        results.append(Result(check.id, check.title, outcome, judgement.seen, tuple(counted), judgement.measured, took))
    outcome = worst(tuple(one.outcome for one in results))
    if not results:
        outcome = Outcome.UNKNOWN
    return Verdict(
        node,
        expected.now if after is None else after[1].now,
        level,
        expected.profile_name,
        outcome,
        tuple(results),
        not_applicable,
        tuple(silenced),
        seconds,
        tuple(observed),
    )


def _judgement(check: Check, looked: object, expected: Expected) -> Judgement:
    if not isinstance(looked, Looked):
        return _unknown(check, "it was not looked for", "report this as a bug")
    if looked.error is not None:
        error = looked.error
        if isinstance(error, NotCovered):
            return _unknown(check, error.reason, error.remedy, NOT_COVERED)
        code = NO_TOOL if isinstance(error, NoTool) else ""
        return _unknown(check, "{0}: {1}".format(error.thing, error.reason), error.remedy, code)
    try:
        judgement = check.judge(looked.seen, expected)
    except Exception as error:  # a bug of one check must not hide what the others say
        return _unknown(check, "{0}: {1}".format(type(error).__name__, error), "report this as a bug")
    findings = tuple(one for one in judgement.findings if one.outcome is not Outcome.PASS)
    return replaced(judgement, findings=findings)


def _unknown(check: Check, reason: str, remedy: str, code: str = "") -> Judgement:
    finding = Finding(Outcome.UNKNOWN, "check " + check.id, reason, remedy, Remedy.LOOK, Certainty.CERTAIN, code=code)
    return Judgement(findings=(finding,))


def _split(
    check: str, findings: Sequence[Finding], silences: Sequence[Silence], now: float
) -> Tuple[List[Finding], List[Silenced]]:
    """What counts, and what somebody silenced. A silence past its date counts no more."""
    counted: List[Finding] = []
    quiet: List[Silenced] = []
    for finding in findings:
        name = finding_name(check, finding)
        found = next((one for one in silences if now < one.until and fnmatch.fnmatchcase(name, one.finding)), None)
        if found is None:
            counted.append(finding)
        else:
            quiet.append(Silenced(check, finding, found))
    return counted, quiet


def _observed(check: str, findings: Sequence[Finding], observe: Sequence[str]) -> Tuple[List[Finding], List[Observed]]:
    """What counts, and what is only observed."""
    counted: List[Finding] = []
    told: List[Observed] = []
    for finding in findings:
        pattern = observed_by(check, finding_name(check, finding), observe)
        if pattern is None:
            counted.append(finding)
        else:
            told.append(Observed(check, finding, pattern))
    return counted, told
