# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as lines that a shell can read: for the plugin of node-problem-detector in deploy/kubernetes. Pure.

That runs in a container with sh and date and little else, and knows nothing of this node but this file, so the file
tells its own time and how long it holds. One subject a line: its name, ``ok``, ``problem`` or ``unknown``, and why.
"""

from __future__ import annotations

import fnmatch
from typing import Mapping, Optional, Sequence, Tuple

from ..data.returns import RETURNS
from ..formats.words import ascii_line, cut
from ..types import Finding, Outcome, Verdict, worst

# Gone with the boot: a verdict from before it says nothing of now, however little time it took.
PATH = "/run/gpu_node/npd/status"
# The folder holds this file alone: it is what a pod mounts, as a file that is replaced cannot be mounted by itself.
FOLDER = "/run/gpu_node/npd"
HEAD = "gpu_node status 1"
NODE, WARNINGS = "node", "warnings"
# A subject → the rows of data/returns.py that it takes together. What is in no other row is of the node alone.
AREAS: Mapping[str, Tuple[str, ...]] = {
    "gpu": ("GPU", "PCIe"),
    "nvlink": ("NVLink",),
    "infiniband": ("InfiniBand",),
    "scratch": ("scratch",),
}
SUBJECTS = (NODE, *AREAS, WARNINGS)
_WORDS = {Outcome.PASS: "ok", Outcome.WARN: "ok", Outcome.FAIL: "problem", Outcome.UNKNOWN: "unknown"}
_LONGEST = 300


def render(verdict: Verdict, valid_seconds: float) -> str:
    lines = [HEAD, "time {0:.0f} {1:.0f}".format(max(0.0, verdict.time), valid_seconds)]
    lines.append(_line(NODE, verdict.outcome, _told(verdict.findings) or verdict.in_one_line()))
    lines += [_line(name, *_of_area(verdict, parts)) for name, parts in AREAS.items()]
    warnings = [one for one in verdict.findings if one[1].outcome is Outcome.WARN]
    lines.append(_line(WARNINGS, Outcome.FAIL if warnings else Outcome.PASS, _told(warnings) or "no warnings"))
    return "\n".join(lines) + "\n"


def _line(name: str, outcome: Outcome, message: str) -> str:
    return "{0} {1} {2}".format(name, _WORDS[outcome], cut(ascii_line(message), _LONGEST)).rstrip()


def _of_area(verdict: Verdict, parts: Tuple[str, ...]) -> Tuple[Outcome, str]:
    findings = [one for one in verdict.findings if _part(one[0], one[1].code) in parts]
    if findings:
        return worst(tuple(finding.outcome for dummy, finding in findings)), _told(findings) or ""
    looked = sum(_part(one.id) in parts for one in verdict.results)
    if looked:
        return Outcome.PASS, "{0} checks".format(looked)
    none = [reason for name, reason in verdict.not_applicable.items() if _part(name) in parts]
    if not none:
        return Outcome.UNKNOWN, "no check of it was made"
    # A driver that does not answer leaves nothing to look at, and that is not the same as to have none.
    gpus = [finding for check, finding in verdict.findings if _part(check, finding.code) in AREAS["gpu"]]
    if parts == AREAS["nvlink"] and any(one.outcome is not Outcome.WARN for one in gpus):
        return Outcome.UNKNOWN, "it was not looked at: {0}: {1}".format(gpus[0].thing, gpus[0].reason)
    return Outcome.PASS, none[0]


def _part(check: str, code: str = "") -> str:
    name = "{0}/{1}".format(check, code) if code else check
    return next(one.part for one in RETURNS if any(fnmatch.fnmatchcase(name, pattern) for pattern in one.by))


def _told(findings: Sequence[Tuple[str, Finding]]) -> Optional[str]:
    """The thing and the reason of the worst, and how many others there are, which comes first as the end is cut."""
    if not findings:
        return None
    finding = findings[0][1]
    others = len(findings) - 1
    more = "{0} more; ".format(others) if others else ""
    return "{0}{1}: {2}".format(more, finding.thing, finding.reason)
