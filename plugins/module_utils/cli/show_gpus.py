# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode info``: the GPUs."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, Optional, Sequence

from .. import gpu_info
from ..gpu_info.types import GpuInformation
from ..host import Host
from .ending import DONE, NOT_DONE
from .table import print_json, table

# What the table shows; the whole of it is in the module gpu_info and takes longer.
GROUPS = ("memory", "settings", "clocks", "power", "temperature", "processes", "repair")


def run(host: Host, arguments: argparse.Namespace) -> int:
    """The GPUs. Status 1 when they cannot all be read, so that scripts notice."""
    found = gpu_info.gather(gpu_info.Options(groups=GROUPS))
    if arguments.json:
        print_json(found.to_dict())
    else:
        if found.gpus:
            print("driver {0}, CUDA {1}".format(found.driver_version or "-", found.cuda_version or "-"))
            rows = [_gpu_row(gpu) for gpu in found.gpus]
            print("\n".join(table(("GPU", "ADDRESS", "PRODUCT", "MHz", "PERSIST", "W", "C", "PROCS"), rows)))
        if found.status != "ok":
            print(found.message)
    return DONE if found.status in ("ok", "no_gpu") else NOT_DONE


def _gpu_row(gpu: GpuInformation) -> Sequence[object]:
    if gpu.fault is not None:
        told = "DOES NOT ANSWER: {0}".format(gpu.fault.reason)
        return [gpu.identity.index, gpu.identity.pci_address, told]
    groups: Dict[str, Any] = dict(gpu.groups)
    clocks, power = groups["clocks"], groups["power"]
    running = groups["processes"].running
    return [
        gpu.identity.index,
        gpu.identity.pci_address,
        # All of them are NVIDIA's, and the longest names (GeForce ... Laptop GPU) fill the line.
        (gpu.identity.name or "").replace("NVIDIA ", "", 1),
        "{0}+{1}".format(_number(clocks.graphics_mhz), _number(clocks.memory_mhz)),
        {True: "on", False: "off"}.get(groups["settings"].persistence),
        None if power.usage_watts is None else "{0:.0f}".format(power.usage_watts),
        groups["temperature"].gpu_celsius,
        None if running is None else len(running),
    ]


def _number(value: Optional[int]) -> str:
    return "-" if value is None else str(value)
