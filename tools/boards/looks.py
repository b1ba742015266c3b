# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Colours, units and value mappings that the panels share."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

Steps = Sequence[Tuple[Optional[float], str]]
#: Thresholds by meaning: above these it is worse.
PLAIN: Steps = ((None, "blue"),)
NONE_IS_GOOD: Steps = ((None, "green"), (1, "red"))
NONE_IS_BEST: Steps = ((None, "green"), (1, "orange"))
HEAT: Steps = ((None, "green"), (80, "orange"), (87, "red"))
MORE_IS_BETTER: Steps = ((None, "red"), (0.05, "orange"), (0.5, "green"))
LESS_IS_BETTER: Steps = ((None, "green"), (0.2, "orange"), (0.5, "red"))
#: A GPU against the median of its job.
NEAR_MEDIAN: Steps = ((None, "red"), (0.8, "orange"), (0.95, "green"))
OUTCOMES = {0: ("pass", "green"), 1: ("warn", "yellow"), 2: ("unknown", "purple"), 3: ("fail", "red")}
PORT_STATES = {0: ("down", "red"), 1: ("up", "green")}

#: One colour for each value of these labels, in every panel.
COLOURS: Mapping[str, Mapping[str, str]] = {
    "outcome": dict(OUTCOMES.values()),
    "state": {"busy": "green", "idle": "yellow", "wasted": "red", "unallocated": "blue", "unknown": "purple"},
}
#: Texts for values of labels in tables.
TEXTS: Mapping[str, Mapping[str, str]] = {
    "outcome": {one: one for one in COLOURS["outcome"]},
    "action": {
        "watch": "watch, nothing to do now",
        "configure": "converge the node",
        "restart_service": "restart the service",
        "reset_gpu": "reset the GPU",
        "reboot": "reboot",
        "replace": "replace the hardware",
        "look": "investigate",
    },
}
#: Column headings of labels.
HEADINGS: Mapping[str, str] = {
    "hostname": "node",
    "hpc_job": "job",
    "gpu": "GPU",
    "GPU_I_ID": "instance",
    "GPU_I_PROFILE": "MIG profile",
    "device": "adapter",
    "key": "component",
    "action": "what to do",
}
#: Widths of columns with short values, in pixels; the others share the rest.
WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("outcome", "silenced", "observed"), 90),
    **dict.fromkeys(("gpu", "port"), 60),
    **dict.fromkeys(("cluster", "GPU_I_ID", "partition"), 100),
}


class Column(NamedTuple):
    """A column of values: its heading, query and unit.

    ``without``: labels of the table that the values do not have. ``values``: texts and colours of numbers.
    """

    title: str
    expr: str
    unit: str
    steps: Optional[Steps] = None
    without: Tuple[str, ...] = ()
    how: str = "max"
    values: Optional[Mapping[int, Tuple[str, str]]] = None


def heading(label: str) -> str:
    return HEADINGS.get(label, label)


def value(name: str, given: Any) -> Any:
    return dashboard.DynamicConfigValue(id_val=name, value=given)


def mapped(values: Mapping[Any, Tuple[str, str]]) -> Any:
    results = {
        str(one): dashboard.ValueMappingResult(text=text, color=color or None, index=index)
        for index, (one, (text, color)) in enumerate(values.items())
    }
    return [dashboard.ValueMap(options=results)]


def thresholds(steps: Steps) -> Any:
    made = [dashboard.Threshold(value=one, color=color) for one, color in steps]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def from_zero(steps: Steps) -> Steps:
    """The lowest colour is also that of a missing value, which is not good."""
    lowest = steps[0][1]
    return steps if lowest == "blue" else ((None, "text"), (0, lowest), *steps[1:])


def fixed(legend: str) -> Dict[str, List[Any]]:
    """The fixed colours of the lines of a legend such as ``{{outcome}}``, as overrides by name."""
    return {
        name: [value("color", {"mode": "fixed", "fixedColor": color})]
        for name, color in COLOURS.get(legend.strip("{}"), {}).items()
    }


def of_value(column: Column) -> List[Any]:
    """A cell without a value shows a dash, not the text of the empty table."""
    found = [value("unit", column.unit), value("noValue", "-")]
    if column.values:
        found += [value("mappings", mapped(column.values)), value("custom.cellOptions", {"type": "color-text"})]
    if column.steps:
        found.append(value("thresholds", thresholds(column.steps).build()))
        found.append(value("custom.cellOptions", {"type": "color-text"}))
    return found


def of_label(label: str, links: Sequence[Any] = ()) -> List[Any]:
    """A label is text, also if it looks like a number: job 4711, GPU 3."""
    found = [value("unit", "string"), value("noValue", "-")]
    if label in WIDTHS:
        found.append(value("custom.width", WIDTHS[label]))
    if label in TEXTS:
        colors = COLOURS.get(label, {})
        found.append(
            value("mappings", mapped({key: (text, colors.get(key, "")) for key, text in TEXTS[label].items()}))
        )
        if colors:
            found.append(value("custom.cellOptions", {"type": "color-text"}))
    if links:
        found.append(value("links", list(links)))
    return found
