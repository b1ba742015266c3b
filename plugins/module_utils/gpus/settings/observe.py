# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the settings of every GPU. NVML is called in a child process only (``nvml/session.py``)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from ...core import declaration
from ...core.host import Host
from ...core.resource import NodeError, sentence
from ...facts.daemons import holds_persistence_mode
from ...facts.nvml.call import REBOOT, Reading
from ...facts.nvml.call import Gpu as OpenGpu
from ...facts.nvml.session import Survey, survey
from ...facts.nvml.status import Status
from . import record
from .options import SECTION
from .settings import SETTINGS
from .types import FailedGpu, Gpu, State


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

    mig: Reading[bool] = gpu.read("nvmlDeviceGetMigMode").map(lambda pair: bool(pair[0]))
    values: Dict[str, Any] = {}
    for setting in SETTINGS:
        values.update(setting.read(gpu))
    yield Gpu(identity.index, identity.uuid, identity.pci_address, identity.name, mig=mig.value, **values)
