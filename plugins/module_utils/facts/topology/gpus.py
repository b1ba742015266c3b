# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What topology asks NVML: three calls a GPU."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ..nvml import values
from ..nvml.call import Gpu
from ..nvml.session import CALL_TIMEOUT_SECONDS, Visit, survey
from ..nvml.status import Status
from .types import GpuReading

_MASK_BITS = 64
NOT_ASKED = "NVML was not asked"


@frozen
class _Part:
    memory_bytes: Optional[int]
    cpus: Tuple[int, ...]
    memory_numa_node: Optional[int]


def read(
    host: Host, cpu_count: int, call_timeout: float = CALL_TIMEOUT_SECONDS
) -> Tuple[Tuple[GpuReading, ...], Optional[str]]:
    """NVML's GPUs, and a sentence telling why there is no answer (no library, no driver …) or None.

    ``cpu_count`` is the highest CPU number plus one: as many bits the affinity mask needs.
    """
    words = max(1, (cpu_count + _MASK_BITS - 1) // _MASK_BITS)

    def visit(gpu: Gpu) -> Iterable[_Part]:
        yield _Part(
            memory_bytes=gpu.read("nvmlDeviceGetMemoryInfo").map(lambda memory: values.byte_count(memory.total)).value,
            cpus=gpu.read("nvmlDeviceGetCpuAffinity", words).map(mask_cpus).value or (),
            memory_numa_node=gpu.read("nvmlDeviceGetNumaNodeId").map(values.enumerated).value,
        )

    answer = survey(visit, call_timeout=call_timeout, host=host)
    if answer.status not in (Status.OK, Status.PARTIAL):
        return (), answer.message
    return tuple(_reading(one) for one in answer.visits), None


def mask_cpus(words: Sequence[Any]) -> Tuple[int, ...]:
    """The CPUs of an affinity mask, whose words have 64 bits, the lowest first."""
    value = sum(int(word) << _MASK_BITS * position for position, word in enumerate(words))
    return tuple(number for number in range(value.bit_length()) if value >> number & 1)


def _reading(visit: Visit[_Part]) -> GpuReading:
    identity = visit.identity
    part = visit.parts[0] if visit.parts else _Part(None, (), None)
    return GpuReading(
        index=identity.index,
        uuid=identity.uuid,
        name=identity.name,
        pci_address=identity.pci_address,
        memory_bytes=part.memory_bytes,
        cpus=part.cpus,
        memory_numa_node=part.memory_numa_node,
        fault=None if visit.fault is None else visit.fault.reason,
    )
