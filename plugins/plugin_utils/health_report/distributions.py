# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributions of figures over a fleet as small drawings, the outliers marked and named.

A drawing has bins, and no point of its own for a value: its size does not depend on the number of nodes."""

from __future__ import annotations

import html

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet.outliers import Comparison, Distribution

from .model import text, too_few

_BINS = 40
_WIDTH, _HEIGHT, _BASE = 400, 92, 62
_NAMED_MAX = 5
# Those with outliers are always drawn; of the others so many.
_QUIET_MAX = 60
# A node can send figures that no other node has, so there is a limit for those with outliers, too.
_ODD_MAX = 200
_MARKS_MAX = 50


def distributions(comparison: Comparison) -> str:
    odd = [one for one in comparison.distributions if one.outliers]
    odd.sort(key=lambda one: -one.outliers[0].excess)
    quiet = [one for one in comparison.distributions if not one.outliers]
    varied = [one for one in quiet if one.values[0] != one.values[-1]]
    equal = [one for one in quiet if one.values[0] == one.values[-1]]
    parts = ["<h2>Figures</h2>\n"]
    if not comparison.distributions:
        return parts[0] + "<p>Nothing was measured.</p>\n"
    parts += ["<p>{0}.</p>\n".format(html.escape(text(told))) for told in too_few(comparison)]
    for group in comparison.groups:
        parts.append("<p>{0}: {1}</p>\n".format(html.escape(text(group.name)), html.escape(text(group.reason))))
    if odd:
        parts.append('<div class="figures">{0}</div>\n'.format("".join(_figure(one) for one in odd[:_ODD_MAX])))
        if len(odd) > _ODD_MAX:
            parts.append("<p>and {0} more figures with outliers</p>\n".format(len(odd) - _ODD_MAX))
    else:
        parts.append("<p>No outlier.</p>\n")
    if varied:
        shown = "".join(_figure(one) for one in varied[:_QUIET_MAX])
        more = len(varied) - _QUIET_MAX
        left = "<p>and {0} more</p>".format(more) if more > 0 else ""
        summary = "Figures without an outlier ({0})".format(len(varied))
        parts.append(
            '<details><summary>{0}</summary><div class="figures">{1}</div>{2}</details>\n'.format(summary, shown, left)
        )
    if equal:
        rows = "".join(
            "<li><code>{0}</code> {1:.6g}</li>".format(html.escape(text(one.name)), one.median)
            for one in equal[: 4 * _QUIET_MAX]
        )
        parts.append(
            "<details><summary>The same everywhere ({0})</summary><ul>{1}</ul></details>\n".format(len(equal), rows)
        )
    return "".join(parts)


def _figure(one: Distribution) -> str:
    low, high = one.values[0], one.values[-1]
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return 8 + (_WIDTH - 16) * min(max((value - low) / span, 0.0), 1.0)

    counts = [0] * _BINS
    for value in one.values:
        counts[min(int((value - low) / span * _BINS), _BINS - 1)] += 1
    most = max(counts)
    width = (_WIDTH - 16) / _BINS
    # A lone node is one pixel high at least: it is what one looks for.
    bars = "".join(
        "M{0:.1f} {1}v{2:.1f}h{3:.1f}V{1}z".format(8 + number * width, _BASE, -max(2.0, 44.0 * count / most), width - 1)
        for number, count in enumerate(counts)
        if count
    )
    marks = "".join(
        '<path class="mark" d="M{0:.1f} {1}l-4 8h8z"><title>{2}: {3:.6g}</title></path>'.format(
            place(outlier.value), _BASE + 2, html.escape(text(outlier.node)), outlier.value
        )
        for outlier in one.outliers[:_MARKS_MAX]
    )
    middle = '<path class="median" d="M{0:.1f} 12V{1}"/>'.format(place(one.median), _BASE)
    # Between the 5th and the 95th percentile: where nine of ten values are.
    usual = '<path class="usual" d="M{0:.1f} {1}H{2:.1f}"/>'.format(place(one.low), _BASE + 1, place(one.high))
    axis = '<text x="8" y="{0}">{1:.4g}</text><text x="{2}" y="{0}" text-anchor="end">{3:.4g}</text>'.format(
        _HEIGHT - 6, low, _WIDTH - 8, high
    )
    named = "".join(
        "<li>▲ <b>{0}</b>{1}: {2:.4g}, usual {3:.4g} ± {4:.2g}</li>".format(
            html.escape(text(outlier.node)),
            " " + html.escape(text(outlier.key)) if outlier.key else "",
            outlier.value,
            outlier.spread.median,
            outlier.spread.distance or 0.0,
        )
        for outlier in one.outliers[:_NAMED_MAX]
    )
    more = len(one.outliers) - _NAMED_MAX
    left = "<li>and {0} more</li>".format(more) if more > 0 else ""
    label = html.escape(text(one.name))
    told = "<small>median {0:.4g}, 5 % below {1:.4g}, 5 % above {2:.4g}; {3} values of {4} node{5}</small>".format(
        one.median, one.low, one.high, len(one.values), one.nodes, "" if one.nodes == 1 else "s"
    )
    return (
        '<figure><figcaption><code>{0}</code> <small>{1}{2}</small></figcaption><svg viewBox="0 0 {3} {4}" role="img" '
        'aria-label="{0}: median {5:.4g}, {6} outliers"><path class="bars" d="{7}"/>{8}{9}{10}{13}</svg>'
        "{14}<ul>{11}{12}</ul></figure>".format(
            label,
            html.escape(text(one.kind)),
            ", {0} is better".format(one.better) if one.better else "",
            _WIDTH,
            _HEIGHT,
            one.median,
            len(one.outliers),
            bars,
            middle,
            marks,
            axis,
            named,
            left,
            usual,
            told,
        )
    )
