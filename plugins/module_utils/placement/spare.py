# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs a program beside a job may use: cores that none of its ranks runs on. Pure."""

from __future__ import annotations

from typing import Iterable, List, Optional, Set, Tuple

from ..core.frozen import frozen
from ..facts.topology.types import Topology
from .machine import Core, machine
from .types import Request


@frozen
class Spare:
    """``cpus`` of ``cores`` whole cores. ``shared``: the ranks may run on every core, so these are theirs as well."""

    cpus: Tuple[int, ...]
    cores: int
    shared: bool = False


def spare(topology: Topology, taken: Iterable[Iterable[int]], allowed: Optional[Tuple[int, ...]] = None) -> Spare:
    """``taken``: the CPUs of each rank; ``allowed``: what this process may use, None for all.

    A core with a busy hardware thread is not spare. Where the masks of the ranks cover all (whole NUMA nodes, as the
    job scripts have them), it is the last core of each NUMA node: ranks that are counted from the first core on reach
    that one last.
    """
    here = machine(topology, Request(ranks=1, gpus="none", allowed_cpus=allowed))
    busy: Set[int] = {cpu for cpus in taken for cpu in cpus}
    free = [core for core in here.cores if not busy & set(core.cpus)]
    if free:
        return _of(free, False)
    return _of([max(node.cores, key=lambda core: core.cpus) for node in here.nodes], bool(busy))


def _of(cores: List[Core], shared: bool) -> Spare:
    return Spare(tuple(sorted(cpu for core in cores for cpu in core.cpus)), len(cores), shared)
