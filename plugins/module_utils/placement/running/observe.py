# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at processes several times, and ask NVML which of them have which GPU."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from ...facts import gpu_info
from ...facts.nvml.status import Status
from . import read_proc
from .types import GpuUse, Process, State, Thread

# One look sees who runs at one moment; three tell a thread that works from one that woke up for a blink.
LOOKS, PAUSE_SECONDS = 3, 0.1
_GONE = ("Z", "X")  # a zombie has ended, and waits for its parent to notice


def observe(
    host: Host,
    pids: Sequence[int],
    ask_nvml: bool = True,
    looks: int = LOOKS,
    pause: Callable[[float], None] = time.sleep,
) -> State:
    """The processes as they are now; those that end meanwhile are left out.

    :raises NodeError: when all of them have ended.
    """
    seen: List[Dict[Tuple[int, int], Tuple[str, int]]] = []
    for number in range(looks):
        if number:
            pause(PAUSE_SECONDS)
        seen.append(_look(host, pids))
    found = [(pid, _process(host, pid, seen)) for pid in pids]
    processes = tuple(process for dummy, process in found if process is not None)
    if not processes:
        raise NodeError(
            "process {0}".format(", ".join(str(pid) for pid in pids)),
            "it ended while it was being looked at" if len(pids) == 1 else "they ended while they were being looked at",
            "run this while the application runs",
        )
    gpus, reason = _gpus() if ask_nvml else ((), None)
    return State(processes, gpus, reason, tuple(pid for pid, process in found if process is None))


def _look(host: Host, pids: Sequence[int]) -> Dict[Tuple[int, int], Tuple[str, int]]:
    seen = {}
    for pid in pids:
        for tid in read_proc.tids(host, pid):
            found = read_proc.stat(host, pid, tid)
            if found is not None:
                seen[pid, tid] = (found.state, found.last_cpu)
    return seen


def _process(host: Host, pid: int, seen: Sequence[Dict[Tuple[int, int], Tuple[str, int]]]) -> Optional[Process]:
    found = read_proc.stat(host, pid)
    if found is None or found.state in _GONE:
        return None
    threads = []
    for tid in read_proc.tids(host, pid):
        own = read_proc.stat(host, pid, tid)
        cpus = read_proc.allowed(host, pid, tid)
        if own is not None and cpus:
            threads.append(Thread(tid, own.name, cpus, tuple(look.get((pid, tid)) for look in seen)))
    command = read_proc.command(host, pid)
    if not threads or command is None:
        return None
    # The first thread carries the number of the process.
    threads.sort(key=lambda thread: (thread.tid != pid, thread.tid))
    return Process(
        pid=pid,
        parent=found.parent,
        name=found.name,
        command=command,
        cpu_ticks=found.cpu_ticks,
        threads=tuple(threads),
        gpus_given=read_proc.gpus_given(host, pid),
    )


def _gpus() -> Tuple[Tuple[GpuUse, ...], Optional[str]]:
    answer = gpu_info.gather(gpu_info.Options(groups=("processes",)))
    uses = []
    for gpu in answer.gpus:
        running = None if gpu.fault is not None else dict(gpu.groups)["processes"].running
        pids = None if running is None else tuple(sorted({process.pid for process in running}))
        uses.append(GpuUse(gpu.identity.index, gpu.identity.uuid, gpu.identity.pci_address, pids))
    silent = answer.status not in (Status.OK.value, Status.NO_GPU.value)
    return tuple(uses), answer.message if silent else None
