# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a node for its metrics."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from ..core.frozen import frozen
from ..facts.gpu_info.types import GpuInformation


@frozen
class Part:
    """A GPU (``instance`` None), or a MIG GPU instance of it. ``activity``: what GPM told, by the number of NVML's
    metric; None: it told nothing, as GPUs before Hopper do."""

    instance: Optional[int] = None
    profile: str = ""
    activity: Optional[Mapping[int, float]] = None
    memory_used_bytes: Optional[int] = None
    memory_total_bytes: Optional[int] = None


@frozen
class Seen:
    """``status`` as gpu_info has it. ``parts``: of each GPU by its PCI address. ``on_bus``: the NVIDIA GPUs that the
    PCI bus shows. ``jobs``: (index, instance or None) to the names of the jobs that have it. ``notes``: what could not
    be read beside the GPUs. ``profilers``: jobs that have the counters of the hardware, so that no activity is told.
    ``interval_seconds``: how often the file is written; None: once, by hand."""

    status: str
    driver_version: Optional[str]
    gpus: Tuple[GpuInformation, ...] = ()
    parts: Mapping[Optional[str], Tuple[Part, ...]] = {}
    on_bus: int = 0
    jobs: Mapping[Tuple[int, Optional[int]], Tuple[str, ...]] = {}
    notes: Tuple[str, ...] = ()
    profilers: Tuple[int, ...] = ()
    time: float = 0.0
    seconds: float = 0.0
    interval_seconds: Optional[float] = None
