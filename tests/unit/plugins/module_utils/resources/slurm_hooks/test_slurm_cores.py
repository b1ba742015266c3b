# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's numbers of cores on captured trees, against hwloc's rule worked out by hand, and against lstopo."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs_numa
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.sysfs_numa import CpuPlace, Cpus, NodeReading
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.slurm_hooks.cores import logical_cores
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, shared


def numbers(name):
    host = Host(shared(name))
    return logical_cores(sysfs_numa.cpus(host), sysfs_numa.nodes(host))


@pytest.mark.parametrize("name", names())
def test_each_core_has_one_number_and_none_is_left_out(name):
    host = Host(shared(name))
    cpus = sysfs_numa.cpus(host)
    found = logical_cores(cpus, sysfs_numa.nodes(host))
    assert set(found) == set(cpus.online)
    assert sorted(set(found.values())) == list(range(len({place.siblings for place in cpus.places})))
    for place in cpus.places:
        assert len({found[one] for one in place.siblings}) == 1


def test_ndv4_numbers_cores_as_the_kernel_does():
    assert numbers("ndv4") == {cpu: cpu for cpu in range(96)}


def machine(packages, siblings=None, nodes=None):
    """One socket a list of CPUs, a NUMA node of its own unless told; ``siblings`` maps a CPU to its core's CPUs."""
    places = [
        CpuPlace(cpu, package, cpu, (siblings or {}).get(cpu, (cpu,)))
        for package, cpus in enumerate(packages)
        for cpu in cpus
    ]
    places.sort(key=lambda place: place.cpu)
    online = tuple(place.cpu for place in places)
    readings = tuple(NodeReading(number, tuple(cpus), None, ()) for number, cpus in enumerate(nodes or packages))
    return Cpus(online, online, (), (), tuple(places), ()), readings


def test_cpus_dealt_round_robin_to_two_sockets():
    # As many Dell servers number them: even CPUs on socket 0. hwloc counts socket 0 first.
    assert logical_cores(*machine([(0, 2, 4, 6), (1, 3, 5, 7)])) == {0: 0, 2: 1, 4: 2, 6: 3, 1: 4, 3: 5, 5: 6, 7: 7}


def test_sockets_come_before_their_numa_nodes():
    # Two sockets with two NUMA nodes each, all dealt round robin: nodes 0 and 2 are on socket 0.
    numbers_ = logical_cores(*machine([(0, 2, 4, 6), (1, 3, 5, 7)], nodes=[(0, 4), (1, 5), (2, 6), (3, 7)]))
    assert numbers_ == {0: 0, 4: 1, 2: 2, 6: 3, 1: 4, 5: 5, 3: 6, 7: 7}


def test_siblings_are_one_core_wherever_they_are_numbered():
    far = {0: (0, 4), 4: (0, 4), 1: (1, 5), 5: (1, 5), 2: (2, 6), 6: (2, 6), 3: (3, 7), 7: (3, 7)}
    assert logical_cores(*machine([(0, 1, 4, 5), (2, 3, 6, 7)], far)) == {
        0: 0, 4: 0, 1: 1, 5: 1, 2: 2, 6: 2, 3: 3, 7: 3,
    }  # fmt: skip
    next_door = {cpu: (cpu // 2 * 2, cpu // 2 * 2 + 1) for cpu in range(8)}
    assert logical_cores(*machine([(0, 1, 2, 3), (4, 5, 6, 7)], next_door)) == {cpu: cpu // 2 for cpu in range(8)}


@pytest.mark.skipif(shutil.which("lstopo-no-graphics") is None, reason="hwloc is not installed here")
def test_this_machine_as_lstopo_counts_it():
    done = subprocess.run(
        ["lstopo-no-graphics", "--whole-system", "--of", "console", "-p", "--no-io", "--no-caches"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    logical = subprocess.run(
        ["lstopo-no-graphics", "--whole-system", "--of", "console", "-l", "--no-io", "--no-caches"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode or logical.returncode:
        pytest.skip("lstopo does not work here: " + done.stderr)
    # The same objects in the same order: the kernel's CPU numbers from one, hwloc's core numbers from the other.
    cpus = [int(one) for one in re.findall(r"PU P#(\d+)", done.stdout)]
    core = -1
    cores = []
    for kind, number in re.findall(r"(Core|PU) L#(\d+)", logical.stdout):
        if kind == "Core":
            core = int(number)
        else:
            cores.append(core)
    host = Host()
    assert logical_cores(sysfs_numa.cpus(host), sysfs_numa.nodes(host)) == dict(zip(cpus, cores))
