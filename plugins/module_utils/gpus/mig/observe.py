# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""See the GPUs: whether MIG is on, what they can be divided into, what stands, and who uses it."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from ...core import declaration
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.nvml import processes, values
from ...facts.nvml.call import LOG, CallError, Kind, Reading, permitted
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.fields import read_fields
from ...facts.nvml.session import Fault, Survey, survey
from ...facts.nvml.status import Status
from . import clients, jobs, record
from . import devices as mig_devices
from .instances import Compute, Instance
from .options import SECTION
from .place import ENGINES, Part, Placed, Profile
from .types import Client, FailedGpu, Gpu, Memory, State

Told = TypeVar("Told")
# nvml.h has 18 kinds of GPU instances, and more will come. Of its 9 kinds of compute instances the last two bear the
# names of others (NVIDIA/k8s-dra-driver, issue 1480).
GI_KINDS, CI_KINDS = 32, 7
MEMORY_V2 = 0x02000028  # nvmlMemory_v2, which counts what the driver keeps for itself apart
FIELD_RESETLESS = 184  # NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
_NONE = 0xFFFFFFFF
# Cores of a multiprocessor by compute capability: A100 and A30 64, all later ones 128.
_CORES = {(8, 0): 64}


def observe(
    host: Host, call_timeout_seconds: float, with_declaration: bool = True, stop_units: Tuple[str, ...] = ()
) -> State:
    """The state of all GPUs; those that do not answer are listed as failed. ``stop_units``: those that may be stopped.

    :raises NodeError: there are GPUs and no driver to ask.
    """
    found: Survey[Gpu] = survey(read_gpu, call_timeout=call_timeout_seconds, host=host)
    found.require_driver()
    resets = record.resets(host)
    gpus = tuple(
        replaced(named(host, part), reset_told=part.uuid in resets) for visit in found.visits for part in visit.parts
    )
    failed = tuple(
        FailedGpu(
            visit.identity.index,
            visit.identity.uuid,
            visit.identity.pci_address,
            "this GPU told nothing" if visit.fault is None else str(visit.fault),
            _lost(visit.fault),
        )
        for visit in found.visits
        if not visit.parts
    )
    holding, along = clients.holding(host, stop_units)
    return State(
        gpus=gpus,
        failed=failed,
        entries=record.read(host),
        declared=declaration.read(host).get(SECTION) if with_declaration else None,
        absent=found.message if found.status is Status.NO_GPU else None,
        holding=holding,
        stopped=record.stopped(host),
        manager=clients.manager(host),
        along=along,
        jobs=jobs.look(host, gpus),
        moved=record.moved(host),
    )


def _lost(fault: Optional[Fault]) -> bool:
    """Whether the GPU failed as a whole, and not in what is asked about MIG alone."""
    if fault is None or fault.call is None:  # what we made of its answers
        return fault is not None and fault.kind is Kind.OUT_OF_TIME
    return "Mig" not in fault.call and "Instance" not in fault.call


def named(host: Host, gpu: Gpu) -> Gpu:
    """With what only the node can tell: who its clients are, and which device files lack."""
    missing = mig_devices.missing(host, gpu.minor) if gpu.mode and gpu.minor is not None else ()
    using = tuple(clients.named(host, one) for one in gpu.clients)
    if gpu.mode != gpu.pending and gpu.minor is not None:
        # A mode waits for all that have the device file open, of which NVML lists those alone that compute.
        known = {one.pid for one in using}
        using += tuple(one for one in clients.holders(host, gpu.minor) if one.pid not in known)
    return replaced(gpu, clients=using, files_missing=missing)


