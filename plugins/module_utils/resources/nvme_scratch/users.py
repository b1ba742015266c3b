# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a mounted file system, so that a refusal to unmount can name them."""

from __future__ import annotations

import os
from typing import Iterator, List, Tuple

from ...core import system_processes
from ...core.host import Host

MOST_NAMED = 5


def _links(folder: str) -> Iterator[str]:
    for name in ("cwd", "root", "exe"):
        yield os.path.join(folder, name)
    try:
        for handle in os.listdir(os.path.join(folder, "fd")):
            yield os.path.join(folder, "fd", handle)
    except OSError:
        return


def _uses(folder: str, mount_point: str) -> bool:
    for link in _links(folder):
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target == mount_point or target.startswith(mount_point + "/"):
            return True
    return False


def of(host: Host, mount_point: str) -> List[Tuple[int, str]]:
    """Process numbers and command names with a file or folder in there."""
    found = []
    for name in host.names("/proc"):
        if name.isdigit() and _uses(host.path("/proc/" + name), mount_point):
            found.append((int(name), system_processes.name(host, name) or "?"))
    return sorted(found)


def describe(processes: List[Tuple[int, str]]) -> str:
    text = ", ".join("process {0} ({1})".format(number, command) for number, command in processes[:MOST_NAMED])
    more = len(processes) - MOST_NAMED
    return text + (" and {0} more".format(more) if more > 0 else "")
