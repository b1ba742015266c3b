# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the clean-up of a node."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ...core.options import option, options, state
from ..leftovers.types import KINDS, Settings

_DAYS = (0, 3650)
_USUAL = Settings()


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    present: bool = state("V(absent) removes the timer; what was removed before stays removed.")
    on_calendar: str = option(
        "*-*-* 03:30:00",
        "When the clean-up runs, as systemd.time(7) has it. C(systemd-analyze calendar) tells whether it can be.",
        form=(
            r"[A-Za-z0-9*:,./~+ -]{1,100}",
            "calendar event of systemd",
            "give one such as '*-*-* 03:30:00' or 'Sun 04:00'",
        ),
    )
    delay_seconds: int = option(
        3600,
        "How much later it may run, by chance, so that not all nodes do at once.",
        bounds=(0, 86400),
        unit="seconds",
    )
    kinds: Tuple[str, ...] = option(
        KINDS,
        "What is looked for. V(gpu_processes) and V(stopped_containers) are told and never touched.",
        choices=KINDS,
    )
    cache_days: int = option(
        _USUAL.cache_days,
        "A cache of containers that is kept (option C(keep_cache) of M(trainyard.gpu_node.enroot)) goes after so long "
        "without use.",
        bounds=_DAYS,
        unit="days",
    )
    environment_days: int = option(
        _USUAL.environment_days,
        "A former build of an environment on the scratch goes after so long without use.",
        bounds=_DAYS,
        unit="days",
    )
    core_days: int = option(_USUAL.core_days, "A core dump goes after so long.", bounds=_DAYS, unit="days")
    tmp_days: int = option(
        _USUAL.tmp_days,
        "Files of users in C(/tmp) and C(/dev/shm) go after so long without use, when their users have neither a job "
        "nor a process on the node.",
        bounds=_DAYS,
        unit="days",
    )
    keep_free_percent: int = option(
        _USUAL.keep_free_percent,
        "Share of the scratch that is to be free. Below it kept caches of users without jobs go too, the oldest first.",
        bounds=(0, 95),
        unit="percent",
    )
    beside_jobs: bool = option(
        _USUAL.beside_jobs,
        "Whether it removes anything while jobs run. What they could need never goes then.",
    )

    def section(self) -> Dict[str, Any]:
        """What ``gpunode cleanup`` goes by."""
        names = ("cache_days", "environment_days", "core_days", "tmp_days", "keep_free_percent", "beside_jobs")
        found: Dict[str, Any] = {name: getattr(self, name) for name in names}
        return dict(found, kinds=list(self.kinds))
