# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of processes: what they have open, run from and have mapped; and which processes use a folder.

Only :mod:`.processes` and this module open files below /proc/PID.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from typing import (
    Callable,
    Dict,
    FrozenSet,
    Hashable,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from . import processes, shares
from .host import Host

_LINKS = ("exe", "cwd", "root")
_DELETED = " (deleted)"
# Open files of one owner: more than the training jobs of a node have.
_MOST_FILES = 20000


# Of one process ----------------------------------------------------------------------------------------


def links(host: Host, pid: processes.Pid, names: Iterable[str]) -> Tuple[List[str], bool]:
    """The targets of links in /proc/PID, and whether all of them could be read."""
    found: List[str] = []
    complete = True
    for one in names:
        try:
            found.append(os.readlink(host.path("/proc/{0}/{1}".format(pid, one))))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread of the kernel has no program, and a process that has just ended has nothing
        except OSError:
            complete = False
    return found, complete


def runs(host: Host, pid: processes.Pid, path: str) -> bool:
    """Whether its program is this file."""
    with contextlib.suppress(OSError):
        return os.path.samefile(host.path("/proc/{0}/exe".format(pid)), host.path(path))
    return False


def of_process(host: Host, pid: processes.Pid, most: Optional[int] = None) -> Tuple[Set[str], bool, int]:
    """Its open files, program, and current and root directory; whether that is all; and the number of open files that
    were read, at most ``most``."""
    files: List[str] = []
    complete = True
    try:
        with os.scandir(host.path("/proc/{0}/fd".format(pid))) as entries:
            files = ["fd/" + one.name for one in itertools.islice(entries, most)]
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    except OSError:
        complete = False
    paths, read = links(host, pid, (*_LINKS, *files))
    return set(paths), complete and read, len(files)


def mapped(host: Host, pid: processes.Pid) -> List[str]:
    """The files in its memory. To read them waits for a process that hangs in the kernel with its memory locked."""
    # address permissions offset device inode path; the path may contain blanks
    lines = (line.split(None, 5) for line in (host.read("/proc/{0}/maps".format(pid)) or "").split("\n"))
    return [fields[5] for fields in lines if len(fields) == 6]


def descriptors(host: Host, pid: int) -> Iterator[str]:
    """The links of its open files, on this machine. Its threads share one table, unless one has its own, or the first
    has ended.

    :raises OSError: it may not be read.
    """
    tables: List[List[str]] = []
    folder = host.path("/proc/{0}/task".format(pid))
    for thread in [str(pid), *(one for one in _names(folder) if one != str(pid))]:
        own = "{0}/{1}/fd".format(folder, thread)
        handles = sorted(_names(own))
        if handles not in tables:
            for handle in handles:
                yield "{0}/{1}".format(own, handle)
            # A thread that ended meanwhile has shown nothing of a table that the others still have.
            if sorted(_names(own)) == handles:
                tables.append(handles)


def _names(folder: str) -> List[str]:
    """:raises OSError: it may not be read."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return []


# Of all processes --------------------------------------------------------------------------------------


def users(host: Host, folders: Iterable[str]) -> Dict[str, str]:
    """For each folder in use, one of its users, in words. A process that may not be looked at is passed over."""
    wanted = {folder: (folder,) for folder in folders}
    return _users(host, wanted, lambda pid: "\n".join(links(host, pid, ("exe",))[0] + mapped(host, pid)), "^")


def named_by(host: Host, folders: Mapping[str, Iterable[str]]) -> Dict[str, str]:
    """As :func:`users`, and where a process names a folder, or one of the other paths of that folder, in its arguments,
    its environment or its open files: an interpreter that was started through a link has nothing of the folder loaded,
    and loads from it later."""
    wanted = {folder: (folder, *others) for folder, others in folders.items()}

    def text(pid: int) -> str:
        variables = processes.environ(host, pid)
        words = [*processes.cmdline(host, pid), *variables, *variables.values()]
        return "\n".join([*sorted(_used(host, pid)[0]), *words])

    return _users(host, wanted, text, r"(?<![^\n=:])")


def open_below(host: Host, paths: Sequence[str]) -> Tuple[FrozenSet[str], bool]:
    """Those that a process has open, mapped, runs from or works in, or something below them; and whether every process
    could be asked.

    The open files of a user are read up to a number, so that one user with many does not take the time of all. A user
    who has more of them has processes here, which keep what is theirs. Root has no such number: its daemons have files
    of all users open.
    """
    found: Set[str] = set()
    whole = True
    left: Dict[Hashable, int] = {}
    of = shares.owner(host)
    for pid in _pids(host) if paths else ():
        uid = processes.real_uid(host, pid) or 0
        owner = of(uid)
        used, all_of_it, count = _used(host, pid, left.get(owner, _MOST_FILES) if uid else None)
        left[owner] = left.get(owner, _MOST_FILES) - count
        whole = whole and all_of_it
        for path in used:
            file = path[: -len(_DELETED)] if path.endswith(_DELETED) else path
            found.update(one for one in paths if one in (path, file) or path.startswith(one + "/"))
    return frozenset(found), whole


def each(host: Host) -> Iterator[Tuple[int, Set[str], bool]]:
    """Of every process but this one: its pid, what it has open, mapped, runs from or works in, and whether that is all
    of it."""
    for pid in _pids(host):
        yield (pid, *_used(host, pid)[:2])


def _users(host: Host, wanted: Mapping[str, Iterable[str]], text: Callable[[int], str], before: str) -> Dict[str, str]:
    result: Dict[str, str] = {}
    patterns = {
        folder: re.compile(
            "{0}(?:{1})(?=[/\n:]|$)".format(before, "|".join(re.escape(one.rstrip("/")) for one in paths)), re.M
        )
        for folder, paths in wanted.items()
    }
    for pid in _pids(host) if patterns else ():
        told = text(pid)
        for folder, pattern in patterns.items():
            if folder not in result and pattern.search(told):
                name = processes.name(host, pid) or "?"
                result[folder] = "process {0} ({1})".format(pid, name)
    return result


def _pids(host: Host) -> List[int]:
    return [pid for pid in processes.pids(host) if pid != os.getpid()]


def _used(host: Host, pid: int, most: Optional[int] = None) -> Tuple[Set[str], bool, int]:
    paths, complete, count = of_process(host, pid, most)
    return paths.union(mapped(host, pid)), complete, count
