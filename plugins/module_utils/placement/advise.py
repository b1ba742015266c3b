# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a placement should tell its reader: what is uneven, far, idle or shared, with the numbers that would not be."""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from ..core.frozen import replaced
from ..facts.sysfs import format_cpulist
from .machine import Machine
from .shares import clear_share, is_clear
from .strategy import Shares, share_out, threads_of
from .types import RankGpu, Request

Gpus = Optional[Tuple[RankGpu, ...]]
_SEARCH = 16  # how far from the number of ranks an even one is looked for


def warnings(machine: Machine, request: Request, shares: Shares, gpus: Gpus) -> Tuple[str, ...]:
    found = list(machine.lost_gpus)
    if shares.overlapping:
        found.append("ranks share cores, as asked: {0} core(s) serve {1} ranks".format(_used(shares), request.ranks))
    found += _uneven(machine, request, shares)
    found += _far(machine, request, shares)
    if shares.threads_used > 1 and not request.smt:
        found.append("ranks use all hardware threads of their cores: with one thread a core there are too few")
    found += _caches(machine, request, shares)
    found += _fewer_threads(machine, shares)
    found += _idle(machine, request, shares, gpus)
    found += _left_over(machine, request, shares, gpus)
    return tuple(found)


def _sizes(shares: Shares) -> Set[int]:
    return {len(share) for share in shares.cores}


def _used(shares: Shares) -> int:
    return len({core for share in shares.cores for core in share})


def _uneven(machine: Machine, request: Request, shares: Shares) -> List[str]:
    sizes = sorted(_sizes(shares))
    if len(sizes) < 2:
        return []
    nodes: Dict[int, List[int]] = {}
    for (_gpu, home), share in zip(shares.homes, shares.cores):
        nodes.setdefault(home, []).append(len(share))
    parts = [
        "NUMA node {0} has {1} rank(s) of {2} core(s)".format(home, len(found), "/".join(map(str, sorted(set(found)))))
        for home, found in sorted(nodes.items())
    ]
    text = "the ranks are uneven, and a job waits for its slowest: " + ", ".join(parts)
    even = _even(machine, request)
    if even:
        text += "; {0} ranks would be even".format(" or ".join(str(one) for one in even))
    return [text + "; {0} thread(s) a rank would be too".format(sizes[0] * shares.threads_used)]


def _even(machine: Machine, request: Request) -> List[int]:
    """The next smaller and the next larger number of ranks that get equal shares."""
    found = []
    for step in (-1, 1):
        for count in range(1, _SEARCH + 1):
            ranks = request.ranks + step * count
            if ranks < 1:
                break
            gpus: Gpus = None
            if request.gpus != "none" and machine.gpus:
                if isinstance(request.gpus, tuple) or ranks > len(machine.gpus):
                    break
                gpus = machine.gpus[:ranks]
            shares = share_out(machine, replaced(request, ranks=ranks), gpus)
            if shares is None or shares.overlapping:
                break
            if len(_sizes(shares)) == 1 and not shares.spanning:
                found.append(ranks)
                break
    return found


def _far(machine: Machine, request: Request, shares: Shares) -> List[str]:
    found = []
    unknown = [gpu.index for gpu, dummy in shares.homes if gpu and gpu.numa_node is None and len(machine.nodes) > 1]
    if unknown:
        found.append(
            "the NUMA node of GPU {0} is not known (the firmware tells none): its rank may sit away from it".format(
                format_cpulist(unknown)
            )
        )
    away = [gpu.index for gpu, home in shares.homes if gpu and gpu.numa_node not in (None, home)]
    if away:
        found.append(
            "the rank of GPU {0} sits away from it: the GPU's NUMA node has no core to use".format(format_cpulist(away))
        )
    wide = [rank for rank, share in enumerate(shares.cores) if len({core.node for core in share}) > 1]
    if wide:
        text = "rank {0} reaches over more than one NUMA node".format(format_cpulist(wide))
        inside = _inside(machine, shares)
        if inside:
            text += "; {0} thread(s) a rank stay inside".format(inside * shares.threads_used)
        if request.threads and shares.threads_used == 1 and inside * machine.threads_per_core >= request.threads:
            text += "; so does using all hardware threads of a core (smt)"
        found.append(text)
    lone = [
        rank
        for rank, ((_gpu, home), share) in enumerate(zip(shares.homes, shares.cores))
        if rank not in wide and any(core.node != home for core in share)
    ]
    if lone:
        found.append("rank {0} found no core on its own NUMA node".format(format_cpulist(lone)))
    return found


