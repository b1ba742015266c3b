# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host to device and back, for each GPU from the memory of its own NUMA node.

With nvbandwidth where it is (the limits of the profiles were found with it), otherwise with our own copies from pinned
memory: the same copy engines, the same unit, the median of several samples.
"""

from __future__ import annotations

import functools
from typing import Dict, List, Optional, Tuple

from ...core.resource import NodeError
from ..evidence import Evidence
from ..parse import nvbandwidth
from ..types import Check, Cost, Expected, Judgement, Machine, Remedy, Span
from . import apart, survey, tools
from .cuda import Cuda, rates
from .readings import Figure, Reading, Readings, judge, of_silent, unmeasured

TO, FROM = "host_to_device_gigabytes_per_second", "device_to_host_gigabytes_per_second"
_REMEDY = "compare the PCIe link with the check of its width and generation, then reboot; replace it if it stays"
FIGURES: Dict[str, Figure] = {
    TO: Figure("host to device", "GB/s", _REMEDY, Remedy.REBOOT, "host_device_share_of_siblings"),
    FROM: Figure("device to host", "GB/s", _REMEDY, Remedy.REBOOT, "host_device_share_of_siblings"),
}
_TESTS = {"host_to_device_memcpy_ce": TO, "device_to_host_memcpy_ce": FROM}
_GPU_SECONDS = 60.0
# 256 MiB a copy is far beyond what the rate still depends on; 4 in a row hide the cost of asking for one.
_SIZE, _SAMPLES, _COPIES = 256 * 2**20, 9, 4
Figures = Tuple[Tuple[str, float], ...]


def look(evidence: Evidence) -> Readings:
    found = survey.gpus(evidence)
    if found is None or not (found.gpus or found.silent):
        return Readings(not_applicable="no GPU of this node is there to be measured as a whole")
    program = tools.find(evidence.host, evidence.settings, "nvbandwidth")
    readings: List[Reading] = []
    for gpu in found.gpus:
        task = functools.partial(_own, gpu) if program is None else functools.partial(_nvbandwidth, program, gpu)
        try:
            figures = apart.measure(gpu.label, _GPU_SECONDS, task, gpu.numa_node, gpu.cpus)
            readings.append(Reading(gpu.label, gpu.pci_address, figures, kind=gpu.name))
        except NodeError as error:
            readings.append(unmeasured(gpu.label, gpu.pci_address, error))
    return Readings("our own copies" if program is None else "nvbandwidth", tuple(readings) + of_silent(found))


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


def _own(gpu: survey.Gpu) -> Figures:
    """In a child that is bound to the node of the GPU."""
    apart.become([gpu.uuid])
    return own_rates(Cuda())


def own_rates(cuda: Cuda, size: int = _SIZE, samples: int = _SAMPLES, copies: int = _COPIES) -> Figures:
    """Of the first device that this process sees."""
    cuda.shows(1)
    device = cuda.open(0)
    host, pointer = cuda.host_memory(size), device.memory(size)
    to, dummy = rates(device, size, samples, copies, "cuMemcpyHtoDAsync_v2", pointer, host, size)
    back, dummy = rates(device, size, samples, copies, "cuMemcpyDtoHAsync_v2", host, pointer, size)
    return (TO, to), (FROM, back)


def judge_rates(seen: Readings, expected: Expected) -> Judgement:
    return judge(seen, expected, FIGURES)


def span(machine: Machine) -> Optional[Span]:
    """One GPU after another, each in a process of its own."""
    return Span(2.0 * machine.gpus, 3.0 * machine.gpus) if machine.gpus else None


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
