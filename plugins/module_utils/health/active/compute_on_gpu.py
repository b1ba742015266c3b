# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic on one GPU with its own kernels (:mod:`.ptx.arithmetic`), which the driver compiles.

In a launch, each multiprocessor (SM) does the same work on the same operands, so their results must be equal bit by
bit, and their times nearly so.
"""

from __future__ import annotations

import array
import collections
import ctypes
import dataclasses
import functools
import statistics
import struct
from typing import Any, Counter, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ...core.resource import NodeError
from . import apart, equality
from .cuda import Cuda, Device, PtxRefused
from .ptx import arithmetic
from .ptx.arithmetic import WARPS, Kind

_HANG_SECONDS = 30.0  # on a node with busy processors, in addition to ten times the budget of a kind
# All GPUs do exactly these rounds once, so their results can be compared.
_COMMON_ROUNDS = 256
_TRIAL_ROUNDS = 4096
_MOST_ROUNDS = 2**26
_TRIAL_SECONDS, _LAUNCH_SECONDS, _FEWEST_LAUNCHES = 0.01, 0.03, 3
_SEED = 20261127
_UNWRITTEN = 0xA5A5A5A5  # a multiprocessor with this number does not exist


@dataclasses.dataclass(frozen=True)
class Done:
    """One kind of arithmetic on one GPU.

    ``rate``: in 10^12 operations a second, the median of ``launches``. ``result``: checksums of :data:`_COMMON_ROUNDS`
    rounds, of the majority. ``wrong``: (SM, launches) that differ from the majority. ``undecided``: launches without a
    majority. ``changed``: launches whose majority is not that of the first one. ``times``: of each SM in relation to
    the median one. ``idle``: how many SMs ran no block in any launch, so nothing is known of them. ``memory``: with a
    wrong result, the memory that the results are written to does not keep what is written. ``refused``: the driver does
    not accept its kernel, and nothing else is known.
    """

    kind: Kind
    rate: float = 0.0
    launches: int = 0
    result: Optional[bytes] = None
    wrong: Tuple[Tuple[int, int], ...] = ()
    undecided: int = 0
    changed: int = 0
    times: Mapping[int, float] = dataclasses.field(default_factory=dict)
    idle: int = 0
    memory: bool = False
    refused: Optional[NodeError] = None


@dataclasses.dataclass(frozen=True)
class Answer:
    """``failed``: the kind that ended with an ``error``. The kinds after it were not run."""

    done: Tuple[Done, ...]
    failed: Optional[Kind] = None
    error: Optional[NodeError] = None


def compute(cuda: Cuda, seconds: float) -> Answer:
    """All kinds on the one device that this process sees."""
    cuda.shows(1)
    device = cuda.open(0)
    kinds = arithmetic.kinds_of(device.capability)
    all_shares = sum(kind.share for kind in kinds)
    launcher = _Launcher(device)
    done: List[Done] = []
    for kind in kinds:
        budget = seconds * kind.share / all_shares
        apart.doing(kind.title, _HANG_SECONDS + 10.0 * budget)
        try:
            done.append(_one(launcher, kind, budget))
        except PtxRefused as error:
            done.append(Done(kind, refused=error))
        except NodeError as error:
            return Answer(tuple(done), kind, error)
    return Answer(tuple(done))


@dataclasses.dataclass(frozen=True)
class Launch:
    """``multiprocessors``, ``nanoseconds``: of each warp. ``seconds``: of the whole launch."""

    seconds: float
    sums: bytes
    multiprocessors: Sequence[int]
    nanoseconds: Sequence[int]


class _Launcher:
    """One block on each SM of a device, and the memory for its results."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.blocks = device.multiprocessors
        self._warps = self.blocks * WARPS
        self._sums = device.memory(self._warps * equality.LINE)
        self._times = device.memory(self._warps * 8)

    def kernel(self, kind: Kind) -> Any:
        return self._device.kernels(arithmetic.text(kind), [kind.name])[0]

    def launch(self, kernel: Any, rounds: int) -> Launch:
        """:raises NodeError: a warp wrote no result, or a call failed."""
        device = self._device
        device.fill(self._times, _UNWRITTEN, 2 * self._warps)
        arguments = (
            ctypes.c_uint32(rounds),
            ctypes.c_uint64(self._sums),
            ctypes.c_uint64(self._times),
            ctypes.c_uint32(_SEED),
        )
        seconds = device.seconds_of(
            functools.partial(device.launch, kernel, self.blocks, arithmetic.THREADS, *arguments)
        )
        pairs = array.array("I", device.read(self._times, 8 * self._warps))
        if _UNWRITTEN in pairs[::2]:
            remedy = "look at the kernel log for an Xid, then run it again"
            raise NodeError("CUDA", "a kernel ended without an error and wrote no result", remedy)
        return Launch(seconds, device.read(self._sums, self._warps * equality.LINE), pairs[::2], pairs[1::2])

    def memory_fails(self) -> bool:
        """Whether the memory of the results changes what is written, which looks as if an SM computes wrong."""
        words = self._warps * equality.LINE // 4
        for word in (0, 0xFFFFFFFF):
            self._device.fill(self._sums, word, words)
            if self._device.read(self._sums, 4 * words) != struct.pack("<I", word) * words:
                return True
        return False


