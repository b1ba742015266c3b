# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of Nagios, Icinga and Naemon: one line with figures after a bar, then a line for each finding.

The grammar is that of the Monitoring Plugins Development Guidelines: a bar parts text from figures, a label stands in
single quotes, which are doubled within, and has no equals sign.
"""

from __future__ import annotations

import re
from typing import List, Mapping, Sequence, Tuple

from ...core.one_line import line
from ..types import Finding, Measured, Outcome, Verdict
from .words import ascii_line, counts, observed, said, silenced, together

# https://nagios-plugins.org/doc/guidelines.html, "Plugin Return Codes".
EXIT_STATUS: Mapping[Outcome, int] = {Outcome.PASS: 0, Outcome.WARN: 1, Outcome.FAIL: 2, Outcome.UNKNOWN: 3}
_WORDS = {Outcome.PASS: "OK", Outcome.WARN: "WARNING", Outcome.FAIL: "CRITICAL", Outcome.UNKNOWN: "UNKNOWN"}
# Nagios Core takes 8192 bytes of a plugin (MAX_PLUGIN_OUTPUT_LENGTH in nagios.h); the last one ends the string.
LONGEST = 8191
_UNITS = (("_seconds", "s"), ("_percent", "%"), ("_bytes", "B"))


def exit_status(verdict: Verdict) -> int:
    return EXIT_STATUS[verdict.outcome]


def render(verdict: Verdict, longest: int = LONGEST) -> str:
    """What is wrong comes before figures where both do not fit."""
    findings = together(verdict.findings)
    head = "GPU_NODE {0} - {1}".format(_WORDS[verdict.outcome], _text(_head(verdict, findings)))
    more = ["{0}: {1}: {2}".format(finding.outcome.value, check, said(finding)) for check, finding in findings[1:]]
    more += ["observed: {0}: {1}".format(check, observed(one)) for check, one in together(verdict.only_observed)]
    more += ["silenced: {0}: {1}".format(one.check, silenced(one)) for one in verdict.silenced]
    head, more = head[:longest], [_text(one) for one in more]
    left = longest - len(head) - 1
    kept: List[str] = []
    for one in more:
        if len(one) + 1 > left:
            break
        kept.append(one)
        left -= len(one) + 1
    figures = ""
    for figure in _figures(verdict):
        separator = " " if figures else " | "
        if len(separator) + len(figure) > left:
            break
        figures += separator + figure
        left -= len(separator) + len(figure)
    return "\n".join([head + figures, *kept])[: longest - 1] + "\n"


def _head(verdict: Verdict, findings: Sequence[Tuple[str, Finding]]) -> str:
    if not findings:
        return verdict.in_one_line()
    more = " (and {0} more)".format(len(findings) - 1) if len(findings) > 1 else ""
    return "{0}: {1}{2}".format(verdict.outcome.value, findings[0][1], more)


def _text(text: str) -> str:
    return ascii_line(text).replace("|", "/")


def _figures(verdict: Verdict) -> List[str]:
    fails, unknowns, warns = counts(verdict)
    answer = ["fail={0}".format(fails), "unknown={0}".format(unknowns), "warn={0}".format(warns)]
    if verdict.observed:
        answer.append("observed={0}".format(len(verdict.observed)))
    seen = set()
    for result in verdict.results:
        for figure in result.measured:
            name = _label(figure)
            if name not in seen:
                seen.add(name)
                answer.append("{0}={1}{2}".format(name, _number(figure.value), _unit(figure)))
    return answer


def _label(figure: Measured) -> str:
    name = figure.name if not figure.key else "{0} {1}".format(figure.name, figure.key)
    return "'{0}'".format(re.sub(r"[=|]", "_", ascii_line(line(name)) or "figure").replace("'", "''"))


def _number(value: float) -> str:
    """Digits and a point: no exponent, which the grammar does not have."""
    text = "{0:.6f}".format(value)
    return text.rstrip("0").rstrip(".")


def _unit(figure: Measured) -> str:
    if figure.counter:
        return "c"
    return next((unit for end, unit in _UNITS if figure.name.endswith(end)), "")
