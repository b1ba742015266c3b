# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at Slurm's folders, its configuration and the GPUs."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, Optional, Tuple

from ...core import declaration, managed_files
from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import topology
from ...facts.nvml import pci
from ...facts.nvml.call import Gpu, Kind, Reading
from ...facts.nvml.session import Survey, survey
from ...facts.sysfs import parse_cpulist
from ...facts.sysfs_numa import CPUS
from ...facts.topology import gpus as topology_gpus
from ...gpus.mig import devices as mig_devices
from ...gpus.mig.observe import read_gpu
from ...slurm import hooks_conf, places, slurm_conf, slurmd, syntax, this_node
from ...slurm.gpus import identities
from ...slurm.hooks_conf import Hooks
from ...slurm.layout import Machine, Slurm, version
from ...slurm.types import SECTION
from . import job_folders, trusted
from .cores import logical_cores
from .options import Desired
from .types import TOLD, GresConf, Slurmd, SlurmGpu, State

_SECONDS = 10.0


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    files = managed_files.observe(host, desired.paths(), declared, share=True)
    place = places.find(host, desired.slurm_conf)
    configured = syntax.read(place.path, host.read) if place.path else None
    absent = None
    program = places.program(host, "slurmd")
    if program is None:
        absent = "Slurm's slurmd is not installed on this node"
    elif configured is None and not desired.slurm_conf:
        absent = "slurmd is installed, but this node has no slurm.conf in any of its usual places"
    if absent is not None or not desired.present:
        return State(files=files, declared=declared, absent=absent)
    scontrol = places.program(host, "scontrol")
    running = hooks_conf.running(host)
    text = configured or running
    name = this_node.node_name(place, text, host)
    looked = _gpus(host) if desired.gres_file or desired.features_file else _Gpus(())
    return State(
        files=files,
        declared=declared,
        gpus=looked.gpus,
        gpus_reason=looked.reason,
        numa_nodes=looked.machine.numa_nodes or 1,
        scontrol=scontrol,
        slurm_conf=place.path,
        configured=_hooks(configured),
        running=_hooks(running),
        conf=text,
        node_name=name,
        machine=looked.machine,
        slurm=_slurm(host, program, text, running, name),
        job_folders=job_folders.missing(host) if desired.job_folder else None,
        gres_conf=_gres_conf(host, desired, place),
        slurmd=Slurmd(
            started=slurmd.started(host, time.time()),
            told=_written(host, TOLD),
            changed=_written(host, desired.gres_file) or _written(host, os.path.dirname(desired.gres_file)),
        ),
        constrains_devices=_constrains(host, text, place),
        trust=trusted.look(
            host,
            [one.path for one in desired.hook_files()],
            slurm_conf.option(text, "SlurmUser") if text else None,
        ),
    )


def _written(host: Host, path: str) -> float:
    """When the file was written, or a name in the folder came or went; 0: it is not there."""
    try:
        return os.stat(host.path(path)).st_mtime if path else 0.0
    except OSError:
        return 0.0


def _hooks(text: Optional[syntax.Text]) -> Optional[Hooks]:
    return None if text is None else hooks_conf.hooks(text)


def _slurm(
    host: Host, program: Optional[str], text: Optional[syntax.Text], running: Optional[syntax.Text], name: str
) -> Slurm:
    return Slurm(
        slurmd=_version(host, program),
        controller=version(slurm_conf.option(running, "SLURM_VERSION")) if running else None,
        node=slurm_conf.node(text, name) if text else None,
        parameters=slurm_conf.words(text, "SlurmdParameters") if text else frozenset(),
        select=(slurm_conf.option(text, "SelectType") if text else None) or "",
    )


def _version(host: Host, program: Optional[str]) -> Optional[Tuple[int, int]]:
    if program is None:
        return None
    try:
        return version(host.run([host.path(program), "-V"], _SECONDS, accept=tuple(range(256))).stdout)
    except NodeError:
        return None


def _gres_conf(host: Host, desired: Desired, place: places.Place) -> GresConf:
    path = place.beside("gres.conf") or (os.path.dirname(desired.slurm_conf) + "/gres.conf")
    return GresConf(path, place.configless, syntax.read(path, host.read))


# What Slurm takes for a yes (parse_config.c: s_p_handle_boolean).
_YES = ("yes", "up", "true", "1")


