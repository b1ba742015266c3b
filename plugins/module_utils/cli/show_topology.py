# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode topo``: what hangs on which NUMA node."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, List

from .. import topology
from ..host import Host
from .table import print_json, size, table


def run(host: Host, arguments: argparse.Namespace) -> int:
    found = topology.look(host)
    if arguments.json:
        print_json(topology.to_dict(found))
        return 0
    content = topology.to_dict(found)
    rows = []
    for node in content["numa_nodes"]:
        here = node["id"]
        rows.append(
            [
                here,
                node["cpu_list"],
                size(node["memory_bytes"]),
                _names(content["gpus"], here, "index"),
                _names(content["infiniband"], here, "name"),
                _names(content["nvme"], here, "name"),
            ]
        )
    print("\n".join(table(("NUMA", "CPUS", "MEMORY", "GPUS", "INFINIBAND", "NVME"), rows)))
    homeless = [
        device["name"]
        for kind in ("gpus", "infiniband", "nvme")
        for device in content[kind]
        if device["numa_node"] is None
    ]
    if homeless:
        print("without a NUMA node: {0}".format(" ".join(homeless)))
    if found.gpus_reason:
        print(found.gpus_reason)
    for note in found.notes:
        print("note: {0}".format(note))
    return 0


def _names(devices: List[Dict[str, Any]], node: int, key: str) -> str:
    here = [device for device in devices if device["numa_node"] == node]
    return " ".join(str(device["name"] if device[key] is None else device[key]) for device in here)
