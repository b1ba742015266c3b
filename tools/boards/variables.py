# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the boards, and the links that hand them on to another board."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import yaml
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from .names import RUNBOOKS

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["repository"])
DOCS = REPOSITORY + "/blob/main/docs/"
TAG = "gpu_node"
DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

LABELS = {"cluster": "Cluster", "profile": "Profile", "hostname": "Node", "gpu": "GPU", "hpc_job": "Job"}


def uid(name: str) -> str:
    return "gpu-node-" + name


def match(name: str, single: Sequence[str] = ()) -> str:
    """The label matcher of a variable."""
    return '{0}{1}"${0}"'.format(name, "=" if name in single else "=~")


def datasource() -> Any:
    return build.DatasourceVariable("datasource").label("Data source").type("prometheus")


def variable(name: str, before: Sequence[str], single: Sequence[str], of: str, repeats: bool) -> Any:
    """``of``: the metric that has the values, with or without matchers; the variables ``before`` it select, too."""
    name_of, _brace, own = of.rstrip("}").partition("{")
    matchers = ",".join([*(match(one, single) for one in before), *([own] if own else [])])
    query = "label_values({0}{{{1}}}, {2})".format(name_of, matchers, name)
    made = (
        build.QueryVariable(name)
        .label(LABELS[name])
        .datasource(DATASOURCE)
        .query({"query": query, "refId": name})
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC if hasattr(VariableSort, "NATURAL_ASC") else VariableSort.NUMERICAL_ASC)
    )
    if name in single:
        return made
    made = made.multi(True).include_all(True).current(VariableOption(text="All", value="$__all"))
    # A label that a node does not have matches this, too. A row that repeats needs the values themselves.
    return made if repeats else made.all_value(".*")


def runbook(alert: str) -> Any:
    if alert not in RUNBOOKS:
        raise ValueError("{0}: no such runbook; add it to RUNBOOKS in tools/boards/names.py".format(alert))
    url = "{0}runbooks.md#{1}".format(DOCS, alert.lower())
    return build.DashboardLink("What to do: " + alert).type(DashboardLinkType.LINK).url(url).target_blank(True)


def board_links(name: str) -> Sequence[Any]:
    """The links at the top: the other boards, with the same variables and time, and the documentation."""
    others = build.DashboardLink("GPU boards").type(DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(True)
    docs = build.DashboardLink("What this board answers").type(DashboardLinkType.LINK).icon("doc").target_blank(True)
    return (others.include_vars(True).keep_time(True), docs.url("{0}boards.md#{1}".format(DOCS, name)))


#: The board of a label's value, and the labels that say which one it is.
_BOARD_OF = {"hostname": ("node", ("cluster", "hostname")), "hpc_job": ("job", ("cluster", "hpc_job"))}


def board_link(name: str, handed: Sequence[str]) -> Any:
    """A link to another board, with the variables of this one."""
    words = ["${datasource:queryparam}"] + ["${" + one + ":queryparam}" for one in handed]
    url = "/d/{0}?{1}&${{__url_time_range}}".format(uid(name), "&".join(words))
    return build.DashboardLink("Show details").type(DashboardLinkType.LINK).url(url)


def checks() -> Any:
    """The documentation of the checks."""
    link = build.DashboardLink("What this check tests").type(DashboardLinkType.LINK).target_blank(True)
    return link.url(DOCS + "health_checks.md")


def data_link(label: str, value: str, known: Sequence[str], handed: Sequence[str]) -> Any:
    """A link from a value of a panel to the board of its node or job. ``value``: how Grafana names a label's value.

    ``known`` are the labels that the value has; what of the board's variables ``handed`` it has not is handed on.
    """
    target, labels = _BOARD_OF[label]
    words = ["${datasource:queryparam}"]
    words += ["var-{0}={1}".format(one, "${" + value.format(one) + "}") for one in labels if one in known]
    words += ["${" + one + ":queryparam}" for one in handed if one in labels and one not in known]
    url = "/d/{0}?{1}&${{__url_time_range}}".format(uid(target), "&".join(words))
    return build.DashboardLink("Board of this " + LABELS[label].lower()).type(DashboardLinkType.LINK).url(url)