def _constrains(host: Host, text: Optional[syntax.Text], place: places.Place) -> bool:
    path = place.beside("cgroup.conf")
    cgroup = syntax.read(path, host.read) if path else None
    if text is None:
        return True
    plugins = {word.rpartition("/")[2] for word in slurm_conf.words(text, "TaskPlugin")}  # 23.02: affinity,cgroup
    told = slurm_conf.option(cgroup, "ConstrainDevices") if cgroup is not None else None
    return "cgroup" in plugins and (told or "").lower() in _YES


@frozen
class _Gpus:
    """The GPUs, or why they cannot be told."""

    gpus: Optional[Tuple[SlurmGpu, ...]]
    reason: Optional[str] = None
    machine: Machine = Machine()


def _gpus(host: Host) -> _Gpus:
    present = parse_cpulist(host.read_line(CPUS + "/present"))
    readings, reason = topology_gpus.read(host, (max(present) if present else 0) + 1)
    reading = topology.read(host, [one.pci_address for one in readings if one.pci_address])
    found = topology.build(reading, readings, reason)
    numbers = logical_cores(reading.cpus, reading.nodes)
    machine = Machine(
        cores=len(set(numbers.values())),
        cpus=len(numbers),
        packages=len({place.package for place in reading.cpus.places}),
        numa_nodes=sum(1 for node in found.numa_nodes if node.cpus),
        l3_groups=len(reading.cpus.l3_groups),
    )
    if reason is not None:
        return _Gpus(None if pci.gpus(host) else (), reason, machine)
    faults = [one for one in found.gpus if one.fault is not None]
    if faults:
        return _Gpus(None, "GPU {0}: {1}".format(faults[0].name, faults[0].fault), machine)
    asked = _asked(host)
    minors = {one.pci_address: one.minor_number for one in identities(host)}
    cpus_of = {node.id: node.cpus for node in found.numa_nodes}
    gpus = []
    for gpu in found.gpus:
        address = gpu.placement.pci_address
        told = asked.get(address, _Asked(None, "the driver does not tell whether MIG is on"))
        minor = minors.get(address, told.minor)
        if minor is None:
            return _Gpus(None, "GPU {0}: the driver tells no number of its device file".format(gpu.name), machine)
        files = mig_devices.of_gpu(host, minor)
        instances = mig_devices.instances(told.mig, files)
        fault = told.fault
        if told.mig is not None and instances is None:
            fault = "the driver tells no device files of its MIG instances"
        if fault is not None:
            return _Gpus(None, "GPU {0}: {1}".format(gpu.name, fault), machine)
        near = cpus_of.get(gpu.placement.numa_node, ()) if gpu.placement.numa_node is not None else ()
        cores = tuple(sorted({numbers[cpu] for cpu in near if cpu in numbers}))
        gpus.append(SlurmGpu(minor, cores, gpu.product, instances))
    return _Gpus(tuple(sorted(gpus, key=lambda one: one.minor)), None, machine)


@frozen
class _Asked:
    """What NVML tells of a GPU. ``mig``: its compute instances, as (GPU instance, own id, name); None: MIG is off."""

    minor: Optional[int]
    fault: Optional[str] = None
    mig: Optional[Tuple[Tuple[int, int, str], ...]] = None


def _asked(host: Host) -> Dict[Optional[str], _Asked]:
    """By PCI address."""

    def look(gpu: Gpu) -> Iterable[Tuple[Optional[str], Optional[Tuple[Tuple[int, int, str], ...]]]]:
        answer: Reading[bool] = gpu.read("nvmlDeviceGetMigMode").map(lambda pair: bool(pair[0]))
        if answer.kind is Kind.ABSENT or answer.value is False:
            yield None, None
        elif answer.value is None:
            yield "the driver does not tell whether MIG is on", None
        else:
            yield None, tuple(each for seen in read_gpu(gpu) for each in mig_devices.named(seen))

    found: Survey[Tuple[Optional[str], Optional[Tuple[Tuple[int, int, str], ...]]]] = survey(look, host=host)
    asked = {}
    for visit in found.visits:
        fault, mig = visit.parts[0] if visit.parts else (str(visit.fault or "it told nothing"), None)
        asked[visit.identity.pci_address] = _Asked(visit.identity.minor_number, fault, mig)
    return asked
