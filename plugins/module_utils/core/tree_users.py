# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes run from a folder, or have a library of it loaded."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterable, List, Mapping

from .host import Host


def users(host: Host, folders: Iterable[str]) -> Dict[str, str]:
    """For each folder in use, one of its users, in words. A process that may not be looked at is passed over."""
    wanted = {folder: (folder,) for folder in folders}
    return _users(host, wanted, lambda pid: "\n".join(_paths(host, pid)), "^")


def named_by(host: Host, folders: Mapping[str, Iterable[str]]) -> Dict[str, str]:
    """As :func:`users`, and where a process names a folder, or one of the other paths of that folder, in its arguments,
    its environment or its open files: an interpreter that was started through a link has nothing of the folder loaded,
    and loads from it later."""
    wanted = {folder: (folder, *others) for folder, others in folders.items()}
    return _users(host, wanted, lambda pid: "\n".join(_paths(host, pid) + _words(host, pid)), r"(?<![^\n=:\0])")


def _users(host: Host, wanted: Mapping[str, Iterable[str]], text: Callable[[str], str], before: str) -> Dict[str, str]:
    result: Dict[str, str] = {}
    patterns = {
        folder: re.compile(
            "{0}(?:{1})(?=[/\n:\0]|$)".format(before, "|".join(re.escape(one.rstrip("/")) for one in paths)), re.M
        )
        for folder, paths in wanted.items()
    }
    for pid in host.names("/proc") if patterns else ():
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        told = text(pid)
        for folder, pattern in patterns.items():
            if folder not in result and pattern.search(told):
                name = host.read_line("/proc/{0}/comm".format(pid)) or "?"
                result[folder] = "process {0} ({1})".format(pid, name)
    return result


def _paths(host: Host, pid: str) -> List[str]:
    paths = _links(host, ["/proc/{0}/exe".format(pid)])
    for line in (host.read("/proc/{0}/maps".format(pid)) or "").splitlines():
        # address permissions offset device inode path; the path may have blanks in it
        fields = line.split(None, 5)
        if len(fields) == 6:
            paths.append(fields[5])
    return paths


def _words(host: Host, pid: str) -> List[str]:
    own = "/proc/{0}/".format(pid)
    files = [own + "fd/" + name for name in host.names(own + "fd")]
    texts = [host.read(own + name) or "" for name in ("cmdline", "environ")]
    return texts + _links(host, [own + "cwd", *files])


def _links(host: Host, paths: Iterable[str]) -> List[str]:
    found = []
    for path in paths:
        try:
            found.append(os.readlink(host.path(path)))
        except OSError:
            pass  # a kernel thread, or one that has just ended
    return found
