# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of the checks of GPUs, in the order of a verdict."""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import (
    gpu_ecc,
    gpu_events,
    gpu_fabric,
    gpu_memory,
    gpu_nvlink,
    gpu_nvswitch,
    gpu_pcie,
    gpu_presence,
    gpu_processes,
    gpu_product,
    gpu_recovery,
    gpu_settings,
    gpu_temperature,
    gpu_xid,
)

CHECKS: Tuple[Check, ...] = (
    gpu_presence.CHECKS
    + gpu_recovery.CHECKS
    + gpu_xid.CHECKS
    + gpu_memory.CHECKS
    + gpu_ecc.CHECKS
    + gpu_fabric.CHECKS
    + gpu_nvswitch.CHECKS
    + gpu_nvlink.CHECKS
    + gpu_pcie.CHECKS
    + gpu_product.CHECKS
    + gpu_events.CHECKS
    + gpu_temperature.CHECKS
    + gpu_settings.CHECKS
    + gpu_processes.CHECKS
)
