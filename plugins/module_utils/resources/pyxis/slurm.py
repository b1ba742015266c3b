# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Slurm that is installed: its version, its headers, its slurmd, and whether jobs run here."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from ...core.host import Host
from ...core.resource import NodeError
from ...slurm import places
from ...slurm.drain import parse_node
from ...slurm.places import program
from .types import IDLE, Headers

_SECONDS = 10.0
_PROGRAMS = ("srun", "slurmd", "scontrol")
_BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING", "ALLOC", "MIX", "COMP"))


def version(host: Host) -> Optional[str]:
    """``slurm 25.11.5``, or Debian's ``slurm-wlm 22.05.8``, as ``25.11.5``."""
    for name in _PROGRAMS:
        path = program(host, name)
        if path is None:
            continue
        option = "-V" if name == "slurmd" else "--version"
        done = host.run([host.path(path), option], _SECONDS, accept=tuple(range(256)))
        found = re.search(r"\bslurm\S*\s+(\d+\.\d+\.\d+\S*)", done.stdout)
        if found:
            return found.group(1)
    return None


def headers(host: Host) -> Optional[Headers]:
    """Those beside the programs win over the distribution's."""
    folders: List[str] = []
    for name in _PROGRAMS:
        path = program(host, name)
        if path is not None:
            folders.append(os.path.dirname(os.path.dirname(host.real_path(path))) + "/include")
    for folder in dict.fromkeys([*folders, "/usr/include", "/usr/local/include", "/opt/slurm/include"]):
        if host.exists(folder + "/slurm/spank.h"):
            return Headers(folder, _header_version(host, folder))
    return None


def _header_version(host: Host, folder: str) -> Optional[Tuple[int, int, int]]:
    for name in ("slurm_version.h", "slurm.h"):
        text = host.read("{0}/slurm/{1}".format(folder, name)) or ""
        found = re.search(r"^#define\s+SLURM_VERSION_NUMBER\s+0x([0-9a-fA-F]{1,8})\b", text, re.MULTILINE)
        if found:
            number = int(found.group(1), 16)
            return number >> 16 & 0xFF, number >> 8 & 0xFF, number & 0xFF
    return None


def slurmd_started(host: Host, now: float) -> Optional[float]:
    """When the slurmd that runs here began to, in seconds since 1970; ``now`` is the time in the same."""
    ticks = [_start_ticks(host, pid) for pid in places.running(host)]
    known = [one for one in ticks if one is not None]
    uptime = (host.read_line("/proc/uptime") or "").split(" ")[0]
    if not known or not re.fullmatch(r"\d+(\.\d+)?", uptime):
        return None
    return now - float(uptime) + min(known) / os.sysconf("SC_CLK_TCK")


def _processes(host: Host, command: str) -> List[str]:
    pids = [one for one in host.names("/proc") if one.isdigit()]
    return [pid for pid in pids if host.read_line("/proc/{0}/comm".format(pid)) == command]


def _start_ticks(host: Host, pid: str) -> Optional[int]:
    """Field 22 of stat; the name before it may hold blanks and brackets."""
    fields = (host.read("/proc/{0}/stat".format(pid)) or "").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[19].isdigit() else None


def jobs(host: Host, node: Optional[str] = None) -> str:
    """``idle``, or why that cannot be said. It asks slurmctld, so it is called only when a restart depends on it."""
    for pid in _processes(host, "slurmstepd"):
        # With cgroup v2 one of them, which is of no job, is always there.
        if "infinity" not in (host.read("/proc/{0}/cmdline".format(pid)) or "").split("\0"):
            return "a step of a job runs here"
    name = node or os.uname().nodename.split(".")[0]
    try:
        found = parse_node(_ask(host, ["scontrol", "show", "node", name]))
        if found is None:
            return "slurmctld knows no node {0}".format(name)
        if found.flags & _BUSY:
            return "its state is {0}".format("+".join(sorted(found.flags)))
        running = _ask(host, ["squeue", "--noheader", "--nodelist=" + name, "--format=%A"]).split()
    except NodeError as error:
        return "slurmctld does not tell whether jobs run here ({0})".format(error.reason)
    return "job {0} is on it".format(running[0]) if running else IDLE


def _ask(host: Host, argv: List[str]) -> str:
    path = program(host, argv[0])
    if path is None:
        raise NodeError(argv[0], "it is not installed", "install Slurm's client programs")
    return host.run([host.path(path), *argv[1:]], _SECONDS).stdout
