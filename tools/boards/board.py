# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A board as it grows: rows and panels, each with its description, unit and query."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BarGaugeSizing,
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from . import looks, variables
from .looks import Column, Steps
from .variables import DATASOURCE

#: Grafana 10.1 and newer read it; no panel needs one of the migrations up to it.
SCHEMA = 39


class Board:
    """``single`` are the variables of which one value is chosen; ``of`` is the metric that has a variable's values."""

    def __init__(
        self,
        name: str,
        title: str,
        description: str,
        chosen: Sequence[str],
        single: Sequence[str] = (),
        of: Optional[Dict[str, str]] = None,
        repeated: str = "",
        since: str = "now-6h",
    ) -> None:
        self.name, self.chosen, self.single = name, tuple(chosen), tuple(single)
        self._next = 1
        made = build.Dashboard(title).uid(variables.uid(name)).description(description).tags([variables.TAG])
        made = made.time(since, "now").refresh("1m").timezone("browser").links(list(variables.board_links(name)))
        made = made.tooltip(dashboard.DashboardCursorSync.CROSSHAIR).with_variable(variables.datasource())
        for index, one in enumerate(chosen):
            metric = (of or {}).get(one, "gpu_node:gpu_up")
            values = variables.variable(one, chosen[:index], single, metric, one == repeated)
            made = made.with_variable(values)
        self._made = made

    def build(self) -> Any:
        board = self._made.build()
        board.schema_version = SCHEMA
        return board

    def where(self, *more: str, without: Sequence[str] = ()) -> str:
        """The matchers of the variables that are chosen, and ``more``."""
        return ",".join([variables.match(one, self.single) for one in self.chosen if one not in without] + list(more))

    def of(self, metric: str, *more: str, without: Sequence[str] = ()) -> str:
        """A metric of what is chosen."""
        return "{0}{{{1}}}".format(metric, self.where(*more, without=without))

    def row(self, title: str, repeat: str = "") -> None:
        made = build.Row(title).id(self._id())
        self._made = self._made.with_row(made.repeat(repeat) if repeat else made)

    def _id(self) -> int:
        self._next += 1
        return self._next - 1

    def _add(
        self,
        panel: Any,
        title: str,
        what: str,
        unit: str,
        size: Tuple[int, int],
        steps: Optional[Steps],
        alert: str = "",
        none: str = "",
    ) -> None:
        """``none``: the text of a panel without values; it explains what that means."""
        panel = panel.id(self._id()).title(title).description(what).datasource(DATASOURCE)
        panel = panel.span(size[0]).height(size[1])
        if unit:
            panel = panel.unit(unit)
        if steps:
            panel = panel.thresholds(looks.thresholds(steps))
        if alert:
            panel = panel.links([variables.runbook(alert)])
        if none:
            panel = panel.no_value(none)
        self._made = self._made.with_panel(panel)

    def stat(
        self,
        title: str,
        what: str,
        expr: str,
        unit: str,
        steps: Steps,
        width: int = 4,
        alert: str = "",
        none: str = "no data",
        target: str = "",
    ) -> None:
        """``target``: the board that a click on the value opens."""
        panel = stat.Panel().with_target(_instant("A", expr)).graph_mode(BigValueGraphMode.NONE)
        panel = panel.color_mode(BigValueColorMode.VALUE).reduce_options(
            common.ReduceDataOptions().calcs(["lastNotNull"])
        )
        if unit == "percentunit":
            panel = panel.min(0).max(1)
        if target:
            panel = panel.data_links([variables.board_link(target, self.chosen)])
        self._add(panel, title, what, unit, (width, 4), looks.from_zero(steps), alert, none)

    def outcome(self, title: str, what: str, expr: str, width: int = 4, alert: str = "") -> None:
        panel = stat.Panel().with_target(_instant("A", expr)).graph_mode(BigValueGraphMode.NONE)
        panel = panel.color_mode(BigValueColorMode.BACKGROUND).mappings(looks.mapped(looks.OUTCOMES))
        self._add(panel, title, what, "none", (width, 4), ((None, "purple"),), alert, "no verdict")

    def series(
        self,
        title: str,
        what: str,
        queries: Sequence[Tuple[str, str]],
        unit: str,
        steps: Optional[Steps] = None,
        width: int = 12,
        stacked: bool = False,
        alert: str = "",
        link: str = "",
        known: Sequence[str] = (),
        none: str = "",
    ) -> None:
        """``queries``: each an expression and its legend. ``link``: the label whose board a line links to."""
        panel = timeseries.Panel().line_width(1).fill_opacity(30 if stacked else 0).span_nulls(False)
        for index, (expr, legend) in enumerate(queries):
            panel = panel.with_target(_range(chr(65 + index), expr, legend))
            panel = _fixed(panel, legend)
        shown = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        panel = panel.legend(shown.show_legend(True))
        panel = panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        panel = panel.min(0)
        if unit == "percentunit" and not stacked:
            panel = panel.max(1)
        if stacked:
            panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
        if link:
            panel = panel.data_links([variables.data_link(link, "__field.labels.{0}", known or (link,), self.chosen)])
        self._add(panel, title, what, unit, (width, 8), steps, alert, none)

    def bars(
        self,
        title: str,
        what: str,
        expr: str,
        legend: str,
        unit: str,
        steps: Steps,
        width: int = 8,
        alert: str = "",
        none: str = "",
        height: int = 6,
    ) -> None:
        panel = bargauge.Panel().with_target(_instant("A", expr, legend)).display_mode(BarGaugeDisplayMode.BASIC)
        panel = panel.orientation(VizOrientation.HORIZONTAL).min(0)
        panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        # One bar alone is not as high as the panel, nor are its letters.
        panel = panel.sizing(BarGaugeSizing.MANUAL).min_viz_height(16).max_viz_height(30)
        # Grafana reserves space for a title of 0.4 times the height of the bar; larger letters are cut.
        panel = panel.text(common.VizTextDisplayOptions().title_size(12).value_size(16))
        panel = _fixed(panel, legend)
        if unit == "percentunit":
            panel = panel.max(1)
        self._add(panel, title, what, unit, (width, height), steps, alert, none)

    def heat(self, title: str, what: str, expr: str, unit: str, width: int = 12, alert: str = "") -> None:
        """``expr``: counts of a histogram by ``le``, over time."""
        panel = heatmap.Panel().with_target(_range("A", expr, "{{le}}").format(PromQueryFormat.HEATMAP))
        panel = panel.calculate(False).color(heatmap.HeatmapColorOptions().scheme("Blues").steps(64))
        panel = panel.y_axis(heatmap.YAxisConfig().unit(unit))
        self._add(panel, title, what, unit, (width, 8), None, alert)

    def states(
        self,
        title: str,
        what: str,
        expr: str,
        legend: str,
        values: Dict[int, Tuple[str, str]],
        width: int = 12,
        alert: str = "",
        link: str = "",
        known: Sequence[str] = (),
        none: str = "",
    ) -> None:
        panel = statetimeline.Panel().with_target(_range("A", expr, legend)).mappings(looks.mapped(values))
        panel = panel.merge_values(True).fill_opacity(80).row_height(0.8).line_width(0)
        if link:
            panel = panel.data_links([variables.data_link(link, "__field.labels.{0}", known or (link,), self.chosen)])
        steps = [(value if index else None, color) for index, (value, (_t, color)) in enumerate(sorted(values.items()))]
        self._add(panel, title, what, "none", (width, 8), steps, alert, none)

    def table(
        self,
        title: str,
        what: str,
        labels: Sequence[str],
        columns: Sequence[Column],
        none: str,
        width: int = 24,
        height: int = 6,
        alert: str = "",
        sort: str = "",
        ascending: bool = False,
        then: str = "",
    ) -> None:
        """A row for each set of ``labels``, sorted by the first of the columns; nodes and jobs link to their boards.

        ``sort``: by this column instead; rows that are equal ascend by the column ``then``.

        No unit belongs to the whole table: Grafana would format labels with it, too.
        """
        # Grafana's default of 150 pixels hides the last columns of a narrow table.
        panel = table.Panel().min_width(50)
        for index, column in enumerate(columns):
            by = ", ".join(label for label in labels if label not in column.without)
            # Without the name of a metric, in which the columns of a row would differ.
            expr = "{0} by ({1}) ({2})".format(column.how, by, column.expr)
            panel = panel.with_target(_instant(chr(65 + index), expr).format(PromQueryFormat.TABLE))
        names = {"Value #" + chr(65 + index): column.title for index, column in enumerate(columns)}
        if len(columns) == 1:
            names["Value"] = columns[0].title
        order = [*labels, *names]
        organized = {
            "excludeByName": {"Time": True},
            "indexByName": {name: index for index, name in enumerate(order)},
            "renameByName": {**{one: looks.heading(one) for one in labels if looks.heading(one) != one}, **names},
        }
        panel = panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        panel = panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=organized))
        for column in columns:
            panel = panel.override_by_name(column.title, looks.of_value(column))
        for label in labels:
            panel = panel.override_by_name(looks.heading(label), looks.of_label(label, self._links(label, labels)))
        first = sort or columns[0].title
        order_by = [common.TableSortByFieldState().display_name(first).desc(not ascending)]
        if then:
            order_by.append(common.TableSortByFieldState().display_name(then).desc(False))
        panel = panel.sort_by(order_by)
        self._add(panel, title, what, "", (width, height), None, alert, none)

    def _links(self, label: str, labels: Sequence[str]) -> Sequence[Any]:
        if label == "check":
            return [variables.checks().build()]
        if label not in ("hostname", "hpc_job"):
            return ()
        return [variables.data_link(label, '__data.fields["{0}"]', labels, self.chosen).build()]


def _fixed(panel: Any, legend: str) -> Any:
    for name, colours in looks.fixed(legend).items():
        panel = panel.override_by_name(name, colours)
    return panel


def _query(name: str, expr: str, legend: str) -> Any:
    made = prometheus.Dataquery().ref_id(name).expr(expr).datasource(DATASOURCE)
    return made.legend_format(legend) if legend else made


def _instant(name: str, expr: str, legend: str = "") -> Any:
    return _query(name, expr, legend).instant()


def _range(name: str, expr: str, legend: str) -> Any:
    return _query(name, expr, legend).range()
