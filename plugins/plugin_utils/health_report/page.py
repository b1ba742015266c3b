# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a fleet. Whatever nodes have sent is escaped, and the script puts it on the page as text only."""

from __future__ import annotations

import html
import json
import time
from typing import Any

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import html_page

from .assets import SCRIPT, STYLE
from .distributions import distributions
from .history import Run, picture
from .model import OUTCOMES, Node, Report, outcome_of, text
from .table import again

# Nodes whose findings stand in the page itself; those of the others appear at a click.
SHOWN_MAX = 100
_LINES_MAX = 30
# In a larger fleet the page has the figures of nodes with a finding or an outlier only: its drawings have the others.
FIGURES_NODES_MAX = 1000
_WORDS = {"none": "no verdict"}


def page(report: Report, title: str, runs: tuple[Run, ...] = ()) -> str:
    """``runs``: this one and those before it."""
    when = (
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.time)) if 0 < report.time < 1e11 else "unknown time"
    )
    body = "".join(
        (
            "<h1>{0}</h1>\n".format(html.escape(text(title))),
            '<p class="when">Newest verdict: {0}</p>\n'.format(when),
            _counts(report),
            _grid(report),
            '<section id="detail" hidden aria-live="polite"></section>\n',
            _findings(report),
            _observed(report),
            _again(report),
            picture(runs),
            distributions(report.comparison),
            '<script type="application/json" id="data">{0}</script>\n'.format(_embedded(_data(report))),
        )
    )
    return html_page.document(text(title), body, STYLE, SCRIPT)


def _counts(report: Report) -> str:
    items = "".join(
        '<li class="{0}"><b>{1}</b> <span class="sign">{2}</span> {3}</li>'.format(
            name, count, html_page.SIGNS[name], _WORDS.get(name, name)
        )
        for name, count in report.counts.items()
    )
    return '<ul class="counts"><li><b>{0}</b> nodes</li>{1}</ul>\n'.format(len(report.nodes), items)


def _grid(report: Report) -> str:
    """A cell a node, by name, so that a rack looks the same each day."""
    cells = "".join(
        '<button class="{0}" data-host="{1}" title="{1}: {2}" aria-label="{1}: {2}">{3}</button>'.format(
            node.outcome, html.escape(node.host), _WORDS.get(node.outcome, node.outcome), html_page.SIGNS[node.outcome]
        )
        for node in sorted(report.nodes, key=lambda one: _natural(one.host))
    )
    return '<h2>Fleet</h2>\n<div class="grid">{0}</div>\n'.format(cells)


def _natural(name: str) -> list[Any]:
    """node9 before node10."""
    parts: list[Any] = []
    for one in name:
        digit = one.isascii() and one.isdigit()
        if digit and parts and parts[-1][0] == 0:
            parts[-1] = (0, parts[-1][1] * 10 + int(one), "")
        else:
            parts.append((0, int(one), "") if digit else (1, 0, one))
    return parts


def _findings(report: Report) -> str:
    bad = [node for node in report.nodes if node.outcome != "pass"]
    if not bad:
        return "<h2>Findings</h2>\n<p>None: every node is healthy.</p>\n"
    shown = "".join(_node(node) for node in bad[:SHOWN_MAX])
    more = len(bad) - SHOWN_MAX
    left = "<p>{0} more nodes are not well: choose them in the grid.</p>\n".format(more) if more > 0 else ""
    return "<h2>Findings</h2>\n{0}{1}".format(shown, left)


def _observed(report: Report) -> str:
    """What counts for nothing yet: a line a check, with the nodes that it would take out."""
    items = "".join(
        '<li class="{0}"><span class="sign">{1}</span><div><b>{2}</b> would be {0} on {3}: {4}{5}</div></li>'.format(
            outcome,
            html_page.SIGNS[outcome],
            html.escape(check),
            len(hosts),
            html.escape(", ".join(hosts[:_LINES_MAX])),
            " and {0} more".format(len(hosts) - _LINES_MAX) if len(hosts) > _LINES_MAX else "",
        )
        for check, outcome, hosts in report.observed
    )
    return "<h2>Observed</h2>\n<article><ul>{0}</ul></article>\n".format(items) if items else ""


