# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of everything but GPUs for the moment before a job, in the order of a report.

The others are in :mod:`.of_node_passive`: to import those takes as long as these.
"""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import (
    converge,
    cpu_count,
    filesystem_read_only,
    filesystem_space,
    ib_ports,
    memory_size,
    profile,
    scratch_mounted,
)

CHECKS: Tuple[Check, ...] = tuple(
    check
    for module in (
        profile,
        converge,
        cpu_count,
        memory_size,
        ib_ports,
        scratch_mounted,
        filesystem_read_only,
        filesystem_space,
    )
    for check in module.CHECKS
)
