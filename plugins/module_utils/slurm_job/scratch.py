# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scratch under a job: is it mounted and writable, and the job's own folder SCRATCH/jobs/ID.

Everything that touches the scratch runs in a child process with a time limit, since a file system whose disk is gone
can hold a call for ever. ``SCRATCH/jobs`` belongs to root, so nobody else can put a name there; all the same no
symbolic link is followed below the mount point.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

from ..child import ChildDied, collect
from ..host import Host
from ..resource import NodeError
from .types import Job

SECTION = "nvme_scratch"
JOBS = "jobs"
# A local disk answers in milliseconds. Removing the files of a job may take long: some million of them.
LOOK_SECONDS, REMOVE_SECONDS = 10.0, 300.0
_DEFAULTS = ("/mnt/resource_nvme", ("/nvme", "/mnt/nvme"))  # of the module nvme_scratch
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMEDY = "run 'gpunode scratch status' on the node"


def places(declared: Optional[Mapping[str, Any]]) -> Tuple[str, ...]:
    """Where the declared scratch may be mounted: at its own place, or where an adopted one stands."""
    if declared is None or declared.get("state", "present") != "present":
        return ()
    adopted = declared.get("adopt_mount_points", _DEFAULTS[1]) if declared.get("adopt", True) else ()
    return tuple([str(declared.get("mount_point", _DEFAULTS[0])), *(str(one) for one in adopted)])


def mounted(host: Host, candidates: Tuple[str, ...]) -> Optional[Tuple[str, str]]:
    """(mount point, options) of the first candidate that is a mount point now."""
    table = {}
    for line in (host.read("/proc/mounts") or "").splitlines():
        words = line.split(" ")
        if len(words) >= 4:
            table[_unescaped(words[1])] = words[3]
    return next(((one, table[one]) for one in candidates if one in table), None)


def _unescaped(text: str) -> str:
    """The kernel writes blanks in mount points as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def look(host: Host, declared: Optional[Mapping[str, Any]], job: Optional[Job] = None) -> Optional[str]:
    """The job's folder, made; or, without a job, nothing, after the same checks. None where no scratch is declared.

    :raises NodeError: the scratch is not there or cannot be written to: no job may start here.
    """
    candidates = places(declared)
    if not candidates:
        return None
    found = mounted(host, candidates)
    if found is None:
        raise NodeError("scratch " + candidates[0], "it is not mounted", _REMEDY)
    point, options = found
    if "ro" in options.split(","):
        raise NodeError("scratch " + point, "it is mounted read-only", _REMEDY)
    _limited(point, LOOK_SECONDS, "it cannot be written to", lambda: _make(host.path(point), job))
    return None if job is None else "{0}/{1}/{2}".format(point, JOBS, job.id)


def remove(host: Host, folder: str, job: Job) -> None:
    """Remove the folder of a job; it may be gone. Only ever SCRATCH/jobs/ID of this job.

    :raises NodeError: it could not be removed, or not in time.
    """
    parent, name = os.path.split(folder)
    point, jobs = os.path.split(parent)
    if jobs != JOBS or name != str(job.id) or not point.startswith("/"):
        raise NodeError(folder, "this is not the folder of job {0}".format(job.id), "remove it by hand")
    if mounted(host, (point,)) is None:
        return  # what is not mounted holds nothing of the job
    failure = "the folder of job {0} could not be removed".format(job.id)
    _limited(point, REMOVE_SECONDS, failure, lambda: _remove(host.path(point), name))


def _limited(point: str, seconds: float, failure: str, act: Callable[[], None]) -> None:
    """Run ``act`` in a child; its OSError becomes a sentence about the scratch."""

    def task(dummy: Any) -> Iterator[str]:
        try:
            act()
        except OSError as error:
            yield error.strerror or str(error)

    try:
        done = collect(task, seconds)
    except ChildDied as error:
        raise NodeError("scratch " + point, "the process that looked at it died", _REMEDY) from error
    if done.hung_at is not None:
        raise NodeError("scratch " + point, "it did not answer within {0:g} s".format(seconds), _REMEDY)
    if done.items:
        raise NodeError("scratch " + point, "{0} ({1})".format(failure, done.items[0]), _REMEDY)


# In the child process ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _jobs_folder(point: str, make: bool) -> Iterator[Optional[int]]:
    """A handle of SCRATCH/jobs, which belongs to root alone (others may pass through it)."""
    handles: List[int] = [os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(JOBS, 0o711, dir_fd=handles[0])
        try:
            handles.append(os.open(JOBS, _FOLDER, dir_fd=handles[0]))
        except OSError as error:
            if not make and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                yield None
                return
            raise
        if make:
            found = os.fstat(handles[-1])
            if (found.st_uid, stat.S_IMODE(found.st_mode)) != (os.geteuid(), 0o711):
                os.fchown(handles[-1], os.geteuid(), os.getegid())
                os.fchmod(handles[-1], 0o711)
        yield handles[-1]
    finally:
        for handle in handles:
            os.close(handle)


def _make(point: str, job: Optional[Job]) -> None:
    with _jobs_folder(point, make=True) as jobs:
        if jobs is None:  # not with make
            return
        name = "check" if job is None else str(job.id)
        try:
            os.mkdir(name, 0o700, dir_fd=jobs)
        except FileExistsError:
            # Of an earlier start of this job; anything but a folder is nothing of ours and goes.
            if not stat.S_ISDIR(os.stat(name, dir_fd=jobs, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=jobs)
                os.mkdir(name, 0o700, dir_fd=jobs)
        if job is None:
            os.rmdir(name, dir_fd=jobs)
            return
        handle = os.open(name, _FOLDER, dir_fd=jobs)
        try:
            os.fchmod(handle, 0o700)
            os.fchown(handle, job.uid, -1 if job.gid is None else job.gid)
        finally:
            os.close(handle)


def _remove(point: str, name: str) -> None:
    """By rm, which follows no link, stays on one file system, and minds neither depth nor number."""
    with _jobs_folder(point, make=False) as jobs:
        if jobs is None:
            return
        os.fchdir(jobs)
        done = subprocess.run(
            ["rm", "-rf", "--one-file-system", "--", "./" + name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            check=False,
        )
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            raise OSError(errno.EIO, lines[-1] if lines else "rm ended with status {0}".format(done.returncode))
