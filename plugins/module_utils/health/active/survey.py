# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an active check may use: the GPUs of this node, when nobody else does.

A node with a job, or a process on a GPU, is refused: no measurement is worth a disturbed job, and none would be right.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import List, Mapping, Optional, Tuple

from ... import gpu_info
from ...gpu_info.types import Process
from ...host import Host
from ...nvml.status import Status
from ...resource import NodeError
from ...slurm_job import jobs
from ...topology import Topology
from ..evidence import Evidence

_WAIT = "wait until it has ended, or drain the node first; active checks never run beside a job"


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU to measure. ``uuid`` is how CUDA is told to see this one only."""

    index: int
    uuid: str
    pci_address: str
    name: str
    memory_bytes: int
    numa_node: Optional[int]
    cpus: Tuple[int, ...]

    @property
    def label(self) -> str:
        return "GPU {0} ({1})".format(self.index, self.pci_address)


@dataclasses.dataclass(frozen=True)
class Found:
    """``silent``: (name, key, reason) of GPUs that cannot be measured. ``partitioned``: names of those in MIG mode."""

    gpus: Tuple[Gpu, ...]
    silent: Tuple[Tuple[str, str, str], ...] = ()
    partitioned: Tuple[str, ...] = ()


def node_is_free(host: Host) -> None:
    """:raises NodeError: when a job runs on this node, other than the one that this process belongs to."""
    own = os.environ.get("SLURM_JOB_ID", "")
    running = sorted({str(job.id) for job in jobs.all_of(host)} | set(_slurm_steps(host)))
    others = [job for job in running if job != own]
    if others:
        raise NodeError("this node", "job {0} runs on it".format(", ".join(others)), _WAIT)


def _slurm_steps(host: Host) -> List[str]:
    """The jobs that slurmstepd has processes for: it calls itself ``slurmstepd: [42.0]``."""
    found = []
    for pid in host.names("/proc"):
        if pid.isdigit() and (host.read_line("/proc/{0}/comm".format(pid)) or "").startswith("slurmstepd"):
            told = re.search(r"\[(\d{1,12})[.\]]", host.read("/proc/{0}/cmdline".format(pid)) or "")
            found.append(told.group(1) if told else "of process " + pid)
    return found


def gpus(evidence: Evidence) -> Optional[Found]:
    """The GPUs of a free node; None: this node has none.

    :raises NodeError: when the node is not free, or NVML does not answer though there are GPUs.
    """
    node_is_free(evidence.host)
    answer = gpu_info.gather(gpu_info.Options(groups=("memory", "settings", "processes")), evidence.host)
    if not answer.gpus:
        if answer.status in (Status.NO_GPU.value,) or not answer.pci_gpus:
            return None
        raise NodeError("the GPUs of this node", answer.message, "mend what the check of GPUs tells first")
    busy = [
        "{0} ({1})".format(process.name or "a process", process.pid)
        for gpu in answer.gpus
        for process in _running(gpu) or ()
        if process.kind != "graphics"
    ]
    if busy:
        raise NodeError("the GPUs of this node", "in use by " + ", ".join(sorted(set(busy))[:5]), _WAIT)
    untold = next((gpu for gpu in answer.gpus if gpu.fault is None and _running(gpu) is None), None)
    if untold is not None:
        reason = "NVML does not tell whether a process uses it"
        raise NodeError(untold.identity.label, reason, "run it as root, outside of containers")
    return _sorted_out(answer, evidence.topology)


def _running(gpu: gpu_info.GpuInformation) -> Optional[Tuple[Process, ...]]:
    group = gpu.groups.get("processes")
    running: Optional[Tuple[Process, ...]] = None if group is None else group.running
    return running


def _sorted_out(answer: gpu_info.Information, topology: Topology) -> Found:
    places = {gpu.placement.pci_address: gpu.placement.numa_node for gpu in topology.gpus}
    cpus: Mapping[int, Tuple[int, ...]] = {node.id: node.cpus for node in topology.numa_nodes}
    several = len(topology.numa_nodes) > 1
    good: List[Gpu] = []
    silent: List[Tuple[str, str, str]] = []
    partitioned: List[str] = []
    for one in answer.gpus:
        name, settings, memory = one.identity, one.groups.get("settings"), one.groups.get("memory")
        if one.fault is not None or name.uuid is None or name.pci_address is None:
            reason = one.fault.reason if one.fault is not None else "NVML does not tell its names"
            silent.append((name.label, name.pci_address or str(name.index), reason))
        elif settings is not None and settings.mig_current:
            partitioned.append(name.label)
        else:
            node = places.get(name.pci_address) if several else None
            total = memory.total_bytes if memory is not None and memory.total_bytes else 0
            near = cpus.get(node, ()) if node is not None else ()
            good.append(Gpu(name.index, name.uuid, name.pci_address, name.name or "GPU", total, node, near))
    good.sort(key=lambda gpu: gpu.pci_address)
    return Found(tuple(good), tuple(silent), tuple(partitioned))
