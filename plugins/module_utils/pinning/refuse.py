# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that cannot be placed, each with the numbers that can."""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

from .machine import Machine
from .strategy import share_out
from .types import BINDS, ORDERS, Misasked, RankGpu, Refused, Request

Gpus = Optional[Tuple[RankGpu, ...]]


def check(machine: Machine, request: Request, suggest: bool = True) -> Gpus:
    """The GPU of each rank, or None for ranks without one. ``suggest``: look for alternatives when it refuses.

    :raises Refused: when a number is out of range, or there are not as many GPUs.
    """
    for name, value, known in (("bind", request.bind, BINDS), ("order", request.order, ORDERS)):
        if value not in known:
            raise Misasked("{0} {1}".format(name, value), "no such one is known", "use {0}".format(" or ".join(known)))
    cores = len(machine.cores)
    if not cores:
        raise Refused(
            "this node",
            "no CPU that is online may be used here",
            "look at the CPUs that were asked for, and at the affinity and the cpuset of this shell (taskset -pc $$)",
        )
    if request.ranks < 1:
        most = len(machine.gpus) if request.gpus != "none" and machine.gpus else cores
        raise Misasked(
            "{0} ranks".format(request.ranks),
            "a placement needs one at least",
            "ask for 1 to {0}".format(most),
            _works(machine, [dataclasses.replace(request, ranks=ranks, threads=None) for ranks in (1, most)], suggest),
        )
    if request.threads is not None and request.threads < 1:
        raise Misasked(
            "{0} threads a rank".format(request.threads),
            "a rank runs one at least",
            "ask for 1 or more, or leave the number out for a fair share of the cores",
            _works(machine, [dataclasses.replace(request, threads=None)], suggest),
        )
    return _gpus(machine, request, suggest)


def _gpus(machine: Machine, request: Request, suggest: bool) -> Gpus:
    wanted = request.gpus
    if wanted is None:
        wanted = "each" if machine.gpus else "none"
    if wanted == "none":
        return None
    if isinstance(wanted, str):
        if wanted != "each":
            raise Misasked("gpus {0}".format(wanted), "no such word is known", "use each, none or a list of numbers")
        if request.ranks > len(machine.gpus):
            raise _too_few_gpus(machine, request, suggest)
        return machine.gpus[: request.ranks]
    if not wanted:
        raise Misasked("gpus", "the list of numbers is empty", "give a number for each rank, or each or none")
    by_index = {gpu.index: gpu for gpu in machine.gpus}
    for index in wanted:
        if index not in by_index:
            raise Misasked(
                "GPU {0}".format(index),
                "this node has no GPU of that number that answers",
                "use numbers out of {0}".format(_numbers(machine)) if machine.gpus else "ask for gpus none",
            )
    if len(wanted) != request.ranks:
        raise Misasked(
            "{0} ranks".format(request.ranks),
            "{0} GPU number(s) were given, and each rank takes one".format(len(wanted)),
            "give {0} numbers (one may come twice), or ask for {1} rank(s)".format(request.ranks, len(wanted)),
            _works(machine, [dataclasses.replace(request, ranks=len(wanted))], suggest),
        )
    return tuple(by_index[index] for index in wanted)


def _numbers(machine: Machine) -> str:
    return " ".join(str(gpu.index) for gpu in machine.gpus)


def _too_few_gpus(machine: Machine, request: Request, suggest: bool) -> Refused:
    count = len(machine.gpus)
    without = dataclasses.replace(request, gpus="none")
    if not count:
        return Refused(
            "{0} rank(s) with a GPU each".format(request.ranks),
            "this node has no GPU that answers",
            "ask for gpus none",
            _works(machine, [without], suggest),
        )
    return Refused(
        "{0} ranks with a GPU each".format(request.ranks),
        "this node has {0} GPU(s) to give".format(count),
        "ask for {0} rank(s), for gpus none, or list a GPU for each rank (a number may come twice)".format(count),
        _works(machine, [dataclasses.replace(request, ranks=count), without], suggest),
    )


def too_few_cores(machine: Machine, request: Request, gpus: Gpus) -> Refused:
    """What to say when no way of sharing out the cores works."""
    cores, per_core = len(machine.cores), machine.threads_per_core
    sharing = dataclasses.replace(request, share_cores=True)
    need = -(-(request.threads or 1) // per_core)
    fewer = _with_ranks(request, cores // need) if cores >= need else None
    where = "{0} core(s)".format(cores)
    if per_core > 1:
        where += " with {0} hardware threads each".format(per_core)
    if machine.limited:
        where += " (the others are not in this cpuset or affinity)"
    if request.ranks > cores:
        return Refused(
            "{0} ranks".format(request.ranks),
            "there are {0} to use, and two ranks never share one unless they are asked to".format(where),
            "ask for {0} rank(s) or fewer, or let them share cores".format(cores // need or cores),
            _works(machine, [one for one in (fewer, sharing) if one]),
        )
    most = cores // request.ranks * per_core
    remedy = "ask for {0} thread(s) a rank".format(most)
    if fewer is not None:
        remedy += ", or for {0} rank(s) of {1}".format(fewer.ranks, request.threads)
    return Refused(
        "{0} rank(s) of {1} threads".format(request.ranks, request.threads),
        "there are {0} to use, {1} for each rank".format(where, cores // request.ranks),
        remedy + ", or let ranks share cores",
        _works(machine, [one for one in (dataclasses.replace(request, threads=most), fewer, sharing) if one]),
    )


def _with_ranks(request: Request, ranks: int) -> Request:
    gpus = request.gpus[:ranks] if isinstance(request.gpus, tuple) else request.gpus
    return dataclasses.replace(request, ranks=ranks, gpus=gpus)


def _works(machine: Machine, requests: List[Request], suggest: bool = True) -> Tuple[Request, ...]:
    """Those of the requests that can be placed: a remedy that fails in its turn is none."""
    found = []
    for request in requests if suggest else ():
        try:
            gpus = check(machine, request, suggest=False)
        except Refused:
            continue
        if share_out(machine, request, gpus) is not None:
            found.append(request)
    return tuple(found)
