# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the machine as a whole is like: GPUs that answer, no GPU, no driver … — decided from what was seen."""

from __future__ import annotations

import enum
from typing import Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.resource import NodeError, sentence
from .call import REBOOT, CallError, Kind
from .pci import PciGpu


class Status(enum.Enum):
    """The values appear in module results."""

    OK = "ok"  # every GPU answered
    PARTIAL = "partial"  # some GPU did not
    NO_GPU = "no_gpu"  # nothing to manage on this machine
    NO_LIBRARY = "no_library"
    NO_BINDING = "no_binding"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    DRIVER_MISMATCH = "driver_mismatch"
    NO_PERMISSION = "no_permission"
    HUNG = "hung"
    FAILED = "failed"


_OF_KIND = {
    Kind.NO_LIBRARY: Status.NO_LIBRARY,
    Kind.DRIVER_NOT_LOADED: Status.DRIVER_NOT_LOADED,
    Kind.DRIVER_MISMATCH: Status.DRIVER_MISMATCH,
    Kind.PERMISSION: Status.NO_PERMISSION,
    Kind.HUNG: Status.HUNG,
}


@frozen
class Verdict:
    """A status, one or more sentences about it, and the error for those who cannot go on with it."""

    status: Status
    message: str
    error: Optional[NodeError] = None


def conclude(
    failure: Optional[NodeError],
    addresses: Tuple[Optional[str], ...],
    on_bus: Sequence[PciGpu],
    faults: Tuple[str, ...] = (),
    gpu_count: Optional[int] = None,
    whole_machine: bool = True,
) -> Verdict:
    """The verdict on a machine. Pure.

    ``failure`` is why NVML could not be opened; ``addresses`` are those of the GPUs that NVML counts (None: it
    did not tell); ``on_bus`` is what the PCI bus shows; ``faults`` are sentences about single GPUs. GPUs that the
    driver does not know matter only where ``whole_machine`` was asked for.
    """
    if failure is not None:
        return _of_failure(failure, on_bus)
    count = len(addresses) if gpu_count is None else gpu_count
    unclaimed = _unclaimed(addresses, on_bus) if whole_machine else ()
    if count == 0 and not unclaimed:
        return Verdict(Status.NO_GPU, "The NVIDIA driver is loaded and finds no GPU on this machine.")
    sentences = list(faults)
    if unclaimed:
        sentences.append(
            sentence(
                "GPU " + ", ".join(unclaimed),
                "the PCI bus has it, the driver does not",
                REBOOT,
            )
        )
    if sentences:
        return Verdict(Status.PARTIAL, " ".join(sentences))
    return Verdict(Status.OK, "{0} GPU{1} answered.".format(count, "" if count == 1 else "s"))


def _of_failure(failure: NodeError, on_bus: Sequence[PciGpu]) -> Verdict:
    kind = failure.kind if isinstance(failure, CallError) else Kind.FAILED
    status = _OF_KIND.get(kind, Status.FAILED)
    if not on_bus and status is Status.NO_LIBRARY:
        return Verdict(
            Status.NO_GPU, "The PCI bus has no NVIDIA GPU, and the driver's library libnvidia-ml.so.1 is not installed."
        )
    if not on_bus and status is Status.DRIVER_NOT_LOADED:
        # An image with the driver, on a machine without a GPU: the kernel module refuses to load there.
        return Verdict(
            Status.NO_GPU, "The PCI bus has no NVIDIA GPU; the NVIDIA driver is installed, and is not loaded."
        )
    error = NodeError(_thing(on_bus), failure.reason, failure.remedy)
    return Verdict(status, str(error), error)


def _thing(on_bus: Sequence[PciGpu]) -> str:
    if not on_bus:
        return "NVML"
    if len(on_bus) == 1:
        return "GPU " + on_bus[0].pci_address
    return "{0} GPUs on the PCI bus ({1} … {2})".format(len(on_bus), on_bus[0].pci_address, on_bus[-1].pci_address)


def _unclaimed(addresses: Tuple[Optional[str], ...], on_bus: Sequence[PciGpu]) -> Tuple[str, ...]:
    """GPUs of the bus that the driver does not know, unless they were given away or may be one that told no address."""
    left = tuple(gpu.pci_address for gpu in on_bus if gpu.pci_address not in addresses and not gpu.given_away)
    return left if len(left) > sum(1 for address in addresses if address is None) else ()
