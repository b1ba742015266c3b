# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has the jobs on the GPUs of this node: a file for the textfile collector of Prometheus' node exporter.

Prolog and epilog write it, so it is the same file whether DCGM or NVML reports the GPUs. It is made from the notes of
the jobs that run (:mod:`..slurm.jobs`), and has the jobs that the other metrics have as ``hpc_job`` (:mod:`.jobs`).
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ..core import managed_files
from ..core.exposition import GAUGE, Exposition
from ..core.host import Host
from ..slurm import jobs as notes
from ..slurm.jobs import Running
from . import jobs
from .jobs import Place

# Targets of Prometheus have a label partition of the node, which would rename one of that name here.
_LABELS = ("hpc_job", "user", "account", "job_partition")
_COMMENT = "Owners of the jobs on the GPUs of this node."


def render(known: Mapping[Place, Tuple[str, ...]], running: Iterable[Running]) -> str:
    """Pure. A user whose name cannot be shown is a number."""
    having = {job for names in known.values() for job in names}
    found: List[Tuple[Dict[str, str], float]] = []
    for note in sorted(running, key=lambda one: one.id):
        if str(note.id) in having:
            values = (str(note.id), note.user or str(note.uid), note.account, note.partition)
            found.append((dict(zip(_LABELS, values)), 1.0))
    told = Exposition(_COMMENT)
    what = "1 for each job that has a GPU of this node, with its owner. Join other metrics with it."
    told.add("job_info", GAUGE, what, found)
    return told.text()


def keep(host: Host, path: str) -> Optional[str]:
    """Write the file, unless nothing changes; returns why it was not written.

    The lock covers the look and the write: of two hooks at once, the last one sees both jobs.
    """
    with host.lock(jobs.LOCK, 5.0):
        text = render(jobs.read(host), notes.running(host))
        if managed_files.look(host, path).text == text:
            return None
        return managed_files.write_beside(host, path, text)
