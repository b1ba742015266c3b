# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a topology file or a graph file is about this machine. Pure.

A file for a full-size machine on a smaller one, or one for another model, makes NCCL look for paths that are not there:
a graph file for 4 GPUs breaks with fewer, and took two of them from about 220 to about 58 GB/s on Azure's NC48.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional

from ...facts.sysfs import normalise_pci_address, parse_cpumask
from .machine import GPU, NIC, Machine
from .read_xml import Element, Malformed, read

_VERSION = "1"
_KINDS = {"0x03": GPU, "0x02": NIC}
_NAMES = {GPU: "GPU", NIC: "network device"}


def check_xml(text: str, machine: Machine) -> List[str]:
    """How a topology file differs from this machine, a sentence part each; empty when it fits."""
    try:
        system = read(text)
    except Malformed as error:
        return [str(error)]
    if system.name != "system" or system.get("version") != _VERSION:
        return ['its first element is not <system version="1">']
    found: List[str] = []
    in_file: Dict[str, Dict[str, Optional[int]]] = {GPU: {}, NIC: {}}
    nodes = dict(machine.nodes)
    seen: List[str] = []
    for cpu in system.inside:
        if cpu.name != "cpu":
            continue
        node = _number(cpu.get("numaid"))
        where = "<cpu numaid={0!r}>".format(cpu.get("numaid"))
        if node is None or node not in nodes:
            found.append("{0}: this machine has no such NUMA node".format(where))
        elif cpu.get("affinity") is not None and parse_cpumask(cpu.get("affinity")) != nodes[node]:
            found.append("{0}: its affinity is not the CPUs of that node".format(where))
        for element in cpu.walk():
            if element.name == "pci":
                found += _pci(element, node, in_file, seen)
    for kind in (GPU, NIC):
        found += _devices(kind, in_file[kind], machine)
    return found + _numbers(system, machine)


def _pci(
    element: Element, node: Optional[int], in_file: Dict[str, Dict[str, Optional[int]]], seen: List[str]
) -> List[str]:
    written = element.get("busid") or ""
    address = normalise_pci_address(written)
    if address is None or address != written:
        return ["<pci busid={0!r}>: NCCL compares it with sysfs, which writes as in 0001:00:00.0".format(written)]
    if address in seen:
        return ["{0} is in it twice".format(address)]
    seen.append(address)
    kind = _KINDS.get((element.get("class") or "")[:4])
    if kind is not None:
        in_file[kind][address] = node
    return []


def _devices(kind: str, in_file: Dict[str, Optional[int]], machine: Machine) -> List[str]:
    here = {one.address: machine.home(one) for one in machine.of_kind(kind)}
    found = []
    if len(in_file) != len(here):
        found.append("it has {0} {1}s, this machine has {2}".format(len(in_file), _NAMES[kind], len(here)))
    for address in in_file:
        if address not in here:
            found.append("{0} {1} is not on this machine".format(_NAMES[kind], address))
    for address, node in here.items():
        if address not in in_file:
            found.append("{0} {1} is missing".format(_NAMES[kind], address))
        elif node is not None and in_file[address] != node:
            text = "{0} {1} is on NUMA node {2}, and below {3} in the file"
            found.append(text.format(_NAMES[kind], address, node, in_file[address]))
    return found


def _numbers(system: Element, machine: Machine) -> List[str]:
    """Numbers of GPUs that a file has written down must be those that the driver gives: in PCI order."""
    order = [one.address for one in machine.gpus]
    found = []
    for pci in system.walk():
        for gpu in pci.inside:
            dev, address = gpu.get("dev"), pci.get("busid") or ""
            if gpu.name == "gpu" and dev is not None and address in order and _number(dev) != order.index(address):
                found.append("GPU {0} is called {1}, and is number {2}".format(address, dev, order.index(address)))
    return found


def check_graph(text: str, machine: Machine) -> List[str]:
    """As :func:`check_xml`, for the file of NCCL_GRAPH_FILE: its channels must go over the GPUs of this machine."""
    try:
        graphs = read(text)
    except Malformed as error:
        return [str(error)]
    if graphs.name != "graphs":
        return ["its first element is not <graphs>"]
    wanted = set(range(len(machine.gpus)))
    found = []
    for channel in graphs.walk():
        if channel.name != "channel":
            continue
        numbers = [_number(one.get("dev")) for one in channel.inside if one.name == "gpu"]
        if set(numbers) != wanted:
            shown = ", ".join("?" if one is None else str(one) for one in numbers) or "none"
            found.append("a channel goes over the GPUs {0}, this machine has {1}".format(shown, len(wanted)))
    return list(dict.fromkeys(found))


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def shortened(differences: List[str], most: int = 3) -> str:
    """For one sentence."""
    more = len(differences) - most
    return "; ".join(differences[:most]) + (" (and {0} more)".format(more) if more > 0 else "")
