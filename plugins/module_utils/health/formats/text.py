# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For people: the verdict, then a line for each finding, worst first; one line names all things that it holds for."""

from __future__ import annotations

from typing import List, Tuple

from ...core.one_line import line
from ..types import Outcome, Verdict
from .words import observed, said, silenced, together

# The kinds of ``command.output``; a line says the same without colour.
_KINDS = {Outcome.PASS: "good", Outcome.WARN: "warning", Outcome.UNKNOWN: "warning", Outcome.FAIL: "bad"}


def lines(verdict: Verdict, every: bool = False) -> List[Tuple[str, str]]:
    """(kind of colour, text) of each line. ``every``: also the checks that passed, and what did not apply."""
    head = "{0}: {1}, {2} checks of level {3} in {4:.1f} s, profile {5}".format(
        line(verdict.node),
        verdict.outcome.value,
        len(verdict.results),
        verdict.level.value,
        verdict.seconds,
        line(verdict.profile),
    )
    answer = [(_KINDS[verdict.outcome], head)]
    for check, finding in together(verdict.findings):
        text = "  {0:<7}  {1}: {2}".format(finding.outcome.value, line(check), said(finding))
        answer.append((_KINDS[finding.outcome], text))
    for check, finding in together(verdict.only_observed):
        answer.append(("observed", "  observed {0}: {1}".format(line(check), observed(finding))))
    for one in verdict.silenced:
        answer.append(("faint", "  silent   {0}: {1}".format(line(one.check), silenced(one))))
    if every:
        for result in verdict.results:
            if result.outcome is Outcome.PASS:
                seen = " ({0})".format(line(result.seen)) if result.seen else ""
                answer.append(("good", "  pass     {0}: {1}{2}".format(line(result.id), line(result.title), seen)))
    if every or not verdict.results:  # that none of them applies is why nothing is known
        for check, reason in sorted(verdict.not_applicable.items()):
            answer.append(("faint", "  not applicable  {0}: {1}".format(line(check), line(reason))))
    return answer


def render(verdict: Verdict, every: bool = False) -> str:
    return "".join(text + "\n" for dummy, text in lines(verdict, every))
