# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a running application, and what is said about it."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen

WARNING, NOTE = "warning", "note"


@frozen
class Thread:
    """One thread. ``looks`` has its state and last CPU at each look; None where it had ended or not yet begun."""

    tid: int
    name: str
    allowed: Tuple[int, ...]
    looks: Tuple[Optional[Tuple[str, int]], ...]

    @property
    def running(self) -> bool:
        """Whether it was running, or waiting for a CPU to run on, at one look at least."""
        return any(look is not None and look[0] == "R" for look in self.looks)

    @property
    def last_cpu(self) -> Optional[int]:
        seen = [look[1] for look in self.looks if look is not None]
        return seen[-1] if seen else None


@frozen
class Process:
    """``gpus_given`` are the GPUs that its environment names (variables of Slurm, CUDA, containers); None: none."""

    pid: int
    parent: int
    name: str
    command: str
    cpu_ticks: int
    threads: Tuple[Thread, ...]
    gpus_given: Optional[Tuple[str, ...]] = None

    @property
    def allowed(self) -> Tuple[int, ...]:
        """The CPUs that any of its threads may run on."""
        return tuple(sorted({cpu for thread in self.threads for cpu in thread.allowed}))

    @property
    def running(self) -> Tuple[Thread, ...]:
        return tuple(thread for thread in self.threads if thread.running)

    @property
    def last_cpus(self) -> Tuple[int, ...]:
        """Where its running threads ran last; of its first thread where none runs."""
        threads = self.running or self.threads[:1]
        return tuple(sorted({thread.last_cpu for thread in threads if thread.last_cpu is not None}))


@frozen
class GpuUse:
    """One GPU and the processes that have it open, those of others too. ``pids`` None: it did not tell."""

    index: int
    uuid: Optional[str]
    pci_address: Optional[str]
    pids: Optional[Tuple[int, ...]]


@frozen
class State:
    """``gpus_reason`` tells why NVML told nothing about GPUs, or is None; ``ended``: gone while being read."""

    processes: Tuple[Process, ...]
    gpus: Tuple[GpuUse, ...] = ()
    gpus_reason: Optional[str] = None
    ended: Tuple[int, ...] = ()

    def gpus_of(self, pid: int) -> Tuple[GpuUse, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.pids is not None and pid in gpu.pids)


@frozen
class Finding:
    """``severity`` is ``warning`` or ``note``; ``kind`` is a fixed word for programs, ``message`` a sentence."""

    severity: str
    kind: str
    message: str
    pids: Tuple[int, ...] = ()
    gpus: Tuple[int, ...] = ()
