# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every check there is, in the order of a report."""

from __future__ import annotations

from typing import Tuple

from .types import LEVELS, Check, Cost


def checks(level: Cost) -> Tuple[Check, ...]:
    """The checks of a level and of the cheaper ones."""
    from .checks import of_gpus, of_node

    found = of_gpus.CHECKS + of_node.CHECKS
    if level is Cost.ACTIVE:
        from .active import checks as active  # not wanted before a job

        found += active.CHECKS
    return tuple(check for check in found if check.cost in LEVELS[level])
