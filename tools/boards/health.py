# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health: which nodes and GPUs fail again and again, and of what."""

from __future__ import annotations

from typing import Any

from . import board
from .board import Board, Column
from .names import COUNTS, NODE

_CHOSEN = ("cluster", "profile", "hostname")


def make() -> Any:
    what = "Which nodes and GPUs fail again and again, and of what."
    found = Board(
        "health", "GPU node health", what, _CHOSEN, of={one: "gpu_node_health_info" for one in _CHOSEN}, since="now-7d"
    )
    outcome = found.of("gpu_node_health_outcome")
    sick = found.of("gpu_node_health_outcome", 'outcome="fail"')
    finding = found.of("gpu_node_health_finding", COUNTS)
    found.row("Now")
    for name, title, steps, alert in (
        ("pass", "Well", board.PLAIN, ""),
        ("warn", "With warnings", board.NONE_IS_BEST, ""),
        ("unknown", "Not known", board.NONE_IS_BEST, ""),
        ("fail", "Sick", board.NONE_IS_GOOD, "GpuNodeSick"),
    ):
        found.stat(
            title,
            "Nodes whose last verdict is {0}.".format(name),
            "sum({0})".format(found.of("gpu_node_health_outcome", 'outcome="{0}"'.format(name))),
            "none",
            steps,
            alert=alert,
        )
    found.stat(
        "Not checked",
        "Nodes whose last verdict is older than half an hour.",
        "sum(time() - {0} > bool 1800)".format(found.of("gpu_node_health_timestamp_seconds")),
        "none",
        board.NONE_IS_GOOD,
        alert="GpuNodeVerdictStale",
    )
    found.stat(
        "Only observed",
        "Findings that count for nothing yet.",
        "sum({0})".format(found.of("gpu_node_health_findings_observed")),
        "none",
        board.PLAIN,
        none="0",
    )
    found.row("Again and again")
    found.table(
        "Nodes by failures",
        "How often each was sick within seven days, and the time between. Twice within a day says that a repair did "
        "not hold.",
        ("cluster", "hostname"),
        (
            Column(
                "failures in 7 days",
                "max by ({0}) ({1}) > 0".format(NODE, found.of("gpu_node:node_failures:7d")),
                "none",
                board.NONE_IS_BEST,
            ),
            Column(
                "time between",
                "min by ({0}) ({1})".format(NODE, found.of("gpu_node:node_time_between_failures:seconds")),
                "s",
            ),
            Column("sick now", "max by ({0}) ({1})".format(NODE, sick), "none", board.NONE_IS_GOOD),
        ),
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
                "max by ({0}, key) ({1})".format(
                    NODE, "gpu_node:gpu_failures:7d{{{0}}}".format(found.where(without=("profile",)))
                ),
                "none",
                board.NONE_IS_BEST,
            ),
        ),
        width=12,
        alert="GpuNodeRepeatOffender",
    )
    found.row("Of what")
    found.series(
        "Findings by check",
        "How many nodes have one that counts.",
        [("count by (check) (count by ({0}, check) ({1}))".format(NODE, finding), "{{check}}")],
        "none",
        stacked=True,
    )
    found.states(
        "Nodes that are not well",
        "The worst outcome of each: red takes no job.",
        'max by ({0}) (gpu_node_health_outcome{{{1},outcome="fail"}} * 3 '
        'or gpu_node_health_outcome{{{1},outcome="warn"}}) > 0'.format(NODE, found.where()),
        "{{hostname}}",
        board.OUTCOMES,
        link="hostname",
        known=("cluster", "hostname"),
    )
    found.table(
        "Findings",
        "All that count, with what its check says should be done.",
        ("cluster", "hostname", "check", "code", "key", "action"),
        (Column("found", "max by ({0}, check, code, key, action) ({1})".format(NODE, finding), "none"),),
        alert="GpuNodeSick",
    )
    found.series(
        "What checks cost",
        "The slowest five, in seconds.",
        [("topk(5, max by (check) ({0}))".format(found.of("gpu_node_health_check_duration_seconds")), "{{check}}")],
        "s",
    )
    found.series(
        "Verdicts over time",
        "Nodes by outcome.",
        [("sum by (outcome) ({0})".format(outcome), "{{outcome}}")],
        "none",
        stacked=True,
    )
    return found.build()
