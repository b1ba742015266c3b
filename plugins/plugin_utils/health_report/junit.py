# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JUnit XML: a suite a node, a case a check. A fail is a failure, and what could not be checked is an error."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as xml

from .model import OUTLIER, Line, Node, Report, outcome_of, text

_ELEMENT = {"fail": "failure", "unknown": "error", "none": "error"}


def junit(report: Report) -> str:
    root = xml.Element("testsuites", name="GPU node health")
    for node in sorted(report.nodes, key=lambda one: one.host):
        _suite(root, node)
    totals = {name: sum(int(suite.get(name, "0")) for suite in root) for name in ("tests", "failures", "errors")}
    root.attrib.update({name: str(count) for name, count in totals.items()})
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _suite(root: Any, node: Node) -> None:
    suite = xml.SubElement(root, "testsuite", name=node.host)
    for result in node.results:
        check = text(result.get("id"))
        lines = [line for line in node.lines if line.check == check]
        case = _case(suite, node, check, outcome_of(result.get("outcome")), lines)
        case.set("time", text(result.get("seconds") or 0))
    if not node.results:
        outcome = "none" if node.outcome == "none" else "unknown"
        _case(suite, node, "verdict", outcome, list(node.lines))
    odd = [line for line in node.lines if line.check == OUTLIER]
    if odd:
        _case(suite, node, OUTLIER, "warn", odd)
    suite.set("tests", str(len(suite)))
    for name, element in (("failures", "failure"), ("errors", "error")):
        suite.set(name, str(sum(one.find(element) is not None for one in suite)))


def _case(suite: Any, node: Node, check: str, outcome: str, lines: list[Line]) -> Any:
    case = xml.SubElement(suite, "testcase", classname=node.host, name=check)
    told = "\n".join(str(line) for line in lines)
    element = _ELEMENT.get(outcome)
    if element:
        message = str(lines[0]) if lines else outcome
        xml.SubElement(case, element, message=message, type=outcome).text = told
    elif told:
        xml.SubElement(case, "system-out").text = told
    return case
