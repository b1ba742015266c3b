# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the files of the gate, at the timer and at what Slurm runs."""

from __future__ import annotations

import os
import time
from typing import Optional, Tuple

from ...core import declaration, folder_given, managed_files
from ...core.host import Host
from ...health.gate import history
from ...health.gate.record import STATE_FILES
from ...health.gate.settings import SECTION
from ...slurm import places, slurm_conf, syntax
from .options import Desired
from .types import (
    HEALTHAGENT,
    HEALTHAGENT_HOOKS,
    HEALTHAGENT_PROGRAM,
    PROGRAM,
    UNIT,
    State,
)


def observe(host: Host, desired: Desired) -> State:
    sections = declaration.read(host)
    paths = [*UNIT.paths, desired.program or PROGRAM, *desired.outputs]
    files = managed_files.observe(host, paths, sections.get(SECTION) or {})
    path, program = _configured(host)
    return State(
        files=files,
        declared=sections,
        slurmd=places.program(host, "slurmd") is not None,
        slurm_conf=path,
        program=program,
        healthagent=_healthagent(host, program),
        timer=UNIT.look(host),
        left=tuple(path for path in STATE_FILES if host.exists(path)),
        drained=history.read(host).drained is True,
        now=time.time(),
        folders=tuple((option, folder_given.look(host, path)) for option, path in desired.folders),
    )


def _configured(host: Host) -> Tuple[Optional[str], Optional[str]]:
    path = places.find(host).path
    text = syntax.read(path, host.read) if path else None
    return (None, None) if text is None else (path, slurm_conf.option(text, "HealthCheckProgram"))


def _healthagent(host: Host, program: Optional[str]) -> Tuple[str, ...]:
    if not host.exists(HEALTHAGENT):
        return ()
    runs = [program] if program is not None and os.path.basename(program) == HEALTHAGENT_PROGRAM else []
    return tuple(runs + [path for path in HEALTHAGENT_HOOKS if host.exists(path)])