def rounds_for(rounds: int, seconds: float, wanted: float) -> int:
    """Pure. How many rounds take ``wanted`` seconds, if ``rounds`` took ``seconds``."""
    return max(1, min(_MOST_ROUNDS, int(rounds * wanted / seconds)))


def _one(launcher: _Launcher, kind: Kind, seconds: float) -> Done:
    kernel = launcher.kernel(kind)
    tally = Tally()
    result = tally.take(launcher.launch(kernel, _COMMON_ROUNDS), _COMMON_ROUNDS)
    # Clocks rise when the load begins, so the second trial is longer than the first one.
    rounds = _TRIAL_ROUNDS
    for wanted in (_TRIAL_SECONDS, _LAUNCH_SECONDS):
        trial = launcher.launch(kernel, rounds)
        tally.take(trial, rounds)
        rounds = rounds_for(rounds, trial.seconds, wanted)
    rates: List[float] = []
    times: List[Mapping[int, float]] = []
    spent = 0.0
    while spent < seconds or len(rates) < _FEWEST_LAUNCHES:
        one = launcher.launch(kernel, rounds)
        tally.take(one, rounds)
        times.append(equality.relative_times(one.multiprocessors, one.nanoseconds))
        rates.append(kind.operations * launcher.blocks * WARPS * rounds / one.seconds / 1e12)
        spent += one.seconds
    return Done(
        kind,
        statistics.median(rates),
        tally.launches,
        result,
        tuple(sorted(tally.wrong.items())),
        tally.undecided,
        tally.changed,
        equality.usual_times(times),
        launcher.blocks - len(tally.seen),
        bool(tally.wrong or tally.undecided or tally.changed) and launcher.memory_fails(),
    )


class Tally:
    """Counts launches with a wrong result. Launches of the same rounds must have the same result as the first one."""

    def __init__(self) -> None:
        self.launches, self.undecided, self.changed = 0, 0, 0
        self.wrong: Counter[int] = collections.Counter()
        self.seen: Set[int] = set()
        self._first: Dict[int, bytes] = {}

    def take(self, launch: Launch, rounds: int) -> Optional[bytes]:
        """The result of the majority, or None."""
        self.launches += 1
        split = equality.split(launch.sums, launch.multiprocessors)
        self.wrong.update(split.odd)
        self.seen.update(launch.multiprocessors)
        if split.common is None:
            self.undecided += 1
        elif split.common != self._first.setdefault(rounds, split.common):
            self.changed += 1
        return split.common
