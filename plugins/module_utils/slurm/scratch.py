# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scratch before and after a job: whether it is there and writable, and the folder of the job on it.

Everything that touches the scratch runs in a child process with a time limit, since a file system whose disk is gone
can hold a call for ever. ``SCRATCH/jobs`` is a folder of root's (``root_folders``): nobody else can put a name there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from typing import Any, Callable, FrozenSet, Iterator, Mapping, Optional, Tuple

from ..core import mounts, root_folders
from ..core.child import ChildDied, collect
from ..core.host import Host
from ..core.resource import NodeError
from .types import Job

SECTION = "nvme_scratch"
JOBS = "jobs"
# A local disk answers in milliseconds.
LOOK_SECONDS = 10.0
_LAST_TRY_SECONDS = 2.0
_REMEDY = "run 'gpunode scratch status' on the node"
_NOT_WRITABLE = "it cannot be written to"


places = mounts.of_scratch


def mounted(host: Host, candidates: Tuple[str, ...]) -> Optional[mounts.Mount]:
    """The first candidate that is a mount point now. A network file system is not a scratch: a sweep of it would remove
    the folders of jobs on other nodes."""
    return mounts.scratch_in(mounts.read(host), candidates)


def look(host: Host, declared: Optional[Mapping[str, Any]], job: Optional[Job] = None) -> Optional[str]:
    """The job's folder, made; or, without a job, nothing, after the same checks. None where no scratch is declared.

    :raises NodeError: the scratch is not there or cannot be written to: no job may start here.
    """
    point = usable(host, declared)
    if point is None:
        return None

    def act() -> None:
        _probe(host.path(point))
        if job is not None:
            with root_folders.opened(host, point, (JOBS,), make=True) as jobs:
                if jobs is not None:  # not with make
                    root_folders.given(host, jobs, str(job.id), job.uid, -1 if job.gid is None else job.gid)

    _limited(point, _NOT_WRITABLE, lambda: when_there_is_room(host, point, act))
    return None if job is None else folder_of(point, job.id)


def when_there_is_room(host: Host, point: str, act: Callable[[], None]) -> None:
    """A scratch that the last job has filled is full until its folder, which is in the trash, is removed.

    :raises OSError: that of ``act``.
    """
    deadline = time.monotonic() + LOOK_SECONDS - _LAST_TRY_SECONDS
    while True:
        try:
            return act()
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            if not full or time.monotonic() > deadline or not _trash_goes(host, point):
                raise
        time.sleep(0.1)


def _trash_goes(host: Host, point: str) -> bool:
    with root_folders.opened(host, point, (JOBS,), make=False) as jobs:
        if jobs is None or not root_folders.has_trash(jobs):
            return False
        root_folders.empty_trash(jobs)
        return True


def usable(host: Host, declared: Optional[Mapping[str, Any]]) -> Optional[str]:
    """The mount point of the declared scratch, by the table of mounts alone; None where none is declared.

    :raises NodeError: it is not mounted, or read-only.
    """
    candidates = places(declared)
    if not candidates:
        return None
    found = mounted(host, candidates)
    if found is None:
        raise NodeError("scratch " + candidates[0], "it is not mounted", _REMEDY)
    if not found.writable:
        raise NodeError("scratch " + found.point, "it is mounted read-only", _REMEDY)
    return found.point


def folder_of(point: str, job_id: int) -> str:
    return "{0}/{1}/{2}".format(point, JOBS, job_id)


def discard(host: Host, folder: str, job_id: int) -> None:
    """Put the folder of a job into the trash; it may be gone. Only ever SCRATCH/jobs/ID of this job.

    :raises NodeError: it could not be moved, or not in time.
    """
    parent, name = os.path.split(folder)
    point, jobs_name = os.path.split(parent)
    if jobs_name != JOBS or name != str(job_id) or not point.startswith("/"):
        raise NodeError(folder, "this is not the folder of job {0}".format(job_id), "remove it by hand")
    if mounted(host, (point,)) is None:
        return  # what is not mounted holds nothing of the job

    def act() -> None:
        with root_folders.opened(host, point, (JOBS,), make=False) as jobs:
            if jobs is not None:
                root_folders.discard(host, jobs, name)
                root_folders.empty_trash(jobs)

    _limited(point, "the folder of job {0} could not be removed".format(job_id), act)


def sweep(host: Host, declared: Optional[Mapping[str, Any]], before: float, running: FrozenSet[int]) -> None:
    """Make SCRATCH/jobs root's, and put the folders of jobs into the trash that have not changed since ``before``.

    That of a job that runs (``running``) stays.

    :raises NodeError: the scratch is not there or cannot be written to.
    """
    point = usable(host, declared)
    if point is None:
        return

    def dead(name: str) -> bool:
        return re.fullmatch(r"[0-9]{1,10}", name) is not None and int(name) not in running

    def act() -> None:
        with root_folders.opened(host, point, (JOBS,), make=True) as jobs:
            if jobs is not None:  # not with make
                root_folders.discard_old(host, jobs, before, dead)

    _limited(point, _NOT_WRITABLE, act)


def _limited(point: str, failure: str, act: Callable[[], None]) -> None:
    """Run ``act`` in a child; its OSError becomes a sentence about the scratch."""

    def task(dummy: Any) -> Iterator[str]:
        try:
            act()
        except OSError as error:
            yield error.strerror or str(error)

    try:
        done = collect(task, LOOK_SECONDS)
    except ChildDied as error:
        raise NodeError("scratch " + point, "the process that looked at it died", _REMEDY) from error
    if done.hung_at is not None:
        raise NodeError("scratch " + point, "it did not answer within {0:g} s".format(LOOK_SECONDS), _REMEDY)
    if done.items:
        raise NodeError("scratch " + point, "{0} ({1})".format(failure, done.items[0]), _REMEDY)


# In the child process ---------------------------------------------------------------------------------


def _probe(point: str) -> None:
    """Whether a file can be made there, by one that has no name: nothing is left, and prologs side by side never meet.

    :raises OSError: it cannot.
    """
    above = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            handle = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            # A file system without such files.
            name = ".gpu_node-" + root_folders.unique()
            handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=above)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=above)
        os.close(handle)
    finally:
        os.close(above)
