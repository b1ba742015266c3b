# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes run from a folder, or have a library of it loaded."""

from __future__ import annotations

import os
from typing import Dict, Iterable, List

from ...core.host import Host


def users(host: Host, folders: Iterable[str]) -> Dict[str, str]:
    """For each folder in use, one of its users, in words. A process that may not be looked at is passed over."""
    wanted = [folder.rstrip("/") + "/" for folder in folders]
    result: Dict[str, str] = {}
    if not wanted:
        return result
    for pid in host.names("/proc"):
        if not pid.isdigit():
            continue
        paths = _paths(host, pid)
        for folder in wanted:
            if folder[:-1] not in result and any(path.startswith(folder) for path in paths):
                name = host.read_line("/proc/{0}/comm".format(pid)) or "?"
                result[folder[:-1]] = "process {0} ({1})".format(pid, name)
    return result


def _paths(host: Host, pid: str) -> List[str]:
    paths = []
    try:
        paths.append(os.readlink(host.path("/proc/{0}/exe".format(pid))))
    except OSError:
        pass  # a kernel thread, or one that has just ended
    for line in (host.read("/proc/{0}/maps".format(pid)) or "").splitlines():
        # address permissions offset device inode path; the path may have blanks in it
        fields = line.split(None, 5)
        if len(fields) == 6:
            paths.append(fields[5])
    return paths
