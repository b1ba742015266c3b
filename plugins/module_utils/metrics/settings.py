# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``gpu_metrics`` of the declaration: what the command and the hooks of Slurm go by."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..core.frozen import frozen

SECTION = "gpu_metrics"
AUTO, DCGM, NVML = SOURCES = ("auto", "dcgm", "nvml")
PROFILING = "profiling"
#: Shorter than this NVML's GPM answers with what it counted before.
ACTIVITY_RANGE = (0.1, 10.0)
INTERVAL_RANGE = (10, 3600)


@frozen
class Settings:
    """As in the options of the resource; ``source`` and both files are what was found on the node.
    ``interval_seconds`` None: an earlier version declared the section."""

    source: str = ""
    textfile: str = ""
    activity_seconds: float = 1.0
    jobs: bool = True
    profiling: str = PROFILING
    interval_seconds: Optional[int] = None
    owners_textfile: str = ""

    @classmethod
    def from_section(cls, section: Optional[Mapping[str, Any]]) -> Settings:
        """A value of a wrong kind counts as not given: a hook must not fail for it."""
        known = section or {}
        seconds, jobs, interval = (known.get(name) for name in ("activity_seconds", "jobs", "interval_seconds"))
        names = ("source", "textfile", "profiling", "owners_textfile")
        given: Dict[str, Any] = {name: known[name] for name in names if isinstance(known.get(name), str)}
        if isinstance(interval, int) and not isinstance(interval, bool):
            given["interval_seconds"] = min(INTERVAL_RANGE[1], max(INTERVAL_RANGE[0], interval))
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            least, most = ACTIVITY_RANGE
            return cls(activity_seconds=min(most, max(least, float(seconds))), jobs=jobs is not False, **given)
        return cls(jobs=jobs is not False, **given)
