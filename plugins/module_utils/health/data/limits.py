# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Default limits of measured figures, each with its source. A profile's ``thresholds`` take their place."""

from __future__ import annotations

from typing import Dict

from ..types import Threshold
from .gpu_limits import GPU_LIMITS

_NIC = (
    "github.com/NVIDIA/NVSentinel, NIC health monitor, {0}: one is fatal there, for it ends the job that runs; here it "
    "is told for a day, when that job is gone, so it warns"
)

LIMITS: Dict[str, Threshold] = {
    **GPU_LIMITS,
    # Of the node: CPUs, memory, disks, network. A limit ..._per_day is one of growth within a day.
    "idle_load_per_cpu": Threshold("lower", 0.5, None, "this collection: what a node does without a job is far below"),
    "memory_corrected_errors_per_day": Threshold(
        "lower", 10, None, "mcelog.conf, [dimm] ce-error-threshold = 10 / 24h"
    ),
    "swap_used_bytes": Threshold(
        "lower",
        64 * 2**20,
        None,
        "this collection: idle daemons that were put out; github.com/Azure/azurehpc-health-checks wants no swap at all",
    ),
    "huge_pages_idle_percent": Threshold("lower", 1, None, "this collection: less is not missed"),
    "infiniband_link_downed_per_day": Threshold(
        "lower",
        0,
        4,
        "warn: github.com/NVIDIA/NVSentinel, NIC health monitor, link_downed, of which one is fatal there while a job "
        "runs; fail: github.com/Azure/azurehpc-health-checks, check_ib_link_flapping (5 in 24 h)",
    ),
    "infiniband_symbol_errors_per_day": Threshold(
        "lower",
        2880,
        None,
        "InfiniBand's bit error rate of 10^-12 as 120 an hour: Oracle 820-7751-12, 'Determine Which Links Are "
        "Experiencing Significant Errors'",
    ),
    "infiniband_link_error_recoveries_per_day": Threshold(
        "lower", 10, None, "infiniband-diags, ibqueryerrors(8), error_thresholds: LinkErrorRecoveryCounter=10"
    ),
    "infiniband_receive_errors_per_day": Threshold(
        "lower", 2880, None, "this collection: as for symbol errors, of which a bad packet has one at least"
    ),
    "infiniband_link_integrity_errors_per_day": Threshold("lower", 0, None, _NIC.format("local_link_integrity_errors")),
    "infiniband_buffer_overruns_per_day": Threshold("lower", 0, None, _NIC.format("excessive_buffer_overrun_errors")),
    "roce_checksum_errors_per_day": Threshold("lower", 10, None, "this collection: a sound link has none"),
    "rdma_receiver_not_ready_per_second": Threshold(
        "lower",
        10,
        None,
        "this collection: as for slow restarts. NVIDIA counts receivers that were not ready while retries were left; "
        "github.com/NVIDIA/NVSentinel, NIC health monitor, rnr_nak_retry_err, reads it as retries that ran out and "
        "takes one as fatal",
    ),
    "roce_slow_restarts_per_second": Threshold(
        "lower", 10, None, "github.com/NVIDIA/NVSentinel, NIC health monitor, roce_slow_restart: above 10 a second"
    ),
    "rdma_errors_times_siblings": Threshold(
        "lower", 10, None, "this collection: ports of one node carry the same jobs, so they err alike"
    ),
    "network_carrier_changes_per_day": Threshold(
        "lower",
        2,
        8,
        "warn: github.com/NVIDIA/NVSentinel, NIC health monitor, carrier_changes above 2; fail: as for "
        "infiniband_link_downed_per_day, of which each is two changes",
    ),
    "process_stuck_seconds": Threshold(
        "lower", 300, None, "github.com/facebookresearch/gcm, check-dstate, --elapsed 300"
    ),
    "nvme_media_errors_per_day": Threshold(
        "lower", 0, None, "NVM Express Base Specification 2.0, figure 207: data that could not be recovered"
    ),
    "nvme_life_used_percent": Threshold(
        "lower", 100, None, "NVM Express Base Specification 2.0, figure 207: 100 is the estimated end of its life"
    ),
    "filesystem_used_percent": Threshold("lower", 90, 98, "this collection: below, slurmd and the journal have room"),
    "filesystem_inodes_used_percent": Threshold("lower", 90, 98, "this collection: as for space"),
    "scratch_used_percent": Threshold("lower", 90, None, "this collection: a job fills it by right"),
    "scratch_inodes_used_percent": Threshold("lower", 90, None, "this collection: as for space"),
    "shared_memory_bytes_per_gpu": Threshold(
        "higher",
        2**30,
        None,
        "this collection: ds_report of DeepSpeed warns below 512 MiB and advises 1 GiB, for one process; here each GPU "
        "has one",
    ),
    "clock_estimated_error_seconds": Threshold(
        "lower", 1, None, "this collection: credentials of munge bear 300 s, the logs of a job far less"
    ),
    # Of active checks: one of several equal GPUs, as a part of the median of all of them.
    "host_device_share_of_siblings": Threshold(
        "higher", 0.8, None, "this collection: equal GPUs in equal slots measure within some percent of each other"
    ),
    "compute_share_of_siblings": Threshold(
        "higher",
        0.93,
        None,
        "github.com/Azure/ai-infrastructure-on-azure, node validation of matrix products: repaired below 7 %",
    ),
    "compute_slowest_multiprocessor_percent": Threshold(
        "lower",
        10,
        None,
        "this collection, unproven: the slowest of 132 SMs of a healthy H100 took 0.4 to 1.1 % longer",
    ),
    "host_device_together_share": Threshold(
        "higher",
        0.7,
        None,
        "this collection, unproven: GPUs of which equally many share a PCIe path and a memory get equal shares of it",
    ),
    "gpu_to_gpu_together_share": Threshold(
        "higher",
        0.7,
        None,
        "this collection, unproven: NVLinks carry both ways at once, so a pair keeps its rate when all GPUs copy",
    ),
    "gpu_memory_share_of_siblings": Threshold(
        "higher", 0.9, None, "this collection: equal GPUs read their memory at rates within some percent of each other"
    ),
}