def _again(report: Report) -> str:
    told = [again(one) for one in report.again]
    items = "".join("<li><div>{0}</div></li>".format(html.escape(one)) for one in told[:SHOWN_MAX])
    more = len(told) - SHOWN_MAX
    left = "<li>and {0} more</li>".format(more) if more > 0 else ""
    return "<h2>Parts that fail again</h2>\n<article><ul>{0}{1}</ul></article>\n".format(items, left) if told else ""


def _node(node: Node) -> str:
    lines = "".join(
        '<li class="{0}"><span class="sign">{1}</span><div><b>{2}:</b> {3}<br><span class="remedy">{4}</span> '
        "<code>{5}</code>{6}</div></li>".format(
            line.outcome,
            html_page.SIGNS[line.outcome],
            html.escape(line.thing),
            html.escape(line.reason),
            html.escape(line.remedy),
            html.escape(line.check),
            " <i>{0}</i>".format(html.escape(line.certainty)) if line.certainty not in ("", "certain") else "",
        )
        for line in node.lines[:_LINES_MAX]
    )
    more = len(node.lines) - _LINES_MAX
    left = "<li>and {0} more</li>".format(more) if more > 0 else ""
    return (
        '<article><h3><span class="badge {0}">{1} {2}</span> {3} <small>{4}</small></h3><ul>{5}{6}</ul></article>\n'
    ).format(
        node.outcome,
        html_page.SIGNS[node.outcome],
        _WORDS.get(node.outcome, node.outcome),
        html.escape(node.host),
        html.escape(node.profile),
        lines,
        left,
    )


def _data(report: Report) -> dict[str, Any]:
    """What the details at a click need, as short as can be: checks and figures by their number."""
    titles: dict[str, str] = {}
    for node in report.nodes:
        for result in node.results:
            titles.setdefault(text(result.get("id")), text(result.get("title")))
    checks = {name: number for number, name in enumerate(titles)}
    figures = _figures(report)
    return {
        "signs": html_page.SIGNS,
        "few": len(report.nodes) > FIGURES_NODES_MAX,
        "words": {name: _WORDS.get(name, name) for name in OUTCOMES},
        "checks": list(titles.items()),
        "figures": [
            [one.name, float("{0:.6g}".format(one.median)), one.kind] for one in report.comparison.distributions
        ],
        "nodes": {
            node.host: [
                node.outcome,
                node.profile,
                [
                    [checks[text(result.get("id"))], outcome_of(result.get("outcome")), text(result.get("seen"))[:160]]
                    if node.outcome != "pass"
                    else [checks[text(result.get("id"))], outcome_of(result.get("outcome"))]
                    for result in node.results
                ],
                [[line.outcome, str(line)[:600], line.check] for line in node.lines[:_LINES_MAX]],
                figures.get(node.host, []),
            ]
            for node in report.nodes
        },
    }


def _figures(report: Report) -> dict[str, list[list[Any]]]:
    """By node: [number of the figure, its least, its most (left out where that is the same), 1 for an outlier]."""
    numbers = {(one.kind, one.name): number for number, one in enumerate(report.comparison.distributions)}
    odd = {(one.node, one.name) for one in report.comparison.outliers}
    found: dict[str, dict[int, list[float]]] = {}
    for sample in report.samples:
        number = numbers.get((sample.kind, sample.name))
        if number is not None:
            found.setdefault(sample.node, {}).setdefault(number, []).append(sample.value)
    names = [one.name for one in report.comparison.distributions]
    if len(report.nodes) > FIGURES_NODES_MAX:
        shown = [node.host for node in report.nodes if node.outcome != "pass"][:FIGURES_NODES_MAX]
        found = {host: found[host] for host in shown if host in found}
    return {
        host: [
            [number, *_range(values), *([1] if (host, names[number]) in odd else [])]
            for number, values in sorted(by_number.items())
        ]
        for host, by_number in found.items()
    }


def _range(values: list[float]) -> list[float]:
    return [float("{0:.5g}".format(one)) for one in (min(values), max(values))]


def _embedded(value: Any) -> str:
    """JSON that ends no script element, whatever stands in it."""
    words = json.dumps(value, separators=(",", ":"))
    return words.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
