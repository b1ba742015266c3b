# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which jobs have this node, and which of its GPUs: for whoever is about to take something of a GPU away.

NVML lists a process from its first CUDA call on. A job has its GPUs from its prolog to its epilog, so what Slurm has
given out is in use, and a job of which this is not known may have any of them.

The jobs are those that the hooks have noted, and those that have a cgroup. What one has is in the note of its prolog
where it has whole GPUs. Else slurmctld is asked: that a job is over, that it has no GPU, or at which positions of
slurmd's list its GPUs are. gres.conf tells what is at a position, if it is the text that slurmd had when the job began.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from ..core import processes
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from ..facts.nvml.selectors import slurm_gpus
from . import hosts, jobs, on_node, places, syntax, this_node
from .client import Slurm
from .gpus import configuration, devices_of
from .running import ended

# A file has been read if slurmd started so long after it was written: clocks of files are coarse.
_READ_SECONDS = 2.0
# The name of a job that nobody can rule out.
UNTOLD = "of Slurm, which does not answer,"
_SHARED = re.compile(r"\b(?:gpu|shard|mps)\b")


@frozen
class Holding:
    """A job, by its number or SLUID. ``gpus``: the PCI addresses of its GPUs; ``files``: the device files of what it
    has, where only those are known. Both None: it may have any."""

    job: str
    gpus: Optional[Tuple[str, ...]] = None
    files: Optional[Tuple[Tuple[str, ...], ...]] = None

    @property
    def known(self) -> bool:
        return self.gpus is not None or self.files is not None


def look(host: Host) -> Tuple[Holding, ...]:
    """Without slurmctld; a node without jobs pays for a few folders."""
    noted = jobs.all_of(host)
    found = {str(one.id): Holding(str(one.id), one.gpus or None) for one in noted}
    return _with_others(found, on_node.here(host).names)


def _with_others(found: Dict[str, Holding], names: Iterable[str]) -> Tuple[Holding, ...]:
    for job in sorted(names):
        found.setdefault(job, Holding(job))
    return tuple(found.values())


def of_slurm(host: Host, holdings: Sequence[Holding], slurm: Slurm) -> Tuple[Holding, ...]:
    """With the jobs that only slurmctld knows. If it does not answer, and may answer a later run, any job may be
    here."""
    seen, _why = on_node.look(host, slurm, ())
    names = set(seen.names)
    if on_node.unknown(host, slurm, seen):
        names.add(UNTOLD)
    return _with_others({one.job: one for one in holdings}, names)


def asked(host: Host, holdings: Sequence[Holding], program: str) -> Tuple[Holding, ...]:
    """With what slurmctld tells of those that are not known; those that are over are left out."""
    found: List[Holding] = []
    slurm = Slurm(host, "", program)
    answers = True
    here: Optional[this_node.Here] = None
    for one in holdings:
        if one.known or not one.job.isdigit() or not answers:
            found.append(one)
            continue
        try:
            answer = slurm.job(int(one.job), detail=True)
        except NodeError:
            answers = False  # the next one would wait as long
            found.append(one)
            continue
        here = here or this_node.here(host)
        if not ended(answer, int(one.job), here.certain_name):
            found.append(_with(host, one, answer, here.node_name))
    return tuple(found)


def _with(host: Host, one: Holding, answer: str, name: str) -> Holding:
    path = configuration(host)
    text = syntax.read(path, host.read)
    told = detail(answer, int(one.job), name)
    if told is None or told.positions is None:
        return one
    if not told.positions:
        return Holding(one.job, ())
    if not _read_before(host, path, text, told.began):
        return one
    devices = devices_of(host, name, path)
    if any(position >= len(devices.positions) for position in told.positions):
        return one
    return Holding(one.job, files=tuple(devices.positions[position] for position in told.positions))


@frozen
class Detail:
    """What slurmctld tells of a job on one node. ``positions`` None: it shares GPUs, or has some without a position."""

    began: Optional[float] = None
    positions: Optional[Tuple[int, ...]] = None


def detail(answer: str, job_id: int, node: str) -> Optional[Detail]:
    """Of ``scontrol show job -d`` (info_job.c, 22.05 to 24.11); None where it tells nothing of this node. Pure.

    A user writes the name of his job, but not into the middle of a line that begins as these do; of two such lines
    none counts.
    """
    blocks = [b for b in re.split(r"\n\s*\n", answer) if re.match(r"\s*JobId={0}\b".format(job_id), b)]
    if len(blocks) != 1:
        return None
    rows = re.findall(r"^\s*Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(.*)$", blocks[0], re.MULTILINE)
    here = [gres.strip() for names, gres in rows if hosts.holds(names, node)]
    times = re.findall(r"^\s*StartTime=(\S+)", blocks[0], re.MULTILINE)
    if len(here) != 1 or len(times) != 1:
        return None
    positions: Optional[Tuple[int, ...]] = None
    found = re.findall(r"(?:^|,)gpu(?::[^,():]+)*:[0-9]+\(IDX:([0-9,-]+)\)", here[0])
    rest = re.sub(r"\(IDX:[0-9,-]+\)", "", here[0])
    if len(_SHARED.findall(re.sub(r":[^,]*", "", rest))) == len(found) > 0:
        words = [name for one in found for name in slurm_gpus(one)]
        positions = tuple(int(word) for word in words if word.isdigit())
    elif not here[0] and not _SHARED.search(" ".join(re.findall(r"^\s*\w*(?:GRES|TRES|Tres)\w*=.*", blocks[0], re.M))):
        positions = ()
    return Detail(_seconds(times[0]), positions)


def _seconds(text: str) -> Optional[float]:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _read_before(host: Host, path: str, text: Optional[syntax.Text], began: Optional[float]) -> bool:
    """Whether slurmd had these files as they are now when the job began: it has read them at its start, if not later.

    A slurmd that was told to read them again does not show it before 23.11, so that is not relied on.
    """
    pids = places.running(host)
    boot = processes.boot_time(host)
    ticks = processes.start_time(host, pids[0]) if len(pids) == 1 else None
    gres = posixpath.join(posixpath.dirname(path), "gres.conf")
    both: Dict[str, Optional[syntax.Text]] = {path: text, gres: syntax.read(gres, host.read, posixpath.dirname(path))}
    if boot is None or ticks is None or began is None or any(one is None or one.included for one in both.values()):
        return False
    started = boot + ticks / os.sysconf("SC_CLK_TCK")
    try:
        written = max(os.stat(host.path(one)).st_mtime for one in both)
    except OSError:
        return False
    return written + _READ_SECONDS <= started <= began
