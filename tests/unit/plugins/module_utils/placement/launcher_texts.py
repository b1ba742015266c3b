# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the launchers' texts back into CPU sets, for the tests.

It shares no code with the writers. Each reader follows the launcher's own documentation; what Open MPI makes of its
words is measured by real_launchers.py; Intel MPI 2021.18 was run too.
"""

from __future__ import annotations

import re


def cpu_list(text):
    """{0, 1, 2, 5} of "0-2,5"."""
    found = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def mask(text):
    assert re.match(r"^(0x)?[0-9a-f]+$", text), text
    value = int(text, 16)
    return {bit for bit in range(value.bit_length()) if value >> bit & 1}


def option(words, name):
    """The value of ``--name=value`` or of ``--name value``."""
    for place, word in enumerate(words):
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
        if word == name:
            return words[place + 1]
    return None


def srun(rendered, topology):
    kind, dummy, value = option(rendered.arguments, "--cpu-bind").partition(":")
    assert kind == "mask_cpu"
    return [mask(one) for one in value.split(",")]


def intelmpi(rendered, topology):
    value = dict(rendered.environment)["I_MPI_PIN_DOMAIN"]
    assert value[0] == "[" and value[-1] == "]"
    assert all(one.startswith("0x") for one in value[1:-1].split(","))
    return [mask(one) for one in value[1:-1].split(",")]


def mvapich2(rendered, topology):
    pairs = dict(word.split("=", 1) for word in rendered.arguments)
    assert pairs["MV2_ENABLE_AFFINITY"] == "1"
    return [cpu_list(one) for one in pairs["MV2_CPU_MAPPING"].split(":")]


def hpl(rendered, topology):
    return [cpu_list(one) for one in option(rendered.arguments, "--cpu-affinity").split(":")]


def numactl(rendered, topology):
    found = []
    for line in rendered.lines:
        hit = re.search(r"numactl --physcpubind=([0-9,-]+) |taskset --cpu-list ([0-9,-]+) ", line)
        if hit:
            found.append(cpu_list(hit.group(1) or hit.group(2)))
    assert found == wrapper(rendered, topology)
    return found


def wrapper(rendered, topology):
    (file,) = rendered.files
    assert file.executable and file.text.startswith("#!/bin/sh\n")
    found = re.findall(r"^(\d+)\) cpus=([0-9,-]+) ", file.text, re.MULTILINE)
    assert [int(number) for number, dummy in found] == list(range(len(found)))
    return [cpu_list(text) for dummy, text in found]


def openmpi(rendered, topology):
    words = rendered.arguments
    count = int(rendered.count[1])
    if option(words, "--map-by") is None:
        assert option(words, "--bind-to") == "none" and words[-1] == "./" + rendered.files[0].name
        return wrapper(rendered, topology)
    hit = re.match(r"^ppr:(\d+):numa(?::pe=(\d+))?$", option(words, "--map-by"))
    each, width = int(hit.group(1)), hit.group(2)
    assert option(words, "--bind-to") == ("core" if width else "numa")
    found = []
    for node in _hwloc_numa_nodes(topology):
        for place in range(each):
            if width is None:
                found.append({cpu for core in node for cpu in core})
            else:
                found.append({cpu for core in node[place * int(width) : (place + 1) * int(width)] for cpu in core})
    return found[:count]


def _hwloc_numa_nodes(topology):
    """The cores of each NUMA node in hwloc's logical order: at each level, the lowest CPU comes first."""
    nodes = []
    for node in topology.numa_nodes:
        cores = {tuple(group) for group in topology.cpus.sibling_groups if set(group) & set(node.cpus)}
        caches = [set(group.cpus) for group in node.l3_groups]

        def cache_first(core, caches=caches):
            return next((min(cache) for cache in caches if core[0] in cache), -1)

        package_cpus = [cpu for package in topology.packages if package.id in node.packages for cpu in package.cpus]
        nodes.append((min(package_cpus), min(node.cpus), sorted(cores, key=lambda core: (cache_first(core), core[0]))))
    return [cores for dummy, dummy, cores in sorted(nodes)]


READERS = {
    "srun": srun,
    "openmpi": openmpi,
    "intelmpi": intelmpi,
    "mvapich2": mvapich2,
    "numactl": numactl,
    "hpl": hpl,
    "torchrun": wrapper,
}
