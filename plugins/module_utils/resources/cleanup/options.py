# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the clean-up of a node."""

from __future__ import annotations

from ...core.options import option, options, state
from ...jobs.leftovers.types import Settings


@options
class Desired(Settings):
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
