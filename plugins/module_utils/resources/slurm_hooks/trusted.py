# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may change what Slurm runs as root on this node: the hooks, their folders, and the way there. Reads only.

Root and SlurmUser may: CycleCloud gives SlurmUser the folders, and whoever is SlurmUser commands slurmd anyway.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, FrozenSet, Iterable, List, Optional, Tuple

from ...core import safe_files, trust
from ...core.frozen import frozen
from ...core.host import Host


@frozen
class Trust:
    """Each a path and what is wrong with it: hooks, the folders that they lie in, and the folders above those."""

    hooks: Tuple[Tuple[str, str], ...] = ()
    folders: Tuple[Tuple[str, str], ...] = ()
    above: Tuple[Tuple[str, str], ...] = ()


def look(host: Host, hooks: Iterable[str], slurm_user: Optional[str]) -> Trust:
    users, groups = _trusted(host, slurm_user)
    files: Dict[str, str] = {}
    folders: Dict[str, str] = {}
    above: Dict[str, str] = {}
    for path in hooks:
        folder = os.path.dirname(path)
        real = os.path.realpath(host.path(folder))
        for place, name, into in ((host.path(path), path, files), (real, folder, folders)):
            fault = _fault(place, users, groups)
            if fault:
                into[name] = fault
        # As it is written, too: who may write where a link lies can put another in its place.
        for place in (real, os.path.normpath(host.path(folder))):
            if os.path.isdir(os.path.dirname(place)):
                above.update(trust.above(place, users, groups))
    return Trust(*(tuple(one.items()) for one in (files, folders, above)))


def _fault(place: str, users: FrozenSet[int], groups: FrozenSet[int]) -> str:
    """Empty too where nothing is, and for a link."""
    try:
        found = os.lstat(place)
    except OSError:
        return ""
    return "" if stat.S_ISLNK(found.st_mode) else safe_files.fault(found, users, groups, place)


def _trusted(host: Host, slurm_user: Optional[str]) -> Tuple[FrozenSet[int], FrozenSet[int]]:
    """(users, groups): root, who in a captured tree is whoever owns it, and SlurmUser."""
    top = os.stat(host.path("/"))
    users: List[int] = [0, top.st_uid]
    groups: List[int] = [0, top.st_gid]
    name = (slurm_user or "").split("(")[0]  # scontrol tells slurm(64030)
    for line in (host.read("/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if name and len(fields) > 3 and name in (fields[0], fields[2]) and (fields[2] + fields[3]).isdigit():
            users.append(int(fields[2]))
            groups.append(int(fields[3]))
    return frozenset(users), frozenset(groups)
