# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What parts of a GPU had work between two moments: NVML's GPM, which Hopper and newer GPUs have."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from .call import CODES, Gpu, Kind, Reading, missing

# nvml.h, nvmlGpmMetricId_t. Percent but for those at the end, which are MiB/s.
SM, SM_OCCUPANCY, TENSOR, DRAM, FP64, FP32, FP16 = 2, 3, 5, 10, 11, 12, 13
PCIE_SENT, PCIE_RECEIVED, NVLINK_RECEIVED, NVLINK_SENT = 20, 21, 60, 61
RATES = frozenset([PCIE_SENT, PCIE_RECEIVED, NVLINK_RECEIVED, NVLINK_SENT])
EVERY = (SM, SM_OCCUPANCY, TENSOR, DRAM, FP64, FP32, FP16, PCIE_SENT, PCIE_RECEIVED, NVLINK_SENT, NVLINK_RECEIVED)
_VERSION = 1  # NVML_GPM_METRICS_GET_VERSION
# nvml.h, nvmlGpmMetricsGet: two samples should lie more than 100 ms apart.
LEAST_SECONDS = 0.2
_MEBIBYTE = 2.0**20


class Activity:
    """Of one GPU or of a MIG GPU instance of it, in the child process of a session. The first interval begins now."""

    def __init__(self, gpu: Gpu, metrics: Sequence[int] = (SM, SM_OCCUPANCY), instance: Optional[int] = None) -> None:
        self._gpu = gpu
        self._metrics = tuple(metrics)
        self._instance = instance
        self._without: Optional[Reading[float]] = None
        self._samples: List[Any] = []
        supported = gpu.read("nvmlGpmQueryDeviceSupport").map(lambda answer: bool(answer.isSupportedDevice))
        if not supported.value:
            reason = supported.reason or "the driver tells it of Hopper and newer GPUs only"
            self._without = missing(reason, supported.kind or Kind.ABSENT)
            return
        for _number in range(2):
            sample = gpu.nvml.read(gpu.name, "nvmlGpmSampleAlloc")
            first = self._take(sample.value) if sample.ok else sample
            if not first.ok:
                self._without = missing(first.reason or "", first.kind or Kind.FAILED)
                return
            self._samples.append(sample.value)

    @property
    def told(self) -> bool:
        """Whether there is anything to wait for."""
        return self._without is None

    def since_last(self) -> Tuple[Reading[float], ...]:
        """For each metric the mean since the last call: percent, or bytes per second."""
        if self._without is not None:
            return (self._without,) * len(self._metrics)
        before, now = self._samples
        taken = self._take(now)
        if not taken.ok:
            return (taken,) * len(self._metrics)
        self._samples = [now, before]
        wanted = self._gpu.nvml.binding.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = _VERSION, len(self._metrics)
        wanted.sample1, wanted.sample2 = before, now
        for place, metric in enumerate(self._metrics):
            wanted.metrics[place].metricId = metric
        answer = self._gpu.nvml.read(self._gpu.name, "nvmlGpmMetricsGet", wanted)
        if not answer.ok:
            return (answer,) * len(self._metrics)
        return tuple(_value(metric, wanted.metrics[place]) for place, metric in enumerate(self._metrics))

    def _take(self, sample: Any) -> Reading[Any]:
        if self._instance is None:
            return self._gpu.read("nvmlGpmSampleGet", sample)
        return self._gpu.read("nvmlGpmMigSampleGet", self._instance, sample)


def _value(metric: int, answer: Any) -> Reading[float]:
    code, value = int(answer.nvmlReturn), float(answer.value)
    if code:
        reason = CODES[code][2] if code in CODES else "the NVML code {0}".format(code)
        return missing(reason, Kind.NO_DATA)
    if metric in RATES:
        if not 0 <= value < 1e9:  # a petabyte a second; so does what is no number
            return missing("{0} is no rate".format(value), Kind.UNUSABLE)
        return Reading(value * _MEBIBYTE)
    if not 0 <= value <= 101:  # so does what is no number; a little more than all of it is a matter of rounding
        return missing("{0} is no percentage".format(value), Kind.UNUSABLE)
    return Reading(min(value, 100.0))
