# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts that came from a node (kernel log, process names, serials) made safe for a line of output."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ...core.frozen import replaced
from ...core.moment import moment
from ...core.one_line import line
from ..types import Certainty, Finding, Silenced, Verdict


def cut(text: str, longest: int) -> str:
    """At most so many characters; what was cut shows."""
    return text if len(text) <= longest else text[: max(0, longest - 3)] + "..."[:longest]


def ascii_line(text: str) -> str:
    """The same where bytes are counted and nobody tells the encoding."""
    return line(text).encode("ascii", "replace").decode("ascii")


def said(finding: Finding) -> str:
    """The sentence of a finding; how sure it is stands there only where it is not."""
    sentence = line(str(finding))
    if finding.certainty is not Certainty.CERTAIN:
        sentence = "{0} ({1})".format(sentence, finding.certainty.value)
    return sentence


def day(seconds: float) -> str:
    """``2026-01-31`` in UTC, for a time in seconds since 1970."""
    return moment(seconds)[:10]


def silenced(one: Silenced) -> str:
    return "{0} (silenced until {1} by {2}: {3})".format(
        said(one.finding), day(one.silence.until - 1), line(one.silence.owner), line(one.silence.reason)
    )


def observed(finding: Finding) -> str:
    """The sentence of a finding that is only observed, and what it would count as."""
    return "{0} (observed; it would count as {1})".format(said(finding), finding.outcome.value)


def together(findings: Sequence[Tuple[str, Finding]]) -> List[Tuple[str, Finding]]:
    """(check, finding) in the order given: what a check says of several things, or why several checks saw nothing, is
    one finding that names each of them; and so is what several checks say in the same words of the same things."""
    groups: Dict[Tuple[Any, ...], List[Tuple[str, Finding]]] = {}
    for check, finding in findings:
        by = "" if _saw_nothing(check, finding) else check
        same = (by, finding.outcome, finding.code, finding.reason, finding.remedy, finding.certainty)
        groups.setdefault(same, []).append((check, finding))
    merged: Dict[Tuple[Any, ...], List[Tuple[str, Finding]]] = {}
    for check, finding in (_one(group) for group in groups.values()):
        words = (finding.outcome, finding.thing, finding.code, finding.reason, finding.remedy, finding.certainty)
        merged.setdefault(words, []).append((check, finding))
    return [(", ".join(check for check, dummy in group), group[0][1]) for group in merged.values()]


def _saw_nothing(check: str, finding: Finding) -> bool:
    """As :mod:`..verdict` tells it."""
    return finding.thing == "check " + check


def _one(group: List[Tuple[str, Finding]]) -> Tuple[str, Finding]:
    check, finding = group[0]
    if len(group) == 1:
        return check, finding
    if _saw_nothing(check, finding):
        return "{0} checks".format(len(group)), replaced(finding, thing=", ".join(name for name, dummy in group))
    things = dict.fromkeys(one.thing for dummy, one in group)
    return check, replaced(finding, thing=", ".join(things))


def counts(verdict: Verdict) -> List[int]:
    """How many findings (fail, unknown, warn) a verdict has."""
    found = [finding.outcome.value for dummy, finding in verdict.findings]
    return [found.count(name) for name in ("fail", "unknown", "warn")]
