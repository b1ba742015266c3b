# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""See what the metrics tell: what NVML reads of each GPU, and over a short while the activity of its parts."""

from __future__ import annotations

import functools
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..core.frozen import replaced
from ..core.host import Host
from ..core.resource import NodeError
from ..facts.gpu_info.ask import Ask
from ..facts.gpu_info.gather import Options, assemble, visit
from ..facts.gpu_info.gather import Part as Group
from ..facts.nvml import gpm
from ..facts.nvml.call import ENDS_GPU, CallError, Gpu, Kind, missing
from ..facts.nvml.session import survey
from . import jobs, profiling
from .types import Part, Seen

# No topology and no processes' names: what a graph shows, and what alerts go by.
GROUPS = ("memory", "settings", "clocks", "power", "temperature", "load", "processes", "ecc", "repair", "pcie")
_ACTIVITY = "activity"


def look(host: Host, activity_seconds: float, call_timeout: float = 5.0, folder: str = jobs.FOLDER) -> Seen:
    """``activity_seconds``: how long GPM counts, all GPUs at the same time."""
    started = time.monotonic()
    options = Options(groups=GROUPS, call_timeout_seconds=call_timeout)
    profilers = profiling.jobs(host)
    seconds = None if profilers else max(gpm.LEAST_SECONDS, activity_seconds)
    visitor = functools.partial(_visit, options=options, seconds=seconds)
    answer = survey(visitor, call_timeout=call_timeout, host=host, in_turn=True)
    parts: Dict[Optional[str], Tuple[Part, ...]] = {}
    gpus = []
    for visited in answer.visits:
        one = assemble(visited, options)
        gpus.append(one)
        parts[one.identity.pci_address] = one.groups.get(_ACTIVITY) or (Part(),)
    return Seen(
        status=answer.status.value,
        driver_version=answer.system.driver_version.value,
        gpus=tuple(gpus),
        parts=parts,
        on_bus=len(answer.pci_gpus),
        jobs=jobs.read(host, folder),
        notes=() if answer.error is None else (str(answer.error),),
        profilers=profilers,
        time=time.time(),
        seconds=time.monotonic() - started,
    )


def _visit(gpu: Gpu, options: Options, seconds: Optional[float]) -> Iterator[Group]:
    """In the child. The GPUs take turns, so that their intervals lie beside each other. ``seconds`` None: nothing is
    counted."""
    ask = Ask(gpu, _ACTIVITY)
    counters = [(part, None if seconds is None else _counter(gpu, part)) for part in _parts(gpu, ask)]
    began = time.monotonic()
    yield from visit(gpu, options)
    if seconds is not None and any(counter is not None and counter.told for dummy, counter in counters):
        left = seconds - (time.monotonic() - began)
        if left > 0:
            gpu.nvml.pause(left)
    yield _ACTIVITY, tuple(_counted(part, counter) for part, counter in counters), ask.absent, ask.failed


def _counter(gpu: Gpu, part: Part) -> gpm.Activity:
    return gpm.Activity(gpu, gpm.EVERY, part.instance)


def _counted(part: Part, counter: Optional[gpm.Activity]) -> Part:
    if counter is None:
        return part
    readings = zip(gpm.EVERY, counter.since_last())
    told = {metric: reading.value for metric, reading in readings if reading.value is not None}
    return replaced(part, activity=told or None)


def _parts(gpu: Gpu, ask: Ask) -> List[Part]:
    """The whole GPU, and each of its GPU instances."""
    mode: Any = gpu.read("nvmlDeviceGetMigMode")
    return [Part(), *(_instances(gpu, ask) if mode.ok and mode.value[0] else ())]


def _instances(gpu: Gpu, ask: Ask) -> Iterator[Part]:
    from ..gpus.mig.observe import read_gpu  # seldom wanted

    try:
        divided = tuple(read_gpu(gpu))
    except NodeError as error:
        kind = error.kind if isinstance(error, CallError) else Kind.FAILED
        if kind in ENDS_GPU:
            raise
        ask.take("instances", missing(error.reason, Kind.FAILED))
        return
    for one in divided:
        memory = {part.gi: part for part in one.memory}
        for instance in one.instances:
            of_it = memory.get(instance.id)
            used, total = (None, None) if of_it is None else (of_it.used_bytes, of_it.total_bytes)
            yield Part(instance.id, instance.placed.profile.name, None, used, total)
