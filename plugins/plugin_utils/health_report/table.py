# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run for a person at a terminal: worst first, a line a reason, healthy nodes counted."""

from __future__ import annotations

from typing import Sequence

from .model import Line, Node, Report, too_few

# More is in the page and in the JSON.
GROUPS_MAX = 40
LINES_MAX = 6
OFFENDERS_MAX = 20
_NAMES_MAX = 3
WORDS = {"none": "no verdict"}


def rows(report: Report) -> list[tuple[str, str]]:
    """(outcome, line of text); the outcome is for the colour, empty for none."""
    total = len(report.nodes)
    counts = ", ".join("{0} {1}".format(count, WORDS.get(name, name)) for name, count in report.counts.items())
    answer = [("", "{0} node{1}: {2}".format(total, "" if total == 1 else "s", counts))]
    groups = _groups(report)
    for nodes in groups[:GROUPS_MAX]:
        answer += _group(nodes)
    left = sum(len(nodes) for nodes in groups[GROUPS_MAX:])
    if left:
        answer.append(("", "and {0} more node(s) that are not well".format(left)))
    healthy = len(report.healthy)
    if healthy:
        answer.append(("pass", "{0} node{1}".format(healthy, " is healthy" if healthy == 1 else "s are healthy")))
    answer += [
        ("", "{0:<11}{1} would be {2} on {3}: {4}".format("observed", check, outcome, _nodes(hosts), names(hosts)))
        for check, outcome, hosts in report.observed
    ]
    answer += [("", "{0:<11}{1}".format("again", again(one))) for one in report.again[:OFFENDERS_MAX]]
    if len(report.again) > OFFENDERS_MAX:
        answer.append(("", "and {0} more part(s) that fail again".format(len(report.again) - OFFENDERS_MAX)))
    answer += [("", told) for told in report.groups_told]
    answer += [("", told) for told in too_few(report.comparison)]
    return answer


def again(one: tuple[str, str]) -> str:
    return "{0}: {1}".format(*one) if one[0] else one[1]


def _groups(report: Report) -> list[list[Node]]:
    """Nodes of which the same is told, together, in the order of the report."""
    found: dict[tuple[str, tuple[Line, ...]], list[Node]] = {}
    for node in report.nodes:
        if node.outcome != "pass":
            found.setdefault((node.outcome, node.lines), []).append(node)
    return list(found.values())


def _group(nodes: list[Node]) -> list[tuple[str, str]]:
    first = nodes[0]
    answer = [
        (
            first.outcome,
            "{0:<11}{1}".format(WORDS.get(first.outcome, first.outcome), names([node.host for node in nodes])),
        )
    ]
    lines = [line for line in first.lines if line.outcome != "pass"]
    for line in lines[:LINES_MAX]:
        how = "" if line.certainty in ("", "certain") else " ({0})".format(line.certainty)
        check = " [{0}]".format(line.check) if line.check else ""
        answer.append((line.outcome, "{0:<11}{1}{2}{3}".format("", line, check, how)))
    if len(lines) > LINES_MAX:
        answer.append((first.outcome, "{0:<11}and {1} more".format("", len(lines) - LINES_MAX)))
    if not lines:
        answer.append((first.outcome, "{0:<11}no reason was told".format("")))
    return answer


def _nodes(hosts: Sequence[str]) -> str:
    return "{0} node{1}".format(len(hosts), "" if len(hosts) == 1 else "s")


def names(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:_NAMES_MAX])
    more = len(hosts) - _NAMES_MAX
    return shown if more <= 0 else "{0} and {1} more".format(shown, more)
