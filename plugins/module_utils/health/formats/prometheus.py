# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as metrics for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from ...core.exposition import Exposition, Labels
from ...facts.nvml.identity import dcgm_address, normalise_pci_address
from ..data.figures import help_of
from ..types import ORDER, Measured, Outcome, Verdict

# The values that checks measured. Without a prefix of their own, some had the name of a metric of the GPUs' file, and
# node exporter drops one of two metrics that have the same name and different labels.
FIGURE = "health_figure_"
_CODES = ", ".join("{0} {1}".format(number, outcome.value) for number, outcome in enumerate(ORDER))


def render(verdict: Verdict, interval_seconds: Optional[float] = None) -> str:
    """``interval_seconds``: how often the file is written, so that an alert can calculate when it is stale."""
    told = Exposition("Verdict on this GPU node, from its last check.")
    add = told.add
    add(
        "health_outcome",
        "gauge",
        "Outcome of the node: 1 for the one that it has.",
        [({"outcome": one.value}, float(one is verdict.outcome)) for one in ORDER],
    )
    add(
        "health",
        "gauge",
        "Outcome of a check: {0}. A check that does not apply is not there.".format(_CODES),
        [({"check": one.id}, float(ORDER.index(one.outcome))) for one in verdict.results],
    )
    add(
        "health_findings",
        "gauge",
        "How many findings count, by outcome.",
        [
            ({"outcome": one.value}, float(sum(1 for dummy, found in verdict.findings if found.outcome is one)))
            for one in ORDER
            if one is not Outcome.PASS
        ],
    )
    add(
        "health_findings_observed",
        "gauge",
        "How many findings are only observed, by the outcome that they would count as.",
        [
            ({"outcome": one.value}, float(sum(1 for dummy, found in verdict.only_observed if found.outcome is one)))
            for one in ORDER
            if one is not Outcome.PASS
        ],
    )
    add(
        "health_finding",
        "gauge",
        "1 for each thing that is not well; silenced and observed ones do not count.",
        _findings(verdict),
    )
    add(
        "health_check_duration_seconds",
        "gauge",
        "How long a check took.",
        [({"check": one.id}, one.seconds) for one in verdict.results],
    )
    info = {"level": verdict.level.value, "profile": verdict.profile}
    add("health_info", "gauge", "What was checked and against what.", [(info, 1.0)])
    add("health_duration_seconds", "gauge", "How long the whole run took.", [({}, verdict.seconds)])
    add("health_timestamp_seconds", "gauge", "When it ran; an old one means that nobody checks.", [({}, verdict.time)])
    if interval_seconds is not None:
        add("health_interval_seconds", "gauge", "Seconds between two runs.", [({}, float(interval_seconds))])
    _figures(verdict, told)
    return told.text()


def _findings(verdict: Verdict) -> List[Tuple[Labels, float]]:
    every = [(check, found, "") for check, found in verdict.findings]
    every += [(one.check, one.finding, "silenced") for one in verdict.silenced]
    every += [(one.check, one.finding, "observed") for one in verdict.observed]
    return [
        (
            {
                "check": check,
                "code": found.code,
                "key": found.key,
                "outcome": found.outcome.value,
                "action": found.action.value,
                "silenced": "true" if why == "silenced" else "false",
                "observed": "true" if why == "observed" else "false",
            },
            1.0,
        )
        for check, found, why in every
    ]


def _figures(verdict: Verdict, told: Exposition) -> None:
    groups: Dict[str, List[Tuple[str, Measured]]] = {}
    for result in verdict.results:
        for figure in result.measured:
            groups.setdefault(metric(figure), []).append((result.id, figure))
    for name, figures in sorted(groups.items()):
        kind = "counter" if figures[0][1].counter else "gauge"
        samples = [
            (dict(_named(figure), check=check, key=figure.key, **_gpus(figure.key)), figure.value)
            for check, figure in figures
        ]
        told.add(name, kind, help_of(figures[0][1].name), samples)


def _gpus(key: str) -> Labels:
    """The GPU of a figure, or the two of a pair, with the label by which the metrics of GPUs are joined."""
    found = [normalise_pci_address(one) for one in key.split(">")]
    return {name: dcgm_address(address) for name, address in zip(("pci_bus_id", "peer_pci_bus_id"), found) if address}


def _named(figure: Measured) -> Labels:
    """Its own labels, by names that the format takes."""
    return {re.sub(r"[^a-zA-Z0-9_]", "_", name): text for name, text in figure.labels.items() if name[:1].isalpha()}


def metric(figure: Measured) -> str:
    """The name of a metric, without the common prefix: counters end with _total, and nothing else does."""
    name = FIGURE + (re.sub(r"[^a-zA-Z0-9_]", "_", figure.name) or "unnamed")
    if figure.counter:
        return name if name.endswith("_total") else name + "_total"
    return name + "_value" if name.endswith("_total") else name
