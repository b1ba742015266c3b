# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the labels of a node are made of. What does not answer costs its own labels and no others."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ...core import declaration, mounts
from ...core.child import ChildDied, collect
from ...core.frozen import replaced
from ...core.host import Host, be_root
from ...core.resource import NodeError, sentence
from ...facts import sysfs, sysfs_numa
from ...facts.gpu_info.ask import Ask
from ...facts.gpu_info.read_hardware import fabric
from ...facts.nvml import values
from ...facts.nvml.call import LOG, Gpu
from ...facts.nvml.pci import DEVICES
from ...facts.nvml.session import Survey, Visit, survey
from . import vgpu
from .types import Device, Facts, MigDevice, VirtualGpu

_SCRATCH = "nvme_scratch"
_MACHINE = "/sys/class/dmi/id/product_name"
_CALL_SECONDS, _SCRATCH_SECONDS = 5.0, 5.0
# The members of nvmlDeviceAttributes_t, by the suffixes of the labels.
_ATTRIBUTES = {
    "memory": "memorySizeMB",
    "multiprocessors": "multiprocessorCount",
    "slices.gi": "gpuInstanceSliceCount",
    "slices.ci": "computeInstanceSliceCount",
    "engines.copy": "sharedCopyEngineCount",
    "engines.decoder": "sharedDecoderCount",
    "engines.encoder": "sharedEncoderCount",
    "engines.jpeg": "sharedJpegCount",
    "engines.ofa": "sharedOfaCount",
}


class _Divided(NamedTuple):
    mig: Tuple[MigDevice, ...]
    bare: Tuple[str, ...]


def look(host: Host, gfd: bool = False) -> Facts:
    """``gfd``: read too what only the labels of GPU feature discovery are made of."""
    notes: List[str] = []
    told: Survey[Any] = survey(_visit, call_timeout=_CALL_SECONDS, host=host)
    if told.error is not None:
        notes.append(str(told.error))
    devices = tuple(one for one in (_device(host, visit, notes) for visit in told.visits) if one is not None)
    machine = host.read(_MACHINE) if gfd else None
    virtual_gpus = _virtual_gpus(host, bool(devices), notes) if gfd else None
    if gfd and devices and machine is None:
        notes.append(sentence(_MACHINE, "it cannot be read", "nvidia.com/gpu.machine is unknown until it can"))
    if gfd and any(one.pci_class is None for one in devices):
        reason = "the PCI class of a GPU cannot be read there"
        notes.append(sentence(DEVICES, reason, "nvidia.com/gpu.mode is unknown until it can"))
    ready, gib = _scratch(host, notes)
    ports, rate = _infiniband(host, notes)
    return Facts(
        answers=told.error is None,
        complete=told.error is None and len(devices) == len(told.visits),
        devices=devices,
        driver_version=told.system.driver_version.value,
        cuda_version=told.system.cuda_version.value,
        machine=None if machine is None else machine.strip(),
        virtual_gpus=virtual_gpus,
        numa_nodes=_numa_nodes(host, notes),
        scratch_ready=ready,
        scratch_gib=gib,
        infiniband_ports=ports,
        infiniband_gbps=rate,
        notes=tuple(notes),
    )


# GPUs -------------------------------------------------------------------------------------------------


def _visit(gpu: Gpu) -> Iterator[Any]:
    """In the child: the GPU, then how it is divided, which may fail alone."""
    name = gpu.read("nvmlDeviceGetName").map(values.text)
    mode = gpu.read("nvmlDeviceGetMigMode").map(lambda pair: bool(pair[0]))
    for what, answer in (("its name", name), ("whether MIG is on", mode)):
        if not answer.ok and not (answer is mode and answer.absent):
            raise NodeError(gpu.name, "{0} cannot be read: {1}".format(what, answer.reason), LOG)
    one = Device(
        gpu.identity.index,
        name.value or "",
        gpu.read("nvmlDeviceGetMemoryInfo").map(lambda info: int(info.total) >> 20).value,
        gpu.read("nvmlDeviceGetCudaComputeCapability").map(lambda pair: (int(pair[0]), int(pair[1]))).value,
        mode.ok,
        bool(mode.value),
        None if mode.value else (),
        clique=_clique(gpu),
    )
    yield one
    if one.mig_enabled:
        yield _divided(gpu)


def _clique(gpu: Gpu) -> Optional[Tuple[str, int]]:
    found = fabric(Ask(gpu, "fabric"))
    if found.status != "success" or found.cluster_uuid is None or found.clique_id is None:
        return None
    return found.cluster_uuid, found.clique_id


