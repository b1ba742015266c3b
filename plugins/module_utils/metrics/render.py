# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was seen to the file of metrics. Pure.

Labels are those of NVIDIA's dcgm-exporter, so that a query finds the same GPU whoever told of it.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from ..core.exposition import GAUGE, PREFIX, Exposition, Labels
from ..core.frozen import replaced
from ..facts.gpu_info.types import GpuInformation
from ..facts.nvml.identity import dcgm_address
from . import families
from .types import Part, Seen

FILE_COMMENT = "Metrics of the GPUs of this node, from NVML."


Samples = List[Tuple[Labels, float]]
Metric = Tuple[str, str, str, Samples]


def render(seen: Seen) -> str:
    told = Exposition(FILE_COMMENT)
    for metric in metrics(seen):
        told.add(*metric)
    return told.text()


def document(seen: Seen) -> Dict[str, Any]:
    """The same for programs."""
    return {
        "status": seen.status,
        "notes": list(seen.notes),
        "metrics": [
            {
                "name": PREFIX + name,
                "type": kind,
                "help": what,
                "samples": [{"labels": dict(names), "value": value} for names, value in samples],
            }
            for name, kind, what, samples in metrics(seen)
            if samples
        ],
    }


def metrics(seen: Seen) -> Iterator[Metric]:
    """Name without the prefix, kind, help, samples."""
    yield "gpus", GAUGE, "GPUs that answer.", [({}, float(sum(gpu.fault is None for gpu in seen.gpus)))]
    yield "gpus_on_bus", GAUGE, "NVIDIA GPUs that the PCI bus shows.", [({}, float(seen.on_bus))]
    up: Samples = [(labels(gpu), float(gpu.fault is None)) for gpu in seen.gpus]
    yield "gpu_up", GAUGE, "1: the GPU answered; 0: it was lost or hung.", up
    driver = {"driver_version": seen.driver_version or "unknown"}
    info: Samples = [(dict(labels(gpu), **driver), 1.0) for gpu in seen.gpus]
    yield "gpu_info", GAUGE, "What it is.", info
    for family in families.GPU:
        samples: Samples = [(dict(labels(gpu), **more), value) for gpu in seen.gpus for more, value in family.of(gpu)]
        yield family.name, family.kind, family.help, samples
    of_parts: List[Tuple[Labels, Part]] = [
        (labels(gpu, part), _with_memory(gpu, part))
        for gpu in seen.gpus
        for part in seen.parts.get(gpu.identity.pci_address, (_WHOLE,))
    ]
    for one in families.PARTS:
        values = [(names, one.of(part)) for names, part in of_parts]
        yield one.name, GAUGE, one.help, [(names, value) for names, value in values if value is not None]
    yield "gpu_job", GAUGE, "1 for each job that has it. Join other metrics with it.", _jobs(seen)
    failed: Samples = [(labels(gpu), float(len(gpu.failed))) for gpu in seen.gpus if gpu.fault is None]
    yield "gpu_untold", GAUGE, "Readings that it has and did not tell.", failed
    what = "Jobs whose profiler has the counters of the hardware, so that no activity is told."
    yield "metrics_profiled_jobs", GAUGE, what, [({}, float(len(seen.profilers)))]
    yield "metrics_nvml", GAUGE, "1 for what NVML of this node is.", [({"status": seen.status}, 1.0)]
    yield "metrics_duration_seconds", GAUGE, "How long reading took.", [({}, round(seen.seconds, 3))]
    what = "When it was read; an old one means that nobody reads."
    yield "metrics_timestamp_seconds", GAUGE, what, [({}, seen.time)]
    every: Samples = [] if seen.interval_seconds is None else [({}, float(seen.interval_seconds))]
    yield "metrics_interval_seconds", GAUGE, "Seconds between two readings.", every


_WHOLE = Part()


def labels(gpu: GpuInformation, part: Part = _WHOLE) -> Dict[str, str]:
    """Of a GPU that is lost, those that it has told."""
    identity = gpu.identity
    found = {
        "gpu": str(identity.index),
        "UUID": identity.uuid or "",
        "pci_bus_id": dcgm_address(identity.pci_address or ""),
        "modelName": identity.name or "",
    }
    if part.instance is not None:
        found.update(GPU_I_ID=str(part.instance), GPU_I_PROFILE=part.profile)
    return found


def _with_memory(gpu: GpuInformation, part: Part) -> Part:
    memory = gpu.groups.get("memory")
    if part.instance is not None or memory is None:
        return part
    return replaced(part, memory_used_bytes=memory.used_bytes, memory_total_bytes=memory.total_bytes)


def _jobs(seen: Seen) -> Samples:
    found: Samples = []
    for gpu in seen.gpus:
        for part in (_WHOLE, *seen.parts.get(gpu.identity.pci_address, ())):
            for job in seen.jobs.get((gpu.identity.index, part.instance), ()):
                found.append((dict(labels(gpu, part), hpc_job=job), 1.0))
    return found
