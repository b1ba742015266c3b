# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that cannot be placed, each with the numbers that can."""

from __future__ import annotations

from typing import Iterable, List, Optional, Tuple

from ..core.frozen import replaced
from .machine import Machine
from .strategy import share_out, threads_of
from .types import BINDS, ORDERS, Misasked, RankGpu, Refused, Request

Gpus = Optional[Tuple[RankGpu, ...]]


def check(machine: Machine, request: Request, suggest: bool = True) -> Gpus:
    """The GPU of each rank, or None for ranks without one. ``suggest``: look for alternatives when it refuses.

    :raises Refused: when a number is out of range, or there are not as many GPUs.
    """
    for name, value, known in (("bind", request.bind, BINDS), ("order", request.order, ORDERS)):
        if value not in known:
            raise Misasked("{0} {1}".format(name, value), "no such one is known", "use {0}".format(" or ".join(known)))
    if not machine.cores:
        raise Refused(
            "this node",
            "no CPU that is online may be used here",
            "look at the CPUs that were asked for, and at the affinity and the cpuset of this shell (taskset -pc $$)",
        )
    if request.ranks < 1:
        most = _fitting(machine, replaced(request, ranks=_most_ranks(machine, request))) if suggest else None
        one = _fitting(machine, replaced(request, ranks=1)) if suggest else None
        raise Misasked(
            "{0} ranks".format(request.ranks),
            "a placement needs one at least",
            "ask for 1 to {0}{1}".format(most.ranks, _threads(most, request)) if most else "ask for 1 or more",
            tuple(found for found in (one, most) if found),
        )
    if request.threads is not None and request.threads < 1:
        fair = _placeable(machine, [replaced(request, threads=None)]) if suggest else ()
        raise Misasked(
            "{0} threads a rank".format(request.threads),
            "a rank runs one at least",
            "ask for 1 or more" + (", or leave the number out for a fair share of the cores" if fair else ""),
            fair,
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
        raise _other_count(machine, request, wanted, suggest)
    return tuple(by_index[index] for index in wanted)


def _numbers(machine: Machine) -> str:
    return " ".join(str(gpu.index) for gpu in machine.gpus)


def _other_count(machine: Machine, request: Request, wanted: Tuple[int, ...], suggest: bool) -> Refused:
    full = replaced(request, gpus=(wanted * request.ranks)[: request.ranks])
    fewer = _fitting(machine, replaced(request, ranks=len(wanted))) if suggest else None
    give = ["give {0} numbers (one may come twice)".format(request.ranks)] if _placeable(machine, [full]) else []
    ask = ["ask " + _offer(fewer, request)] if fewer else []
    return Misasked(
        "{0} ranks".format(request.ranks),
        "{0} GPU number(s) were given, and each rank takes one".format(len(wanted)),
        ", or ".join(give + ask) or "give as many numbers as ranks",
        (fewer,) if fewer else (),
    )


def _too_few_gpus(machine: Machine, request: Request, suggest: bool) -> Refused:
    count = len(machine.gpus)
    fewer = _fitting(machine, replaced(request, ranks=count)) if suggest and count else None
    without = _placeable(machine, [replaced(request, gpus="none")]) if suggest else ()
    offers = [_offer(fewer, request)] if fewer else []
    offers += ["for gpus none"] if without else []
    listed = [replaced(request, gpus=(machine.gpus[0].index,) * request.ranks)] if count else []
    others = ["list a GPU for each rank (a number may come twice)"] if _placeable(machine, listed) else []
    return Refused(
        "{0} rank{1} with a GPU each".format(request.ranks, "s" if count else "(s)"),
        "this node has {0} GPU(s) to give".format(count) if count else "this node has no GPU that answers",
        _joined(offers, others) or "ask for fewer ranks, for fewer threads a rank, and without GPUs",
        tuple(one for one in (fewer, *without) if one),
    )


def too_few_cores(machine: Machine, request: Request, gpus: Gpus) -> Refused:
    """What to say when no way of sharing out the cores works."""
    cores, per_core = len(machine.cores), machine.threads_per_core
    where = "{0} core(s)".format(cores)
    if per_core > 1:
        poor = any(len(core.cpus) < per_core for core in machine.cores)
        where += " with {0}{1} hardware threads each".format("up to " if poor else "", per_core)
    if machine.limited:
        where += " (the others are not in this cpuset or affinity)"
    less = _fitting(machine, request) if request.threads and request.ranks <= cores else None
    fewer = _fewer_ranks(machine, request)
    sharing = _placeable(machine, [replaced(request, share_cores=True)])
    remedy = _joined(
        [_offer(one, request) for one in (less, fewer) if one],
        ["let ranks share cores (gpunode pin --share-cores)"] if sharing else [],
    )
    found = tuple(one for one in (less, fewer, *sharing) if one)
    if request.ranks > cores:
        return Refused(
            "{0} ranks".format(request.ranks),
            "there are {0} to use, and two ranks never share one unless they are asked to".format(where),
            remedy,
            found,
        )
    return Refused(
        "{0} rank(s) of {1} threads".format(request.ranks, request.threads),
        "there are {0} to use, {1} for each rank".format(where, cores // request.ranks),
        remedy,
        found,
    )


# What would work: each offer has been placed before it is told --------------------------------------------


def _offer(found: Request, asked: Request) -> str:
    """``for 7 rank(s) of 13 thread(s)``, as far as it differs from what was asked."""
    if found.ranks == asked.ranks:
        return "for {0} thread(s) a rank".format(found.threads)
    return "for {0} rank(s){1}".format(found.ranks, _threads(found, asked))


def _joined(asks: List[str], others: List[str]) -> str:
    return ", or ".join((["ask " + ", or ".join(asks)] if asks else []) + others)


def _threads(found: Request, asked: Request) -> str:
    return "" if asked.threads is None else " of {0} thread(s)".format(found.threads)


def _most_ranks(machine: Machine, request: Request) -> int:
    if isinstance(request.gpus, tuple):
        return max(1, len(request.gpus))
    return len(machine.gpus) if request.gpus != "none" and machine.gpus else len(machine.cores)


def _fitting(machine: Machine, request: Request) -> Optional[Request]:
    """The request with as many of its threads a rank as find room."""
    if request.threads is None:
        return next(iter(_placeable(machine, [request])), None)
    room = threads_of(machine.cores, machine.threads_per_core) // max(request.ranks, 1)
    most = request.threads if request.share_cores else min(request.threads, room)
    return _first(machine, (replaced(request, threads=threads) for threads in range(most, 0, -1)))


def _fewer_ranks(machine: Machine, request: Request) -> Optional[Request]:
    """The request with the most ranks, fewer than it has, that find room with all their threads; else with less."""
    room = threads_of(machine.cores, machine.threads_per_core) // (request.threads or 1)
    most = min(request.ranks - 1, len(machine.cores), room)
    found = _first(machine, (_with_ranks(request, ranks) for ranks in range(most, 0, -1)))
    if found is None and request.ranks > len(machine.cores):
        found = _fitting(machine, _with_ranks(request, len(machine.cores)))
    return found


def _with_ranks(request: Request, ranks: int) -> Request:
    gpus = request.gpus[:ranks] if isinstance(request.gpus, tuple) else request.gpus
    return replaced(request, ranks=ranks, gpus=gpus)


def _first(machine: Machine, requests: Iterable[Request]) -> Optional[Request]:
    return next((found for one in requests for found in _placeable(machine, [one])), None)


def _placeable(machine: Machine, requests: List[Request]) -> Tuple[Request, ...]:
    """Those of the requests that can be placed: a remedy that fails in its turn is none."""
    found = []
    for request in requests:
        try:
            gpus = check(machine, request, suggest=False)
        except Refused:
            continue
        if share_out(machine, request, gpus) is not None:
            found.append(request)
    return tuple(found)