def _inside(machine: Machine, shares: Shares) -> int:
    """How many cores each rank could have inside its own NUMA node."""
    homes = [home for dummy, home in shares.homes]
    return min(len(machine.nearest(home).cores) // homes.count(home) for home in set(homes))


def _caches(machine: Machine, request: Request, shares: Shares) -> List[str]:
    if request.bind == "numa" or shares.spanning or shares.overlapping:
        return []
    homes = [home for dummy, home in shares.homes]
    split, clear = [], 0
    for node in machine.nodes:
        ranks = homes.count(node.id)
        if not ranks:
            continue
        need = len(shares.cores[homes.index(node.id)])
        if not is_clear(node.cores, ranks, need):
            split.append(node.id)
            fits = clear_share(node.cores, ranks, need)
            clear = min(clear, fits) if clear else fits
    if not split:
        return []
    text = "ranks share level-3 caches with their neighbours on NUMA node {0}".format(format_cpulist(split))
    return [text + ("; {0} thread(s) a rank would not".format(clear * shares.threads_used) if clear else "")]


def _fewer_threads(machine: Machine, shares: Shares) -> List[str]:
    """Where all hardware threads are used, and some cores have fewer of them (a cpuset, a CPU offline, two kinds)."""
    poor = [core for core in machine.cores if len(core.cpus) < min(shares.threads_used, machine.threads_per_core)]
    if not poor:
        return []
    text = "{0} core(s) have fewer than {1} hardware threads to use (CPU {2}): the ranks there can run fewer threads"
    return [text.format(len(poor), shares.threads_used, format_cpulist(cpu for core in poor for cpu in core.cpus))]


def _all_nodes(machine: Machine, request: Request, shares: Shares, gpus: Gpus) -> Optional[int]:
    """The number of threads a rank with which no NUMA node stays idle."""
    threads = threads_of(machine.cores, shares.threads_used) // len(shares.homes)
    found = share_out(machine, replaced(request, threads=threads, whole_share=False), gpus)
    busy = {core.node for share in found.cores for core in share} if found else set()
    return threads if len(busy) == len(machine.nodes) else None


def _idle(machine: Machine, request: Request, shares: Shares, gpus: Gpus) -> List[str]:
    found = []
    if gpus is not None:
        used = {gpu.index for gpu in gpus}
        idle = [gpu.index for gpu in machine.gpus if gpu.index not in used]
        if idle:
            found.append(
                "GPU {0} has no rank: {1} of {2} GPUs are used".format(
                    format_cpulist(idle), len(used), len(machine.gpus)
                )
            )
    busy = {core.node for share in shares.cores for core in share}
    empty = [node for node in machine.nodes if node.id not in busy]
    if empty:
        cores = sum(len(node.cores) for node in empty)
        text = "NUMA node {0} has no rank: {1} of {2} cores stay idle".format(
            format_cpulist(node.id for node in empty), cores, len(machine.cores)
        )
        if gpus is None:
            text += "; a multiple of {0} ranks uses all nodes".format(len(machine.nodes))
        else:
            threads = _all_nodes(machine, request, shares, gpus)
            text += "; {0} thread(s) a rank use them".format(threads) if threads else ""
        found.append(text)
    return found


def _left_over(machine: Machine, request: Request, shares: Shares, gpus: Gpus) -> List[str]:
    """Cores that a fair share cannot give out on nodes that have ranks: worth a word above a quarter of them."""
    if request.threads or gpus is not None or shares.spanning or shares.overlapping or len(_sizes(shares)) > 1:
        return []
    busy = [node for node in machine.nodes if any(home == node.id for dummy, home in shares.homes)]
    cores = sum(len(node.cores) for node in busy)
    if (cores - _used(shares)) * 4 <= cores:
        return []
    size = _sizes(shares).pop()
    return [
        "{0} of {1} cores are left over; as many as {2} ranks have {3} core(s) each".format(
            cores - _used(shares), cores, sum(len(node.cores) // size for node in busy), size
        )
    ]
