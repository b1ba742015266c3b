# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of GPUs, in the order of a report."""

from __future__ import annotations

from typing import Any, Tuple

from ..types import Check, Cost
from . import gpu_ecc, gpu_fabric, gpu_memory, gpu_nvswitch, gpu_presence, gpu_recovery, gpu_xid

_BEFORE_A_JOB: Tuple[Check, ...] = tuple(
    check
    for module in (gpu_presence, gpu_recovery, gpu_xid, gpu_memory, gpu_ecc, gpu_fabric, gpu_nvswitch)
    for check in module.CHECKS
)
#: Those for the moment before a job. :data:`CHECKS` are all, and importing the others takes as long as these.
QUICK: Tuple[Check, ...] = tuple(check for check in _BEFORE_A_JOB if check.cost is Cost.QUICK)
CHECKS: Tuple[Check, ...]


def __getattr__(name: str) -> Any:
    """``CHECKS``, with what is not wanted before a job, once somebody asks for it."""
    if name != "CHECKS":
        raise AttributeError(name)
    from . import of_gpus_passive

    return _BEFORE_A_JOB + of_gpus_passive.CHECKS
