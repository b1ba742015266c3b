# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host to device and back, for each GPU from the memory of its own NUMA node: alone, both ways, and all GPUs at once.

One process for each GPU. Those that share a PCIe path or the memory of a NUMA node take turns, the others copy at the
same time. Then all of them read from the host at once, as the data loaders of a job do.

With nvbandwidth where it is (the limits of the profiles were found with it), otherwise with our own copies from pinned
memory: the same copy engines, the same unit, the median of several samples.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import time
from typing import Dict, List, Optional, Sequence, Set, Tuple

from ...core.frozen import replaced
from ...core.resource import NodeError
from ..data.product_limits import limit_of
from ..evidence import Evidence
from ..parse import nvbandwidth
from ..types import Check, Cost, Expected, Judgement, Machine, Remedy, Span
from . import apart, copies, memory_patterns, paths, survey, tools
from .copies import Copy
from .cuda import Cuda
from .readings import Figure, Reading, Readings, code_of, judge, of_silent, unmeasured
from .turns import Turns

TO, FROM = "host_to_device_gigabytes_per_second", "device_to_host_gigabytes_per_second"
BOTH = "host_device_both_directions_gigabytes_per_second"
TOGETHER = "host_to_device_together_gigabytes_per_second"
_REMEDY = "compare the PCIe link with the check of its width and generation, then reboot; replace it if it stays slow"
_TOGETHER_REMEDY = "compare the placement of GPUs and NUMA nodes with a node of the same kind (gpunode topo)"
FIGURES: Dict[str, Figure] = {
    TO: Figure("host to device", "GB/s", _REMEDY, Remedy.REBOOT, "host_device_share_of_siblings", limit_of(TO)),
    FROM: Figure("device to host", "GB/s", _REMEDY, Remedy.REBOOT, "host_device_share_of_siblings", limit_of(FROM)),
    BOTH: Figure("both directions at once", "GB/s", _REMEDY, Remedy.REBOOT, "host_device_share_of_siblings"),
    TOGETHER: Figure(
        "host to device while all GPUs copy", "GB/s", _TOGETHER_REMEDY, Remedy.LOOK, "host_device_together_share"
    ),
}
_TESTS = {"host_to_device_memcpy_ce": TO, "device_to_host_memcpy_ce": FROM}
_GPU_SECONDS = 60.0
# 128 MiB is beyond what the rate still depends on, and beyond the caches of most processors.
_SIZE, _BLOCK = 128 * 2**20, 2**20
_TOGETHER_SECONDS = 0.5
_ALONE = 1  # the step of Turns that ends when a GPU has copied alone
_CHANGED = "data that was copied between it and its host is changed ({0})"
_REPLACE = "keep jobs off it, and replace the GPU or the machine: its PCIe link changes data silently"
Figures = Tuple[Tuple[str, float], ...]


@dataclasses.dataclass(frozen=True)
class Copied:
    """What one GPU reached. ``together``: None where it is the only one. ``changed``: how data differs after a copy,
    or ""."""

    alone: Figures
    together: Optional[float]
    changed: str


def look(evidence: Evidence) -> Readings:
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Readings(not_applicable="no GPU of this node is there to be measured as a whole")
    program = tools.find(evidence.host, evidence.settings, "nvbandwidth")
    way = paths.host_paths([gpu.pci_address for gpu in found.gpus], evidence.topology)
    turns = Turns(len(found.gpus))
    tasks = [
        apart.Task(gpu.label, functools.partial(_copied, gpu, number, before, turns, program), gpu.numa_node, gpu.cpus)
        for number, (gpu, before) in enumerate(zip(found.gpus, paths.waits_for(way)))
    ]
    readings: List[Reading] = []
    answers = apart.side_by_side(tasks, _GPU_SECONDS, ended=turns.gone)
    for gpu, answer, alike in zip(found.gpus, answers, paths.sharers(way)):
        try:
            readings += of_copied(gpu, answer(), alike)
        except NodeError as error:
            readings.append(unmeasured(gpu.label, gpu.pci_address, error))
    return Readings("our own copies" if program is None else "nvbandwidth", tuple(readings) + of_silent(found))


def of_copied(gpu: survey.Gpu, copied: Copied, alike: Tuple[int, int]) -> List[Reading]:
    """Pure. All GPUs at once are slower where several share a path, so only GPUs with equally many are compared."""
    kind = "{0}, {1} on its PCIe path, {2} on its memory".format(gpu.name, *alike)
    readings = [Reading(gpu.label, gpu.pci_address, copied.alone, kind=gpu.name, no_limit=gpu.no_limit_of_copies)]
    if copied.together is not None:
        readings.append(Reading(gpu.label, gpu.pci_address, ((TOGETHER, copied.together),), kind=kind))
    if copied.changed:
        reason, fault = _CHANGED.format(copied.changed), Remedy.REPLACE.value
        readings[0] = dataclasses.replace(readings[0], reason=reason, remedy=_REPLACE, fault=fault, code="data_changed")
    return readings


def _nvbandwidth(program: str, gpu: survey.Gpu) -> Figures:
    """In a child that is bound to the node of the GPU. 0.4 has no JSON: it refuses -j, and is asked for text."""
    argv = [program, "-t", *_TESTS, "-d"]
    environment = apart.environment([gpu.uuid])
    ended = apart.run([*argv, "-j"], _GPU_SECONDS / 2, environment)
    if ended.returncode and "Invalid Arguments" in ended.stdout + ended.stderr:
        ended = apart.run(argv, _GPU_SECONDS / 2, environment)
    return of_tests(nvbandwidth.parse(ended.stdout if ended.stdout.strip() else ended.stderr))


