# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a GPU: whose a process is, who holds its device files open, and units that give way for a while."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Sequence, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from ...slurm.leftovers import cgroup_job
from .types import Client

_UNIT = re.compile(r"([^/]+\.(?:service|scope))(?:/|$)", re.MULTILINE)
_POD = re.compile(r"/(?:[^/]*-)?pod([0-9a-f]{8}[-_][0-9a-f_-]{27})(?:\.slice)?/")
_CONTAINER = re.compile(r"/(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
_SECONDS = 60.0
# The boot service of nvidia-mig-parted, and what starts it.
MANAGER = "nvidia-mig-manager.service"
_STARTS_IT = ("multi-user.target.wants", "nvidia-gpu-reset.target.wants")


def named(host: Host, client: Client) -> Client:
    """With the command, the unit and the owner, which the kernel tells."""
    folder = "/proc/{0}/".format(client.pid)
    cgroup = host.read(folder + "cgroup") or ""
    units = _UNIT.findall(cgroup)
    unit = units[-1] if units else ""
    return Client(client.pid, client.gi, client.ci, host.read_line(folder + "comm") or "", unit, owner(cgroup, unit))


def owner(cgroup: str, unit: str) -> str:
    """Whose a process is by its cgroup, for people: a job, a pod, a container, else its unit. Pure."""
    job = cgroup_job(cgroup)
    if job is not None:
        return "job {0}".format(job)
    pod, container = _POD.search(cgroup), _CONTAINER.search(cgroup)
    if pod is not None:
        return "pod {0}".format(pod.group(1).replace("_", "-"))
    return "container {0}".format(container.group(1)[:12]) if container is not None else unit


def holders(host: Host, minor: int) -> Tuple[Client, ...]:
    """The processes that have the GPU's device file open. NVML lists none that does not compute."""
    file, found = "/dev/nvidia{0}".format(minor), []
    for name in host.names("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        folder = "/proc/{0}/fd".format(name)
        if any(_link(host, folder + "/" + number) == file for number in host.names(folder)):
            found.append(named(host, Client(int(name))))
    return tuple(found)


def _link(host: Host, path: str) -> Optional[str]:
    try:
        return os.readlink(host.path(path))
    except OSError:
        return None


def manager(host: Host) -> bool:
    """Whether another program gives the GPUs its layout at each boot."""
    if host.real_path("/etc/systemd/system/" + MANAGER) == "/dev/null":
        return False
    return any(MANAGER in host.names("/etc/systemd/system/" + folder) for folder in _STARTS_IT)


def active(host: Host, units: Sequence[str]) -> Tuple[str, ...]:
    """Those of the units that run."""
    if not units or not host.exists("/run/systemd/system"):
        return ()
    told = host.run(["systemctl", "show", "--property=Id,ActiveState", "--", *units], _SECONDS).stdout
    running: List[str] = []
    for block in told.split("\n\n"):
        words = dict(line.partition("=")[::2] for line in block.strip().splitlines())
        if words.get("ActiveState") in ("active", "activating", "reloading"):
            running.append(words.get("Id", ""))
    return tuple(unit for unit in units if unit in running)


def stop(host: Host, units: Sequence[str]) -> None:
    host.run(["systemctl", "stop", "--", *units], _SECONDS)


def start(host: Host, units: Sequence[str]) -> None:
    """At boot a unit may wait for the one that runs this, so nobody waits for it here.

    :raises NodeError: systemd does not take it.
    """
    try:
        host.run(["systemctl", "start", "--no-block", "--", *units], _SECONDS)
    except NodeError as error:
        remedy = "run 'systemctl start {0}'".format(" ".join(units))
        raise NodeError(" ".join(units), "stopped for a change of MIG, and not started again", remedy) from error
