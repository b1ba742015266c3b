# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs whose profiler wants the counters of the hardware for itself.

A GPU has one set of them: while DCGM counts, Nsight and ncu fail, and the other way round (DCGM User Guide, "Profiling
Metrics": ``dcgmi profile --pause``). A mark in :data:`FOLDER` for each such job says that nobody else counts; DCGM goes
on when the last one is gone.
"""

from __future__ import annotations

import re
from typing import Collection, Tuple

from ..core.host import Host

FOLDER = "/run/gpu_node/profiling"
LOCK = "profiling"
_SECONDS = 10.0
_NAME = re.compile(r"[0-9]{1,12}")


def jobs(host: Host) -> Tuple[int, ...]:
    """Those that have the counters now."""
    return tuple(int(name) for name in host.names(FOLDER) if _NAME.fullmatch(name))


def begin(host: Host, job: int, dcgm: bool) -> None:
    """Before a job. ``dcgm``: its host engine counts here.

    :raises NodeError: DCGM does not pause; the mark is there all the same, so that the epilog has it go on.
    """
    with host.lock(LOCK, _SECONDS):
        host.write("{0}/{1}".format(FOLDER, job), "")
        if dcgm:
            _dcgmi(host, "--pause")


def end(host: Host, job: int, running: Collection[int], dcgm: bool) -> bool:
    """After a job: whether the counters are everybody's again. Marks of jobs that do not run any more go too.

    :raises NodeError: DCGM does not go on. The mark stays, so that the next epilog tries it again.
    """
    if not host.exists(FOLDER):
        return False
    with host.lock(LOCK, _SECONDS):
        marks = jobs(host)
        left = [one for one in marks if one != job and one in running]
        if not marks or left:
            gone = [one for one in marks if one not in left] if left else []
        else:
            if dcgm:
                _dcgmi(host, "--resume")
            gone = list(marks)
        for one in gone:
            host.remove("{0}/{1}".format(FOLDER, one))
        return bool(marks) and not left


def _dcgmi(host: Host, what: str) -> None:
    host.run(["dcgmi", "profile", what], _SECONDS)
