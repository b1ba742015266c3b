# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""See how GPUs are used for a while: all of them in turn in one child process, each of which can fail by itself."""

from __future__ import annotations

import contextlib
import functools
import mmap
import signal
import time
from typing import Any, Callable, Iterator, List, Sequence, Tuple, Union

from ...core.host import Host
from ...facts.gpu_info import read_hardware, read_state
from ...facts.gpu_info.ask import Ask
from ...facts.nvml import values
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.gpm import Activity
from ...facts.nvml.session import CALL_TIMEOUT_SECONDS, Survey, Visit, survey
from ..mig.observe import read_gpu
from ..mig.types import Gpu
from .types import Sample

Part = Union[Gpu, Sample]
# So often a pause looks whether the look was ended; NVML's own time limits of one call are seconds.
_GLANCE_SECONDS = 0.2
# As many calls that hang as all other reads wait for.
_HANGS = 6
_EXCLUSIVE_PROCESS = 3  # nvml.h, nvmlComputeMode_t
_LASTED, _LOOKED, _ENDED = range(3)


class Clock:
    """How long a look has lasted, for the children that take it one after another: while a call hangs, it stands still.

    In memory that parent and children share.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._shared = memoryview(mmap.mmap(-1, 24)).cast("d")

    def start(self) -> None:
        """What was before does not count."""
        self._shared[_LOOKED] = time.monotonic()

    def lasted(self) -> float:
        now = time.monotonic()
        self._shared[_LASTED] += now - self._shared[_LOOKED]
        self._shared[_LOOKED] = now
        return self._shared[_LASTED]

    def wait(self, until: float, pause: Callable[[float], None]) -> bool:
        """Wait until the look has lasted so long. False: it was ended meanwhile."""
        while not self.ended:
            left = until - self.lasted()
            if left <= 0:
                return True
            pause(min(left, _GLANCE_SECONDS))
        return False

    @property
    def ended(self) -> bool:
        return bool(self._shared[_ENDED])

    @contextlib.contextmanager
    def ended_by_interrupt(self) -> Iterator[None]:
        """^C ends the look, and what was seen stays; a second one ends the command."""
        again = False

        def end(_number: int, _frame: Any) -> None:
            nonlocal again
            if again:
                raise KeyboardInterrupt
            again = True
            self._shared[_ENDED] = 1.0

        before = signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def look(host: Host, selectors: Sequence[str], seconds: float, interval: float) -> Survey[Part]:
    """Samples of the selected GPUs, every so many seconds; each visit begins with what the GPU is.

    :raises NodeError: when a selector means no GPU of this machine.
    """
    clock = Clock(seconds)
    with clock.ended_by_interrupt():
        return survey(
            functools.partial(_visit, clock=clock, interval=interval),
            selectors,
            total_timeout=seconds + _HANGS * CALL_TIMEOUT_SECONDS,
            host=host,
            in_turn=True,
        )


def parts(visit: Visit[Part]) -> Tuple[Union[Gpu, None], Tuple[Sample, ...]]:
    """What a GPU is, if it told, and its samples."""
    gpus = [part for part in visit.parts if isinstance(part, Gpu)]
    return (gpus[-1] if gpus else None), tuple(part for part in visit.parts if isinstance(part, Sample))


def _visit(gpu: OpenGpu, clock: Clock, interval: float) -> Iterator[Part]:
    (what,) = read_gpu(gpu)
    activity = None if what.mode else Activity(gpu)
    clock.start()
    due = clock.lasted() + interval
    yield what
    while due <= clock.seconds + interval / 2 and clock.wait(due, gpu.nvml.pause):
        sample = _sample(gpu, clock.lasted(), activity)
        due += interval
        if due < clock.lasted():  # what takes longer than the interval skips its turns
            due = clock.lasted() + interval
        yield sample  # the other GPUs take their turns


def _sample(gpu: OpenGpu, at_seconds: float, activity: Union[Activity, None]) -> Sample:
    untold: List[str] = []
    rates = gpu.read("nvmlDeviceGetUtilizationRates").map(lambda answer: values.percent(answer.gpu))
    memory = read_hardware.memory(Ask(gpu, "memory"))
    running = read_state.processes(Ask(gpu, "processes")).running
    mode = gpu.read("nvmlDeviceGetComputeMode").map(int)
    active, occupied = (None, None) if activity is None else activity.since_last()
    if active is not None and active.reason is not None:
        untold.append("a kernel counts as if it used all multiprocessors, as how many is not told: " + active.reason)
    return Sample(
        at_seconds=at_seconds,
        busy_percent=rates.value,
        sm_percent=None if active is None else active.value,
        occupancy_percent=None if occupied is None else occupied.value,
        memory_used_bytes=memory.used_bytes,
        memory_total_bytes=None if memory.total_bytes is None else memory.total_bytes - (memory.reserved_bytes or 0),
        processes=None if running is None else len({process.pid for process in running}),
        instances=tuple(sorted({one.gpu_instance_id for one in running or () if one.gpu_instance_id is not None})),
        exclusive=mode.value == _EXCLUSIVE_PROCESS,
        untold=tuple(untold),
    )
