# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs have which GPU, in the files that dcgm-exporter reads as well (``--hpc-job-mapping-dir``).

A file is named by the index of a GPU, or by that and the id of a GPU instance (``2.1``), and has a job in each line
(dcgm-exporter, internal/pkg/transformation/hpc.go, which passes over other names). Prolog and epilog write them.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from ..core.host import Host
from ..core.resource import NodeError

FOLDER = "/run/gpu_node/gpu_jobs"
LOCK = "gpu_jobs"
Place = Tuple[int, Optional[int]]
_NAME = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
# Of Slurm: 4711, 4711_3, 4711+1. Everything else is nothing that we wrote.
_JOB = re.compile(r"[0-9]{1,12}(?:[_+][0-9]{1,10})?")
# So many on one GPU: more than slurmd starts beside each other on shards. The rest is not told.
MOST = 64


def file_name(place: Place) -> str:
    index, instance = place
    return str(index) if instance is None else "{0}.{1}".format(index, instance)


def read(host: Host, folder: str = FOLDER) -> Dict[Place, Tuple[str, ...]]:
    """What the files say; one that is not as prolog writes it says nothing."""
    found: Dict[Place, Tuple[str, ...]] = {}
    for name in host.names(folder):
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        jobs = parse(host.read("{0}/{1}".format(folder, name)) or "")
        if jobs:
            found[int(match.group(1)), None if match.group(2) is None else int(match.group(2))] = jobs
    return found


def parse(text: str) -> Tuple[str, ...]:
    """Pure."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if _JOB.fullmatch(line)))[:MOST]


def with_job(known: Mapping[Place, Tuple[str, ...]], job: str, places: Iterable[Place]) -> Dict[Place, Tuple[str, ...]]:
    """What the files say when this job has these GPUs and no others. Pure."""
    changed: Dict[Place, List[str]] = {place: [one for one in jobs if one != job] for place, jobs in known.items()}
    for place in places:
        changed.setdefault(place, []).append(job)
    return {place: tuple(jobs) for place, jobs in changed.items()}


def keep(host: Host, job: str, places: Iterable[Place], folder: str = FOLDER) -> None:
    """Write that this job has these GPUs; none: that it has ended. Nothing is written where nothing changes.

    :raises NodeError: the job has another form than those of Slurm, or a file cannot be written.
    """
    if _JOB.fullmatch(job) is None:
        raise NodeError("job {0!r}".format(job), "it is no number of Slurm", "report this as a bug")
    with host.lock(LOCK, 5.0):
        known = read(host, folder)
        for place, jobs in with_job(known, job, places).items():
            if jobs == known.get(place, ()):
                continue
            path = "{0}/{1}".format(folder, file_name(place))
            if jobs:
                host.write(path, "\n".join(jobs) + "\n")
            else:
                host.remove(path)
