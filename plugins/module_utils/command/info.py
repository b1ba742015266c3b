# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode info``: the GPUs, and what runs on them."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..core.host import Host
from ..core.machine import short_name
from ..core.resource import printable
from ..facts import gpu_info
from ..facts.gpu_info.types import GpuInformation, Information, Process
from ..facts.nvml.selectors import select
from ..facts.sysfs import format_cpulist
from .arguments import add_gpu, add_watch, gpu_selectors
from .exit_status import DONE, NOT_DONE
from .gpu_processes import Owner, Owners
from .output import painter, print_json, size, table, wrapped

HEAD = ("GPU", "ADDRESS", "TEMP", "POWER", "MHz", "MEMORY", "UTIL", "PERSIST")
Line = Tuple[str, str]  # how it is painted, and its text
_GIB = 1024**3
# What slows a GPU down though nobody asked for it; a power cap and idle clocks are everyday life.
_SLOWED = (
    "hardware_thermal_slowdown",
    "software_thermal_slowdown",
    "hardware_power_brake_slowdown",
    "hardware_slowdown",
)
# Of --json; the whole of it is in the module gpu_info and takes longer.
GROUPS = ("memory", "settings", "clocks", "power", "temperature", "load", "processes", "repair")
_OWN = ("user", "command", "job", "container")
DETAILS = """Columns: temperature (Celsius), power and its limit, clocks (graphics + memory),
memory used and total, utilisation (MIG: a partitioned GPU has none as a
whole), persistence mode. Below them, the processes on the GPUs, with the Slurm
job or the container that they belong to.

examples:
  gpunode info                    all GPUs, once
  gpunode info --watch            again every 2 seconds, until ^C
  gpunode info --watch 10 --json  a line of JSON every 10 seconds, for programs
  gpunode info --gpu 0,1          two of them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the GPUs of this node, and what runs on them."
    parser.epilog = DETAILS
    add_gpu(parser)
    add_watch(parser, 2)


def run(host: Host, arguments: argparse.Namespace) -> int:
    """The GPUs. Status 1 when they cannot all be read, so that scripts notice.

    :raises Misuse: when a GPU is named that there is not.
    """
    options = gpu_info.Options(gpu_selectors(arguments.gpu), GROUPS)
    owners = Owners(host)
    status = DONE

    def look() -> Any:
        nonlocal status
        found = gpu_info.gather(options)
        status = DONE if found.status in ("ok", "no_gpu") else NOT_DONE
        if found.status == "no_gpu":
            select((), options.gpus)
        told = owners.of(sorted(set(pids(found))))
        return _plain(found, told) if arguments.json else _text(found, told)

    if arguments.watch is not None:
        from .watch import watch

        return watch(arguments.watch, look)
    picture = look()
    if arguments.json:
        print_json(picture)
    else:
        print(picture)
    return status


def _text(found: Information, owners: Mapping[int, Owner]) -> str:
    paint = painter(sys.stdout)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    return "\n".join(paint(text, kind) if kind else text for kind, text in lines(found, owners, width))


def _plain(found: Information, owners: Mapping[int, Owner]) -> Dict[str, Any]:
    answer = found.to_dict()
    for gpu in answer["gpus"]:
        for process in (gpu["processes"] or {}).get("running") or ():
            process.update((name, getattr(owners[process["pid"]], name)) for name in _OWN)
    return answer


# The lines, one for each GPU and one for each process on it. Pure. ------------------------------------


def pids(found: Information) -> Iterator[int]:
    for gpu in found.gpus:
        for process in _running(gpu) or ():
            yield process.pid


def lines(found: Information, owners: Mapping[int, Owner], width: int) -> List[Line]:
    told: List[Line] = []
    if found.gpus:
        told.append(("", wrapped(_heading(found))))
        rows = table(HEAD, [_gpu(gpu) for gpu in found.gpus])
        told.append(("strong", rows[0]))
        told += [("bad" if gpu.fault else "", row) for gpu, row in zip(found.gpus, rows[1:])]
        told += _processes(found, owners, width)
    if found.status != "ok":
        told.append(("bad" if found.gpus else "", wrapped(found.message)))
    return told + [("warning", wrapped("note: " + note)) for note in _notes(found, owners)]


def _heading(found: Information) -> str:
    counts: Dict[str, int] = {}
    for gpu in found.gpus:
        if gpu.identity.name is not None:
            counts[gpu.identity.name] = counts.get(gpu.identity.name, 0) + 1
    products = ["{0} x {1}".format(count, name) for name, count in counts.items()]
    versions = "driver {0}, CUDA {1}".format(found.driver_version or "-", found.cuda_version or "-")
    return printable("{0}: {1}".format(short_name(), ", ".join([versions, *products])))


def _gpu(gpu: GpuInformation) -> Sequence[object]:
    if gpu.fault is not None:
        return [gpu.identity.index, gpu.identity.pci_address, "DOES NOT ANSWER"]  # why is told below
    groups: Dict[str, Any] = dict(gpu.groups)
    clocks, power, memory, load = groups["clocks"], groups["power"], groups["memory"], groups["load"]
    utilisation = _percent(load.gpu_percent)
    return [
        gpu.identity.index,
        gpu.identity.pci_address,
        _with(groups["temperature"].gpu_celsius, "{0}C"),
        _pair(power.usage_watts, power.limit_watts, "/", "{0:.0f}", "W"),
        _pair(clocks.graphics_mhz, clocks.memory_mhz, "+", "{0}", ""),
        _pair(_gib(memory.used_bytes), _gib(memory.total_bytes), "/", "{0:.1f}", " GiB"),
        "MIG" if utilisation is None and groups["settings"].mig_current else utilisation,
        {True: "on", False: "off"}.get(groups["settings"].persistence),
    ]


def _processes(found: Information, owners: Mapping[int, Owner], width: int) -> List[Line]:
    rows = [_process(gpu, process, owners[process.pid]) for gpu in found.gpus for process in _once(_running(gpu))]
    if not rows:
        return []
    head: List[Optional[str]] = ["GPU", "PID", "USER", "MEMORY", "RUNS IN", "COMMAND"]
    if not any(row[4] for row in rows):  # neither jobs nor containers
        for row in [head, *rows]:
            del row[4]
    made = [line[:width].rstrip() for line in table(head, rows)]
    return [("", ""), ("strong", made[0]), *(("", row) for row in made[1:])]


def _process(gpu: GpuInformation, process: Process, owner: Owner) -> List[Optional[str]]:
    instance = "" if process.gpu_instance_id is None else " gi {0}".format(process.gpu_instance_id)
    within = "job " + owner.job if owner.job else "container " + owner.container if owner.container else None
    return [
        "{0}{1}".format(gpu.identity.index, instance),
        str(process.pid),
        # Users name their processes: nothing of it may reach the terminal raw.
        owner.user and printable(owner.user),
        size(process.used_memory_bytes),
        within,
        printable(owner.command or process.name or ""),
    ]


def _once(running: Optional[Sequence[Process]]) -> List[Process]:
    """A process that computes and draws is in two lists with the same memory. The greatest first."""
    found: Dict[Any, Process] = {}
    for process in running or ():
        found.setdefault((process.pid, process.gpu_instance_id, process.compute_instance_id), process)
    return sorted(found.values(), key=lambda process: -(process.used_memory_bytes or 0))


def _notes(found: Information, owners: Mapping[int, Owner]) -> Iterator[str]:
    if found.status == "no_gpu":
        yield "should it have some: 'lspci -d 10de:' lists those on the PCI bus; a virtual one has those of its size"
    answering = [gpu for gpu in found.gpus if gpu.fault is None]
    slowed: Dict[str, List[int]] = {}
    for gpu in answering:
        for reason in gpu.groups["clocks"].event_reasons or ():
            if reason in _SLOWED:
                slowed.setdefault(reason, []).append(gpu.identity.index)
    for reason, indexes in slowed.items():
        yield "slowed down ({0}): GPU {1}".format(reason, format_cpulist(indexes))
    pending = [
        gpu.identity.index
        for gpu in answering
        if gpu.groups["settings"].mig_current is not gpu.groups["settings"].mig_pending
    ]
    if pending:
        yield "the MIG mode changes with the next reset: GPU {0}".format(format_cpulist(pending))
    unread = [gpu.identity.index for gpu in answering if _running(gpu) is None]
    if unread:
        yield "the driver did not tell the processes: GPU {0}".format(format_cpulist(unread))
    unseen = [str(pid) for pid, owner in owners.items() if not owner.found]
    if unseen:
        yield (
            "not seen from here: {0}; it ended just now, or it is hidden from this user or container: run gpunode as "
            "root on the node itself".format(
                "process{0} {1}".format("es" if len(unseen) > 1 else "", ", ".join(unseen))
            )
        )


def _running(gpu: GpuInformation) -> Optional[Sequence[Process]]:
    group = gpu.groups.get("processes")
    return None if group is None else group.running


def _gib(value: Optional[int]) -> Optional[float]:
    return None if value is None else value / _GIB


def _percent(value: Optional[int]) -> Optional[str]:
    return _with(value, "{0}%")


def _with(value: Optional[float], form: str) -> Optional[str]:
    return None if value is None else form.format(value)


def _pair(one: Optional[float], other: Optional[float], between: str, form: str, unit: str) -> Optional[str]:
    """Two numbers and their unit; a dash for one that is not told, None for both."""
    if one is None and other is None:
        return None
    return between.join("-" if value is None else form.format(value) for value in (one, other)) + unit
