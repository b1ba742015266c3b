# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files of the gate, at the timer and at what Slurm runs."""

from __future__ import annotations

import os
import re
import time
from typing import Optional, Tuple

from ... import declaration, managed_files, slurm_files
from ...host import Host
from ...resource import NodeError
from ...slurm_files import conf
from .. import history
from ..record import STATE_FILES
from ..settings import SECTION
from .desired import PROGRAM, Desired
from .types import FOLDER, SERVICE, TIMER, WANTS, State

_SYSTEMD_RUNS = "/run/systemd/system"
_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
_SECONDS = 10.0


def observe(host: Host, desired: Desired) -> State:
    sections = declaration.read(host)
    units = ["{0}/{1}".format(FOLDER, name) for name in (SERVICE, TIMER)]
    paths = [*units, desired.program or PROGRAM, *desired.outputs]
    files = managed_files.observe(host, paths, sections.get(SECTION) or {})
    slurm_conf, program = _configured(host)
    running = host.root == "/" and host.exists(_SYSTEMD_RUNS)
    active, stale = _timer(host) if running else (False, False)
    return State(
        files=files,
        declared=sections,
        slurmd=slurm_files.program(host, "slurmd") is not None,
        slurm_conf=slurm_conf,
        program=program,
        running=running,
        enabled=os.path.lexists(host.path(WANTS)),
        active=active,
        stale=stale,
        left=tuple(path for path in STATE_FILES if host.exists(path)),
        drained=history.read(host).drained is True,
        now=time.time(),
    )


def _configured(host: Host) -> Tuple[Optional[str], Optional[str]]:
    for path in _CONFIGURATIONS:
        text = conf.with_includes(path, host.read)
        if text is not None:
            return path, health_check_program(text)
    return None, None


def health_check_program(text: str) -> Optional[str]:
    """HealthCheckProgram= of slurm.conf; the last one holds, names are taken in any case."""
    found = re.findall(r"^[ \t]*HealthCheckProgram[ \t]*=[ \t]*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return found[-1] if found else None


def _timer(host: Host) -> Tuple[bool, bool]:
    """(active, stale). One command for both units; no answer is none."""
    try:
        done = host.run(["systemctl", "show", "--property=ActiveState,NeedDaemonReload", TIMER, SERVICE], _SECONDS)
    except NodeError:
        return False, False
    first = done.stdout.split("\n\n")[0]
    return "ActiveState=active" in first.splitlines(), "NeedDaemonReload=yes" in done.stdout.splitlines()
