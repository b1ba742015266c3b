# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A custom plugin of node-problem-detector: its exit status is the condition, what it prints the message.

0 is OK, 1 a problem, everything else unknown; the message is cut by ``max_output_length``, 80 where it is not set
(node-problem-detector, pkg/custompluginmonitor/types). A warning is no problem there: it takes no job away.
"""

from __future__ import annotations

from typing import Mapping

from ..types import Outcome, Verdict
from .words import ascii_line, cut

EXIT_STATUS: Mapping[Outcome, int] = {Outcome.PASS: 0, Outcome.WARN: 0, Outcome.FAIL: 1, Outcome.UNKNOWN: 2}
LONGEST = 80


def exit_status(verdict: Verdict) -> int:
    return EXIT_STATUS[verdict.outcome]


def render(verdict: Verdict, longest: int = LONGEST) -> str:
    """The thing and the reason of the worst finding; what is to be done would not fit."""
    word, found = "", verdict.findings
    if not found:
        word, found = "observed", verdict.only_observed
    if found:
        finding = found[0][1]
        text = "{0}: {1}: {2}".format(word or finding.outcome.value, finding.thing, finding.reason)
    else:
        text = verdict.in_one_line()
    return cut(ascii_line(text), longest)
