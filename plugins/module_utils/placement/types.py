# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a placement, and what one is. All of it is immutable."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple, Union

from ..core.frozen import frozen
from ..core.resource import Misuse, NodeError
from ..facts.sysfs import format_cpulist

#: ``core``: each rank has cores of its own. ``numa``: each rank may run on all of the NUMA node(s) that it is placed
#: on, together with the other ranks there.
BINDS = ("core", "numa")
#: ``gpu``: rank i has GPU i. ``numa``: the ranks fill the NUMA nodes one after another, as Open MPI's mapper counts.
ORDERS = ("gpu", "numa")


@frozen
class Request:
    """``ranks`` processes on one node.

    ``threads``: how many threads each rank runs; None gives it a fair share of its NUMA node. ``gpus``: ``each`` (one
    for each rank), ``none``, None (each where the machine has a GPU), or one GPU number a rank, where a number may come
    twice. ``smt``: use all hardware threads of a core from the start. ``whole_share``: a rank keeps its fair share
    also where it runs fewer threads. ``allowed_cpus`` and ``allowed_memory_nodes``: what a cpuset or an affinity
    leaves; None leaves all.
    """

    ranks: int
    threads: Optional[int] = None
    gpus: Union[str, Tuple[int, ...], None] = None
    bind: str = "core"
    order: str = "gpu"
    smt: bool = False
    share_cores: bool = False
    whole_share: bool = False
    allowed_cpus: Optional[Tuple[int, ...]] = None
    allowed_memory_nodes: Optional[Tuple[int, ...]] = None


@frozen
class RankGpu:
    """``index`` is NVML's number, or the place in the order of PCI addresses where NVML was not asked."""

    index: int
    uuid: Optional[str]
    pci_address: Optional[str]
    numa_node: Optional[int]
    infiniband: Optional[str]


@frozen
class Rank:
    """One process. ``cpus`` is its affinity mask; ``cores`` are the same CPUs, core by core.

    ``home`` is the NUMA node that it is placed on, ``numa_nodes`` are all that its mask touches, ``memory_nodes`` the
    ones to take memory from (empty where the machine has no NUMA). ``l3_groups`` are numbered through the machine from
    0, as hwloc does it. ``threads`` is what OMP_NUM_THREADS should be.
    """

    index: int
    cpus: Tuple[int, ...]
    cores: Tuple[Tuple[int, ...], ...]
    threads: int
    home: int
    numa_nodes: Tuple[int, ...]
    memory_nodes: Tuple[int, ...]
    l3_groups: Tuple[int, ...]
    gpu: Optional[RankGpu]
    infiniband: Optional[str]


@frozen
class Placement:
    """``numa`` is false on a kernel without NUMA, where numactl does not work. ``idle_cpus`` may be used and are not.

    ``limited``: some CPUs that are online may not be used here. ``all_gpus``: the numbers of all GPUs,
    of those that do not answer, too.
    """

    request: Request
    ranks: Tuple[Rank, ...]
    warnings: Tuple[str, ...]
    numa: bool
    limited: bool
    idle_cpus: Tuple[int, ...]
    all_gpus: Tuple[int, ...]


class Refused(NodeError):
    """This cannot be placed. ``alternatives`` are requests near to it that can; ``remedy`` names their numbers."""

    def __init__(self, thing: str, reason: str, remedy: str, alternatives: Tuple[Request, ...] = ()) -> None:
        super().__init__(thing, reason, remedy)
        self.alternatives = alternatives


class Misasked(Refused, Misuse):
    """No node could place this: too small a number, a word that is not known, a GPU that is not there."""


def to_dict(placement: Placement) -> Dict[str, Any]:
    """As plain data; CPU sets also as the text that taskset and numactl take."""
    content = dataclasses.asdict(placement)
    content.pop("request")
    for plain, rank in zip(content["ranks"], placement.ranks):
        plain["cpu_list"] = format_cpulist(rank.cpus)
    result: Dict[str, Any] = _lists(content)
    return result


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [_lists(one) for one in value]
    return value
