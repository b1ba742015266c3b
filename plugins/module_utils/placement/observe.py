# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which CPUs and which memory this process, and what it starts, may use: its affinity and its cpuset."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ..core import processes
from ..core.frozen import frozen
from ..core.host import Host
from ..facts.sysfs import parse_cpulist

CGROUP_MOUNT = "/sys/fs/cgroup"


@frozen
class Allowed:
    """None where nothing tells (a captured tree of another machine): then all that is online may be used."""

    cpus: Optional[Tuple[int, ...]]
    memory_nodes: Optional[Tuple[int, ...]]


def allowed(host: Host) -> Allowed:
    """What both the affinity and the cpuset of this process leave: whichever is narrower counts."""
    folder_cpus, folder_memory = _cpuset(host)
    return Allowed(
        cpus=_both(processes.status(host, "self", "Cpus_allowed_list"), folder_cpus),
        memory_nodes=_both(processes.status(host, "self", "Mems_allowed_list"), folder_memory),
    )


def _both(affinity: Optional[str], cpuset: Optional[str]) -> Optional[Tuple[int, ...]]:
    sets = [set(parse_cpulist(text)) for text in (affinity, cpuset) if text]
    return tuple(sorted(set.intersection(*sets))) if sets else None


def _cpuset(host: Host) -> Tuple[Optional[str], Optional[str]]:
    """CPUs and memory nodes of the cpuset that this process is in, by the older layout or by the unified one."""
    older = unified = None
    for line in processes.cgroup(host, "self").splitlines():
        found = re.fullmatch(r"\d+:([^:]*):(/.*)", line)
        if found and "cpuset" in found.group(1).split(","):
            older = found.group(2)
        elif found and not found.group(1):
            unified = found.group(2)
    if older is not None:
        base, effective = CGROUP_MOUNT + "/cpuset", ("cpuset.effective_cpus", "cpuset.effective_mems")
        return _upwards(host, base, older, effective[0]), _upwards(host, base, older, effective[1])
    if unified is None:
        return None, None
    names = ("cpuset.cpus.effective", "cpuset.mems.effective")
    return _upwards(host, CGROUP_MOUNT, unified, names[0]), _upwards(host, CGROUP_MOUNT, unified, names[1])


def _upwards(host: Host, base: str, path: str, name: str) -> Optional[str]:
    """The file of that name in the group, or in the next group above it that has one (cpuset not delegated so deep)."""
    while True:
        text = host.read_line("{0}{1}/{2}".format(base, path.rstrip("/"), name))
        if text:
            return text
        if path in ("", "/"):
            return None
        path = path.rsplit("/", 1)[0] or "/"
