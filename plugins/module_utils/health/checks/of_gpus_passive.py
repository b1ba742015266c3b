# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of GPUs that read more than a moment before a job allows, in the order of a report."""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import (
    gpu_events,
    gpu_inforom,
    gpu_mig_instances,
    gpu_mig_layout,
    gpu_nvlink,
    gpu_pcie,
    gpu_performance,
    gpu_processes,
    gpu_product,
    gpu_settings,
    gpu_temperature,
    kubernetes_capacity,
    slurm_gres,
)

CHECKS: Tuple[Check, ...] = tuple(
    check
    for module in (
        gpu_nvlink,
        gpu_pcie,
        gpu_product,
        gpu_inforom,
        gpu_events,
        gpu_temperature,
        gpu_performance,
        gpu_settings,
        gpu_mig_layout,
        gpu_mig_instances,
        gpu_processes,
        slurm_gres,
        kubernetes_capacity,
    )
    for check in module.CHECKS
)
