# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a machine with its profile. No I/O.

``fail``: a part is missing, is another one, or sits elsewhere. ``warn``: it cannot be told, or is off by a little.
"""

from __future__ import annotations

import fnmatch
from typing import Any, Iterator, List, Optional, Tuple

from ...core.units import sizes
from ..topology import Topology
from .choose import fabric_ports, product_fits
from .types import Difference, Profile

FAIL = "fail"
WARN = "warn"


def compare(profile: Profile, topology: Topology) -> Tuple[Difference, ...]:
    """All differences, in the order in which a person would look: GPUs, processors, memory, disks, network."""
    parts = (_gpus, _gpu_numa, _numa_nodes, _memory, _nvme, _infiniband)
    return tuple(difference for part in parts for difference in part(profile, topology))


def _gpus(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("gpus")
    if not wanted:
        return
    if len(topology.gpus) != wanted["count"]:
        yield Difference("GPUs on the PCI bus", wanted["count"], len(topology.gpus), FAIL)
    if topology.gpus_reason is not None:
        if wanted["count"]:
            yield Difference("GPUs that NVML reports", wanted["count"], topology.gpus_reason, WARN)
        return
    answering = sum(1 for gpu in topology.gpus if gpu.nvml)
    if answering != wanted["count"]:
        yield Difference("GPUs that NVML reports", wanted["count"], answering, FAIL)
    products = wanted.get("products")
    smallest = wanted.get("memory_bytes_min")
    for gpu in topology.gpus:
        if products and gpu.product is not None and not any(product_fits(gpu.product, one) for one in products):
            yield Difference("product of GPU {0}".format(gpu.name), _one_or_all(products), gpu.product, FAIL)
        if smallest is not None and gpu.memory_bytes is not None and gpu.memory_bytes < smallest:
            least, found = sizes(smallest, gpu.memory_bytes)
            yield Difference("memory of GPU {0}".format(gpu.name), "at least {0}".format(least), found, FAIL)


def _gpu_numa(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("gpu_numa")
    found = list(topology.gpu_numa())
    # A missing GPU is told already; which place of the vector is missing cannot be told.
    if not wanted or len(found) != len(wanted) or found == list(wanted):
        return
    contrary = any(node is not None and node != expected for node, expected in zip(found, wanted))
    yield Difference("NUMA nodes of the GPUs", list(wanted), found, FAIL if contrary else WARN)


def _numa_nodes(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("numa_nodes")
    if wanted is not None:
        # A memory-only node (coherent GPU memory, CXL) is no place to run on.
        with_cpus = [node for node in topology.numa_nodes if node.cpus]
        expected = [node.get("cpus") for node in wanted]
        found = [len(node.cpus) for node in with_cpus]
        if len(found) != len(expected):
            yield Difference("NUMA nodes with CPUs", len(expected), len(found), FAIL)
        elif any(count not in (None, seen) for count, seen in zip(expected, found)):
            yield Difference("CPUs of the NUMA nodes", expected, found, FAIL)
    cpus = profile.get("cpus")
    if cpus is not None and cpus != len(topology.cpus.online):
        yield Difference("CPUs online", cpus, len(topology.cpus.online), FAIL)


def _memory(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("memory")
    if not wanted or topology.memory_bytes is None:
        return
    if abs(topology.memory_bytes - wanted["bytes"]) * 100 > wanted["bytes"] * wanted["tolerance_percent"]:
        expected, found = sizes(wanted["bytes"], topology.memory_bytes)
        yield Difference("memory", "{0} ± {1:g} %".format(expected, wanted["tolerance_percent"]), found, WARN)


def _nvme(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("nvme")
    if not wanted:
        return
    local = [disk for disk in topology.nvme if is_local(wanted, disk.model, disk.serial)]
    # Several disks may be namespaces of one controller (GCP); a controller that shows none is a disk all the same.
    found = sum(max(1, len(disk.namespaces)) for disk in local)
    if found != wanted["count"]:
        yield Difference("local NVMe disks", wanted["count"], found, FAIL)
    for disk in local:
        if disk.state not in (None, "live"):
            yield Difference("state of NVMe disk {0}".format(disk.serial or disk.name), "live", disk.state, FAIL)
        elif not disk.namespaces:
            yield Difference("namespaces of NVMe disk {0}".format(disk.serial or disk.name), 1, 0, FAIL)


def is_local(wanted: Any, model: Optional[str], serial: Optional[str]) -> bool:
    """Whether a disk is one of the profile's local disks: its model or its serial fits one of the patterns."""
    by_model = any(fnmatch.fnmatchcase(model or "", one) for one in wanted.get("models", ()))
    return by_model or any(fnmatch.fnmatchcase(serial or "", one) for one in wanted.get("serials", ()))


def _infiniband(profile: Profile, topology: Topology) -> Iterator[Difference]:
    wanted = profile.get("infiniband")
    if not wanted:
        return
    ports = fabric_ports(topology)
    if len(ports) != wanted["count"]:
        yield Difference("InfiniBand ports", wanted["count"], len(ports), FAIL)
    rate = wanted.get("rate_gigabits_per_second")
    for name, port in ports:
        if port.state is not None and port.state != "ACTIVE":
            yield Difference("state of {0}".format(name), "ACTIVE", port.state, FAIL)
        elif rate is not None and port.rate_gigabits_per_second is not None and port.rate_gigabits_per_second != rate:
            severity = FAIL if port.rate_gigabits_per_second < rate else WARN
            yield Difference("rate of {0} in Gb/s".format(name), rate, port.rate_gigabits_per_second, severity)


def _one_or_all(names: List[str]) -> Any:
    return names[0] if len(names) == 1 else list(names)
