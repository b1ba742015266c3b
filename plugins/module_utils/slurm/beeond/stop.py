# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop a node's part of the file system of a job, whatever became of its start."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Tuple

from ...core import processes, root_folders
from ...core.host import Host
from ...core.resource import NodeError
from .. import scratch
from . import note, rules
from .node import daemons, in_time, mounted, program
from .remains import status_wrong
from .rules import Instance

_UMOUNT_SECONDS = 20.0
_STOPLOCAL_SECONDS = 60.0
_END_SECONDS = 10.0


def end(host: Host, one: Instance) -> None:
    """Nothing of it is here any more when this returns, its note included.

    :raises NodeError: something stays; so does the note.
    """
    stop(host, one)
    note.forget(host, one)


def stop(host: Host, one: Instance) -> None:
    """The mount, then the servers, then the data, each only when what was before it is gone.

    :raises NodeError: something stays.
    """
    if one.by is not None and processes.alive(host, one.by):
        kill_group(one.by[0])
    _unmount(host, one)
    wrong = _stop_by_status(host, one)
    _end_daemons(host, one.job)
    stays = next((text for text, there in _stays(host, one) if there), None)
    if stays is not None:
        raise NodeError(
            "shared scratch of job {0}".format(one.job),
            "{0} of it is still there{1}".format(stays, "; " + wrong if wrong else ""),
            "see docs/beeond.md",
        )
    _discard(host, one)
    with contextlib.suppress(OSError):
        os.rmdir(host.path(one.point))


def _stays(host: Host, one: Instance) -> Tuple[Tuple[str, bool], ...]:
    return (("the mount", mounted(host, one)), ("a daemon", bool(daemons(host, one.job))))


def _unmount(host: Host, one: Instance) -> None:
    """First as one does; lazily only what is busy or does not answer. Each takes the topmost mount away."""
    for words in (["umount", one.point], ["umount", "-l", one.point]):
        with contextlib.suppress(NodeError):
            while mounted(host, one):
                host.run(words, _UMOUNT_SECONDS)


def _stop_by_status(host: Host, one: Instance) -> str:
    """What was wrong, or empty."""
    text = host.read(one.status)
    if text is None:
        return ""
    wrong = status_wrong(text, one)
    if wrong is not None:
        return "its status file {0} was not used: {1}".format(one.status, wrong)
    try:
        words = [program(host), *rules.stop_words(one)]
        done = host.run(words, _STOPLOCAL_SECONDS, accept=tuple(range(256)))
    except NodeError as error:
        return "beeond stoplocal: {0}".format(error.reason)
    return "" if done.returncode == 0 else "beeond stoplocal: {0}".format(done.message)


def _end_daemons(host: Host, job_id: int) -> None:
    """Those that the status file does not name: beeond was killed between the start of one and its line."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = daemons(host, job_id)
        for one in left:
            processes.send(host, one, number)
        processes.left_after(host, left, _END_SECONDS)


def _discard(host: Host, one: Instance) -> None:
    """Only ever SCRATCH/beeond/ID of this job, on a scratch that is mounted; a rename, and removed in the background.

    :raises NodeError: it cannot be moved.
    """
    top, name, last = (one.data.rsplit("/", 2) + ["", ""])[:3]
    if name != rules.DATA or last != str(one.job) or scratch.mounted(host, (top,)) is None:
        return

    def act() -> None:
        with root_folders.opened(host, top, (rules.DATA,), make=False) as above:
            if above is not None:
                root_folders.discard(host, above, last)
                root_folders.empty_trash(above)

    in_time("data of the shared scratch of job {0}".format(one.job), act)


def kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
