# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slurmd of this node: since when it runs, whether it has read a file, whether jobs run beside it, and its restart.

slurmd reads gres.conf when it starts and at SIGHUP, which ``scontrol reconfigure`` comes to (slurmd.c: ``_reconfigure``
of 22.05, in the same process; ``_try_to_reconfig`` from 23.11 on, in a new one that takes the old one's place). Only a
start can be seen afterwards in every version, so a restart is what proves that a file was read. It ends no step of a
job: those have processes of their own, and the units that Slurm brings have KillMode=process.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import Action, NodeError
from . import places
from .drain import parse_node
from .places import program
from .proc import start_time

IDLE = "idle"
_SECONDS = 10.0
_RESTART_SECONDS = 120.0
_BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING", "ALLOC", "MIX", "COMP"))


@frozen
class RestartSlurmd(Action):
    """Left undone when a job has come in the meantime. ``node``: its NodeName; None: the name of the host."""

    node: Optional[str] = None

    def describe(self) -> str:
        return "restart slurmd, as no job runs here"


def restart(host: Host, action: RestartSlurmd, dummy: object = None) -> None:
    """:raises NodeError: systemd does not start it again."""
    if jobs(host, action.node) == IDLE:
        systemctl = program(host, "systemctl") or "/usr/bin/systemctl"
        host.run([host.path(systemctl), "restart", "slurmd.service"], timeout_seconds=_RESTART_SECONDS)


def against(wished: bool, systemd: bool, running: Optional[str]) -> Optional[str]:
    """Why slurmd is not restarted now. ``running``: what :func:`jobs` told; None: nobody asked. Pure."""
    if not wished:
        return "that is left to you"
    if not systemd:
        return "this node has no systemd to do it with"
    if running != IDLE:
        return running or "nobody knows whether jobs run here"
    return None


def started(host: Host, now: float) -> Optional[float]:
    """When the slurmd that runs here began to, in seconds since 1970; ``now`` is the time in the same."""
    ticks = [start_time(host, int(pid)) for pid in places.running(host)]
    known = [one for one in ticks if one is not None]
    uptime = (host.read_line("/proc/uptime") or "").split(" ")[0]
    if not known or not re.fullmatch(r"\d+(\.\d+)?", uptime):
        return None
    return now - float(uptime) + min(known) / os.sysconf("SC_CLK_TCK")


def jobs(host: Host, node: Optional[str] = None) -> str:
    """``idle``, or why that cannot be said. It asks slurmctld, so it is called only when a restart depends on it."""
    return asked(host, node)[0]


def asked(host: Host, node: Optional[str] = None) -> Tuple[str, str]:
    """As :func:`jobs`, and the ``Gres=`` that slurmctld holds against the node's, however slurm.conf reads by now."""
    for pid in [one for one in host.names("/proc") if one.isdigit()]:
        # With cgroup v2 one of them, which is of no job, is always there.
        if host.read_line("/proc/{0}/comm".format(pid)) == "slurmstepd" and "infinity" not in (
            host.read("/proc/{0}/cmdline".format(pid)) or ""
        ).split("\0"):
            return "a step of a job runs here", ""
    name = node or os.uname().nodename.split(".")[0]
    try:
        found = parse_node(_ask(host, ["scontrol", "show", "node", name]))
        if found is None:
            return "slurmctld knows no node {0}".format(name), ""
        if found.flags & _BUSY:
            return "its state is {0}".format("+".join(sorted(found.flags))), found.gres
        listed = _ask(host, ["squeue", "--noheader", "--nodelist=" + name, "--format=%A"]).split()
    except NodeError as error:
        return "slurmctld does not tell whether jobs run here ({0})".format(error.reason), ""
    return "job {0} is on it".format(listed[0]) if listed else IDLE, found.gres


def _ask(host: Host, argv: List[str]) -> str:
    path = program(host, argv[0])
    if path is None:
        raise NodeError(argv[0], "it is not installed", "install Slurm's client programs")
    return host.run([host.path(path), *argv[1:]], _SECONDS).stdout
