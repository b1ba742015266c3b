# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum up the phases of a Horovod timeline. Pure.

Each tensor is a "process" of the trace. ``NEGOTIATE_...`` begins when the first rank is ready for it and ends when the
last is; each rank that gets ready is a tick in it with its number. Then comes the operation (``ALLREDUCE`` ...), with
activities one after another inside. What is inside counts for itself and not for what it is in, so shares add up.

Names of phases: horovod 0.28.1, horovod/common/common.h; SCHEDULE is of older ones.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ....core.frozen import frozen
from ....core.one_line import line

NEGOTIATION, WAITING, QUEUED, COPIES, NCCL, MPI, GLOO, CCL, SETUP, OTHER = GROUPS = (
    "negotiation",
    "waiting for data",
    "queued",
    "copies",
    "NCCL",
    "MPI",
    "Gloo",
    "oneCCL",
    "set-up",
    "rest of the operations",
)
_WAITS = ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA")
_STARTS = (
    ("NEGOTIATE_", NEGOTIATION),
    ("NCCL_", NCCL),
    ("MPI_", MPI),
    ("GLOO_", GLOO),
    ("CCL_", CCL),
    ("MEMCPY_", COPIES),
    ("COPY_", COPIES),
    ("INIT_", SETUP),
    ("ALLOCATE_", SETUP),
)
_NAME, _NAMES_MAX, _TENSORS_MAX, _DEPTH_MAX, _RANKS_MAX = 60, 200, 10**6, 16, 10**5
_MORE = "(other names)"
# Of ranks that are late by chance, each is the last equally often; twice that is no chance, from so many on.
_LATE_FACTOR, _LATE_LEAST = 2.0, 20
# Those of one cycle (HOROVOD_CYCLE_TIME, 1 ms) are taken down in the order of their numbers, which says nothing.
_CYCLE_MICROSECONDS = 1000.0


def group(name: str) -> str:
    if name in _WAITS:
        return WAITING
    if name in ("QUEUE", "SCHEDULE"):
        return QUEUED
    return next((found for start, found in _STARTS if name.startswith(start)), OTHER)


@frozen
class Phase:
    """Times in seconds, summed up over all tensors; of those that are fused, each counts."""

    name: str
    group: str
    count: int
    seconds: float
    longest: float
    share: float


@frozen
class Late:
    """The rank that was ready last most often: ``last`` of the ``of`` negotiations that waited for one, ``behind`` the
    first by so many seconds on average."""

    rank: int
    last: int
    of: int
    behind: float


@frozen
class Summary:
    """``seconds``: from the first event to the last."""

    events: int
    tensors: int
    cycles: int
    seconds: float
    phases: Tuple[Phase, ...]
    late: Optional[Late]
    ranks: int
    notes: Tuple[str, ...]

    def seconds_of(self, group_name: str) -> float:
        return sum(one.seconds for one in self.phases if one.group == group_name)

    def share_of(self, group_name: str) -> float:
        return sum(one.share for one in self.phases if one.group == group_name)


class _Open:
    """A phase of a tensor that has begun. ``inside``: microseconds of what was in it."""

    __slots__ = ("first", "inside", "last", "most", "name", "rank", "start")

    def __init__(self, name: str, start: float) -> None:
        self.name, self.start, self.inside = name, start, 0.0
        self.first = self.last = -1.0
        self.rank = self.most = -1