def _divided(gpu: Gpu) -> _Divided:
    from ...gpus.mig.observe import read_gpu  # seldom wanted

    names: Dict[Tuple[int, int], str] = {}
    bare = []
    for seen in read_gpu(gpu):
        for instance in seen.instances:
            profile = instance.placed.profile
            if not instance.compute:
                bare.append(profile.name)
            for part in instance.compute:
                whole = part.slices == profile.compute_slices
                name = profile.name if whole else "{0}c.{1}".format(part.slices, profile.name)
                names[instance.id, part.id] = name
    found = []
    for number in range(gpu.read("nvmlDeviceGetMaxMigDeviceCount").map(int).value or 0):
        device = gpu.read("nvmlDeviceGetMigDeviceHandleByIndex", number).value
        if device is None:
            continue  # the numbers have holes
        gi, ci = (
            int(gpu.nvml.call(gpu.name, call, device))
            for call in ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")
        )
        if (gi, ci) not in names:
            raise NodeError(gpu.name, "its instances changed while they were read", "run it again")
        told: Any = gpu.nvml.call(gpu.name, "nvmlDeviceGetAttributes_v2", device)
        attributes = {name: int(getattr(told, member)) for name, member in _ATTRIBUTES.items()}
        found.append(MigDevice(names[gi, ci], attributes))
    if len(found) != len(names):
        raise NodeError(gpu.name, "it does not tell all of its instances", LOG)
    return _Divided(tuple(found), tuple(bare))


def _device(host: Host, visit: Visit[Any], notes: List[str]) -> Optional[Device]:
    """None: the GPU did not tell what it is."""
    if visit.fault is not None:
        notes.append(str(visit.fault))
    found: Optional[Device] = None
    for part in visit.parts:
        if isinstance(part, Device):
            found = part
        elif found is not None:
            found = replaced(found, mig=part.mig, bare=part.bare)
    if found is None:
        return None
    if found.capability is None:
        reason = "its compute capability was not told"
        notes.append(sentence("GPU {0}".format(found.index), reason, "its family and compute labels are left out"))
    address = visit.identity.pci_address
    text = host.read_line("{0}/{1}/class".format(DEVICES, address)) if address else None
    try:
        return replaced(found, pci_class=None if text is None else int(text, 16))
    except ValueError:
        return found


def _virtual_gpus(host: Host, has_gpus: bool, notes: List[str]) -> Optional[Tuple[VirtualGpu, ...]]:
    found, seen = vgpu.read(host)
    if found is None or (has_gpus and not seen):
        reason = "whether the GPUs are virtual cannot be read there"
        remedy = be_root() if seen else "the labels nvidia.com/vgpu.* are left out"
        notes.append(sentence(DEVICES, reason, remedy))
        return None
    return found


# The node ---------------------------------------------------------------------------------------------


def _numa_nodes(host: Host, notes: List[str]) -> Optional[int]:
    """Those with processors: memory of GPUs (Grace) is a node too, and no process can be pinned to it."""
    count = sum(1 for one in sysfs_numa.nodes(host) if one.cpus)
    if not count:
        notes.append("The kernel tells no NUMA node with processors, so the label numa-nodes is left out.")
        return None
    return count


def _scratch(host: Host, notes: List[str]) -> Tuple[Optional[bool], Optional[int]]:
    """Whether what was declared is mounted and may be written to, and its size."""
    try:
        places = mounts.of_scratch(declaration.read(host).get(_SCRATCH))
    except NodeError as error:
        notes.append(str(error))
        return None, None
    if not places:
        return None, None
    table = mounts.read(host)
    if not table:
        notes.append("The mounts of this node cannot be read, so the labels of its scratch are left out.")
        return None, None
    mount = next((found for found in (mounts.at(table, one) for one in places) if found is not None), None)
    if mount is None or not mount.writable:
        return False, None
    point = mount.point

    def asked(dummy: object) -> Iterator[int]:
        try:
            yield mounts.space(host, point).total_bytes
        except OSError:
            return

    try:
        answer = collect(asked, _SCRATCH_SECONDS)
    except ChildDied:
        answer = None
    if answer is None or not answer.items:
        # It is mounted, and nobody can work there.
        notes.append(sentence("scratch " + point, "it does not answer", "run 'gpunode scratch status'"))
        return False, None
    return True, answer.items[0] >> 30


def _infiniband(host: Host, notes: List[str]) -> Tuple[Optional[int], Optional[float]]:
    """How many ports are active, and the rate of the slowest of these: a job over all of them has that."""
    if not host.exists("/sys/class"):
        notes.append("/sys is not mounted here, so the labels of InfiniBand are left out.")
        return None, None
    active = []
    for device in sysfs.infiniband_devices(host):
        for port in device.ports:
            layer = port.link_layer
            if layer is None or (layer == "InfiniBand" and port.state is None):
                which = "port {0} of {1}".format(port.number, device.name)
                notes.append(sentence(which, "its state cannot be read", "the labels of InfiniBand are left out"))
                return None, None
            if layer == "InfiniBand" and port.state == "ACTIVE":
                active.append(port)
    rates = [port.rate_gigabits_per_second for port in active]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        notes.append("The rate of an InfiniBand port cannot be read, so the label infiniband-rate-gbps is left out.")
        return len(active), None
    return len(active), min(known, default=None)
