# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a GPU: whose a process is, who holds its device files open, and units that give way for a while."""

from __future__ import annotations

import os
import re
from typing import Dict, Sequence, Tuple

from ...core import open_files, processes, systemd
from ...core.host import Host
from ...core.resource import NodeError
from ...slurm.leftovers import cgroup_job
from .types import Client

_UNIT = re.compile(r"([^/]+\.(?:service|scope))(?:/|$)", re.MULTILINE)
# A service of the system itself: below it, and below user.slice, whoever runs there names cgroups as he likes.
_SERVICE = re.compile(r"(?:0:|[0-9]+:name=systemd):/system\.slice/(?:system-[^/]+\.slice/)?([^/]+\.service)")
_RUNS = ("active", "activating", "reloading")
# What systemd stops along with a unit (unit-dependency-atom.c: UNIT_ATOM_PROPAGATE_STOP and its like), and does not
# start again with it.
_ALONG = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo")
_SHOWN = ("Id", "ActiveState", *_ALONG)
# The boot service of nvidia-mig-parted, and what starts it.
MANAGER = "nvidia-mig-manager.service"
_STARTS_IT = (systemd.MULTI_USER, "nvidia-gpu-reset.target")


def named(host: Host, client: Client) -> Client:
    """With the command, the unit and the owner, which the kernel tells."""
    cgroup = processes.cgroup(host, client.pid)
    command = processes.name(host, client.pid)
    return Client(client.pid, client.gi, client.ci, command, service(cgroup), owner(cgroup))


def service(cgroup: str) -> str:
    """The service of the system that a process is, by its cgroup; "" for one of a user or a container. Pure."""
    found = [_SERVICE.fullmatch(line) for line in cgroup.split("\n")]
    return next((one.group(1) for one in found if one), "")


def owner(cgroup: str) -> str:
    """Whose a process is by its cgroup, for people: a job, a pod, a container, else its unit. Pure."""
    job = cgroup_job(cgroup)
    if job is not None:
        return "job {0}".format(job)
    pod, container = processes.pod(cgroup), processes.container(cgroup)
    if pod:
        return "pod " + pod
    # The first unit of a path: what is below it may be anybody's.
    unit = _UNIT.search(cgroup)
    return "container " + container if container else unit.group(1) if unit else ""


def holders(host: Host, minor: int) -> Tuple[Client, ...]:
    """The processes that have the GPU's device file open. NVML lists none that does not compute."""
    file, found = "/dev/nvidia{0}".format(minor), []
    for pid in processes.pids(host):
        if pid != os.getpid() and file in open_files.of_process(host, pid)[0]:
            found.append(named(host, Client(pid)))
    return tuple(found)


def kernel_holder(host: Host) -> str:
    """The kernel module that has all GPUs open without a process; "" where none is known to.

    nvidia_drm does so for mode setting (NVIDIA/open-gpu-kernel-modules, nvidia-drm-drv.c).
    """
    module = "/sys/module/nvidia_drm"
    if not host.exists(module) or host.read_line(module + "/parameters/modeset") in ("N", "0"):
        return ""
    return "nvidia_drm"


def manager(host: Host) -> bool:
    """Whether another program gives the GPUs its layout at each boot."""
    if systemd.link(host, MANAGER) == "/dev/null":
        return False
    return any(systemd.is_enabled(host, MANAGER, target) for target in _STARTS_IT)


def holding(host: Host, units: Sequence[str]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Those of the units that run, with what runs and is stopped along with them; and the latter alone."""
    if not units or not systemd.running(host):
        return (), ()
    given = _shown(host, units)
    seen, new = dict(given), given
    while new:
        others = {one for words in new.values() for key in _ALONG for one in words.get(key, "").split()}
        new = _shown(host, sorted(others - {*seen})) if others - {*seen} else {}
        new = {unit: words for unit, words in new.items() if unit not in seen}
        seen.update(new)
    running = [unit for unit, words in seen.items() if words.get("ActiveState") in _RUNS]
    return tuple(running), tuple(unit for unit in running if unit not in given)


def _shown(host: Host, units: Sequence[str]) -> Dict[str, Dict[str, str]]:
    return {words["Id"]: words for words in systemd.show(host, units, _SHOWN) if words.get("Id")}


def start(host: Host, units: Sequence[str]) -> None:
    """At boot a unit may wait for the one that runs this, so nobody waits for it here.

    :raises NodeError: systemd does not take it.
    """
    try:
        systemd.start(host, units, wait=False)
    except NodeError as error:
        remedy = "run 'systemctl start {0}'".format(" ".join(units))
        raise NodeError(" ".join(units), "stopped for a change of MIG, and not started again", remedy) from error
