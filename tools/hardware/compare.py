# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints of each GPU, and what the library says of it, column by column. Pure.

Each column names the value of ``gpu_info`` and how both become comparable. A figure of the moment may differ by a
little; None of ours is an absent value of nvidia-smi.
"""

from __future__ import annotations

import csv
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

_ABSENT = re.compile(r"\[?(N/A|Not Supported|Unknown Error|Requested functionality.*|Not Found|GPU.*lost)\]?")
MIB = 2**20


class Column(NamedTuple):
    """``path``: of the value in the document of a GPU. ``unit``: ours in one of nvidia-smi's. ``within``: how far the
    figures may differ. ``words``: how nvidia-smi says our value."""

    name: str
    path: str
    unit: float = 1.0
    within: float = 0.0
    words: Optional[Mapping[Any, str]] = None


class Difference(NamedTuple):
    gpu: int
    column: str
    nvidia_smi: str
    ours: str

    def __str__(self) -> str:
        return "GPU {0}: {1}: nvidia-smi {2}, gpunode {3}".format(*self)


_ON = {True: "Enabled", False: "Disabled"}
_MODES = {"default": "Default", "exclusive_process": "Exclusive_Process", "prohibited": "Prohibited"}
COLUMNS = (
    Column("index", "index"),
    Column("name", "name"),
    Column("uuid", "uuid"),
    Column("serial", "serial"),
    Column("pci.bus_id", "pci_address"),
    Column("driver_version", "driver_version"),
    Column("memory.total", "memory.total_bytes", MIB, 1),
    Column("memory.reserved", "memory.reserved_bytes", MIB, 16),
    Column("memory.used", "memory.used_bytes", MIB, 256),
    Column("persistence_mode", "settings.persistence", words=_ON),
    Column("compute_mode", "settings.compute_mode", words=_MODES),
    Column("mig.mode.current", "settings.mig_current", words=_ON),
    Column("mig.mode.pending", "settings.mig_pending", words=_ON),
    Column("ecc.mode.current", "ecc.current", words=_ON),
    Column("ecc.mode.pending", "ecc.pending", words=_ON),
    Column("ecc.errors.corrected.volatile.total", "ecc.total.volatile_corrected"),
    Column("ecc.errors.uncorrected.volatile.total", "ecc.total.volatile_uncorrected"),
    Column("ecc.errors.corrected.aggregate.total", "ecc.total.aggregate_corrected"),
    Column("ecc.errors.uncorrected.aggregate.total", "ecc.total.aggregate_uncorrected"),
    Column("clocks.max.graphics", "clocks.max_graphics_mhz"),
    Column("clocks.max.sm", "clocks.max_sm_mhz"),
    Column("clocks.max.memory", "clocks.max_memory_mhz"),
    Column("clocks.applications.graphics", "clocks.application_graphics_mhz"),
    Column("clocks.applications.memory", "clocks.application_memory_mhz"),
    Column("clocks.default_applications.graphics", "clocks.default_application_graphics_mhz"),
    Column("clocks.default_applications.memory", "clocks.default_application_memory_mhz"),
    Column("power.limit", "power.limit_watts", 1, 0.01),
    Column("enforced.power.limit", "power.enforced_limit_watts", 1, 0.01),
    Column("power.default_limit", "power.default_limit_watts", 1, 0.01),
    Column("power.min_limit", "power.min_limit_watts", 1, 0.01),
    Column("power.max_limit", "power.max_limit_watts", 1, 0.01),
    Column("pcie.link.gen.max", "pcie.max_generation"),
    Column("pcie.link.gen.gpumax", "pcie.gpu_max_generation"),
    Column("pcie.link.width.max", "pcie.max_width_lanes"),
    Column("pcie.link.width.current", "pcie.current_width_lanes"),
    Column("temperature.gpu", "temperature.gpu_celsius", 1, 10),
    Column("temperature.memory", "temperature.memory_celsius", 1, 10),
)


def rows(text: str, columns: Sequence[Column]) -> List[Dict[str, str]]:
    """The output of ``--query-gpu`` with ``--format=csv,noheader,nounits``: one dictionary for each GPU."""
    names = [column.name for column in columns]
    return [dict(zip(names, row)) for row in csv.reader(text.splitlines(), skipinitialspace=True) if row]


def differences(told: Sequence[Mapping[str, str]], document: Mapping[str, Any]) -> List[Difference]:
    """``told``: the rows of nvidia-smi. ``document``: that of ``gpu_info``."""
    gpus = document["gpus"]
    found = []
    if len(told) != len(gpus):
        found.append(Difference(-1, "number of GPUs", str(len(told)), str(len(gpus))))
    for row, gpu in zip(told, gpus):
        gpu = dict(gpu, driver_version=document.get("driver_version"))
        for column in COLUMNS:
            if column.name in row and not _equal(column, row[column.name].strip(), value(gpu, column.path)):
                found.append(Difference(int(gpu["index"]), column.name, row[column.name], str(value(gpu, column.path))))
    return found


def value(gpu: Mapping[str, Any], path: str) -> Any:
    value: Any = gpu
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _equal(column: Column, told: str, ours: Any) -> bool:
    if ours is None or _ABSENT.fullmatch(told):
        return ours is None and _ABSENT.fullmatch(told) is not None
    if column.words is not None:
        return column.words.get(ours) == told
    if column.name == "pci.bus_id":
        return re.sub(r"^0+(?=[0-9a-f]{4}:)", "", told.lower()) == str(ours).lower()
    try:
        return abs(float(told) - float(ours) / column.unit) <= column.within
    except ValueError:
        return told == str(ours)
