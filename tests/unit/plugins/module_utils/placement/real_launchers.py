# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real launchers on machines that are described to hwloc: which mask the kernel is given for each rank.

hwloc makes the description, so the topology is its and not ours; the launchers read the same file. Between them and the
kernel a library writes down each sched_setaffinity, since this machine does not have those CPUs.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
from xml.etree import ElementTree

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import sysfs_numa, topology

LSTOPO = shutil.which("lstopo-no-graphics")
CC = shutil.which("cc")

RECORDER = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    char line[16384];
    int length = snprintf(line, sizeof line, "mask %d ", pid ? pid : getpid());
    FILE *log = fopen(getenv("AFFINITY_LOG"), "a");
    for (size_t cpu = 0; cpu < size * 8 && length < 16000; cpu++)
        if (CPU_ISSET_S(cpu, size, set))
            length += snprintf(line + length, sizeof line - length, "%zu,", cpu);
    fprintf(log, "%s\n", line);
    fclose(log);
    return 0;
}
"""
PROGRAM = """#!/bin/sh
echo "rank ${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$PMI_RANK}} $$" >>"$AFFINITY_LOG"
"""


def synthetic(packages, nodes, caches, cores, threads, number):
    """hwloc's short description; ``number`` is the kernel's number of a (core, thread)."""
    total = packages * nodes * caches * cores
    numbers = ",".join(str(number(core, thread, total)) for core in range(total) for thread in range(threads))
    return "pack:{0} die:{1} [numa] l3:{2} core:{3} pu:{4}(indexes={5})".format(
        packages, nodes, caches, cores, threads, numbers
    )


def describe(folder, text):
    """The path of hwloc's file for a machine described so."""
    path = os.path.join(str(folder), "machine.xml")
    subprocess.run([LSTOPO, "-i", text, "--of", "xml", "-f", path], check=True, capture_output=True, timeout=60)
    return path


def topology_of(path):
    """The topology as hwloc tells it."""
    objects = {}
    for element in ElementTree.parse(path).iter("object"):
        one = (int(element.get("os_index") or 0), _cpus(element.get("cpuset")))
        objects.setdefault(element.get("type"), []).append(one)
    online = tuple(sorted(cpu for dummy, cpus in objects["PU"] for cpu in cpus))
    packages = {cpu: number for number, cpus in objects["Package"] for cpu in cpus}
    cores = {cpu: place for place in enumerate(cpus for dummy, cpus in objects["Core"]) for cpu in place[1]}
    distances = [(number, 10) for number, dummy in objects["NUMANode"]]
    reading = topology.Reading(
        cpus=sysfs_numa.Cpus(
            present=online,
            online=online,
            offline=(),
            isolated=(),
            places=tuple(sysfs_numa.CpuPlace(cpu, packages[cpu], cores[cpu][0], cores[cpu][1]) for cpu in online),
            l3_groups=tuple(
                sysfs_numa.CacheGroup(number, cpus, 1)
                for number, (dummy, cpus) in enumerate(objects.get("L3Cache", ()))
            ),
        ),
        nodes=tuple(
            sysfs_numa.NodeReading(
                number, cpus, 1 << 30, tuple((other, 10 if other == number else 20) for other, dummy in distances)
            )
            for number, cpus in objects["NUMANode"]
        ),
        memory_bytes=1 << 30,
        gpus=(),
        nvswitches=(),
        infiniband=(),
        nvme=(),
    )
    return topology.build(reading, (), "NVML was not asked")


def _cpus(mask):
    value = int("".join(part[2:].rjust(8, "0") for part in mask.split(",")), 16)
    return tuple(cpu for cpu in range(value.bit_length()) if value >> cpu & 1)


def prepare(folder):
    """The library and the program in this folder."""
    source, library, program = (os.path.join(str(folder), name) for name in ("record.c", "record.so", "program"))
    for path, text in ((source, RECORDER), (program, PROGRAM)):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    os.chmod(program, 0o755)
    subprocess.run([CC, "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True, timeout=60)
    return library, program


@dataclasses.dataclass
class Launcher:
    """``program`` is its mpirun, ``form`` what it is given by ``gpunode pin --launcher``; ``topology`` makes
    the words that describe the machine to it, of the file's path."""

    program: str
    form: str
    topology: object = lambda path: ()
    environment: tuple = ()


def unpacked(name):
    """The folders of a package that tools/setup has put into the environment."""
    return sorted(glob.glob(os.path.join(sys.prefix, name + "-*")))


def found():
    """By name and version: Open MPI of the system, and the launchers that tools/setup has put into the environment."""
    launchers = {}
    for path in [shutil.which("mpirun"), *(os.path.join(one, "bin", "mpirun") for one in unpacked("openmpi"))]:
        told = path and _told(path)
        if told and "(Open MPI)" in told:
            version = told.split()[3]
            option = ("--mca", "hwloc_base_topo_file") if version < "5" else ("--prtemca", "hwloc_use_topo_file")
            more = ("--oversubscribe",) if version < "5" else ("--host", "localhost:999")
            launchers["Open MPI " + version] = Launcher(
                path, "openmpi", lambda file, option=option, more=more: (*option, file, *more)
            )
    # These two get the script, which binds by itself: they bind nothing, and need not know the machine.
    for folder in unpacked("mpich"):
        path = os.path.join(folder, "bin", "mpirun")
        launchers[os.path.basename(folder)] = Launcher(path, "numactl", lambda file: ("-bind-to", "none"))
    for folder in unpacked("impi-rt"):
        program = os.path.join(folder, "bin", "mpirun")
        path = os.pathsep.join((os.path.join(folder, "bin"), os.environ["PATH"]))
        environment = (("I_MPI_ROOT", folder), ("PATH", path), ("I_MPI_PIN", "0"))
        launchers[os.path.basename(folder)] = Launcher(program, "numactl", environment=environment)
    return launchers


def _told(path):
    return subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout


def masks(launcher, rendered, ranks, machine_file, library, program, folder):
    """The mask that the kernel was given last for each local rank, in the order of ranks; and what was printed."""
    log = os.path.join(str(folder), "log")
    open(log, "w", encoding="utf-8").close()
    for file in rendered.files:
        with open(file.name, "w", encoding="utf-8") as stream:
            stream.write(file.text)
        os.chmod(file.name, 0o755)
    environment = dict(os.environ, AFFINITY_LOG=log, LD_PRELOAD=library, HWLOC_THISSYSTEM="1")
    environment.update(rendered.environment + launcher.environment)
    for name in ("OMPI", "PRTE"):
        environment.update({name + "_ALLOW_RUN_AS_ROOT": "1", name + "_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    start = [*rendered.count, *rendered.arguments] or ["-n", str(ranks), rendered.files[0].name]
    words = [launcher.program, *launcher.topology(machine_file), *start, program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
    last, started = {}, {}
    with open(log, encoding="utf-8") as stream:
        for kind, first, second in (line.split(None, 2) for line in stream if len(line.split()) == 3):
            if kind == "mask":
                last[int(first)] = {int(cpu) for cpu in second.strip().strip(",").split(",")}
            else:
                started[int(first)] = int(second)
    return [last.get(started[rank]) for rank in sorted(started)], done.stdout + done.stderr
