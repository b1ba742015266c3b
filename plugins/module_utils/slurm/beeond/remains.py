# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has of such file systems: what a status file may name, whose daemon a process is, what is left. Pure."""

from __future__ import annotations

import re
from typing import Collection, Dict, List, Optional, Tuple

from ...core.frozen import frozen
from .rules import LOGS, Instance

_DAEMONS = ("beegfs-mgmtd", "beegfs-meta", "beegfs-storage", "beegfs-helperd")
_CLIENT = "beegfs-client"


def status_wrong(text: str, one: Instance) -> Optional[str]:
    """Why ``beeond`` is not let loose on this status file: it unmounts, kills and removes what the lines name."""
    for line in text.splitlines():
        words = line.split(",")
        if len(words) != 5 or words[1] not in (*_DAEMONS, _CLIENT):
            return "a line of it is none of ours"
        place, log, pid = words[2:]
        wanted = (
            one.point if words[1] == _CLIENT else "-" if words[1] == "beegfs-helperd" else one.data + "/" + words[1]
        )
        if place != wanted:
            return "it names {0!r}".format(place)
        if not re.fullmatch(re.escape(one.logs) + r"/beegfs-[a-z]+_[0-9-]+\.log", log):
            return "it names the log {0!r}".format(log)
        if pid != "-" and not re.fullmatch(r"/var/run/beegfs-[a-z]+-[0-9-]+\.pid", pid):
            return "it names the file {0!r}".format(pid)
    return None


def daemon_of(words: Collection[str]) -> Optional[int]:
    """The job whose file system a process with this command line serves."""
    first = next(iter(words), "")
    if first.rpartition("/")[2] not in _DAEMONS:
        return None
    for word in words:
        found = re.match(r"logStdFile=" + re.escape(LOGS) + r"/([0-9]{1,10})/", word)
        if found:
            return int(found.group(1))
    return None


@frozen
class Remains:
    """What a node has of such file systems: jobs by their mounts, data folders, daemons and notes."""

    mounts: Tuple[int, ...] = ()
    folders: Tuple[int, ...] = ()
    daemons: Tuple[int, ...] = ()
    notes: Tuple[int, ...] = ()


def left_over(remains: Remains, running: Collection[int]) -> Tuple[Tuple[int, str], ...]:
    """(job, what is left of it) for each job that does not run here; a note alone is nothing that is in the way."""
    found: Dict[int, List[str]] = {}
    for what, jobs in (
        ("a mount", remains.mounts),
        ("daemons", remains.daemons),
        ("a data folder", remains.folders),
    ):
        for job in dict.fromkeys(jobs):
            if job not in running:
                found.setdefault(job, []).append(what)
    return tuple((job, " and ".join(", ".join(what).rsplit(", ", 1))) for job, what in sorted(found.items()))
