# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with where an application runs. Pure: (State, Topology) → findings."""

from __future__ import annotations

import collections
from typing import Dict, FrozenSet, Iterable, List, Sequence, Set, Tuple

from ...facts.sysfs import format_cpulist
from ...facts.topology import Topology
from .crowding import Crowd, crowds
from .places import Places
from .types import NOTE, WARNING, Finding, GpuUse, Process, State

# Programs that start an application and then wait for it. They may run anywhere, and that is as it should be.
# (The kernel cuts names to 15 characters.)
LAUNCHERS = frozenset(
    "mpirun mpiexec orterun orted prterun prted mpiexec.hydra hydra_pmi_proxy hydra_bstrap_pr mpiexec.slurm "
    "mpispawn srun sbatch salloc slurmstepd jsrun ssh sshd "
    "sudo su runuser doas systemd-run timeout time flock xargs parallel tee script screen tmux watch".split()
)
# These may as well be the application itself, so they count as launchers only while they wait.
SHELLS = frozenset("bash sh dash zsh ksh csh tcsh fish torchrun accelerate deepspeed nsys ncu strace enroot".split())
# A parent that used at most this part of its busiest child's CPU time only waits for it.
_WAITING_PART = 0.1
_NAMED_PIDS = 6


def judge(state: State, topology: Topology) -> Tuple[Finding, ...]:
    """Warnings first. A finding is about what one or more processes have in common, so a job of 100 ranks has few."""
    places = Places.of(topology)
    started_by = launchers(state)
    workers = [one for one in state.processes if one.pid not in started_by]
    findings = _crowded(workers, places)
    findings += _same_core(workers, places, {pid for one in findings for pid in one.pids})
    findings += _overfull(workers)
    findings += _same_cpu(workers, {pid for one in findings for pid in one.pids})
    findings += _numa(workers, places)
    findings += _far_from_gpu(state, workers, places)
    findings += _idle_gpus(state, workers)
    findings += _caches(workers, places)
    return tuple(sorted(findings, key=lambda one: one.severity != WARNING))


def launchers(state: State) -> FrozenSet[int]:
    """The processes that only started others (mpirun, a shell). When there is nothing else, there are none."""
    children: Dict[int, List[Process]] = {}
    for one in state.processes:
        children.setdefault(one.parent, []).append(one)
    found = set()
    for one in state.processes:
        below = _below(one.pid, children)
        busiest = max((child.cpu_ticks for child in below), default=0)
        waits = bool(below) and not one.running and one.cpu_ticks <= _WAITING_PART * busiest
        if (one.name in LAUNCHERS or waits or (one.name in SHELLS and not one.running)) and not state.gpus_of(one.pid):
            found.add(one.pid)
    return frozenset() if len(found) == len(state.processes) else frozenset(found)


