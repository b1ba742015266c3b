# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of the files. Pure."""

from __future__ import annotations

from typing import List, Tuple

from ...core import systemd
from ...core.managed_files import MARKER, Wanted
from ...core.systemd.timer import after_each_end
from ...core.systemd.units import unit_text
from ...facts import dcgm
from ...facts.nvml.binding import RUNTIME
from ...metrics import jobs
from .options import Desired
from .types import TABLE, TMPFILES, UNIT, Exporter, State


def drop_in_path(unit: str) -> str:
    return systemd.drop_in(unit, "50-gpu_node.conf")


def of_nvml(desired: Desired) -> Tuple[Wanted, ...]:
    return UNIT.wanted(service(desired), timer(desired.interval_seconds))


def of_dcgm(state: State, desired: Desired) -> Tuple[Wanted, ...]:
    fields = dcgm.chosen(desired.fields, state.profiling)
    return (
        Wanted(TABLE, dcgm.table(fields)),
        Wanted(drop_in_path(state.exporter.unit), drop_in(state.exporter, desired)),
        *of_owners(state.owners),
    )


def of_owners(path: str) -> Tuple[Wanted, ...]:
    """``path``: of the file of the owners; "": none is wanted."""
    if not path:
        return ()
    text = "{0} The jobs in this file ended with the last boot.\nr! {1}\n".format(MARKER, path)
    return (Wanted(TMPFILES, text),)


def service(desired: Desired) -> str:
    rest = [
        "ExecStart={0} metrics write".format(RUNTIME),
        "# A look that hangs is told by the next one, and by the age of the file.",
        "TimeoutStartSec={0}".format(60 + int(desired.activity_seconds)),
        "# A look each half a minute would fill the log with starts and ends. What the command says is not among them.",
        "SyslogLevel=notice",
        "LogLevelMax=notice",
        "Nice=10",
    ]
    after = "nvidia-persistenced.service nvidia-fabricmanager.service"
    return UNIT.service_text("Metrics of the GPUs of this node", RUNTIME, rest, after)


def timer(interval_seconds: int) -> str:
    return UNIT.timer_text("Metrics of the GPUs of this node, again and again", after_each_end(interval_seconds))


def drop_in(exporter: Exporter, desired: Desired) -> str:
    words: List[str] = [
        exporter.program,
        "-f {0}".format(TABLE),
        "-a {0}".format(desired.listen),
        "-c {0}".format(desired.interval_seconds * 1000),
    ]
    if desired.host_engine:
        words.append("-r {0}".format(desired.host_engine))
    if desired.jobs:
        words.append("--hpc-job-mapping-dir {0}".format(jobs.FOLDER))
    if desired.web_config:
        words.append("--web-config-file {0}".format(desired.web_config))
    lines = [
        "# Also before the first job.",
        *(["ExecStartPre=/bin/mkdir -p -m 0755 {0}".format(jobs.FOLDER)] if desired.jobs else []),
        "ExecStart=",
        "ExecStart=" + " ".join(words),
        "Restart=on-failure",
        "RestartSec=10",
    ]
    return unit_text(exporter.unit, Service=lines)
