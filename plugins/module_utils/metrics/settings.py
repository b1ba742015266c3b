# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``gpu_metrics`` of the declaration: what the command and the hooks of Slurm go by."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..core.frozen import frozen

SECTION = "gpu_metrics"
AUTO, DCGM, NVML = SOURCES = ("auto", "dcgm", "nvml")
PROFILING = "profiling"
#: Shorter than this NVML's GPM answers with what it counted before.
ACTIVITY_RANGE = (0.1, 10.0)
INTERVAL_RANGE = (10, 3600)


@frozen
class Settings:
    """As in the options of the resource; ``source`` and ``textfile`` are what was found on the node."""

    source: str = ""
    textfile: str = ""
    activity_seconds: float = 1.0
    jobs: bool = True
    profiling: str = PROFILING

    @classmethod
    def from_section(cls, section: Optional[Mapping[str, Any]]) -> Settings:
        """A value of a wrong kind counts as not given: a hook must not fail for it."""
        known = section or {}
        seconds, jobs = known.get("activity_seconds"), known.get("jobs")
        texts = {name: known[name] for name in ("source", "textfile", "profiling") if isinstance(known.get(name), str)}
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            least, most = ACTIVITY_RANGE
            return cls(activity_seconds=min(most, max(least, float(seconds))), jobs=jobs is not False, **texts)
        return cls(jobs=jobs is not False, **texts)