def _below(pid: int, children: Dict[int, List[Process]]) -> List[Process]:
    found: List[Process] = []
    queue, seen = collections.deque([pid]), {pid}
    while queue:
        for child in children.get(queue.popleft(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                queue.append(child.pid)
    return found


# Cores ------------------------------------------------------------------------------------------------


def _crowded(workers: Sequence[Process], places: Places) -> List[Finding]:
    """Processes that must share cores: an idle one wants one core, a working one wants one for each working thread."""
    wants = {}
    for one in workers:
        threads = one.running or one.threads[:1]
        cores = places.cores_of(cpu for thread in threads for cpu in thread.allowed)
        # What it has too many by itself is told by _overfull.
        wants[one.pid] = (min(len(threads), len(cores)), cores)
    return [_crowd_finding(crowd, places) for crowd in crowds(wants)]


def _crowd_finding(crowd: Crowd, places: Places) -> Finding:
    message = "{0} share cores: {1} threads on {2} (CPU {3})".format(
        named(crowd.pids),
        crowd.threads,
        "one core" if len(crowd.cores) == 1 else "{0} cores".format(len(crowd.cores)),
        format_cpulist(places.cpus_of_cores(crowd.cores)),
    )
    return Finding(WARNING, "shares_core", message, crowd.pids)


def _same_core(workers: Sequence[Process], places: Places, told: Set[int]) -> List[Finding]:
    """Threads of two processes that were seen on one core twice, though there are cores enough.

    Once says nothing: the threads are read one after the other, and one may have moved in between.
    """
    times: Dict[Tuple[int, int, int], int] = {}
    for look in range(max((len(thread.looks) for one in workers for thread in one.threads), default=0)):
        on_core: Dict[int, Set[int]] = {}
        for one in workers:
            for thread in one.threads:
                seen = thread.looks[look] if look < len(thread.looks) else None
                if seen is not None and seen[0] == "R" and seen[1] in places.cores:
                    on_core.setdefault(places.cores[seen[1]], set()).add(one.pid)
        for core, pids in on_core.items():
            for first in pids:
                for second in pids:
                    if first < second:
                        times[first, second, core] = times.get((first, second, core), 0) + 1
    groups: List[Tuple[Set[int], Set[int]]] = []  # processes that met, and the cores where they did
    for (first, second, core), count in sorted(times.items()):
        if count < 2 or {first, second} <= told:
            continue
        pids, cores = {first, second}, {core}
        for group in [one for one in groups if one[0] & pids]:
            groups.remove(group)
            pids |= group[0]
            cores |= group[1]
        groups.append((pids, cores))
    return [_met(pids, cores, places) for pids, cores in groups]


def _met(pids: Set[int], cores: Set[int], places: Places) -> Finding:
    message = "{0} run on the same core{1} (CPU {2}) at the same time, though they have enough".format(
        named(pids), "" if len(cores) == 1 else "s", format_cpulist(places.cpus_of_cores(cores))
    )
    return Finding(WARNING, "shares_core", message, tuple(sorted(pids)))


def _overfull(workers: Sequence[Process]) -> List[Finding]:
    findings = []
    for one in workers:
        cpus = {cpu for thread in one.running for cpu in thread.allowed}
        if len(one.running) > len(cpus):
            message = "{0} has {1} running threads and {2} CPU{3} for them ({4})".format(
                named((one.pid,)), len(one.running), len(cpus), "" if len(cpus) == 1 else "s", format_cpulist(cpus)
            )
            findings.append(Finding(WARNING, "too_many_threads", message, (one.pid,)))
    return findings


def _same_cpu(workers: Sequence[Process], told: Set[int]) -> List[Finding]:
    """Threads of one process that were on one CPU at every look, while another CPU of the process had no thread.

    At every look, and twice at least: the kernel moves threads apart by itself where their masks let it.
    """
    looks = max((len(thread.looks) for one in workers for thread in one.threads), default=0)
    if looks < 2:
        return []
    on_cpu = [
        collections.Counter(
            (one.pid, seen[1])
            for one in workers
            for thread in one.threads
            for seen in thread.looks[look : look + 1]
            if seen is not None and seen[0] == "R"
        )
        for look in range(looks)
    ]
    busy = {cpu for counts in on_cpu for dummy, cpu in counts}
    findings = []
    for one in workers:
        free = sorted(set(one.allowed) - busy)
        crowded = [cpu for cpu in one.allowed if all(counts[one.pid, cpu] > 1 for counts in on_cpu)]
        if crowded and free and one.pid not in told:
            message = "{0} runs several threads on one CPU ({1}) while others of its CPUs are idle ({2})".format(
                named((one.pid,)), format_cpulist(crowded), format_cpulist(free)
            )
            findings.append(Finding(WARNING, "shares_cpu", message, (one.pid,)))
    return findings


def _numa(workers: Sequence[Process], places: Places) -> List[Finding]:
    spans: Dict[Tuple[int, ...], List[Process]] = {}
    for one in workers:
        nodes = tuple(sorted(places.nodes_of(one.allowed)))
        if len(nodes) > 1:
            spans.setdefault(nodes, []).append(one)
    everywhere = len(set(places.nodes.values()))
    findings = []
    for nodes, several in sorted(spans.items()):
        message = "{0} may run on NUMA nodes {1}{2}".format(
            named([one.pid for one in several]),
            format_cpulist(nodes),
            ", which is the whole machine: not pinned" if len(nodes) == everywhere else "",
        )
        findings.append(Finding(WARNING, "crosses_numa", message, tuple(one.pid for one in several)))
    return findings


def _caches(workers: Sequence[Process], places: Places) -> List[Finding]:
    """Of those that stay within a NUMA node; crossing it is told already."""
    several = [one for one in workers if len(places.caches_of(one.allowed)) > 1]
    several = [one for one in several if len(places.nodes_of(one.allowed)) == 1]
    if not several:
        return []
    counts = sorted({len(places.caches_of(one.allowed)) for one in several})
    message = "{0} may run on cores of {1} level-3 caches{2}".format(
        named([one.pid for one in several]),
        str(counts[0]) if len(counts) == 1 else "{0} to {1}".format(counts[0], counts[-1]),
        " each" if len(several) > 1 else "",
    )
    return [Finding(NOTE, "crosses_l3", message, tuple(one.pid for one in several))]


# GPUs -------------------------------------------------------------------------------------------------


def _far_from_gpu(state: State, workers: Sequence[Process], places: Places) -> List[Finding]:
    findings = []
    for one in workers:
        nodes = places.nodes_of(one.allowed)
        for gpu in state.gpus_of(one.pid):
            near = places.gpu_node(gpu.uuid, gpu.pci_address)
            if near is not None and nodes and not near & nodes:
                message = "{0} uses GPU {1} of NUMA node {2} and runs on NUMA node {3}".format(
                    named((one.pid,)), gpu.index, format_cpulist(near), format_cpulist(nodes)
                )
                findings.append(Finding(WARNING, "far_from_gpu", message, (one.pid,), (gpu.index,)))
    return findings


def _idle_gpus(state: State, workers: Sequence[Process]) -> List[Finding]:
    """Of the GPUs that the application was given (all, where its environment names none), those that nobody uses."""
    known = [gpu for gpu in state.gpus if gpu.pids is not None]
    idle = [gpu for gpu in known if not gpu.pids and _given(gpu, workers)]
    if not idle:
        return []
    numbers = tuple(gpu.index for gpu in idle)
    message = "GPU {0} {1} idle: no process uses {2}".format(
        format_cpulist(numbers), "is" if len(idle) == 1 else "are", "it" if len(idle) == 1 else "them"
    )
    return [Finding(WARNING, "gpu_idle", message, (), numbers)]


def _given(gpu: GpuUse, workers: Sequence[Process]) -> bool:
    if any(one.gpus_given is None for one in workers):
        return True
    names = {name for one in workers for name in one.gpus_given or ()}
    partitions = any(name.startswith("MIG-") for name in names)
    return partitions or str(gpu.index) in names or any(_is_short(name, gpu.uuid) for name in names)


def _is_short(name: str, uuid: "str | None") -> bool:
    """CUDA takes the beginning of a UUID for the whole."""
    return uuid is not None and name.startswith("GPU-") and uuid.startswith(name)


def named(pids: Iterable[int]) -> str:
    """``process 7``, ``processes 7 and 8``, or ``12 processes (7, 8, …)``."""
    numbers = sorted(set(pids))
    if len(numbers) == 1:
        return "process {0}".format(numbers[0])
    if len(numbers) <= _NAMED_PIDS:
        return "processes {0} and {1}".format(", ".join(str(pid) for pid in numbers[:-1]), numbers[-1])
    return "{0} processes ({1} to {2})".format(len(numbers), numbers[0], numbers[-1])
