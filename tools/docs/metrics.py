# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/metrics.md: what the node command tells of GPUs, and the fields that dcgm-exporter is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple

from . import command
from .markup import table

_UNITS = (
    ("bytes_per_second", "bytes/s"),
    ("_celsius", "°C"),
    ("_watts", "W"),
    ("_joules", "J"),
    ("_hertz", "Hz"),
    ("_bytes", "bytes"),
    ("_seconds", "s"),
    ("_ratio", "0 to 1"),
)
# Beside those of the GPU.
_OTHER = {
    "gpu_info": ("driver_version",),
    "gpu_job": ("GPU_I_ID", "GPU_I_PROFILE", "hpc_job"),
    "metrics_nvml": ("status",),
}
_INSTANCE = ("GPU_I_ID", "GPU_I_PROFILE")


def unit(name: str) -> str:
    return next((told for word, told in _UNITS if word in name), "")


def of_gpus(root: Path) -> str:
    families, render = command.library(root, "metrics.families"), command.library(root, "metrics.render")
    seen: Any = command.library(root, "metrics.types").Seen("ok", None)
    labels: Dict[str, Tuple[str, ...]] = {one.name: one.labels for one in families.GPU}
    labels.update({one.name: _INSTANCE for one in families.PARTS}, **_OTHER)
    rows: List[Tuple[str, ...]] = []
    for name, kind, told, _samples in render.metrics(seen):
        rows.append(
            (
                "`{0}{1}`".format(command.library(root, "core.exposition").PREFIX, name),
                kind,
                unit(name),
                " ".join("`{0}`".format(one) for one in labels.get(name, ())),
                told,
            )
        )
    return table(("Metric", "Kind", "Unit", "More labels", "Meaning"), rows)


def of_dcgm(root: Path) -> str:
    fields = command.library(root, "facts.dcgm").FIELDS
    return table(("Field", "Kind", "Meaning"), [("`{0}`".format(one.name), one.kind, one.help) for one in fields])
