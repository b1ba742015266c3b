# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The thresholds of the alerts, which a site changes with ``monitoring_alert_thresholds``.

In the texts of an alert ``@NAME@`` is the value, and ``@NAME%@`` the value in percent.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Match, NamedTuple


class Limit(NamedTuple):
    default: float
    least: float
    most: float
    help: str


LIMITS: Dict[str, Limit] = {
    "gpu_temperature_margin_celsius": Limit(
        3, 0, 50, "GpuNodeHot fires if fewer degrees remain until the hardware slows the GPU down."
    ),
    "gpu_temperature_celsius": Limit(
        87, 40, 120, "GpuNodeHot fires above this temperature if the GPU does not report its margin."
    ),
    "gpu_temperature_above_siblings_celsius": Limit(
        15, 1, 60, "GpuNodeHotterThanSiblings fires if a GPU is hotter than the mean of its node by more degrees."
    ),
    "nvlink_errors_per_hour": Limit(10, 0, 1000000, "GpuNodeNvlinkErrors fires above this number for one GPU."),
    "pcie_replays_per_hour": Limit(
        1860,
        0,
        1000000,
        "GpuNodePcieReplays fires above this number for one GPU. A PCIe 5.0 x16 link within its specification has at "
        "most 31 per minute.",
    ),
    "ib_port_errors_per_hour": Limit(
        120,
        0,
        1000000,
        "GpuNodeIbPortErrors fires above this number for one port. It is the bit error rate of the InfiniBand "
        "specification.",
    ),
    "targets_down_ratio": Limit(
        0.2, 0.01, 1, "GpuNodeTargetsGone fires if a larger share of the targets of a job does not answer."
    ),
    "stale_intervals": Limit(
        3,
        1,
        100,
        "GpuNodeMetricsStale and GpuNodeVerdictStale fire after this number of the intervals that the node declares.",
    ),
    "metrics_stale_seconds": Limit(
        600, 60, 604800, "GpuNodeMetricsStale never fires before this age, also if the interval is shorter."
    ),
    "verdict_stale_seconds": Limit(
        1800, 60, 604800, "GpuNodeVerdictStale never fires before this age, also if the interval is shorter."
    ),
    "verdict_unknown_seconds": Limit(
        3600, 60, 604800, "GpuNodeVerdictUnknown fires if a verdict is unknown for this time."
    ),
    "verdict_missing_seconds": Limit(
        3600, 60, 604800, "GpuNodeVerdictMissing fires if a node with GPUs has no verdict for this time."
    ),
    "failures_per_day": Limit(2, 1, 100, "GpuNodeFailsAgain fires from this number of failures within a day."),
    "job_idle_ratio": Limit(
        0.05, 0, 1, "A GPU of a job counts as idle below this share of busy time, in the alerts on jobs."
    ),
    "job_busy_ratio": Limit(
        0.3,
        0,
        1,
        "GpuNodeOneGpuOfJobIdle and GpuNodeTensorCoresUnused only look at jobs whose GPUs are busier than this.",
    ),
    "job_tensor_active_ratio": Limit(
        0.01, 0, 1, "GpuNodeTensorCoresUnused fires below this activity of the tensor cores."
    ),
    "job_tensor_gpus": Limit(8, 1, 100000, "GpuNodeTensorCoresUnused only looks at jobs with at least this many GPUs."),
    "job_seconds": Limit(1800, 60, 604800, "The alerts on jobs fire after this time."),
}
_TOKEN = re.compile(r"@(\w+)(%?)@")


def _replaced(text: str, value: Callable[[str, bool], str]) -> str:
    def one(match: Match[str]) -> str:
        if match[1] not in LIMITS:
            raise KeyError(match[1])
        return value(match[1], bool(match[2]))

    return _TOKEN.sub(one, text)


def with_defaults(text: str) -> str:
    return _replaced(text, lambda name, percent: "{0:g}".format(LIMITS[name].default * (100 if percent else 1)))


def for_jinja(text: str) -> str:
    """With expressions between [% and %], which the role puts its values into."""

    def value(name: str, percent: bool) -> str:
        return "[% " + ("'%g' | format(limits.{0} | float * 100)" if percent else "limits.{0}").format(name) + " %]"

    return _replaced(text, value)


def used(text: str) -> set[str]:
    return {match[1] for match in _TOKEN.finditer(text)}
