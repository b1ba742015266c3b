# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health: which node is unhealthy, and what to do."""

from __future__ import annotations

from typing import Any

from . import looks
from .board import Board
from .looks import Column
from .names import COUNTS, NODE, or_zero, since, worst

_CHOSEN = ("cluster", "profile", "hostname")


def make() -> Any:
    what = "Which node is unhealthy and what to do: its findings, the action, and since when."
    found = Board("health", "GPU node health", what, _CHOSEN, since="now-24h")
    outcome, nodes = found.of("gpu_node:node_outcome"), found.of("gpu_node:node_gpus")
    finding = found.of("gpu_node_health_finding", COUNTS)
    found.row("Now")
    for number, title, description, steps, alert in (
        (
            3,
            "Failed",
            "Nodes whose checks fail: they accept no jobs if the gate is on.",
            looks.NONE_IS_GOOD,
            "GpuNodeSick",
        ),
        (
            2,
            "Unknown",
            "Nodes whose checks could not run or whose verdict is stale.",
            looks.NONE_IS_GOOD,
            "GpuNodeVerdictStale",
        ),
        (1, "Warnings", "Nodes with warnings. They accept jobs.", looks.NONE_IS_BEST, ""),
        (0, "Passed", "Nodes that passed all checks.", ((None, "green"),), ""),
    ):
        found.stat(
            title,
            description,
            or_zero("count({0} == {1})".format(outcome, number), outcome),
            "none",
            steps,
            alert=alert,
            none="no verdicts",
        )
    found.stat(
        "No verdict",
        "Nodes that report GPUs but no verdict: the health gate is not configured or exports no metrics.",
        or_zero("count({0} unless on ({1}) {2})".format(nodes, NODE, outcome), nodes),
        "none",
        looks.NONE_IS_BEST,
    )
    found.stat(
        "Observed findings",
        "Findings of checks that are only observed. They do not change the verdict.",
        or_zero("sum({0})".format(found.of("gpu_node_health_findings_observed")), outcome),
        "none",
        looks.PLAIN,
        none="no verdicts",
    )
    found.row("What to do")
    found.table(
        "Findings",
        "What is wrong with which node, what to do, and since when (within seven days). Failures first. "
        "Click a node to open its dashboard.",
        ("outcome", "cluster", "hostname", "check", "code", "key", "action"),
        (Column("first seen", since(finding), "dateTimeAsIso", how="min"),),
        none="No findings: no check of these nodes warns or fails.",
        height=8,
        alert="GpuNodeSick",
        sort="outcome",
        ascending=True,
    )
    found.states(
        "Nodes that did not pass",
        "Outcome of each node that warned, failed or is unknown. A failed node accepts no jobs.",
        outcome + " > 0",
        "{{hostname}}",
        looks.OUTCOMES,
        width=24,
        link="hostname",
        known=("cluster", "hostname"),
        none="All nodes passed.",
    )
    found.row("Repeated failures")
    found.table(
        "Nodes by failures",
        "How often each node failed within seven days, and the time between failures. Two failures within a day mean "
        "that a repair did not hold.",
        ("cluster", "hostname"),
        (
            Column(
                "failures in 7 days",
                "{0} > 0".format(found.of("gpu_node:node_failures:7d")),
                "none",
                looks.NONE_IS_BEST,
            ),
            Column(
                "time between",
                "{0} and on ({1}) {2} > 0".format(
                    found.of("gpu_node:node_time_between_failures:seconds"), NODE, found.of("gpu_node:node_failures:7d")
                ),
                "s",
                how="min",
            ),
        ),
        none="No node failed within seven days.",
        width=12,
        alert="GpuNodeFailsAgain",
    )
    found.table(
        "GPUs by failures",
        "How often a fault of each GPU began within seven days.",
        ("cluster", "hostname", "key"),
        (
            Column(
                "failures in 7 days",
                "gpu_node:gpu_failures:7d{{{0}}}".format(found.where(without=("profile",))),
                "none",
                looks.NONE_IS_BEST,
            ),
        ),
        none="No GPU failed within seven days.",
        width=12,
        alert="GpuNodeRepeatOffender",
    )
    found.row("Over time")
    found.series(
        "Verdicts",
        "Number of nodes by outcome.",
        [
            ('label_replace(count({0} == {1}), "outcome", "{2}", "", "")'.format(outcome, number, text), "{{outcome}}")
            for number, (text, _color) in looks.OUTCOMES.items()
        ],
        "none",
        stacked=True,
    )
    found.series(
        "Findings by check",
        "Number of nodes with a finding of each check.",
        [("count by (check) (count by ({0}, check) ({1}))".format(NODE, finding), "{{check}}")],
        "none",
        stacked=True,
        none="No findings.",
    )
    duration = "max by (check) ({0})".format(found.of("gpu_node_health_check_duration_seconds"))
    found.series(
        "Slowest checks",
        "Duration of the five slowest checks.",
        [(worst(5, duration, "check"), "{{check}}")],
        "s",
        width=24,
        none="no verdicts",
    )
    return found.build()
