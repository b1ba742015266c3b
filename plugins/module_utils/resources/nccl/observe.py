# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files, the machine, the kernel's settings, slurmd and the libraries. Nothing is loaded or started."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping, Optional, Tuple

from ...core import declaration, managed_files, processes, systemd
from ...core import sysctl as files
from ...core.host import Host
from ...core.resource import NodeError
from ...facts.peermem import peermem
from ...slurm import slurmd
from . import library, machine
from .options import TOPOLOGIES, Desired
from .sysctl import remembered
from .types import ASIDE, PATHS, SECTION, SLURMD, SYSCTL, Elsewhere, Slurmd, State, graph_file

# Azure's HPC images write /etc/nccl.conf anew at each boot with this unit.
_REWRITER = "sku-customizations.service"


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    found = managed_files.observe(host, PATHS, declared)
    sysctl = _sysctl(host, desired, declared)
    aside = os.path.lexists(host.path(ASIDE))
    daemon = _slurmd(host)
    if not desired.present:
        return State(files=found, declared=declared, aside=aside, sysctl=sysctl, slurmd=daemon)
    graph = graph_file(desired)
    return State(
        files=found,
        declared=declared,
        aside=aside,
        aside_text=host.read(ASIDE) if aside else None,
        machine=machine.observe(host),
        given=None if desired.topology in TOPOLOGIES else host.read(desired.topology),
        graph=host.read(graph) if graph else None,
        sysctl=sysctl,
        sysctl_elsewhere=_elsewhere(host, desired),
        peermem=peermem(host),
        slurmd=daemon,
        libraries=library.libraries(host),
        plugins=library.plugins(host),
        rewriter=_REWRITER if any(systemd.files(host, _REWRITER)) else None,
    )


def sysctl_path(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


def _sysctl(host: Host, desired: Desired, declared: Mapping[str, Any]) -> Tuple[Tuple[str, Optional[str]], ...]:
    names = dict.fromkeys([*(desired.sysctl if desired.present else ()), *remembered(declared)])
    return tuple((name, _words(host.read(sysctl_path(name)))) for name in names)


def _elsewhere(host: Host, desired: Desired) -> Tuple[Elsewhere, ...]:
    found = files.lines(host)
    every = [(name, *files.winner(found, name, SYSCTL)) for name in desired.sysctl]
    return tuple(Elsewhere(name, line.value, line.path, later) for name, line, later in every if line is not None)


def _words(text: Optional[str]) -> Optional[str]:
    """The kernel parts numbers by tabs, people by blanks."""
    return None if text is None else " ".join(text.split())


def _slurmd(host: Host) -> Slurmd:
    installed = any(systemd.files(host, "slurmd.service"))
    if not installed or not systemd.running(host):
        return Slurmd(installed=installed)
    try:
        (answer,) = systemd.show(host, ("slurmd.service",), ("MainPID", "NeedDaemonReload"))
    except NodeError:  # no answer is none: the drop-in is written all the same, and read at the next boot
        return Slurmd(installed=True)
    found = processes.limits(host, answer.get("MainPID", "0"))
    running = None if found is None else tuple((LINES[one], found[one]) for one in LINES if one in found)
    return Slurmd(True, running, answer.get("NeedDaemonReload") == "yes", _older(host))


def _older(host: Host) -> bool:
    began = slurmd.started(host, time.time())
    try:
        return began is not None and began < os.stat(host.path(SLURMD)).st_mtime
    except OSError:
        return False


#: The lines of /proc/PID/limits, and their names in ulimit.
LINES = {
    "Max locked memory": "memlock",
    "Max open files": "nofile",
    "Max stack size": "stack",
    "Max processes": "nproc",
    "Max core file size": "core",
}
