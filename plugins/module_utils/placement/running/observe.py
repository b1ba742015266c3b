# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at processes several times, and ask NVML which of them have which GPU."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core import processes
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import gpu_info
from ...facts.nvml.selectors import container_gpus, cuda_gpus, slurm_gpus
from ...facts.nvml.status import Status
from ...facts.sysfs import parse_cpulist
from .types import GpuUse, Process, State, Thread

# One look sees who runs at one moment; three tell a thread that works from one that woke up for a blink.
LOOKS, PAUSE_SECONDS = 3, 0.1
# The GPUs given to a process: Slurm's are those of the node, CUDA's may be counted within a cgroup. The container's
# come last: images of NVIDIA say "all" in it, and CUDA counts within what the container was given.
_GPU_VARIABLES: Mapping[str, Callable[[str], Optional[Tuple[str, ...]]]] = {
    "SLURM_STEP_GPUS": slurm_gpus,
    "SLURM_JOB_GPUS": slurm_gpus,
    "CUDA_VISIBLE_DEVICES": cuda_gpus,
    "NVIDIA_VISIBLE_DEVICES": container_gpus,
}


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
    running = tuple(process for dummy, process in found if process is not None)
    if not running:
        raise NodeError(
            "process {0}".format(", ".join(str(pid) for pid in pids)),
            "it ended while it was being looked at" if len(pids) == 1 else "they ended while they were being looked at",
            "run this while the application runs",
        )
    gpus, reason = _gpus() if ask_nvml else ((), None)
    return State(running, gpus, reason, tuple(pid for pid, process in found if process is None))


def _look(host: Host, pids: Sequence[int]) -> Dict[Tuple[int, int], Tuple[str, int]]:
    seen = {}
    for pid in pids:
        for tid in processes.tids(host, pid):
            found = processes.stat(host, pid, tid)
            cpu = None if found is None else found.number(processes.PROCESSOR)
            if found is not None and cpu is not None:
                seen[pid, tid] = (found.state, cpu)
    return seen


def _process(host: Host, pid: int, seen: Sequence[Dict[Tuple[int, int], Tuple[str, int]]]) -> Optional[Process]:
    found = processes.stat(host, pid)
    if found is None or found.ended:
        return None
    threads = []
    for tid in processes.tids(host, pid):
        own = processes.stat(host, pid, tid)
        cpus = cpus_allowed(host, pid, tid)
        if own is not None and cpus:
            threads.append(Thread(tid, own.name, cpus, tuple(look.get((pid, tid)) for look in seen)))
    if not threads:
        return None
    # The first thread carries the number of the process.
    threads.sort(key=lambda thread: (thread.tid != pid, thread.tid))
    return Process(
        pid=pid,
        parent=found.number(processes.PPID) or 0,
        name=found.name,
        command=" ".join(processes.cmdline(host, pid)),
        cpu_ticks=(found.number(processes.UTIME) or 0) + (found.number(processes.STIME) or 0),
        threads=tuple(threads),
        gpus_given=_gpus_given(host, pid),
    )


def cpus_allowed(host: Host, pid: int, tid: int) -> Tuple[int, ...]:
    """The CPUs that a thread may run on: its affinity within its cgroup's cpuset."""
    return parse_cpulist(processes.status(host, pid, "Cpus_allowed_list", tid))


def _gpus() -> Tuple[Tuple[GpuUse, ...], Optional[str]]:
    answer = gpu_info.gather(gpu_info.Options(groups=("processes",)))
    uses = []
    for gpu in answer.gpus:
        running = None if gpu.fault is not None else dict(gpu.groups)["processes"].running
        pids = None if running is None else tuple(sorted({process.pid for process in running}))
        uses.append(GpuUse(gpu.identity.index, gpu.identity.uuid, gpu.identity.pci_address, pids))
    silent = answer.status not in (Status.OK.value, Status.NO_GPU.value)
    return tuple(uses), answer.message if silent else None


def _gpus_given(host: Host, pid: int) -> Optional[Tuple[str, ...]]:
    """The GPUs that the environment of a process names; None where it names none or is not ours to read."""
    variables = processes.environ(host, pid)
    for name in _GPU_VARIABLES:
        if name in variables:
            return _GPU_VARIABLES[name](variables[name])
    return None
