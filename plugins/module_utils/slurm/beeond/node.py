# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is before a job, and what it has of such file systems. Nothing here changes anything."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

from ...core import mounts, processes
from ...core.child import ChildDied, collect
from ...core.host import Host
from ...core.resource import NodeError
from .. import scratch
from ..types import Job
from . import note, rules
from .remains import Remains, daemon_of
from .rules import Instance, Seen, Settings

_ANSWER_SECONDS = 10.0
_PROGRAMS = ("beeond", "/opt/beegfs/sbin/beeond")
MODULES = "/lib/modules/{0}/updates/fs/beegfs_autobuild/beegfs.ko"
# Of the package beegfs-client: a folder for its release. After an upgrade that of the former one may stay, with what
# was built in it.
_SOURCES = "/opt/beegfs/src/client"


# Before a job -----------------------------------------------------------------------------------------


def look(
    host: Host,
    settings: Settings,
    job: Job,
    section: Mapping[str, Any],
    declared_scratch: Optional[Mapping[str, Any]],
) -> Seen:
    point, wrong = "", ""
    try:
        point = scratch.usable(host, declared_scratch) or ""
    except NodeError as error:
        wrong = "{0}: {1}".format(error.thing, error.reason)
    table = mounts.read(host)
    return Seen(
        point,
        wrong,
        point_wrong(host, settings.mount_point),
        client_wrong(section, host),
        {one.point: one.filesystem for one in table},
        tuple(one for one in note.all_of(host) if one.job != job.id),
    )


def point_wrong(host: Host, point: str) -> str:
    """Why the folder of the mount points cannot be used; empty: it can."""
    if mounts.at(mounts.read(host), point) is not None:
        return "{0} is a mount point of something else".format(point)
    try:
        found = os.lstat(host.path(point))
    except OSError:
        return "the folder {0} is not there; converge the node".format(point)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return "{0} is no folder that root alone may write to".format(point)
    return ""


def release(host: Host) -> Optional[int]:
    """Of BeeGFS, by the sources of its client: 7, 8; None: it is not known."""
    found = (re.fullmatch(r"client_module_([0-9]{1,4})", name) for name in host.names(_SOURCES))
    return max((int(one.group(1)) for one in found if one), default=None)


def client_wrong(section: Mapping[str, Any], host: Host) -> str:
    """Why the kernel module cannot be loaded; ``beeond`` would build it in the middle of a prolog. Empty: it can."""
    wrong = rules.release_wrong(release(host))
    if wrong:
        return wrong
    kernel = host.read_line("/proc/sys/kernel/osrelease") or ""
    built = section.get("built")
    if not isinstance(built, dict) or built.get("kernel") != kernel or not host.exists(MODULES.format(kernel)):
        return "the client of BeeGFS was not built for the kernel {0}; converge the node".format(kernel or "that runs")
    return ""


def program(host: Host) -> str:
    found = next((one for one in _PROGRAMS if host.which(one)), None)
    if found is None:
        raise NodeError("beeond", "the program beeond is not installed", "")
    return found


def in_time(thing: str, act: Callable[[], None]) -> None:
    """In a child: a disk or a server that is gone holds a call for ever."""

    def task(dummy: object) -> Iterator[str]:
        try:
            act()
        except OSError as error:
            yield error.strerror or str(error)

    try:
        done = collect(task, _ANSWER_SECONDS)
    except ChildDied as error:
        raise NodeError(thing, "the process that worked on it died", "look at the kernel log") from error
    if done.hung_at is not None:
        raise NodeError(thing, "it did not answer within {0:g} s".format(_ANSWER_SECONDS), "look at the kernel log")
    if done.items:
        raise NodeError(thing, done.items[0], "look at the kernel log")


# What is there ----------------------------------------------------------------------------------------


def mounted(host: Host, one: Instance) -> bool:
    """Also where the user, who owns its root, has mounted something over it."""
    return any(each.point == one.point and each.source == rules.MOUNT for each in mounts.read(host))


def daemons(host: Host, job_id: int) -> List[processes.Started]:
    found: List[processes.Started] = []
    for pid, words in _commands(host):
        start = processes.start_time(host, pid)
        if daemon_of(words) == job_id and start is not None:
            found.append((pid, start))
    return found


def _commands(host: Host) -> Iterator[Tuple[int, List[str]]]:
    """Of root's processes: others may call themselves what they like."""
    for pid in processes.pids(host):
        words = processes.cmdline(host, pid)
        if words and "beegfs-" in words[0] and processes.owner_of(host, pid) == os.geteuid():
            yield pid, words


def remains(host: Host, settings: Settings, scratch_point: Optional[str]) -> Remains:
    """What a check looks for. Reads tables and names, and touches no file system of BeeGFS."""
    prefix = settings.mount_point + "/"
    points = [
        one.point[len(prefix) :]
        for one in mounts.read(host)
        if one.source == rules.MOUNT and one.point.startswith(prefix)
    ]
    folders = host.names("{0}/{1}".format(scratch_point, rules.DATA)) if scratch_point else []
    found = (daemon_of(words) for dummy, words in _commands(host))
    return Remains(
        _numbers(points), _numbers(folders), tuple(one for one in found if one is not None), _numbers_of(host)
    )


def _numbers(names: List[str]) -> Tuple[int, ...]:
    return tuple(int(name) for name in names if name.isdigit() and len(name) <= 10)


def _numbers_of(host: Host) -> Tuple[int, ...]:
    return tuple(one.job for one in note.all_of(host))