def read_gpu(gpu: OpenGpu) -> Iterator[Gpu]:
    """One GPU, in the child process."""
    identity = gpu.identity
    if identity.uuid is None or identity.pci_address is None:
        raise NodeError(gpu.name, "it tells no UUID or no PCI address", "look for Xid lines in the kernel log")
    mode = _had(
        gpu, "whether MIG is on", gpu.read("nvmlDeviceGetMigMode").map(lambda pair: (bool(pair[0]), bool(pair[1])))
    )
    pci = gpu.read("nvmlDeviceGetPciInfo").map(lambda info: (int(info.pciDeviceId), int(info.pciSubSystemId))).value
    seen = Gpu(
        identity.index,
        identity.uuid,
        identity.pci_address,
        identity.name,
        identity.minor_number,
        None if pci is None else pci[0],
        None if pci is None else pci[1],
    )
    if mode is None:
        yield seen
        return
    using, untold = _clients(gpu)
    uuids, memory = _mig_devices(gpu) if mode[0] else ({}, ())
    profiles, told = _profiles(gpu, mode[0])
    if mode[0] and not profiles:
        # Whoever took that for a GPU without instances would judge it so.
        raise NodeError(gpu.name, "MIG is on, and the driver tells no profile of GPU instances", LOG)
    yield replaced(
        seen,
        mode=mode[0],
        pending=mode[1],
        resetless=_resetless(gpu),
        part=Part(profiles, _multiprocessors(gpu, profiles), told),
        instances=tuple(_instances(gpu, profiles, using, uuids)) if mode[0] else (),
        clients=using,
        clients_untold=untold,
        memory=memory,
    )


def _had(gpu: OpenGpu, what: str, answer: Reading[Told]) -> Optional[Told]:
    """What the driver told; None where this GPU, driver or binding does not have it.

    :raises NodeError: it has it, and did not tell it. Whoever took that for absent would find nothing to do.
    """
    if not answer.ok and not answer.absent:
        remedy = permitted() if answer.kind is Kind.PERMISSION else LOG
        raise NodeError(gpu.name, "{0} cannot be read: {1}".format(what, answer.reason), remedy)
    return answer.value


def _resetless(gpu: OpenGpu) -> Optional[bool]:
    (told,) = read_fields(gpu, [(FIELD_RESETLESS, 0)])
    return told.map(values.flag).value


def _multiprocessors(gpu: OpenGpu, profiles: Tuple[Profile, ...]) -> int:
    """Those of the whole GPU; in MIG mode a driver does not tell its cores, so a table of the known parts helps."""
    capability = gpu.read("nvmlDeviceGetCudaComputeCapability").map(lambda pair: (int(pair[0]), int(pair[1]))).value
    cores = gpu.read("nvmlDeviceGetNumGpuCores").map(int).value
    if cores:
        return cores // _CORES.get(capability or (0, 0), 128)
    largest = max((profile.multiprocessors for profile in profiles), default=0)
    # An A100 has 108 (NVIDIA's data sheet), of which its largest instance gets 98.
    return 108 if capability == (8, 0) and largest == 98 else largest


def _profiles(gpu: OpenGpu, on: bool) -> Tuple[Tuple[Profile, ...], bool]:
    """What the GPU can be divided into, and whether the driver told where."""
    total = gpu.read("nvmlDeviceGetMemoryInfo").map(lambda info: int(info.total) >> 20).value
    infos = []
    for number in range(GI_KINDS):
        info = _described(gpu, "nvmlDeviceGetGpuInstanceProfileInfo", gpu.handle, number)
        if info is not None:
            infos.append(info)
    compute = max((int(info.sliceCount) for info in infos), default=0)
    memory = 8 if compute > 4 else compute
    found = []
    told = True
    for info in infos:
        starts = _starts(gpu, int(info.id), on)
        if starts is None:
            told = False
            starts = _by_the_book(int(info.sliceCount), int(info.memorySizeMB), total or 0, compute, memory)
        if starts:
            profile = Profile(
                int(info.id),
                _name(info, total or 0),
                int(info.sliceCount),
                starts[0][1],
                int(info.instanceCount),
                tuple(sorted(start for start, _size in starts)),
                int(info.multiprocessorCount),
                int(info.memorySizeMB),
                tuple(
                    int(getattr(info, engine + ("EngineCount" if engine == "copy" else "Count"))) for engine in ENGINES
                ),
            )
            found.append(profile)
    return tuple(found), told


