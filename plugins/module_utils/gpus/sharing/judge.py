# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was seen of a GPU to what is advised for it. Pure.

What ran is taken for one workload, and the question is how many like it the GPU has room for. A GPU instance must do in
each sample what was done in the busiest one, as nobody lends it multiprocessors. Sharers by time-slicing need their
part of the time on average only, and of the time less is left. Where both are possible, instances are advised: they are
kept apart. Where nothing was seen, nothing is advised.
"""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Tuple, TypeVar

from ...core.units import size
from ..mig.place import Profile, room
from ..mig.types import Gpu
from .figures import figure
from .types import DEDICATED, MIG, NOT_ENOUGH_SEEN, TIME_SLICE, Advice, Division, Sample, TimeSlice, Use

Number = TypeVar("Number", int, float)


def summed(samples: Sequence[Sample]) -> Use:
    """All samples of a GPU together."""
    if not samples:
        return Use(0.0, 0)

    def every(field: Callable[[Sample], Optional[Number]]) -> List[Number]:
        values = [field(sample) for sample in samples]
        told = [value for value in values if value is not None]
        return told if len(told) == len(values) else []

    busy = every(lambda sample: sample.busy_percent)
    active = every(lambda sample: sample.sm_percent)
    return Use(
        seconds=samples[-1].at_seconds,
        samples=len(samples),
        busy_percent=_mean(busy),
        busy_peak_percent=max(busy, default=None),
        sm_percent=_mean(active),
        sm_peak_percent=max(active, default=None),
        occupancy_percent=_mean(every(lambda sample: sample.occupancy_percent)),
        memory_peak_bytes=max(every(lambda sample: sample.memory_used_bytes), default=None),
        memory_total_bytes=min(every(lambda sample: sample.memory_total_bytes), default=None),
        processes=max(every(lambda sample: sample.processes), default=None),
        instances=tuple(sorted({number for sample in samples for number in sample.instances})),
        exclusive=any(sample.exclusive for sample in samples),
        untold=tuple(sorted({reason for sample in samples for reason in sample.untold})),
    )


def _mean(values: Sequence[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None


def judge(gpu: Gpu, use: Use) -> Advice:
    """What is advised for one GPU."""
    unseen = _not_enough(gpu, use)
    if unseen:
        return Advice(NOT_ENOUGH_SEEN, unseen, use.untold)
    mig, of_mig = _divided(gpu, use)
    time_slice, of_time = _sliced(use)
    notes = tuple(_notes(use))
    if mig is not None:
        if time_slice is not None:
            notes += ("time-slicing has room for {0}, with no isolation".format(time_slice.replicas),)
        return Advice(MIG, of_mig, notes, time_slice, mig)
    if time_slice is not None:
        return Advice(TIME_SLICE, (*of_time, *of_mig), notes, time_slice)
    return Advice(DEDICATED, (*of_time, *of_mig), notes)


def _not_enough(gpu: Gpu, use: Use) -> Tuple[str, ...]:
    """Why nothing can be advised; empty: it can."""
    if gpu.mode:
        idle = [i.placed for i in gpu.instances if i.id not in use.instances]
        told = ["MIG is on, and the driver tells no utilisation of a divided GPU"]
        if use.samples and idle:
            names = ", ".join("{0} at {1}".format(placed.profile.name, placed.start) for placed in idle)
            of = "{0} of its {1} instances".format(len(idle), len(gpu.instances))
            told.append("no process was seen in {0}: {1}".format(of, names))
        return tuple(told)
    if use.samples < figure("least_samples") or use.seconds < figure("least_seconds"):
        return (
            "{0} samples in {1:.0f} s are too few; advice needs {2:.0f} in {3:.0f} s".format(
                use.samples, use.seconds, figure("least_samples"), figure("least_seconds")
            ),
        )
    if use.busy_percent is None:
        return ("the driver did not tell its utilisation each time",)
    if use.memory_peak_bytes is None or not use.memory_total_bytes:
        return ("the driver did not tell its memory each time",)
    if use.busy_percent < figure("idle_percent"):
        ran = "a kernel ran {0:.1f} % of the time".format(use.busy_percent) if use.busy_percent else "nothing ran on it"
        held = ", though {0} process(es) held {1}".format(use.processes, size(use.memory_peak_bytes))
        return (ran + (held if use.processes else ""), "look again while it works")
    return ()


def _divided(gpu: Gpu, use: Use) -> Tuple[Optional[Division], Tuple[str, ...]]:
    """The profile of which most have room, each for what was seen; or None. And why."""
    part = gpu.part
    if gpu.mode is None:
        return None, ("it has no MIG",)
    if not part.profiles or not part.multiprocessors:
        return None, ("what MIG makes of it is not known, as its driver does not tell while MIG is off",)
    peak = use.busy_peak_percent if use.sm_peak_percent is None else use.sm_peak_percent
    wanted = _with_headroom(peak or 0, "multiprocessors_headroom_percent")
    memory = int(_with_headroom(use.memory_peak_bytes or 0, "memory_headroom_percent"))

    def division(profile: Profile) -> Division:
        count = room(part, (), profile)
        unused = 100 * (1 - count * profile.multiprocessors / part.multiprocessors)
        return Division(profile.name, count, profile.multiprocessors, profile.memory_mib << 20, unused)

    able = [
        division(profile)
        for profile in part.profiles
        if profile.plain
        and 100 * profile.multiprocessors >= wanted * part.multiprocessors
        and profile.memory_mib << 20 >= memory
    ]
    # Of equally many the larger ones: what is in no instance is lost.
    best = max(able, key=lambda one: (one.count, -one.unused_percent, one.memory_bytes), default=None)
    told = use.sm_peak_percent is not None
    what = "at most {0:.0f} % of its multiprocessors had work" if told else "a kernel ran at most {0:.0f} % of a sample"
    seen = what.format(peak or 0)
    if best is None or best.count < 2:
        asked = "{0:.0f} % of the multiprocessors and {1}".format(min(wanted, 100), size(memory))
        return None, ("{0}, and no MIG profile with {1} has room twice".format(seen, asked),)
    return best, (
        seen,
        "a {0} has {1:.0f} % of the multiprocessors and {2}, and {3:.0f} % and {4} are needed with headroom".format(
            best.profile,
            100 * best.multiprocessors / part.multiprocessors,
            size(best.memory_bytes),
            wanted,
            size(memory),
        ),
        "{0} have room, and {1:.2f} % of the multiprocessors stay unused".format(best.count, best.unused_percent),
    )


def _sliced(use: Use) -> Tuple[Optional[TimeSlice], Tuple[str, ...]]:
    """How many could take turns, or None. And why."""
    loss = figure("time_slicing_loss_percent")
    busy = use.busy_percent or 0
    memory = int(_with_headroom(use.memory_peak_bytes or 0, "memory_headroom_percent"))
    total = use.memory_total_bytes or 0
    ran = "a kernel ran {0:.0f} % of the time".format(busy)
    if 2 * busy > 100 - loss:
        need = "two such jobs need {0:.0f} % of the time of the GPU, and with time-slicing about {1:.0f} % is usable"
        need = need.format(2 * busy, 100 - loss)
        return None, (ran, need)
    if 2 * memory > total:
        need = "two such jobs need {0} of memory with headroom, and the GPU has {1}"
        return None, (ran, need.format(size(2 * memory), size(total)))
    by_memory = total // memory if memory else figure("most_replicas")
    replicas = int(min((100 - loss) // busy, by_memory, figure("most_replicas")))
    return TimeSlice(replicas, loss, memory), (
        "{0}, so {1} such jobs fit into the {2:.0f} % that is usable with time-slicing".format(
            ran, replicas, 100 - loss
        ),
        "about {0:.0f} % is lost as soon as two share the GPU, and no more with 4 or 8".format(loss),
        "{0} x {1} are {2} of {3}; nothing keeps them apart: one that takes too much memory ends others, too".format(
            replicas, size(memory), size(replicas * memory), size(total)
        ),
    )


def _notes(use: Use) -> List[str]:
    notes = list(use.untold)
    if use.processes is not None and use.processes > 1:
        notes.append("{0} processes were on it at once; all of them are taken for one workload".format(use.processes))
    if use.exclusive:
        notes.append("its compute mode lets one process in: set it to default before it is shared by time-slicing")
    return notes


def _with_headroom(value: float, name: str) -> float:
    return value * (1 + figure(name) / 100)
