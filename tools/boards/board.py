# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A board as it grows: rows and panels, each with its description, unit and query."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

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

from . import variables
from .variables import DATASOURCE

#: Grafana 10.1 and newer read it; no panel needs one of the migrations up to it.
SCHEMA = 39
Steps = Sequence[Tuple[Optional[float], str]]
#: Thresholds by meaning: above these it is worse.
PLAIN: Steps = ((None, "blue"),)
NONE_IS_GOOD: Steps = ((None, "green"), (1, "red"))
NONE_IS_BEST: Steps = ((None, "green"), (1, "orange"))
HEAT: Steps = ((None, "green"), (80, "orange"), (87, "red"))
MORE_IS_BETTER: Steps = ((None, "red"), (0.05, "orange"), (0.5, "green"))
OUTCOMES = {0: ("pass", "green"), 1: ("warn", "yellow"), 2: ("unknown", "purple"), 3: ("fail", "red")}


class Column(NamedTuple):
    """A column of a table: what it is called and asks."""

    title: str
    expr: str
    unit: str
    steps: Optional[Steps] = None


def mapped(values: Dict[int, Tuple[str, str]]) -> Any:
    results = {
        str(value): dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(sorted(values.items()))
    }
    return [dashboard.ValueMap(options=results)]


def thresholds(steps: Steps) -> Any:
    made = [dashboard.Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


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
        self, panel: Any, title: str, what: str, unit: str, size: Tuple[int, int], steps: Optional[Steps], alert: str
    ) -> None:
        panel = panel.id(self._id()).title(title).description(what).unit(unit).datasource(DATASOURCE)
        panel = panel.span(size[0]).height(size[1])
        if steps:
            panel = panel.thresholds(thresholds(steps))
        if alert:
            panel = panel.links([variables.runbook(alert)])
        self._made = self._made.with_panel(panel)

    def stat(
        self, title: str, what: str, expr: str, unit: str, steps: Steps, width: int = 4, alert: str = "", none: str = ""
    ) -> None:
        panel = stat.Panel().with_target(_instant("A", expr)).graph_mode(BigValueGraphMode.NONE)
        panel = panel.color_mode(BigValueColorMode.VALUE).reduce_options(
            common.ReduceDataOptions().calcs(["lastNotNull"])
        )
        if unit == "percentunit":
            panel = panel.min(0).max(1)
        if none:
            panel = panel.no_value(none)
        self._add(panel, title, what, unit, (width, 4), steps, alert)

    def outcome(self, title: str, what: str, expr: str, width: int = 4, alert: str = "") -> None:
        panel = stat.Panel().with_target(_instant("A", expr)).graph_mode(BigValueGraphMode.NONE)
        panel = panel.color_mode(BigValueColorMode.BACKGROUND).mappings(mapped(OUTCOMES))
        self._add(
            panel, title, what, "none", (width, 4), tuple((n or None, c) for n, (_t, c) in OUTCOMES.items()), alert
        )

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
    ) -> None:
        """``queries``: each an expression and its legend. ``link``: the label whose board a line links to."""
        panel = timeseries.Panel().line_width(1).fill_opacity(30 if stacked else 5).span_nulls(False)
        for index, (expr, legend) in enumerate(queries):
            panel = panel.with_target(_range(chr(65 + index), expr, legend))
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
        self._add(panel, title, what, unit, (width, 8), steps, alert)

    def bars(
        self, title: str, what: str, expr: str, legend: str, unit: str, steps: Steps, width: int = 8, alert: str = ""
    ) -> None:
        panel = bargauge.Panel().with_target(_instant("A", expr, legend)).display_mode(BarGaugeDisplayMode.BASIC)
        panel = panel.orientation(VizOrientation.HORIZONTAL).min(0)
        panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        if unit == "percentunit":
            panel = panel.max(1)
        self._add(panel, title, what, unit, (width, 8), steps, alert)

    def heat(self, title: str, what: str, expr: str, legend: str, unit: str, width: int = 12, alert: str = "") -> None:
        """How many series have which value, over time."""
        buckets = common.HeatmapCalculationBucketConfig().mode(_COUNT).value("10")
        panel = heatmap.Panel().with_target(_range("A", expr, legend)).calculate(True)
        panel = panel.calculation(common.HeatmapCalculationOptions().y_buckets(buckets))
        panel = panel.color(heatmap.HeatmapColorOptions().scheme("Blues").steps(64)).y_axis(
            heatmap.YAxisConfig().unit(unit)
        )
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
    ) -> None:
        panel = statetimeline.Panel().with_target(_range("A", expr, legend)).mappings(mapped(values)).merge_values(True)
        panel = panel.fill_opacity(80).row_height(0.8).line_width(0)
        if link:
            panel = panel.data_links([variables.data_link(link, "__field.labels.{0}", known or (link,), self.chosen)])
        steps = [(value if index else None, color) for index, (value, (_t, color)) in enumerate(sorted(values.items()))]
        self._add(panel, title, what, "none", (width, 8), steps, alert)

    def table(
        self,
        title: str,
        what: str,
        labels: Sequence[str],
        columns: Sequence[Column],
        width: int = 24,
        height: int = 9,
        alert: str = "",
    ) -> None:
        """A row for each set of ``labels``, sorted by the first of the columns; nodes and jobs link to their boards."""
        panel = table.Panel()
        for index, column in enumerate(columns):
            panel = panel.with_target(_instant(chr(65 + index), column.expr).format(PromQueryFormat.TABLE))
        names = {"Value #" + chr(65 + index): column.title for index, column in enumerate(columns)}
        if len(columns) == 1:
            names["Value"] = columns[0].title
        order: List[str] = [*labels, *names]
        organized = {
            "excludeByName": {"Time": True},
            "indexByName": {name: index for index, name in enumerate(order)},
            "renameByName": names,
        }
        panel = panel.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        panel = panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=organized))
        for column in columns:
            panel = panel.override_by_name(column.title, _properties(column))
        for label in ("hostname", "hpc_job"):
            if label in labels:
                link = variables.data_link(label, '__data.fields["{0}"]', labels, self.chosen).build()
                value = dashboard.DynamicConfigValue(id_val="links", value=[link])
                panel = panel.override_by_name(label, [value])
        panel = panel.sort_by([common.TableSortByFieldState().display_name(columns[0].title).desc(True)])
        self._add(panel, title, what, columns[0].unit, (width, height), columns[0].steps, alert)


_COUNT: Any = "count"


def _properties(column: Column) -> Any:
    found = [dashboard.DynamicConfigValue(id_val="unit", value=column.unit)]
    if column.steps:
        found.append(dashboard.DynamicConfigValue(id_val="thresholds", value=thresholds(column.steps).build()))
        found.append(dashboard.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
    return found


def _query(name: str, expr: str, legend: str) -> Any:
    made = prometheus.Dataquery().ref_id(name).expr(expr).datasource(DATASOURCE)
    return made.legend_format(legend) if legend else made


def _instant(name: str, expr: str, legend: str = "") -> Any:
    return _query(name, expr, legend).instant()


def _range(name: str, expr: str, legend: str) -> Any:
    return _query(name, expr, legend).range()
