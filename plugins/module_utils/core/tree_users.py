# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes run from a folder, have a library of it loaded, or have something of it open."""

from __future__ import annotations

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

from . import shares, system_processes
from .host import Host

_PROGRAM = ("exe",)
_PLACES = ("exe", "cwd", "root")
# Open files of one owner: more than the training jobs of a node have.
_MOST_FILES = 20000


def users(host: Host, folders: Iterable[str]) -> Dict[str, str]:
    """For each folder in use, one of its users, in words. A process that may not be looked at is passed over."""
    wanted = {folder: (folder,) for folder in folders}
    return _users(host, wanted, lambda pid: "\n".join(_links(host, pid, _PROGRAM)[0] + _mapped(host, pid)), "^")


def named_by(host: Host, folders: Mapping[str, Iterable[str]]) -> Dict[str, str]:
    """As :func:`users`, and where a process names a folder, or one of the other paths of that folder, in its arguments,
    its environment or its open files: an interpreter that was started through a link has nothing of the folder loaded,
    and loads from it later."""
    wanted = {folder: (folder, *others) for folder, others in folders.items()}

    def text(pid: str) -> str:
        words = [host.read("/proc/{0}/{1}".format(pid, name)) or "" for name in ("cmdline", "environ")]
        return "\n".join([*sorted(_used(host, pid)[0]), *words])

    return _users(host, wanted, text, r"(?<![^\n=:\0])")


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
        uid = system_processes.real_uid(host, pid) or 0
        owner = of(uid)
        used, all_of_it, count = _used(host, pid, left.get(owner, _MOST_FILES) if uid else None)
        left[owner] = left.get(owner, _MOST_FILES) - count
        whole = whole and all_of_it
        for path in used:
            head = path.split(" (deleted)")[0]
            found.update(one for one in paths if head == one or head.startswith(one + "/"))
    return frozenset(found), whole


def each(host: Host) -> Iterator[Tuple[str, Set[str], bool]]:
    """Of every process but this one: its pid, what it has open, mapped, runs from or works in, and whether that is all
    of it."""
    for pid in _pids(host):
        yield (pid, *_used(host, pid)[:2])


def _users(host: Host, wanted: Mapping[str, Iterable[str]], text: Callable[[str], str], before: str) -> Dict[str, str]:
    result: Dict[str, str] = {}
    patterns = {
        folder: re.compile(
            "{0}(?:{1})(?=[/\n:\0]|$)".format(before, "|".join(re.escape(one.rstrip("/")) for one in paths)), re.M
        )
        for folder, paths in wanted.items()
    }
    for pid in _pids(host) if patterns else ():
        told = text(pid)
        for folder, pattern in patterns.items():
            if folder not in result and pattern.search(told):
                name = system_processes.name(host, pid) or "?"
                result[folder] = "process {0} ({1})".format(pid, name)
    return result


def _pids(host: Host) -> List[str]:
    return [pid for pid in host.names("/proc") if pid.isdigit() and int(pid) != os.getpid()]


def _used(host: Host, pid: str, most: Optional[int] = None) -> Tuple[Set[str], bool, int]:
    """(paths, whether every link could be read, how many files it has open of at most ``most``)."""
    files: List[str] = []
    whole = True
    try:
        with os.scandir(host.path("/proc/{0}/fd".format(pid))) as entries:
            files = ["fd/" + one.name for one in itertools.islice(entries, most)]
    except FileNotFoundError:
        pass  # it has ended
    except OSError:
        whole = False
    paths, read = _links(host, pid, (*_PLACES, *files))
    return {*paths, *_mapped(host, pid)}, whole and read, len(files)


def _links(host: Host, pid: str, names: Iterable[str]) -> Tuple[List[str], bool]:
    """Where these lead, and whether all of them could be read."""
    found: List[str] = []
    whole = True
    for name in names:
        try:
            found.append(os.readlink(host.path("/proc/{0}/{1}".format(pid, name))))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a kernel thread has no program, and one that has just ended has nothing
        except OSError:
            whole = False
    return found, whole


def _mapped(host: Host, pid: str) -> List[str]:
    # address permissions offset device inode path; the path may have blanks in it
    lines = (line.split(None, 5) for line in (host.read("/proc/{0}/maps".format(pid)) or "").splitlines())
    return [fields[5] for fields in lines if len(fields) == 6]
