# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes by what names them for good: the number and the time of the start; and when this boot began.

Cheap to import.
"""

from __future__ import annotations

import os
from typing import Iterator, Optional, Tuple

from ..core.host import Host
from ..core.system_processes import is_daemon

STEPD = ("slurmstepd",)

# pid, and start in clock ticks after boot: a pid alone may be another process's by now.
Started = Tuple[int, int]


def start_time(host: Host, pid: int) -> Optional[int]:
    """Field 22 of /proc/PID/stat; None for a process that has ended (a zombie has: it holds nothing any more)."""
    text = host.read("/proc/{0}/stat".format(pid)) or ""
    # The command stands in parentheses and may hold blanks and parentheses itself.
    words = text.rpartition(")")[2].split()
    if len(words) < 20 or words[0] in ("Z", "X"):
        return None
    return int(words[19])


def alive(host: Host, one: Started) -> bool:
    """Whether this process still runs."""
    return start_time(host, one[0]) == one[1]


def this(host: Host) -> Optional[Started]:
    """The process that asks."""
    pid = os.getpid()
    start = start_time(host, pid)
    return None if start is None else (pid, start)


def steps(host: Host) -> Iterator[Tuple[str, str]]:
    """(pid, command line) of each slurmstepd that serves a step of a job; it calls itself ``slurmstepd: [42.0]``.
    A process of a user with that name is none.

    With cgroup v2 slurmd has one more that is of no job, for as long as it runs: ``slurmstepd infinity``, without
    which the scope of the others would end (cgroup_v2.c, slurmstepd.c; the same in 22.05.8, 24.11.5 and 26.05). That
    of a namespace, ``ns_infinity`` with a number, is of a job.
    """
    for pid in host.names("/proc"):
        if pid.isdigit() and is_daemon(host, pid, STEPD):
            words = host.read("/proc/{0}/cmdline".format(pid)) or ""
            if words.rstrip("\0").split("\0")[1:] != ["infinity"]:
                yield pid, words
