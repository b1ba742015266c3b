# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``gpu_metrics`` of the declaration: what the command and the hooks of Slurm go by."""

from __future__ import annotations

from ..core.options import found, option, options

SECTION = "gpu_metrics"
AUTO, DCGM, NVML = SOURCES = ("auto", "dcgm", "nvml")
PROFILING = "profiling"
#: Shorter than this NVML's GPM answers with what it counted before.
ACTIVITY_RANGE = (0.1, 10.0)
INTERVAL_RANGE = (10, 3600)


@options
class Settings:
    """The options that the command and the hooks need; ``source`` and both files are as a converge found them."""

    source: str = found("")
    textfile: str = found("")
    owners_textfile: str = found("")
    interval_seconds: int = option(30, "Time between two looks at the GPUs.", bounds=INTERVAL_RANGE, unit="seconds")
    activity_seconds: float = option(
        1.0,
        "How long the activity of tensor cores, memory and links is counted in each look, where NVML tells it (Hopper "
        "and newer). For O(source=nvml).",
        bounds=ACTIVITY_RANGE,
        unit="seconds",
    )
    jobs: bool = option(
        True,
        "Tell which job of Slurm has which GPU. Prolog and epilog of M(trainyard.gpu_node.slurm_hooks) write it into "
        "C(/run/gpu_node/gpu_jobs), where dcgm-exporter reads it too (label C(hpc_job)).",
    )
    profiling: str = option(
        PROFILING,
        [
            "A word. While a job runs that has it in its comment or among its features (C(sbatch --comment "
            "profiling)), the counters of the hardware are left to its profiler: DCGM pauses them, and our own look "
            "leaves them out.",
            "Empty: never.",
        ],
        form=("|[A-Za-z0-9_-]{1,40}", "one word", "use letters, digits, _ and -"),
    )
