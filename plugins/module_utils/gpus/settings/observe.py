# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings of every GPU. NVML is called in a child process only (``nvml/session.py``)."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError, sentence
from ...facts.daemons import holds_persistence_mode
from ...facts.nvml.call import REBOOT, Reading
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.session import Survey, survey
from ...facts.nvml.status import Status
from . import record
from .types import FailedGpu, Gpu, State
from .wish import SECTION

GRAPHICS, MEMORY = 0, 2  # nvmlClockType_t
# nvmlComputeMode_t; 1 is of drivers long gone.
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
# Compute capability of the first generation whose graphics and memory clocks can be locked: Volta, Ampere.
VOLTA, AMPERE = (7, 0), (8, 0)


def observe(host: Host, call_timeout_seconds: float, with_declaration: bool = True) -> State:
    """The state of all GPUs; those that do not answer are listed as failed.

    :raises NodeError: when there are GPUs and no driver to ask (not installed, not loaded, hanging).
    """
    declared = declaration.read(host).get(SECTION) if with_declaration else None
    found: Survey[Gpu] = survey(read_gpu, call_timeout=call_timeout_seconds, host=host)
    found.require_driver()
    gpus = tuple(part for visit in found.visits for part in visit.parts)
    return State(
        gpus=gpus,
        failed=_failed(found),
        entries=record.read(host),
        driver_load=record.driver_load(host, found.system.driver_version.value),
        persistenced=holds_persistence_mode(host),
        declared=declared,
        absent=found.message if found.status is Status.NO_GPU else None,
    )


def _failed(found: Survey[Gpu]) -> Tuple[FailedGpu, ...]:
    failed: List[FailedGpu] = []
    for visit in found.visits:
        if not visit.parts:
            message = "this GPU told nothing" if visit.fault is None else str(visit.fault)
            failed.append(FailedGpu(visit.identity.index, visit.identity.uuid, visit.identity.pci_address, message))
    known = [visit.identity.pci_address for visit in found.visits]
    left = [gpu.pci_address for gpu in found.pci_gpus if gpu.pci_address not in known and not gpu.given_away]
    if found.status is Status.PARTIAL and len(left) > known.count(None):
        for address in left:
            message = sentence(
                "GPU {0}".format(address),
                "the PCI bus has it, the driver does not",
                REBOOT,
            )
            failed.append(FailedGpu(None, None, address, message))
    return tuple(failed)


def read_gpu(gpu: OpenGpu) -> Iterator[Gpu]:
    """All settings of one GPU, in the child process."""
    identity = gpu.identity
    if identity.uuid is None or identity.pci_address is None:
        raise NodeError(gpu.name, "it tells no UUID or no PCI address", "look for Xid lines in the kernel log")

    def number(function: str, *arguments: Any) -> Optional[int]:
        return gpu.read(function, *arguments).map(int).value

    def switch(function: str) -> Optional[bool]:
        return gpu.read(function).map(bool).value

    ecc: Reading[Tuple[bool, bool]] = gpu.read("nvmlDeviceGetEccMode").map(lambda pair: (bool(pair[0]), bool(pair[1])))
    mig: Reading[bool] = gpu.read("nvmlDeviceGetMigMode").map(lambda pair: bool(pair[0]))
    power: Reading[Tuple[int, int]] = gpu.read("nvmlDeviceGetPowerManagementLimitConstraints").map(
        lambda pair: (int(pair[0]), int(pair[1]))
    )
    capability: Reading[Tuple[int, int]] = gpu.read("nvmlDeviceGetCudaComputeCapability").map(
        lambda pair: (int(pair[0]), int(pair[1]))
    )
    reasons = gpu.first(("nvmlDeviceGetCurrentClocksEventReasons",), ("nvmlDeviceGetCurrentClocksThrottleReasons",))
    application = [number("nvmlDeviceGetApplicationsClock", kind) for kind in (GRAPHICS, MEMORY)]
    yield Gpu(
        index=identity.index,
        uuid=identity.uuid,
        pci_address=identity.pci_address,
        name=identity.name,
        persistence=switch("nvmlDeviceGetPersistenceMode"),
        ecc=None if ecc.value is None else ecc.value[0],
        ecc_pending=None if ecc.value is None else ecc.value[1],
        compute_mode=gpu.read("nvmlDeviceGetComputeMode").map(lambda mode: COMPUTE_MODES[int(mode)]).value,
        mig=mig.value,
        power_limit_mw=number("nvmlDeviceGetPowerManagementLimit"),
        power_default_mw=number("nvmlDeviceGetPowerManagementDefaultLimit"),
        power_min_mw=None if power.value is None else power.value[0],
        power_max_mw=None if power.value is None else power.value[1],
        graphics_clock_mhz=number("nvmlDeviceGetClockInfo", GRAPHICS),
        memory_clock_mhz=number("nvmlDeviceGetClockInfo", MEMORY),
        max_graphics_clock_mhz=number("nvmlDeviceGetMaxClockInfo", GRAPHICS),
        max_memory_clock_mhz=number("nvmlDeviceGetMaxClockInfo", MEMORY),
        application_graphics_mhz=application[0],
        application_memory_mhz=application[1],
        default_application_graphics_mhz=number("nvmlDeviceGetDefaultApplicationsClock", GRAPHICS),
        default_application_memory_mhz=number("nvmlDeviceGetDefaultApplicationsClock", MEMORY),
        event_reasons=reasons.map(int).value,
        can_lock_graphics=_offers(gpu, "nvmlDeviceSetGpuLockedClocks") and _since(capability.value, VOLTA),
        can_lock_memory=_offers(gpu, "nvmlDeviceSetMemoryLockedClocks") and _since(capability.value, AMPERE),
        can_set_application=_offers(gpu, "nvmlDeviceSetApplicationsClocks") and None not in application,
        supported_clocks=_supported_clocks(gpu),
    )


def _offers(gpu: OpenGpu, function: str) -> bool:
    """Whether both the binding and the driver's library have this call (a setter: asking is not calling)."""
    binding = gpu.nvml.binding
    return hasattr(binding, function) and hasattr(getattr(binding, "nvmlLib", None), function)


def _since(capability: Optional[Tuple[int, int]], first: Tuple[int, int]) -> bool:
    """Whether a GPU is of this generation or a later one; one that does not tell is tried."""
    return capability is None or capability >= first


def _supported_clocks(gpu: OpenGpu) -> Tuple[Tuple[int, Tuple[int, ...]], ...]:
    memories: Reading[List[int]] = gpu.read("nvmlDeviceGetSupportedMemoryClocks").map(
        lambda values: [int(v) for v in values]
    )
    table = []
    for memory in sorted(set(memories.value or ()), reverse=True):
        graphics: Reading[List[int]] = gpu.read("nvmlDeviceGetSupportedGraphicsClocks", memory).map(
            lambda values: [int(v) for v in values]
        )
        table.append((memory, tuple(sorted(set(graphics.value or ()), reverse=True))))
    return tuple(table)
