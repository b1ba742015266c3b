# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA's dcgm-exporter is to tell: the fields of its file, and what it tells of them. Pure.

A line of the file is ``FIELD, gauge|counter|label, help``, and the name of the field is that of the metric. DCGM 4.6
renamed fields and takes the former names all the same, so one file is right for 3.x and 4.x. A field that DCGM has none
of ends the exporter; one that a GPU or its driver does not tell is just not there, which :func:`missing` finds.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, Iterable, List, Sequence, Tuple

from ..core.frozen import frozen
from ..core.managed_files import MARKER
from ..core.one_line import line

#: As an option gives one: taken away with a minus; a counter has that word behind it.
FIELD = r"-?DCGM_[A-Z0-9_]{3,80}(?: (?:gauge|counter|label))?"


@frozen
class Field:
    """``profiling``: it is counted by the hardware that profilers use, from Volta on. ``event``: it is only there
    where something happened."""

    name: str
    kind: str
    help: str
    profiling: bool = False
    event: bool = False


def _prof(name: str, told: str, kind: str = "gauge") -> Field:
    return Field("DCGM_FI_PROF_" + name, kind, told, profiling=True)


def _dev(name: str, told: str, kind: str = "gauge") -> Field:
    return Field("DCGM_FI_DEV_" + name, kind, told)


# The names and kinds are those of the exporter's own default-counters.csv.
FIELDS: Tuple[Field, ...] = (
    _dev("SM_CLOCK", "Clock of the multiprocessors (in MHz)."),
    _dev("MEM_CLOCK", "Clock of the memory (in MHz)."),
    _dev("GPU_TEMP", "Temperature of the GPU (in C)."),
    _dev("MEMORY_TEMP", "Temperature of its memory (in C)."),
    _dev("POWER_USAGE", "Power that it takes (in W)."),
    _dev("POWER_MGMT_LIMIT", "Power limit in force (in W)."),
    _dev("TOTAL_ENERGY_CONSUMPTION", "Energy since the driver was loaded (in mJ).", "counter"),
    _dev("GPU_UTIL", "Share of the last moment in which a kernel ran (in %)."),
    _dev("FB_USED", "Memory in use (in MiB)."),
    _dev("FB_FREE", "Memory that is free (in MiB)."),
    _dev("FB_RESERVED", "Memory that the driver keeps (in MiB)."),
    _dev("PCIE_REPLAY_COUNTER", "Packets that PCIe sent again.", "counter"),
    _dev("XID_ERRORS", "The last Xid; it stays until the exporter starts."),
    Field("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xids of the last minutes, by code.", event=True),
    Field("DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "Slow-downs of the last minutes, by reason.", event=True),
    _dev("ECC_SBE_VOL_TOTAL", "Corrected bit errors since the driver was loaded.", "counter"),
    _dev("ECC_DBE_VOL_TOTAL", "Uncorrected bit errors since the driver was loaded.", "counter"),
    _dev("CORRECTABLE_REMAPPED_ROWS", "Rows remapped for corrected errors.", "counter"),
    _dev("UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped for uncorrected errors.", "counter"),
    _dev("ROW_REMAP_FAILURE", "1: no spare row was left."),
    _dev("ROW_REMAP_PENDING", "1: a row is remapped with the next reset."),
    _dev("NVLINK_BANDWIDTH_TOTAL", "Bandwidth of all NVLinks.", "counter"),
    _dev("NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "CRC errors of flits of all NVLinks.", "counter"),
    _dev("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "CRC errors of data of all NVLinks.", "counter"),
    _dev("NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Replays of all NVLinks.", "counter"),
    _dev("NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "Recoveries of all NVLinks.", "counter"),
    _prof("GR_ENGINE_ACTIVE", "Share of time in which a kernel ran."),
    _prof("SM_ACTIVE", "Share of multiprocessors that had work."),
    _prof("SM_OCCUPANCY", "Share of places for warps that were taken."),
    _prof("PIPE_TENSOR_ACTIVE", "Share of cycles in which tensor cores worked."),
    _prof("DRAM_ACTIVE", "Share of cycles in which memory was read or written."),
    _prof("PIPE_FP64_ACTIVE", "Share of cycles in which FP64 units worked."),
    _prof("PIPE_FP32_ACTIVE", "Share of cycles in which FP32 units worked."),
    _prof("PIPE_FP16_ACTIVE", "Share of cycles in which FP16 units worked."),
    _prof("PCIE_TX_BYTES", "Sent over PCIe (bytes per second)."),
    _prof("PCIE_RX_BYTES", "Received over PCIe (bytes per second)."),
    _prof("NVLINK_TX_BYTES", "Sent over NVLink (bytes per second)."),
    _prof("NVLINK_RX_BYTES", "Received over NVLink (bytes per second)."),
    Field("DCGM_FI_DRIVER_VERSION", "label", "Version of the driver."),
)


def chosen(changes: Sequence[str], profiling: bool = True) -> Tuple[Field, ...]:
    """The fields, with those that ``changes`` add, and without those that they take away. ``profiling``: the GPUs
    have counters for it."""
    found: Dict[str, Field] = {one.name: one for one in FIELDS if profiling or not one.profiling}
    for word in changes:
        name, dummy, kind = word.lstrip("-").partition(" ")
        if word.startswith("-"):
            found.pop(name, None)
        else:
            known = next((one for one in FIELDS if one.name == name), None)
            found[name] = known or Field(name, kind or "gauge", "As declared.", event=True)
    return tuple(found.values())


def table(fields: Iterable[Field]) -> str:
    """The text of the file."""
    lines = [MARKER, "# Each line: field of DCGM, kind of metric, help."]
    return "\n".join(lines + ["{0}, {1}, {2}".format(one.name, one.kind, line(one.help)) for one in fields]) + "\n"


_SAMPLE = re.compile(r"^(DCGM_[A-Z0-9_]+)\{", re.MULTILINE)


def told(exposition: str) -> FrozenSet[str]:
    """The fields that the exporter tells of."""
    return frozenset(_SAMPLE.findall(exposition))


def missing(fields: Iterable[Field], names: FrozenSet[str]) -> List[str]:
    """The fields that should be told, and are not. A label is told with the others."""
    return [one.name for one in fields if one.kind != "label" and not one.event and one.name not in names]


_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)(?:-(\d+)\.(\d+)\.(\d+))?")


def unpaired(exporter: str, engine: str) -> Tuple[str, str]:
    """What ``dcgm-exporter --version`` and ``dcgmi --version`` say: the two versions of DCGM, where they differ in the
    first two numbers; otherwise empty ones. The exporter tells its own version behind that of the DCGM that it was made
    with (``4.5.3-4.8.2``)."""
    made_for, there = _VERSION.search(exporter), _VERSION.search(engine)
    if made_for is None or there is None or made_for.group(4) is None:
        return "", ""
    if made_for.group(1, 2) == there.group(1, 2):
        return "", ""
    return ".".join(made_for.group(1, 2, 3)), ".".join(there.group(1, 2, 3))
