# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/run/gpu_node/jobs: what a prolog notes of its job, and what is left to do for it until its epilog is through.

``ID.json``: the job runs. ``ID.over.json``: its epilog has begun, so it runs no more, whatever becomes of that epilog.
They tell an epilog which GPUs other jobs still have (MPS, shards), make it repeatable, and let the next epilog end the
work of one that was killed. They lie in /run, so a reboot forgets them together with the jobs.

A job that ended without an epilog (slurmd was down) leaves an ``ID.json``. Whether that job still runs is asked only
where its note stands in the way of another job's epilog: ``running.py``.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Optional, Tuple

from ..core.frozen import frozen, plain, replaced
from ..core.host import Host
from ..core.processes import Started, alive, cmdline
from ..core.state_file import StateFile, document
from ..core.system_processes import daemons
from .types import name_of

FOLDER = "/run/gpu_node/jobs"
_OVER = ".over"
_OPTIONAL = ("gpus", "folder", "sluid", "stuck", "by")


@frozen
class Running:
    """What is remembered of a job. ``gpus`` are PCI addresses; ``folder`` is its folder on the scratch; ``sluid``
    its name in the cgroups of Slurm 26.05. ``user``, ``account`` and ``partition`` are names for the metrics, or "".

    Of one that is over: ``stuck`` are processes that its epilog could not end, ``by`` is the epilog itself.
    """

    id: int
    uid: int
    gpus: Tuple[str, ...] = ()
    folder: Optional[str] = None
    sluid: Optional[str] = None
    stuck: Tuple[Started, ...] = ()
    by: Optional[Started] = None
    user: str = ""
    account: str = ""
    partition: str = ""


def _parse(content: Dict[str, Any]) -> Running:
    # A name of another type is no reason to forget a job that runs.
    names = {name: name_of(content.get(name)) for name in ("user", "account", "partition")}
    return document(Running, dict(content, id=0, **names), _OPTIONAL)


_FILES = {
    False: StateFile("job", FOLDER + "/{0}.json", _parse),
    True: StateFile("job", FOLDER + "/{0}" + _OVER + ".json", _parse),
}


def path(job_id: int, over: bool = False) -> str:
    return _FILES[over].at(job_id)


def read(host: Host, job_id: int, over: bool = False) -> Optional[Running]:
    """None if there is none, or it is damaged."""
    found = _FILES[over].read(host, job_id)[0]
    return None if found is None else replaced(found, id=job_id)


def running(host: Host) -> Tuple[Running, ...]:
    """The jobs that run."""
    return _noted(host, over=False)


def all_of(host: Host) -> Tuple[Running, ...]:
    """The jobs that this node is busy with: those that run, and those whose epilog is at work."""
    return running(host) + tuple(one for one in over(host) if one.by is not None and alive(host, one.by))


def over(host: Host) -> Tuple[Running, ...]:
    """Those that are over and not forgotten: their epilog is at work, was killed, or could not end a process."""
    return _noted(host, over=True)


def _noted(host: Host, over: bool) -> Tuple[Running, ...]:
    pattern = re.compile(r"(\d+){0}\.json".format(re.escape(_OVER) if over else ""))
    found = [pattern.fullmatch(name) for name in host.names(FOLDER)]
    jobs = [read(host, int(one.group(1)), over) for one in found if one is not None]
    return tuple(job for job in jobs if job is not None)


def begin(host: Host, running: Running) -> None:
    """The job starts; what is left to do for an earlier start of it must not touch its folder any more."""
    earlier = read(host, running.id, over=True)
    if earlier is not None:
        _write(host, replaced(earlier, folder=None), over=True)
    _write(host, running, over=False)


def end(host: Host, running: Running, by: Optional[Started]) -> None:
    """The job is over: first the note that says so, then the other one goes, so that it is never forgotten."""
    _write(host, replaced(running, by=by), over=True)
    host.remove(path(running.id))


def stay(host: Host, running: Running, stuck: Tuple[Started, ...]) -> None:
    """All is done for this job but for these processes."""
    _write(host, Running(running.id, running.uid, stuck=stuck), over=True)


def forget(host: Host, job_id: int) -> None:
    host.remove(path(job_id, over=True))


def undo(host: Host, job_id: int) -> None:
    """The job does not start here after all."""
    host.remove(path(job_id), folder_too=True)


def _write(host: Host, running: Running, over: bool) -> None:
    content = plain(running)
    del content["id"]
    _FILES[over].write(host, content, running.id)


def unshared(gpus: Tuple[str, ...], running: Tuple[Running, ...]) -> Tuple[str, ...]:
    """Those of ``gpus`` that none of these jobs has. Pure."""
    taken = {gpu for one in running for gpu in one.gpus}
    return tuple(gpu for gpu in gpus if gpu not in taken)


def steps(host: Host) -> Iterator[Tuple[int, str]]:
    """(PID, command line) of each slurmstepd that serves a step of a job; it calls itself ``slurmstepd: [42.0]``. A
    user's process with that name does not count.

    With cgroup v2 slurmd has one more that belongs to no job, for as long as it runs: ``slurmstepd infinity``, without
    which the scope of the others would end (cgroup_v2.c, slurmstepd.c; the same in 22.05.8, 24.11.5 and 26.05). The one
    of a namespace, ``ns_infinity`` with a number, belongs to a job.
    """
    for pid in daemons(host, ("slurmstepd",)):
        words = cmdline(host, pid)
        if words[1:] != ["infinity"]:
            yield pid, " ".join(words)
