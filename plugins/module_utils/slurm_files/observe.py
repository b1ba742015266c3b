# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at Slurm's folders, its configuration and the GPUs."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from .. import declaration, managed_files, topology
from ..host import Host
from ..nvml import pci
from ..nvml.session import Survey, survey
from ..resource import NodeError
from ..slurm_job.clocks import identities
from ..slurm_job.types import SECTION
from ..sysfs import parse_cpulist
from ..sysfs_numa import CPUS
from ..topology import gpus as topology_gpus
from . import conf
from .cores import logical_cores
from .types import Desired, Hooks, SlurmGpu, State

# Beside the search path: where clusters that build Slurm themselves put it.
_PLACES = ("/opt/slurm/bin", "/opt/slurm/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/usr/bin")
# Its usual place, CycleCloud's link to the shared one, and what a slurmd without files (configless) keeps.
_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
_SECONDS = 10.0


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    files = managed_files.observe(host, desired.paths(), declared, share=True)
    path, configured = _configured(host, desired)
    absent = None
    if program(host, "slurmd") is None:
        absent = "Slurm's slurmd is not installed on this node"
    elif configured is None and not desired.slurm_conf:
        absent = "slurmd is installed, but this node has no slurm.conf in any of its usual places"
    if absent is not None or not desired.present:
        return State(files=files, declared=declared, absent=absent)
    gpus, reason, numa_nodes = _gpus(host) if desired.gres_file or desired.features_file else ((), None, 1)
    scontrol = program(host, "scontrol")
    return State(
        files=files,
        declared=declared,
        gpus=gpus,
        gpus_reason=reason,
        numa_nodes=numa_nodes,
        scontrol=scontrol,
        slurm_conf=path,
        configured=configured,
        running=_running(host, scontrol),
    )


def program(host: Host, name: str) -> Optional[str]:
    """The path of one of Slurm's programs on the node."""
    for folder in _PLACES:
        path = "{0}/{1}".format(folder, name)
        if os.access(host.path(path), os.X_OK):
            return path
    return host.which(name) if host.root == "/" else None


def _configured(host: Host, desired: Desired) -> Tuple[Optional[str], Optional[Hooks]]:
    for path in (desired.slurm_conf,) if desired.slurm_conf else _CONFIGURATIONS:
        text = conf.with_includes(path, host.read)
        if text is not None:
            return path, conf.hooks(text)
    return None, None


def _running(host: Host, scontrol: Optional[str]) -> Optional[Hooks]:
    """What slurmctld says; None when it cannot be asked (it is down, this is an image being built)."""
    if scontrol is None or host.root != "/":
        return None
    try:
        return conf.hooks(host.run([scontrol, "show", "config"], timeout_seconds=_SECONDS).stdout)
    except NodeError:
        return None


def _gpus(host: Host) -> Tuple[Optional[Tuple[SlurmGpu, ...]], Optional[str], int]:
    """(the GPUs, why they cannot be told, how many NUMA nodes have CPUs)."""
    present = parse_cpulist(host.read_line(CPUS + "/present"))
    readings, reason = topology_gpus.read(host, (max(present) if present else 0) + 1)
    reading = topology.read(host, [one.pci_address for one in readings if one.pci_address])
    found = topology.build(reading, readings, reason)
    numa_nodes = sum(1 for node in found.numa_nodes if node.cpus)
    if reason is not None:
        return (None if pci.gpus(host) else ()), reason, numa_nodes
    faults = [one for one in found.gpus if one.fault is not None]
    if faults:
        return None, "GPU {0}: {1}".format(faults[0].name, faults[0].fault), numa_nodes
    minors = {one.pci_address: one.minor_number for one in identities(host)} or _asked(host)
    numbers = logical_cores(reading.cpus, reading.nodes)
    cpus_of = {node.id: node.cpus for node in found.numa_nodes}
    gpus = []
    for gpu in found.gpus:
        minor = minors.get(gpu.placement.pci_address)
        if minor is None:
            return None, "GPU {0}: the driver tells no number of its device file".format(gpu.name), numa_nodes
        near = cpus_of.get(gpu.placement.numa_node, ()) if gpu.placement.numa_node is not None else ()
        gpus.append(SlurmGpu(minor, tuple(sorted({numbers[cpu] for cpu in near if cpu in numbers})), gpu.product))
    return tuple(sorted(gpus, key=lambda one: one.minor)), None, numa_nodes


def _asked(host: Host) -> "dict[Optional[str], Optional[int]]":
    answer: Survey[int] = survey(lambda dummy: (), host=host)
    return {visit.identity.pci_address: visit.identity.minor_number for visit in answer.visits}
