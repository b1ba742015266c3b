# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of everything but GPUs, in the order of a report."""

from __future__ import annotations

from typing import Any, Tuple

from ..types import Check
from . import cpu_count, filesystem_read_only, filesystem_space, ib_ports, memory_size, profile, scratch_mounted

#: Those for the moment before a job. :data:`CHECKS` are all, and importing the others takes as long as these.
QUICK: Tuple[Check, ...] = tuple(
    check
    for module in (
        profile,
        cpu_count,
        memory_size,
        ib_ports,
        scratch_mounted,
        filesystem_read_only,
        filesystem_space,
    )
    for check in module.CHECKS
)
CHECKS: Tuple[Check, ...]


def __getattr__(name: str) -> Any:
    if name != "CHECKS":
        raise AttributeError(name)
    from . import of_node_passive

    return QUICK + of_node_passive.CHECKS
