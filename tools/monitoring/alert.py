# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An alert: when it fires, how urgent it is, and what an administrator reads.

An expression must not compare series by the labels profile, partition and rack: an inventory changes them.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from . import rules


class Alert(NamedTuple):
    """``wait``: how long the expression must hold. ``@NAME@`` in a text: see :mod:`.alert_limits`."""

    name: str
    severity: str
    expr: str
    summary: str
    description: str
    remedy: str
    wait: str = ""


NODE = "cluster, hostname"
TARGET = ", ".join(rules.TARGET)
#: Scrape jobs: those of the role, and those of the GPU operator and of the chart of dcgm-exporter.
JOBS = 'job=~"gpu_node.*|(nvidia-)?dcgm-exporter"'
COUNTS = 'silenced="false",observed="false"'


def highest_of_dcgm(by: str, *exprs: str) -> str:
    """The highest by these labels; with the name of the node from Hostname where a target has no label hostname."""
    parts = []
    for one in exprs:
        parts += ["{0} unless on (hostname) vector(1)".format(one), rules.by_host_name(one)]
    return " or ".join("max by ({0}) ({1})".format(by, one) for one in parts)


def finding(check: str, outcome: str) -> str:
    """Findings of the gate that count."""
    matchers = 'check=~"{0}",outcome=~"{1}",{2}'.format(check, outcome, COUNTS)
    return "max by (cluster, hostname, key, code) (gpu_node_health_finding{{{0}}}) == 1".format(matchers)


def codes(given: Sequence[int]) -> str:
    return "|".join(str(one) for one in sorted(given))
