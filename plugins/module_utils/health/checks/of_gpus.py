# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of GPUs for the moment before a job, and what lies in the same files; in the order of a report.

The others are in :mod:`.of_gpus_passive`: to import those takes as long as these.
"""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import gpu_ecc, gpu_fabric, gpu_memory, gpu_nvswitch, gpu_presence, gpu_recovery, gpu_xid

CHECKS: Tuple[Check, ...] = tuple(
    check
    for module in (gpu_presence, gpu_recovery, gpu_xid, gpu_memory, gpu_ecc, gpu_fabric, gpu_nvswitch)
    for check in module.CHECKS
)