class Sums:
    """Takes events in any number; what is left open at the end counts for nothing."""

    def __init__(self) -> None:
        self._open: Dict[Any, List[_Open]] = {}
        self._sums: Dict[str, List[float]] = {}
        self._last: Dict[int, List[float]] = {}
        self._ranks = 0
        self._first, self._until = math.inf, -math.inf
        self.events = self.cycles = self.odd = self.beyond = 0

    def add(self, event: Mapping[str, Any]) -> None:
        phase, when = event.get("ph"), event.get("ts")
        if phase == "M":
            return
        self.events += 1
        if not isinstance(when, (int, float)) or isinstance(when, bool) or not math.isfinite(when):
            self.odd += 1
            return
        self._first, self._until = min(self._first, when), max(self._until, when)
        if phase == "i":
            self.cycles += event.get("name") == "CYCLE_START"
            return
        tensor = event.get("pid")
        if not isinstance(tensor, int):
            self.odd += 1
            return
        if tensor not in self._open and len(self._open) >= _TENSORS_MAX:
            self.beyond += 1
            return
        opened = self._open.setdefault(tensor, [])
        if phase == "B":
            if len(opened) >= _DEPTH_MAX:
                self.odd += 1
                return
            opened.append(_Open(_named(event.get("name")), when))
        elif phase == "E" and opened:
            self._close(opened, when)
        elif phase == "X" and opened and opened[-1].name.startswith("NEGOTIATE_"):
            _ready(opened[-1], event.get("name"), when)
        else:
            self.odd += 1

    def _close(self, opened: List[_Open], when: float) -> None:
        one = opened.pop()
        took = when - one.start
        if took < 0:
            self.odd += 1
            return
        if opened:
            opened[-1].inside += took
        name = one.name if one.name in self._sums or len(self._sums) < _NAMES_MAX else _MORE
        sums = self._sums.setdefault(name, [0, 0.0, 0.0])
        sums[0] += 1
        own = max(0.0, took - one.inside)
        sums[1] += own
        sums[2] = max(sums[2], own)
        self._ranks = max(self._ranks, one.most + 1)
        if one.last - one.first > _CYCLE_MICROSECONDS:
            late = self._last.setdefault(one.rank, [0, 0.0])
            late[0] += 1
            late[1] += one.last - one.first

    @property
    def left_open(self) -> int:
        return sum(map(len, self._open.values()))

    def summary(self) -> Summary:
        whole = sum(seconds for dummy, seconds, dummy2 in self._sums.values())
        phases = [
            Phase(name, group(name), int(count), took / 1e6, longest / 1e6, took / whole if whole else 0.0)
            for name, (count, took, longest) in self._sums.items()
        ]
        phases.sort(key=lambda one: (GROUPS.index(one.group), -one.seconds, one.name))
        span = max(0.0, self._until - self._first) / 1e6 if self.events > self.odd else 0.0
        late = self._late()
        found = Summary(self.events, len(self._open), self.cycles, span, tuple(phases), late, self._ranks, ())
        return Summary(self.events, len(self._open), self.cycles, span, tuple(phases), late, self._ranks, notes(found))

    def _late(self) -> Optional[Late]:
        negotiations = sum(int(count) for count, dummy in self._last.values())
        if not negotiations:
            return None
        rank = max(self._last, key=lambda one: (self._last[one][0], -one))
        count, behind = self._last[rank]
        return Late(rank, int(count), negotiations, behind / count / 1e6)


def _named(name: Any) -> str:
    return line(name[: 4 * _NAME])[:_NAME] if isinstance(name, str) and name else "(no name)"


def _ready(one: _Open, name: Any, when: float) -> None:
    """A rank is ready for this tensor."""
    if isinstance(name, str) and name.isascii() and name.isdigit() and len(name) <= 6 and int(name) < _RANKS_MAX:
        if one.first < 0:
            one.first = when
        one.last, one.rank = when, int(name)
        one.most = max(one.most, one.rank)


def notes(found: Summary) -> Tuple[str, ...]:
    """What the figures say."""
    told: List[str] = []
    names = {one.name for one in found.phases}
    reduced = [name for name in ("MPI_ALLREDUCE", "GLOO_ALLREDUCE", "CCL_ALLREDUCE") if name in names]
    if reduced and not any(one.group == NCCL for one in found.phases):
        told.append(
            "NCCL was not used: gradients went through {0}; build Horovod with HOROVOD_GPU_OPERATIONS=NCCL, and look "
            "for '[X] NCCL' in what 'horovodrun --check-build' prints".format(" and ".join(reduced))
        )
    late = found.late
    if (
        late is not None
        and late.of >= _LATE_LEAST
        and found.ranks > 1
        and late.last * found.ranks > _LATE_FACTOR * late.of
    ):
        told.append(
            "rank {0} was the last in {1:.0f} % of the {2} negotiations that waited for one, {3:.1f} ms after the "
            "first on average; look at its node, its GPU and its data".format(
                late.rank, 100.0 * late.last / late.of, late.of, 1000 * late.behind
            )
        )
    return tuple(told)
