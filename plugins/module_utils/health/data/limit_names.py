# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures that may have a limit, and names of earlier releases: for limits and settings that no check uses."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable

from ...core.nearest import nearest
from .figures import HELP
from .ib_counters import ERRORS, FLAPS, MEASURED
from .limits import LIMITS

# Those without a default limit or a HELP line of their own.
_OTHERS = (
    "gpu_temperature_celsius",
    "gpu_memory_temperature_celsius",
    "gpu_pcie_replays_per_minute",
    "nccl_allreduce_two_nodes_gigabytes_per_second",
    "scratch_size_gigabytes",
)
_GROWING = (
    "gpu_nvlink_replay_errors",
    "gpu_nvlink_recovery_errors",
    "gpu_nvlink_crc_errors",
    "gpu_nvlink_packet_errors",
)
#: Limits and settings of an earlier release, and what to use now.
REPLACED: Dict[str, str] = {
    "gemm_teraflops_per_second": "compute_f16_teraflops_per_second or compute_bf16_teraflops_per_second, whose rates "
    "are lower",
    "gemm_share_of_siblings": "compute_share_of_siblings",
    "gemm_seconds": "compute_seconds",
    "gemm_together": "nothing: all GPUs always compute together",
    "tools.python": "nothing: no check needs Python with CUDA",
}


def names() -> FrozenSet[str]:
    counters = [one.figure for one in (*ERRORS, *FLAPS, *MEASURED)]
    rates = [name + each for name in (*counters, *_GROWING) for each in ("_per_day", "_per_second")]
    return frozenset((*LIMITS, *HELP, *_OTHERS, *rates))


def instead(name: str, known: Iterable[str]) -> str:
    """What a person should write instead of ``name``: ``use compute_seconds``, ``did you mean 'swap_used_bytes'?``."""
    if name in REPLACED:
        return "use {0}".format(REPLACED[name])
    return nearest(name, known).strip() or "take it out"