def of_tests(tests: Tuple[nvbandwidth.Test, ...]) -> Figures:
    """Pure.

    :raises NodeError: when one of the two tests has no figure.
    """
    told: Dict[str, float] = {}
    for test in tests:
        if test.name in _TESTS and len(test.values) == 1:
            told[_TESTS[test.name]] = test.values[0]
        elif test.name in _TESTS:
            reason = test.status if test.status != nvbandwidth.PASSED else "it has {0} values".format(len(test.values))
            raise NodeError("nvbandwidth, test " + test.name, reason, "run it by hand on the node")
    missing = [name for name in _TESTS.values() if name not in told]
    if missing:
        raise NodeError("nvbandwidth", "it did not measure {0}".format(missing[0]), "run it by hand on the node")
    return tuple((name, told[name]) for name in _TESTS.values())


def _copied(gpu: survey.Gpu, number: int, before: Sequence[int], turns: Turns, program: Optional[str]) -> Copied:
    """In a child that is bound to the node of the GPU. ``before``: those that copy before it."""
    _doing("create a CUDA context")
    apart.become([gpu.uuid])
    cuda = Cuda()
    cuda.shows(1)
    alone: Optional[Figures] = None
    if program is not None:
        # Before there is a context here: in exclusive mode a GPU serves one process at a time.
        if before:
            turns.wait(_ALONE, _waiting, before)
        _doing("copy in one direction")
        alone = _nvbandwidth(program, gpu)
    _doing("allocate memory of host and GPU")
    mine = HostCopies(cuda)
    if before:
        turns.wait(_ALONE, _waiting, before)
    if alone is None:
        _doing("copy in one direction")
        alone = mine.alone()
    _doing("copy in both directions")
    both = mine.both()
    changed = mine.changed()
    turns.finished(number, _ALONE)
    together = None
    if turns.count > 1:
        turns.wait(_ALONE, _waiting)
        _doing("copy while all GPUs copy")
        together = mine.together(_TOGETHER_SECONDS)
    return Copied((*alone, (BOTH, both)), together, changed or mine.changed())


def _doing(words: str) -> None:
    apart.doing(words, _GPU_SECONDS)


def _waiting() -> None:
    _doing(apart.WAITING)


class HostCopies:
    """Copies between the first device that this process sees and pinned memory of the node that it is bound to."""

    def __init__(self, cuda: Cuda, most: int = _SIZE) -> None:
        device, second = cuda.open(0), cuda.open(0)  # each has a stream of its own
        self._size = size = copies.size_for(most, device.memory_sizes()[0])
        self._device = device
        self._source, self._sink = cuda.host_memory(size), cuda.host_memory(size)
        self._front, back = device.memory(size), device.memory(size)
        block = memory_patterns.seeded(min(_BLOCK, size), 1)
        for start in range(0, size, len(block)):
            ctypes.memmove(self._source + start, block, min(len(block), size - start))
        device.copy_to(self._front, self._source, size)
        device.copy_to(back, self._source, size)
        self._to = Copy(device, "cuMemcpyHtoDAsync_v2", (self._front, self._source, size), size)
        self._from = Copy(second, "cuMemcpyDtoHAsync_v2", (self._sink, back, size), size)

    def alone(self) -> Figures:
        figures = []
        for name, copy in ((TO, self._to), (FROM, self._from)):
            figures += [(name, rate) for rate in copies.rates([copy], copies.seconds([copy]))]
        return tuple(figures)

    def both(self) -> float:
        """GB/s of both directions added."""
        pair = (self._to, self._from)
        return copies.sum_of_rates(pair, copies.seconds(pair))

    def together(self, seconds: float) -> float:
        """GB/s to the device, for so long; the other GPUs copy meanwhile."""
        deadline = time.monotonic() + seconds
        samples = copies.seconds([self._to], enough=lambda count: time.monotonic() >= deadline)
        return copies.rates([self._to], samples)[0]

    def changed(self) -> str:
        """How the last data that arrived on the host or on the device differs, or ""."""
        told = copies.difference(self._source, self._sink, self._size)
        if not told:
            ctypes.memset(self._sink, 0, self._size)
            self._device.copy_from(self._sink, self._front, self._size)
            told = copies.difference(self._source, self._sink, self._size)
        return told


def judge_rates(seen: Readings, expected: Expected) -> Judgement:
    """Pure. A GPU that is slow in one direction alone is not named once more for both, nor beside the others."""
    judgement = judge(seen, expected, FIGURES)
    told: Set[Tuple[str, str]] = set()
    for easier, harder in ((TO, BOTH), (FROM, BOTH), (TO, TOGETHER), (FROM, TOGETHER), (BOTH, TOGETHER)):
        slow = {one.key for one in judgement.findings if one.code == code_of(easier)}
        told |= {(key, code_of(harder)) for key in slow}
    return replaced(judgement, findings=tuple(one for one in judgement.findings if (one.key, one.code) not in told))


def span(machine: Machine) -> Optional[Span]:
    """By calculation, see docs/health_active.md; nvbandwidth takes some seconds for each GPU.

    A part of the copies is not useful, so the least is all of them.
    """
    seconds = 2.0 + (3.5 if "nvbandwidth" in machine.tools else 0.5) * machine.gpus
    return Span(seconds, seconds) if machine.gpus else None


CHECK = Check(
    id="host_device_bandwidth",
    title="Each GPU exchanges data with its host at full rate",
    cost=Cost.ACTIVE,
    judge=judge_rates,
    look=look,
    lane="active",
    seconds=900.0,
    span=span,
)
