# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Tuple

from ...core.managed_files import Wanted
from ...core.options import as_section
from ...core.resource import Plan
from ...core.systemd.timer import on_calendar
from ...facts.nvml.binding import RUNTIME
from ...jobs.leftovers.types import Settings
from .options import Desired
from .types import UNIT, State


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return UNIT.absent(state.files, state.declared, state.timer)
    return UNIT.present(state.files, state.declared, state.timer, wanted(desired), as_section(Settings, desired))


def wanted(desired: Desired) -> Tuple[Wanted, ...]:
    when = on_calendar(desired.on_calendar, desired.delay_seconds)
    return UNIT.wanted(service(), UNIT.timer_text("Clean-up of this GPU node, again and again", when))


def service() -> str:
    rest = [
        "ExecStart={0} cleanup".format(RUNTIME),
        "# What could not be looked at is told, and is no failure of this unit, which a health check would tell.",
        "SuccessExitStatus=1",
        "TimeoutStartSec=3600",
        "# What it started to empty a trash goes on after it.",
        "KillMode=process",
        "Nice=19",
        "# Hooks may wait for its locks, and the idle class would starve.",
        "IOSchedulingClass=best-effort",
        "IOSchedulingPriority=7",
    ]
    return UNIT.service_text("Clean-up of this GPU node", RUNTIME, rest)
