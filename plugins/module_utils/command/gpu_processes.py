# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the processes on the GPUs are, what they are called, and which job or container they belong to.

All of it may hang: the command line of a process that is stuck in the driver (the kernel takes its memory lock to read
it, as it does for ps), and a name service that does not answer. So a child process reads it, with a time limit.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

from ..core import processes
from ..core.child import ChildDied, Report, collect
from ..core.frozen import frozen, replaced
from ..core.host import Host
from ..slurm.leftovers import cgroup_job

LIMIT_SECONDS = 1.0
_LONGEST_COMMAND = 4096  # a command line may have megabytes


@frozen
class Owner:
    """``found`` False: no such process can be seen: it ended, it is hidden, or it lives in another PID namespace."""

    found: bool = False
    uid: Optional[int] = None
    user: Optional[str] = None
    command: Optional[str] = None
    job: Optional[str] = None
    container: Optional[str] = None


class Owners:
    """Of the processes of a node. Kept from one look to the next: names of users, and whom to ask no more."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._users: Dict[int, str] = {}
        self._stuck: Set[int] = set()

    def of(self, pids: Sequence[int]) -> Mapping[int, Owner]:
        found: Dict[int, Owner] = dict.fromkeys(pids, Owner())
        if not found:
            return found
        try:
            collected = collect(lambda report: self._task(tuple(found), report), LIMIT_SECONDS)
            items: Tuple[Any, ...] = collected.items
            if collected.hung_at is not None:
                self._not_again(collected.hung_at)
        except ChildDied as error:
            items = error.items
        for kind, number, value in items:
            if kind == "owner":
                found[number] = value
            elif kind == "user":
                self._users[number] = value
            else:
                found[number] = replaced(found[number], command=value)
        return {
            pid: owner if owner.uid is None else replaced(owner, user=self._users.get(owner.uid, str(owner.uid)))
            for pid, owner in found.items()
        }

    def _not_again(self, label: str) -> None:
        what, dummy, number = label.rpartition(" ")
        if what == "process":
            self._stuck.add(int(number))
        elif what == "user":
            self._users[int(number)] = number

    def _task(self, pids: Sequence[int], report: Report) -> Iterator[Tuple[str, int, Any]]:
        """What cannot hang first. A label that begins with the kind and ends with the number says where it did."""
        uids = set()
        for pid in pids:
            owner = _owner(self._host, pid)
            yield "owner", pid, owner
            if owner.uid is not None and owner.uid not in self._users:
                uids.add(owner.uid)
        for pid in pids:
            if pid not in self._stuck:
                report("process {0}".format(pid))
                command = _command(self._host, pid)
                if command:
                    yield "command", pid, command
        for uid in sorted(uids):
            report("user {0}".format(uid))
            yield "user", uid, _user(uid)


def _owner(host: Host, pid: int) -> Owner:
    name = processes.status(host, pid, "Name")
    if not name:
        return Owner()
    job, container = place(processes.cgroup(host, pid))
    return Owner(True, processes.real_uid(host, pid), None, _valid(name), job, container)


def _valid(text: str) -> str:
    """Without the stand-ins for bytes that are no UTF-8, which strict readers of JSON refuse."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def place(cgroups: str) -> Tuple[Optional[str], Optional[str]]:
    """The Slurm job (its number, or its SLUID) and the container that the text of /proc/PID/cgroup names."""
    return cgroup_job(cgroups), processes.container(cgroups) or None


def _command(host: Host, pid: int) -> str:
    """The words of its command line, the program without its folder; empty for one that has none."""
    words = processes.cmdline(host, pid, _LONGEST_COMMAND) or [""]
    return _valid(" ".join([words[0].rpartition("/")[2] or words[0], *words[1:]])).strip()


def _user(uid: int) -> str:
    import pwd  # only where there are processes

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
