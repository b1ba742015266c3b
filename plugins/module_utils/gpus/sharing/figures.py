# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures that advice is made of, each with its source."""

from __future__ import annotations

from typing import Dict

from ...core.frozen import frozen

_CERN = "Diana Gaponcic (CERN), Services for Machine Learning applications, GPU clusters at CERN, "


@frozen
class Figure:
    value: float
    source: str


FIGURES: Dict[str, Figure] = {
    "time_slicing_loss_percent": Figure(
        38,
        _CERN + "Time-slicing Performance Analysis: context switches cost a simulation on an A100 PCIe 40 GB about "
        "38 % as soon as two shared it, and no more with 4, 8 and more",
    ),
    "most_replicas": Figure(8, _CERN + "Time-slicing Performance Analysis: the most sharers that it gives a number of"),
    "memory_headroom_percent": Figure(
        25, _CERN + "Example Use Cases: the simulation job has 8 GiB, and 2 GiB more at times"
    ),
    "multiprocessors_headroom_percent": Figure(
        25,
        "this collection: as for memory. That an instance does its part of the work: " + _CERN + "MIG Performance "
        "Analysis: the scaling between partitions converges to ideal values",
    ),
    "idle_percent": Figure(1, "this collection: less is what tools that look at a GPU make"),
    "least_samples": Figure(10, "this collection: of fewer, one says too much"),
    "least_seconds": Figure(10, "this collection: a shorter look may lie between two steps of a job"),
    "sample_seconds": Figure(1, "nvml.h, nvmlDeviceGetUtilizationRates: of the last sixth of a second to a second"),
}


def figure(name: str) -> float:
    return FIGURES[name].value
