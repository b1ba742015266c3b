# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the timer of the clean-up."""

from __future__ import annotations

from typing import Any, Mapping

from ...core import timer_unit
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.timer_plan import Timer
from ...jobs.leftovers.types import SECTION

SERVICE = "gpu-node-cleanup.service"
TIMER = "gpu-node-cleanup.timer"
UNIT = Timer(SECTION, SERVICE, TIMER)


@frozen
class State:
    """``declared``: section cleanup of the declaration."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    timer: timer_unit.Seen = timer_unit.Seen()
