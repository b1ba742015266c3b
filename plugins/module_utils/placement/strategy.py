# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cores for every rank, by the first of four ways that works, each looser than the one before.

1. Inside the NUMA node of each rank, one hardware thread of a core.
2. One hardware thread of a core, and over to the nearest nodes with free cores.
3. and 4. The same with all hardware threads of a core.

With ``smt`` the ways 3 and 4 are the only ones; with ``share_cores`` a fifth lets ranks overlap.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..core.frozen import frozen
from .homes import Homes, anywhere, of_gpus, spread
from .machine import Core, Machine
from .shares import Cores, divide
from .types import RankGpu, Request


@frozen
class Shares:
    """``threads_used`` hardware threads of each core go into the masks, or as many as it has; ``spanning``,
    ``overlapping`` tell the way."""

    homes: Homes
    cores: Tuple[Cores, ...]
    threads_used: int
    spanning: bool = False
    overlapping: bool = False


def share_out(machine: Machine, request: Request, gpus: Optional[Sequence[RankGpu]]) -> Optional[Shares]:
    """Cores for every rank; None when this machine has too few."""
    threads = machine.threads_per_core
    steps = [threads] if request.smt or threads == 1 else [1, threads]
    for used in steps:
        for way in (_inside, _over):
            for need in _cores_needed(machine, request, used):
                found = way(machine, request, gpus, used, need)
                if found is not None and all(threads_of(one, used) >= (request.threads or 1) for one in found.cores):
                    return found
    return _overlapping(machine, request, gpus, steps[0]) if request.share_cores else None


def threads_of(cores: Cores, threads_used: int) -> int:
    """How many threads a rank with these cores can run."""
    return sum(min(len(core.cpus), threads_used) for core in cores)


def _cores_needed(machine: Machine, request: Request, used: int) -> Sequence[Optional[int]]:
    """How many cores each rank needs; more than one number where cores differ, the smallest first."""
    if request.threads is None:
        return (None,)
    fewest = min(min(len(core.cpus), used) for core in machine.cores)
    most = min(-(-request.threads // fewest), len(machine.cores) // request.ranks)
    return range(-(-request.threads // used), most + 1)


def _inside(
    machine: Machine, request: Request, gpus: Optional[Sequence[RankGpu]], used: int, need: Optional[int]
) -> Optional[Shares]:
    if gpus is None:
        homes = spread(machine, request.ranks, need or 1)
        if homes is None:
            return None
    else:
        homes = of_gpus(machine, gpus, request.order)
    by_node = _ranks_of(homes)
    cores: Dict[int, Cores] = {}
    for node in machine.nodes:
        ranks = by_node.get(node.id)
        if not ranks:
            continue
        shares = divide(node.cores, len(ranks), None if request.whole_share else need, need or 1)
        if shares is None:
            return None
        cores.update(zip(ranks, shares))
    return Shares(homes, tuple(cores[rank] for rank in range(len(homes))), used)


def _over(
    machine: Machine, request: Request, gpus: Optional[Sequence[RankGpu]], used: int, need: Optional[int]
) -> Optional[Shares]:
    total = len(machine.cores)
    need = need or max(1, total // request.ranks)
    if need * request.ranks > total:
        return None
    homes = anywhere(machine, request.ranks) if gpus is None else of_gpus(machine, gpus, request.order)
    by_node = _ranks_of(homes)
    cores: Dict[int, List[Core]] = {rank: [] for rank in range(len(homes))}
    free: Dict[int, List[Core]] = {}
    # First each rank's part of its own node, so that no rank takes the cores beside another one's GPU.
    for node in machine.nodes:
        ranks = by_node.get(node.id, [])
        own = min(need, len(node.cores) // len(ranks)) if ranks else 0
        shares = (divide(node.cores, len(ranks), own) or []) if own else []
        taken = {core for share in shares for core in share}
        for rank, share in zip(ranks, shares):
            cores[rank] += share
        free[node.id] = [core for core in node.cores if core not in taken]
    for rank, (_gpu, home) in enumerate(homes):
        for number in sorted(free, key=lambda one, home=home: (machine.distance(home, one), one)):  # type: ignore[misc]
            missing = need - len(cores[rank])
            cores[rank] += free[number][:missing]
            free[number] = free[number][missing:]
    return Shares(homes, tuple(tuple(cores[rank]) for rank in range(len(homes))), used, spanning=True)


def _overlapping(machine: Machine, request: Request, gpus: Optional[Sequence[RankGpu]], used: int) -> Shares:
    """Ranks of a node go round its cores; one that needs more than the node has gets the whole node."""
    homes = anywhere(machine, request.ranks) if gpus is None else of_gpus(machine, gpus, request.order)
    cores: Dict[int, Cores] = {}
    for number, ranks in _ranks_of(homes).items():
        here = machine.nearest(number).cores
        wanted = max(1, len(here) // len(ranks)) if request.threads is None else -(-request.threads // used)
        need = min(wanted, len(here))
        for place, rank in enumerate(ranks):
            first = place * len(here) // len(ranks) if len(ranks) <= len(here) else place
            cores[rank] = tuple(here[(first + step) % len(here)] for step in range(need))
    return Shares(homes, tuple(cores[rank] for rank in range(len(homes))), used, overlapping=True)


def _ranks_of(homes: Homes) -> Dict[int, List[int]]:
    found: Dict[int, List[int]] = {}
    for rank, (_gpu, home) in enumerate(homes):
        found.setdefault(home, []).append(rank)
    return found