def _described(gpu: OpenGpu, function: str, *arguments: Any) -> Any:
    """A profile in the newer form, else in the first; None: there is none of this number.

    :raises CallError: there may be one, and with it instances that nobody would see.
    """
    failed = None
    for version in ((), (1,)):
        try:
            return gpu.nvml.call(gpu.name, function, *arguments, *version)
        except CallError as error:
            if error.kind not in (Kind.ABSENT, Kind.WRONG_VALUE):
                failed = failed or error
    if failed is not None:
        raise failed
    return None


def _name(info: Any, total_mib: int) -> str:
    """``1g.5gb+me``. A driver before branch 510 tells no name; then it is made as that driver's nvidia-smi makes it."""
    name = getattr(info, "name", b"")
    text = (name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)).strip("\0 ")
    if text.startswith("MIG "):
        return text[4:]
    if text:
        return text
    eighths = -(-int(info.memorySizeMB) * 8 // max(total_mib, 1))
    gigabytes = (eighths * -(-total_mib // 1024) * 2 + 8) // 16
    # The profile with the media extensions is the one with an optical flow engine that is not the whole GPU.
    media = "+me" if int(info.ofaCount) and int(info.sliceCount) == 1 else ""
    return "{0}g.{1}gb{2}".format(int(info.sliceCount), gigabytes, media)


def _starts(gpu: OpenGpu, profile: int, on: bool) -> Optional[List[Tuple[int, int]]]:
    """The legal places of a profile, (start, size); None where the driver does not tell.

    By nvml.h it tells them in either mode, to root alone.

    :raises NodeError: MIG is on, and they cannot be read.
    """
    import ctypes

    binding = gpu.nvml.binding
    count = ctypes.c_uint(16)
    array = (binding.c_nvmlGpuInstancePlacement_t * count.value)()
    answer = gpu.read("nvmlDeviceGetGpuInstancePossiblePlacements", profile, array, ctypes.byref(count))
    if on and answer.kind is Kind.PERMISSION:
        # Of root in a container: /proc/driver/nvidia/capabilities/mig/config is asked for.
        whose = "root only" + (", and this root may not" if os.geteuid() == 0 else "")
        raise NodeError(gpu.name, "what stands on a GPU in MIG mode is told to " + whose, permitted())
    if on and answer.kind is not Kind.WRONG_VALUE:
        _had(gpu, "where its instances may lie", answer)
    if not answer.ok:
        return None
    return [(int(place.start), int(place.size)) for place in array[: count.value]]


def _by_the_book(slices: int, mib: int, total_mib: int, compute: int, memory: int) -> List[Tuple[int, int]]:
    """The legal places by NVIDIA's MIG user guide, where the driver does not tell them.

    Those of an RTX PRO 6000, which has twelve places of memory, are others: see ``Part.told``.

    An instance takes eighths (on a part of four slices, quarters) of the memory, 1, 2, 4 or all of them. It starts at a
    multiple of its width where its compute slices, counted from there, do not run out.
    """
    if not total_mib or not memory:
        return []
    width = 1 << (min(memory, -(-mib * memory // total_mib)) - 1).bit_length()
    return [(start, width) for start in range(0, memory, width) if start + slices <= compute]


# The UUIDs of compute instances, by the ids of the GPU instance and of its own.
Uuids = Mapping[Tuple[int, int], str]


def _mig_devices(gpu: OpenGpu) -> Tuple[Uuids, Tuple[Memory, ...]]:
    """What only MIG devices tell, which are the compute instances as programs see them. Nothing depends on it here, so
    what is not told is left out."""
    uuids: Dict[Tuple[int, int], str] = {}
    memory: Dict[int, Memory] = {}
    for number in range(gpu.read("nvmlDeviceGetMaxMigDeviceCount").map(int).value or 0):
        device = gpu.read("nvmlDeviceGetMigDeviceHandleByIndex", number).value
        if device is None:
            continue  # the numbers have holes
        gi = gpu.nvml.read(gpu.name, "nvmlDeviceGetGpuInstanceId", device).map(int).value
        ci = gpu.nvml.read(gpu.name, "nvmlDeviceGetComputeInstanceId", device).map(int).value
        if gi is None or ci is None:
            continue
        uuid = gpu.nvml.read(gpu.name, "nvmlDeviceGetUUID", device).map(values.text).value
        if uuid is not None:
            uuids[gi, ci] = uuid
        answer = gpu.nvml.read(gpu.name, "nvmlDeviceGetMemoryInfo", device, MEMORY_V2)
        if not answer.ok:  # a driver before branch 510
            answer = gpu.nvml.read(gpu.name, "nvmlDeviceGetMemoryInfo", device)
        told = answer.map(lambda info: (values.byte_count(info.total), values.byte_count(info.used))).value
        if told is not None:
            memory[gi] = Memory(gi, told[0], told[1])
    return uuids, tuple(memory[gi] for gi in sorted(memory))


def _instances(
    gpu: OpenGpu, profiles: Tuple[Profile, ...], using: Tuple[Client, ...], uuids: Uuids
) -> Iterator[Instance]:
    for profile in profiles:
        for handle in handles(gpu, gpu.handle, "nvmlDeviceGetGpuInstances", "c_nvmlGpuInstance_t", profile.id):
            info = gpu.nvml.call(gpu.name, "nvmlGpuInstanceGetInfo", handle)
            number = int(info.id)
            used = [client for client in using if client.gi == number]
            compute = tuple(_compute(gpu, handle, number, used, uuids))
            yield Instance(number, Placed(profile, int(info.placement.start)), compute, bool(used))


def _compute(gpu: OpenGpu, instance: Any, gi: int, used: List[Client], uuids: Uuids) -> Iterator[Compute]:
    for kind, slices in compute_kinds(gpu, instance).items():
        for handle in handles(gpu, instance, "nvmlGpuInstanceGetComputeInstances", "c_nvmlComputeInstance_t", kind):
            number = int(gpu.nvml.call(gpu.name, "nvmlComputeInstanceGetInfo", handle).id)
            yield Compute(number, slices, uuids.get((gi, number)), any(client.ci == number for client in used))


def compute_kinds(gpu: OpenGpu, instance: Any) -> Dict[int, int]:
    """The ids of the profiles of compute instances that a GPU instance can have, with their slices."""
    kinds: Dict[int, int] = {}
    for number in range(CI_KINDS):
        info = _described(gpu, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0)
        if info is not None and int(info.sliceCount) not in kinds.values():
            kinds[int(info.id)] = int(info.sliceCount)
    return kinds


def handles(gpu: OpenGpu, of: Any, function: str, kind: str, profile: int) -> List[Any]:
    """All instances of a profile."""
    import ctypes

    count = ctypes.c_uint(16)
    array = (getattr(gpu.nvml.binding, kind) * count.value)()
    try:
        gpu.nvml.call(gpu.name, function, of, profile, array, ctypes.byref(count))
    except CallError as error:
        if error.kind is Kind.ABSENT:
            return []
        raise
    return list(array[: count.value])


def _clients(gpu: OpenGpu) -> Tuple[Tuple[Client, ...], Optional[str]]:
    """Who uses the GPU, and why that is not told."""
    found: Dict[Tuple[int, int, int], Client] = {}
    untold = None
    for kind in (processes.COMPUTE, processes.GRAPHICS):
        answer = processes.ask(gpu, kind)
        if not answer.ok and not (kind == processes.GRAPHICS and answer.absent):
            untold = untold or answer.reason
        for process in answer.value or ():
            places = [getattr(process, field, _NONE) for field in ("gpuInstanceId", "computeInstanceId")]
            gi, ci = [None if place in (None, _NONE) else int(place) for place in places]
            # A process may have several instances.
            key = (int(process.pid), -1 if gi is None else gi, -1 if ci is None else ci)
            found[key] = Client(int(process.pid), gi, ci)
    return tuple(found[key] for key in sorted(found)), untold
