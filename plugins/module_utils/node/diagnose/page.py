# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of an archive: the verdict, the software, what was collected or is missing, and the texts themselves. Pure.

It has no script, and what a machine or its users wrote is escaped.
"""

from __future__ import annotations

import html
from typing import Any, Iterator, List, Mapping, Sequence, Tuple

from ...core import html_page
from ...core.moment import moment
from ...core.one_line import line
from ...core.units import size
from .types import CUT, NONE, WHOLE, Collected, Context

SIGNS = {WHOLE: "pass", CUT: "warn", NONE: "none"}
_STYLE = "pre{overflow:auto;max-height:40rem;border:1px solid var(--line);padding:.6rem;color:var(--ink)}\n"
# All of it is in the file of the part; here it must not fill the page.
_FINDINGS_MAX, _VERSIONS_MAX, _SAID_MAX = 100, 100, 600


def page(found: Sequence[Collected], verdict: Any, image: Any, context: Context, shown: int) -> str:
    """``verdict``, ``image``: the documents of the parts of these names; anything else counts as none. ``shown``: so
    many characters of each text stand in the page itself."""
    body = [
        "<h1>{0}</h1>\n".format(_said(context.node)),
        '<p class="when">Collected {0} by gpunode {1}; logs of {2:g} hours</p>\n'.format(
            moment(context.now), _said(context.version), context.hours
        ),
        "<h2>Verdict</h2>\n",
        "".join(_verdict(_mapping(verdict))),
        "".join(_software(_mapping(image))),
        "<h2>Collected</h2>\n",
        _table(found),
        "".join(_text(one, shown) for one in found if one.text),
    ]
    return html_page.document(line(context.node + ": diagnosis"), "".join(body), _STYLE)


def _said(value: Any) -> str:
    return html.escape(line(str(value)[:_SAID_MAX]))


def _verdict(document: Mapping[str, Any]) -> Iterator[str]:
    outcome = str(document.get("outcome"))
    outcome = outcome if outcome in html_page.SIGNS else "none"
    yield '<p><span class="badge {0}">{1} {2}</span> profile {3}</p>\n'.format(
        outcome,
        html_page.SIGNS[outcome],
        "no verdict" if outcome == "none" else outcome,
        _said(document.get("profile")),
    )
    results = _mappings(document.get("results"))
    yield _findings([(one, result.get("id")) for result in results for one in _mappings(result.get("findings"))])


def _software(document: Mapping[str, Any]) -> Iterator[str]:
    versions = _mapping(document.get("versions"))
    if not versions:
        return
    yield "<h2>Software</h2>\n"
    yield _findings([(one, one.get("rule")) for one in _mappings(document.get("problems"))])
    rows = ("<tr><td>{0}</td><td>{1}</td></tr>".format(_said(name), _said(told)) for name, told in versions.items())
    yield "<table>{0}</table>\n".format("".join(list(rows)[:_VERSIONS_MAX]))


def _findings(found: Sequence[Tuple[Mapping[str, Any], Any]]) -> str:
    """``found``: each with the id of what tells it."""
    items = [
        '<li><span class="sign">{0}</span><div><b>{1}</b>: {2}<br><span class="remedy">{3}</span> '
        "<code>{4}</code></div></li>".format(
            html_page.SIGNS.get(str(one.get("outcome")), "?"),
            *(_said(one.get(name)) for name in ("thing", "reason", "remedy")),
            _said(told_by),
        )
        for one, told_by in found[:_FINDINGS_MAX]
    ]
    more = len(found) - len(items)
    left = "<li>and {0} more</li>".format(more) if more else ""
    return "<article><ul>{0}{1}</ul></article>\n".format("".join(items), left) if items else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: Any) -> List[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _table(found: Sequence[Collected]) -> str:
    rows = "".join(
        "<tr><td>{0}</td><td>{1}</td><td>{2}</td><td class=number>{3}</td><td class=number>{4:.1f} s</td>"
        "<td class=number>{5}</td><td>{6}</td></tr>\n".format(
            '<span class="badge {0}">{1}</span>'.format(SIGNS.get(one.status, "fail"), one.status),
            '<a href="{0}">{0}</a>'.format(one.part.file) if one.text else html.escape(one.part.file),
            html.escape(one.part.title),
            size(len(one.text.encode("utf-8", "replace"))) if one.text else "",
            one.seconds,
            one.hidden or "",
            _why(one),
        )
        for one in found
    )
    head = "".join("<th>{0}</th>".format(one) for one in ("", "file", "what it is", "size", "took", "hidden", ""))
    return "<table><tr>{0}</tr>\n{1}</table>\n".format(head, rows)


def _why(one: Collected) -> str:
    cut = "{0} left out".format(size(one.cut_bytes)) if one.cut_bytes else ""
    return "; ".join(filter(None, (cut, _said(one.reason)[:2000])))


def _text(one: Collected, shown: int) -> str:
    text = one.text[-shown:] if one.part.tail else one.text[:shown]
    more = (
        ""
        if len(text) == len(one.text)
        else " <small>({0} of it; all of it is in the file)</small>".format("the end" if one.part.tail else "the begin")
    )
    return "<details><summary><b>{0}</b>: {1}{2}</summary><pre>{3}</pre></details>\n".format(
        html.escape(one.part.file), html.escape(one.part.title), more, html.escape(text)
    )
