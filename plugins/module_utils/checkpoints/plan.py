# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a set of files is copied: caps, cores and requests of each azcopy. Pure."""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from ..core.frozen import frozen
from ..placement import transfer
from .cores import Cores
from .settings import Settings


@frozen
class Shape:
    """``at_once``: how many azcopy run at a time; the other figures are of each of them."""

    at_once: int
    cap: int
    connections: int
    threads: int
    total_gbps: float


def shape(settings: Settings, cores: Cores, files: int, gbps: float) -> Shape:
    """``gbps``: the limit of the account in this direction. The caps are for as many files as are declared for a node,
    also where there are fewer: other processes on the node may write theirs.

    :raises NodeError: the limit is too small for so many.
    """
    declared = settings.files_per_node
    limits = transfer.limits(gbps, declared, cores.total, settings.nodes, settings.headroom_percent)
    at_once = max(1, min(files, declared))
    threads = max(1, min(limits.concurrency, cores.spare // at_once))
    return Shape(at_once, limits.cap_megabits_per_second, limits.concurrency, threads, limits.total_gigabits_per_second)


def environment(found: Shape) -> Dict[str, str]:
    """GOMAXPROCS limits cores; AZCOPY_CONCURRENCY_VALUE is how many requests are under way, and limits no core."""
    return {"AZCOPY_CONCURRENCY_VALUE": str(found.connections), "GOMAXPROCS": str(found.threads)}


def inherited(environment: Mapping[str, str]) -> Dict[str, str]:
    """What azcopy gets of the environment of this process: no AZCOPY_ variable but those of a person's own choice that
    are neither limits nor places."""
    ours = ("AZCOPY_CONCURRENCY_VALUE", "AZCOPY_LOG_LOCATION", "AZCOPY_JOB_PLAN_LOCATION", "GOMAXPROCS")
    return {name: value for name, value in environment.items() if name not in ours}


def megabits(size_bytes: int, seconds: float) -> float:
    return size_bytes * 8 / max(seconds, 1e-6) / 1e6


def rate(found: Shape, files: int) -> Tuple[float, int]:
    """(Mb/s of this node while it copies so many files, how many rounds of files there are)."""
    rounds = -(-files // found.at_once)
    return float(found.cap * min(files, found.at_once)), rounds
