# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's rules for a topology file, held against a machine's tree. Shares nothing with what makes the file.

The rules are those of src/graph/xml.cc and topo.cc of NCCL; the tree is read with nothing but open() and listdir().
"""

from __future__ import annotations

import os
import re
from xml.etree import ElementTree

# kvDictPciGen: any other text counts as 8 GT/s, silently.
SPEEDS = {"2.5 GT/s", "5 GT/s", "8 GT/s", "16 GT/s", "32 GT/s"} | {
    one + " GT/s PCIe" for one in ("2.5", "5.0", "8.0", "16.0", "32.0", "64.0")
}
# The handlers of ncclTopoXmlLoad*: what may stand in what.
INSIDE = {"system": {"cpu"}, "cpu": {"pci", "nic"}, "pci": {"pci", "gpu", "nic", "pcilink"}}
ATTRIBUTES = {
    "system": {"version"},
    "cpu": {"numaid", "affinity", "arch", "vendor", "familyid", "modelid"},
    "pci": {"busid", "class", "link_speed", "link_width"},
}


def problems(text, root):
    """A sentence for each rule that the file breaks on the machine whose tree lies in ``root``."""
    found = []
    if "\t" in text or "<?" in text:
        found.append("NCCL's parser knows neither tabs nor declarations")
    system = ElementTree.fromstring(text)
    if system.tag != "system" or system.attrib != {"version": "1"}:
        found.append("wrong root element")
    for parent in system.iter():
        if set(parent.attrib) - ATTRIBUTES[parent.tag]:
            found.append("attributes of {0}: {1}".format(parent.tag, sorted(parent.attrib)))
        found += ["{0} in {1}".format(one.tag, parent.tag) for one in parent if one.tag not in INSIDE[parent.tag]]
    for cpu in system:
        node = "sys/devices/system/node/node" + cpu.get("numaid")
        if cpu.get("affinity") != mask(
            content(root, node + "/cpulist"), content(root, "sys/devices/system/cpu/present")
        ):
            found.append("affinity of NUMA node {0}".format(cpu.get("numaid")))
        for pci in cpu.iter("pci"):
            found += element_problems(pci, cpu, root)
    seen = [pci.get("busid") for pci in system.iter("pci")]
    found += ["{0} is there twice".format(one) for one in set(seen) if seen.count(one) > 1]
    for name, prefix, wanted in (("GPUs", "0x03", gpus(root)), ("NICs", "0x02", nics(root))):
        listed = [pci.get("busid") for pci in system.iter("pci") if pci.get("class").startswith(prefix)]
        if set(listed) != wanted:
            found.append("{0}: {1} instead of {2}".format(name, sorted(listed), sorted(wanted)))
    for parent in system.iter():
        order = [key(pci.get("busid")) for pci in parent.findall("pci") if not pci.get("busid").startswith("ffff")]
        if order != sorted(order):
            found.append("not in PCI order below {0}".format(parent.attrib))
    return found


def element_problems(pci, cpu, root):
    found = []
    address = pci.get("busid")
    if not re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]", address):
        found.append("bus id " + address)
    if pci.get("link_speed", "8 GT/s") not in SPEEDS:
        found.append("link speed of " + address)
    if len(pci):
        if pci.get("class") != "0x060400":
            found.append(address + " is no bridge")
    elif content(root, "sys/bus/pci/devices/{0}/numa_node".format(address)) not in (cpu.get("numaid"), "-1"):
        found.append("NUMA node of " + address)
    if address.startswith("ffff") and not ("link_speed" in pci.attrib and "link_width" in pci.attrib and len(pci) > 1):
        found.append(address + " is nowhere, so nothing but the file can tell about it")
    return found


def content(root, path):
    try:
        with open(os.path.join(root, path), encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def numbers(cpulist):
    found = set()
    for part in filter(None, cpulist.split(",")):
        first, _dash, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def mask(cpulist, present):
    """As the kernel prints it: 32-bit words for all CPUs that there may be, the highest first."""
    words = max(numbers(present)) // 32 + 1
    bits = ["0"] * (32 * words)
    for cpu in numbers(cpulist):
        bits[-1 - cpu] = "1"
    text = "{0:0{1}x}".format(int("".join(bits), 2), 8 * words)
    return ",".join(text[place : place + 8] for place in range(0, len(text), 8))


def key(address):
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def gpus(root):
    folder = os.path.join(root, "sys/bus/pci/devices")
    return {
        name
        for name in (os.listdir(folder) if os.path.isdir(folder) else ())
        if content(folder, name + "/vendor") == "0x10de"
        and content(folder, name + "/class").startswith("0x03")
        and not os.path.realpath(os.path.join(folder, name, "driver")).endswith("vfio-pci")
    }


def nics(root):
    folder = os.path.join(root, "sys/class/infiniband")
    every = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        device = os.path.join(folder, name, "device")
        if not os.path.exists(os.path.join(device, "physfn")):
            layer = content(folder, name + "/ports/1/link_layer")
            every.setdefault(layer, set()).add(os.path.basename(os.path.realpath(device)))
    return every.get("InfiniBand") or set().union(*every.values())
