# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of everything but GPUs that read more than a moment before a job allows, in the order of a report."""

from __future__ import annotations

from typing import Tuple

from ..types import Check
from . import (
    beeond_leftover,
    clock_synchronised,
    cpu_governor,
    cpu_load,
    drift,
    env_deepspeed,
    filesystem_space,
    ib_errors,
    ib_gpu_direct,
    ib_partition_keys,
    ib_pcie,
    image,
    ipmi_events,
    kernel_messages,
    kernel_taint,
    lease,
    limit_slurmd,
    memory_errors,
    memory_use,
    network_flaps,
    numa_layout,
    nvme_count,
    nvme_smart,
    pcie_acs,
    processes_stuck,
    repeat_offender,
    scratch_array,
    service_running,
)

CHECKS: Tuple[Check, ...] = tuple(
    check
    for module in (
        numa_layout,
        cpu_load,
        cpu_governor,
        processes_stuck,
        memory_errors,
        memory_use,
        ib_errors,
        network_flaps,
        ib_pcie,
        ib_partition_keys,
        ib_gpu_direct,
        pcie_acs,
        nvme_count,
        nvme_smart,
        scratch_array,
        beeond_leftover,
        kernel_taint,
        kernel_messages,
        ipmi_events,
        clock_synchronised,
        service_running,
        limit_slurmd,
        image,
        env_deepspeed,
        drift,
        lease,
        repeat_offender,
    )
    for check in module.CHECKS
) + (filesystem_space.SCRATCH,)
