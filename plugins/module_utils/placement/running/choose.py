# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes are meant: by a pattern of their command lines, by number, or by Slurm job."""

from __future__ import annotations

import os
import re
from typing import Optional, Sequence, Tuple

from ...core import mounts, processes
from ...core.host import Host
from ...core.resource import Misuse, NodeError
from ...slurm.job_processes import job_pids

_HIDDEN = re.compile(r"hidepid=(?!0$|off$).*")


def choose(
    host: Host,
    pattern: Optional[str] = None,
    pids: Optional[Sequence[int]] = None,
    job: Optional[str] = None,
    own_pid: Optional[int] = None,
) -> Tuple[int, ...]:
    """The processes, in the order of their numbers.

    :raises NodeError: when nothing or more than one way was given, or nothing is meant by it.
    """
    ways = [pattern is not None, bool(pids), job is not None]
    if sum(ways) != 1:
        raise Misuse(
            "gpunode pin check",
            "it needs one way to find the application, and {0} were given".format(sum(ways)),
            "give a pattern of its command line, or --pid, or --job",
        )
    if job is not None:
        return job_pids(host, job)
    if pids:
        return _by_number(host, pids)
    return _by_pattern(host, pattern or "", os.getpid() if own_pid is None else own_pid)


def _by_number(host: Host, pids: Sequence[int]) -> Tuple[int, ...]:
    for pid in pids:
        if pid < 1:
            raise Misuse("process {0}".format(pid), "this is no number of a process", "look it up with pgrep or ps")
        if processes.stat(host, pid) is not None:
            continue
        if processes.hidden(host, pid):
            raise NodeError(
                "process {0}".format(pid), "it belongs to another user, and you may not look at it", "run this as root"
            )
        raise NodeError("process {0}".format(pid), "there is no such process (any more)", "look it up with pgrep or ps")
    return tuple(sorted(set(pids)))


def _by_pattern(host: Host, pattern: str, own_pid: int) -> Tuple[int, ...]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise Misuse(
            "pattern {0!r}".format(pattern),
            "this is no regular expression ({0})".format(error),
            "correct it, or put a backslash before special characters",
        ) from error
    if not pattern:
        raise Misuse("the pattern", "it is empty, so every process would match", "give a part of the command line")
    # The command itself, and the shell, sudo or ssh that runs it, have the pattern on their command lines as well.
    own = set(processes.ancestors(host, own_pid))
    found, itself, hidden = [], False, 0
    for pid in processes.pids(host):
        command = " ".join(processes.cmdline(host, pid))
        if not command:
            hidden += processes.hidden(host, pid)
        elif expression.search(command):
            if pid in own:
                itself = True
            else:
                found.append(pid)
    if found:
        return tuple(found)
    if hidden or _others_are_hidden(host):
        raise NodeError(
            "pattern {0!r}".format(pattern),
            "none of your own processes matches, and you may not look at those of other users",
            "run this as root",
        )
    raise NodeError(
        "pattern {0!r}".format(pattern),
        "it matches only this command and what started it" if itself else "no process has it on its command line",
        "start the application first, or look with 'pgrep -af' what its command line is",
    )


def _others_are_hidden(host: Host) -> bool:
    """Whether this user does not see the processes of others (hidepid= of /proc)."""
    proc = mounts.at(mounts.read(host), "/proc")
    return os.geteuid() != 0 and proc is not None and any(_HIDDEN.fullmatch(one) for one in proc.options)
