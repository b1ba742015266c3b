# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an active check may use: the GPUs of this node, when nobody else does.

A node with a job, or a process on a GPU, is refused: no measurement is worth a disturbed job, and none would be right.
CUDA is asked for the same GPUs before any is measured: what it does not show no job can use, whatever NVML says.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import List, Mapping, Optional, Sequence, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import gpu_info
from ...facts.gpu_info.types import Process
from ...facts.nvml.identity import normalise_pci_address
from ...facts.nvml.selectors import slurm_gpus
from ...facts.nvml.status import Status
from ...facts.topology import Topology
from ...slurm import on_node
from ..evidence import Evidence
from ..types import Remedy
from . import apart
from .cuda import Cuda, CudaError

_CUDA_SECONDS = 60.0
_UNSEEN = (
    "look at the kernel log for an Xid and at nvidia-fabricmanager, then reboot; replace the GPU if it stays missing"
)
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
    virtual: bool = False
    confidential: bool = False

    @property
    def no_limit(self) -> str:
        """Why no rate of it is held against the limits of its product, or ""."""
        return "vGPU" if self.virtual else ""

    @property
    def no_limit_of_copies(self) -> str:
        """The same of copies that leave the GPU. Those of Confidential Computing are encrypted on their way."""
        return self.no_limit or ("Confidential Computing" if self.confidential else "")

    @property
    def label(self) -> str:
        return "GPU {0} ({1})".format(self.index, self.pci_address)


@dataclasses.dataclass(frozen=True)
class Silent:
    """A GPU that cannot be measured. ``fault``: what to do (a value of ``Remedy``), where no other check tells it."""

    thing: str
    key: str
    reason: str
    remedy: str = "correct what the passive checks tell of it, then measure again"
    fault: Optional[str] = None
    code: str = ""


@dataclasses.dataclass(frozen=True)
class Found:
    """``partitioned``: names of the GPUs in MIG mode."""

    gpus: Tuple[Gpu, ...]
    silent: Tuple[Silent, ...] = ()
    partitioned: Tuple[str, ...] = ()


def node_is_free(host: Host) -> None:
    """:raises NodeError: when a job runs on this node, other than the one that this process belongs to."""
    own = os.environ.get("SLURM_JOB_ID", "")
    # A slurmctld that does not answer stops no check: what this node knows counts then.
    running = on_node.look(host, on_node.slurm_of(host, declaration.read(host)), ())[0].names
    others = [job for job in sorted(running) if job != own]
    if others:
        raise NodeError("this node", "job {0} runs on it".format(", ".join(others)), _WAIT)


def _whole_node(environment: Mapping[str, str], count: int) -> None:
    """Pure. Slurm can give the other GPUs to another job at any moment.

    :raises NodeError: this process belongs to a job that has a part of the ``count`` GPUs only.
    """
    own = slurm_gpus(environment.get("SLURM_JOB_GPUS", ""))
    if environment.get("SLURM_JOB_ID") and 0 < len(own) < count:
        reason = "this job has {0} of its {1} GPUs, and the checks load all of them".format(len(own), count)
        raise NodeError("this node", reason, "give the job the whole node (srun --exclusive --gpus-per-node=...)")


def gpus(evidence: Evidence) -> Optional[Found]:
    """The GPUs of a free node that CUDA shows, too; None: this node has none.

    :raises NodeError: when the node is not free, NVML does not answer though there are GPUs, or CUDA does not say what
        it shows.
    """
    node_is_free(evidence.host)
    answer = gpu_info.gather(gpu_info.Options(groups=("board", "memory", "settings", "processes")), evidence.host)
    if not answer.gpus:
        if answer.status in (Status.NO_GPU.value,) or not answer.pci_gpus:
            return None
        raise NodeError("the GPUs of this node", answer.message, "repair what the check of GPUs tells first")
    _whole_node(os.environ, len(answer.gpus))
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
    found = _sorted_out(answer, evidence.topology)
    if not found.gpus:
        return found
    # An unknown name among those that it is to show would hide all after it; only beside MIG must the names be given.
    names = [gpu.uuid for gpu in found.gpus] if found.partitioned else []
    try:
        shown = apart.measure("CUDA", _CUDA_SECONDS, functools.partial(_shown, names), None, ())
    except CudaError as error:
        return without(found, (), error)
    return without(found, shown)


def _shown(names: Sequence[str]) -> Tuple[str, ...]:
    """The PCI addresses of what CUDA shows."""
    apart.become(names)
    cuda = Cuda()
    return tuple(cuda.pci_address(device) for device in range(cuda.count()))


def without(found: Found, shown: Sequence[str], error: Optional[CudaError] = None) -> Found:
    """Pure. The GPUs that CUDA does not show become silent ones, with a fault: no other check would tell it."""
    seen = {normalise_pci_address(address) for address in shown}
    gpus = tuple(gpu for gpu in found.gpus if gpu.pci_address in seen)
    silent = list(found.silent)
    for gpu in found.gpus:
        if gpu in gpus:
            continue
        if error is not None:
            silent.append(Silent(gpu.label, gpu.pci_address, error.reason, error.remedy, error.fault, error.code))
        else:
            reason = "CUDA shows {0} GPUs of {1}, and not this one".format(len(gpus), len(found.gpus))
            fault, code = Remedy.REBOOT.value, "not_in_cuda"
            silent.append(Silent(gpu.label, gpu.pci_address, reason, _UNSEEN, fault, code))
    return dataclasses.replace(found, gpus=gpus, silent=tuple(silent))


def _running(gpu: gpu_info.GpuInformation) -> Optional[Tuple[Process, ...]]:
    group = gpu.groups.get("processes")
    running: Optional[Tuple[Process, ...]] = None if group is None else group.running
    return running


def _sorted_out(answer: gpu_info.Information, topology: Topology) -> Found:
    places = {gpu.placement.pci_address: gpu.placement.numa_node for gpu in topology.gpus}
    cpus: Mapping[int, Tuple[int, ...]] = {node.id: node.cpus for node in topology.numa_nodes}
    several = len(topology.numa_nodes) > 1
    good: List[Gpu] = []
    silent: List[Silent] = []
    partitioned: List[str] = []
    for one in answer.gpus:
        name, settings, memory = one.identity, one.groups.get("settings"), one.groups.get("memory")
        if one.fault is not None or name.uuid is None or name.pci_address is None:
            reason = one.fault.reason if one.fault is not None else "NVML does not tell its names"
            silent.append(Silent(name.label, name.pci_address or str(name.index), reason))
        elif settings is not None and settings.mig_current:
            partitioned.append(name.label)
        else:
            node = places.get(name.pci_address) if several else None
            total = memory.total_bytes if memory is not None and memory.total_bytes else 0
            near = cpus.get(node, ()) if node is not None else ()
            board = one.groups.get("board")
            good.append(
                Gpu(
                    name.index,
                    name.uuid,
                    name.pci_address,
                    name.name or "GPU",
                    total,
                    node,
                    near,
                    virtual=board is not None and board.virtualization_mode == "vgpu",
                    confidential=board is not None and bool(board.confidential_computing),
                )
            )
    good.sort(key=lambda gpu: gpu.pci_address)
    return Found(tuple(good), tuple(silent), tuple(partitioned))
