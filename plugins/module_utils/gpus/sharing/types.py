# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a GPU, and what is advised."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen

DEDICATED, TIME_SLICE, MIG, NOT_ENOUGH_SEEN = "dedicated", "time-slice", "mig", "not-enough-seen"


@frozen
class Sample:
    """One GPU at one moment of a look. None: it was not told, and ``untold`` says why.

    ``busy_percent``: of the time, a kernel ran, however few multiprocessors it used. ``sm_percent``: of the
    multiprocessors, as many had work, on average since the last sample. ``instances``: GPU instances with a process.
    """

    at_seconds: float
    busy_percent: Optional[int] = None
    sm_percent: Optional[float] = None
    occupancy_percent: Optional[float] = None
    memory_used_bytes: Optional[int] = None
    memory_total_bytes: Optional[int] = None
    processes: Optional[int] = None
    instances: Tuple[int, ...] = ()
    exclusive: bool = False
    untold: Tuple[str, ...] = ()


@frozen
class Use:
    """All samples of a GPU together. ``..._peak_...``: in the highest of them; ``processes``: the most at once.

    What some of the samples did not tell is None: its peak may have been there. ``memory_total_bytes``: without what
    the driver keeps.
    """

    seconds: float
    samples: int
    busy_percent: Optional[float] = None
    busy_peak_percent: Optional[float] = None
    sm_percent: Optional[float] = None
    sm_peak_percent: Optional[float] = None
    occupancy_percent: Optional[float] = None
    memory_peak_bytes: Optional[int] = None
    memory_total_bytes: Optional[int] = None
    processes: Optional[int] = None
    instances: Tuple[int, ...] = ()
    exclusive: bool = False
    untold: Tuple[str, ...] = ()


@frozen
class TimeSlice:
    """``memory_bytes``: what each of them needs, with headroom."""

    replicas: int
    loss_percent: float
    memory_bytes: int


@frozen
class Division:
    """As many instances of one profile as the GPU has room for. ``multiprocessors``: of each; ``unused_percent``: of
    the GPU's multiprocessors, as many are in none."""

    profile: str
    count: int
    multiprocessors: int
    memory_bytes: int
    unused_percent: float


@frozen
class Advice:
    """``time_slice`` and ``mig`` are what would be possible, advised or not."""

    kind: str
    reasons: Tuple[str, ...]
    notes: Tuple[str, ...] = ()
    time_slice: Optional[TimeSlice] = None
    mig: Optional[Division] = None
