# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the metrics on a node, and the steps that are not those of files and timer."""

from __future__ import annotations

from typing import Any, FrozenSet, Mapping, Optional, Tuple

from ...core.folder_given import Folder
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...core.systemd.timer import Timer, TimerState
from ...metrics.settings import SECTION

UNIT = Timer(SECTION)
TABLE = "/etc/dcgm-exporter/gpu_node.csv"
#: As NVIDIA's and Microsoft's packages call it.
EXPORTERS = ("nvidia-dcgm-exporter.service", "dcgm-exporter.service")
#: What Debian's node exporter reads, and what those of other distributions are told to read.
TEXTFILE_FOLDERS = ("/var/lib/prometheus/node-exporter", "/var/lib/node_exporter/textfile_collector")
TEXTFILE = "gpu_node_gpus.prom"
OWNERS_TEXTFILE = "gpu_node_jobs.prom"
#: systemd removes the file of the owners at boot, before node exporter starts: its jobs ended with the last boot.
TMPFILES = "/etc/tmpfiles.d/gpu_node_jobs.conf"


@frozen
class Exporter:
    """dcgm-exporter. ``unit`` empty: it is not installed. ``program``: what its unit starts. ``told``: the fields that
    it tells now; None: it was not asked, or gave no answer (``why``). ``taken``: it does not run, and its port answers.
    ``unpaired``: the version of DCGM that it was made with, and that of the host engine, where they do not fit."""

    unit: str = ""
    program: str = ""
    active: bool = False
    enabled: bool = False
    stale: bool = False
    told: Optional[FrozenSet[str]] = None
    why: str = ""
    taken: bool = False
    unpaired: Tuple[str, str] = ("", "")


@frozen
class State:
    """``declared``: section gpu_metrics of the declaration. ``textfile``: where the metrics go without DCGM; empty:
    there is no place. ``folder``: where it lies. ``owners``: the file of the jobs' owners; empty: not wanted, or no
    place. ``owners_folder``: its folder. ``foreign``: which of the two files is not ours. ``left``: files of metrics
    of ours. ``profiling``: the GPUs have counters for it; False where they are older than Volta."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    timer: TimerState = TimerState()
    exporter: Exporter = Exporter()
    textfile: str = ""
    folder: Optional[Folder] = None
    owners: str = ""
    owners_folder: Optional[Folder] = None
    foreign: Tuple[str, ...] = ()
    left: Tuple[str, ...] = ()
    profiling: bool = True


@frozen
class StartExporter(Action):
    """``listen``: where it has to answer then; ``answers``: whether that can be asked in plain HTTP."""

    unit: str
    listen: str = ""
    answers: bool = True

    def describe(self) -> str:
        return "start {0}".format(self.unit)
