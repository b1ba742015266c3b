# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many of a GPU's multiprocessors had work between two moments: NVML's GPM, which Hopper and newer GPUs have."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from .call import CODES, Gpu, Kind, Reading, missing

# nvml.h, nvmlGpmMetricId_t, NVML_GPM_METRICS_GET_VERSION
_SM_UTIL, _SM_OCCUPANCY, _VERSION = 2, 3, 1
# nvml.h, nvmlGpmMetricsGet: two samples should lie more than 100 ms apart.
LEAST_SECONDS = 0.2


class Activity:
    """Of one GPU, in the child process of a session. The first interval begins now."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._without: Optional[Reading[float]] = None
        self._samples: List[Any] = []
        supported = gpu.read("nvmlGpmQueryDeviceSupport").map(lambda answer: bool(answer.isSupportedDevice))
        if not supported.value:
            reason = supported.reason or "the driver tells it of Hopper and newer GPUs only"
            self._without = missing(reason, supported.kind or Kind.ABSENT)
            return
        for _number in range(2):
            sample = gpu.nvml.read(gpu.name, "nvmlGpmSampleAlloc")
            first = gpu.read("nvmlGpmSampleGet", sample.value) if sample.ok else sample
            if not first.ok:
                self._without = missing(first.reason or "", first.kind or Kind.FAILED)
                return
            self._samples.append(sample.value)

    def since_last(self) -> Tuple[Reading[float], Reading[float]]:
        """The percentage of multiprocessors that had work, and of their places for warps that were taken."""
        if self._without is not None:
            return self._without, self._without
        before, now = self._samples
        taken = self._gpu.read("nvmlGpmSampleGet", now)
        if not taken.ok:
            return taken, taken
        self._samples = [now, before]
        wanted = self._gpu.nvml.binding.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics, wanted.sample1, wanted.sample2 = _VERSION, 2, before, now
        wanted.metrics[0].metricId, wanted.metrics[1].metricId = _SM_UTIL, _SM_OCCUPANCY
        answer = self._gpu.nvml.read(self._gpu.name, "nvmlGpmMetricsGet", wanted)
        if not answer.ok:
            return answer, answer
        return _percent(wanted.metrics[0]), _percent(wanted.metrics[1])


def _percent(metric: Any) -> Reading[float]:
    code, value = int(metric.nvmlReturn), float(metric.value)
    if code:
        reason = CODES[code][2] if code in CODES else "the NVML code {0}".format(code)
        return missing(reason, Kind.NO_DATA)
    if not 0 <= value <= 101:  # so does what is no number; a little more than all of it is a matter of rounding
        return missing("{0} is no percentage".format(value), Kind.UNUSABLE)
    return Reading(min(value, 100.0))
