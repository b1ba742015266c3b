# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the timer of the clean-up."""

from __future__ import annotations

from typing import Any, Mapping

from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.systemd.timer import Timer, TimerState
from ...jobs.leftovers.types import SECTION

UNIT = Timer(SECTION)


@frozen
class State:
    """``declared``: section cleanup of the declaration."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    timer: TimerState = TimerState()
