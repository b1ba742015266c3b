# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's daemons as they run, on the host or in a container: a running process decides, not a unit or a package."""

from __future__ import annotations

import re
from typing import List, Tuple

from ..core import processes
from ..core.host import Host
from ..core.system_processes import daemons, is_daemon

# /proc/PID/comm keeps the first 15 characters.
FABRIC_MANAGER, IMEX, PERSISTENCED, DCGM = "nv-fabricmanage", "nvidia-imex", "nvidia-persiste", "nv-hostengine"
PERSISTENCED_PID = "/run/nvidia-persistenced/nvidia-persistenced.pid"
# nvidia-persistenced(1); a long option may have one hyphen, and the last one counts.
_PERSISTENCE = r"--?(?:(no-)?persistence-mode|persistence-mode=(\w+))"
_OFF = ("0", "false", "no", "off")


def pids(host: Host, name: str) -> Tuple[int, ...]:
    """Processes of the system that have this name."""
    return tuple(daemons(host, (name,)))


def holds_persistence_mode(host: Host) -> bool:
    """Whether an nvidia-persistenced runs that switches persistence mode on. Ubuntu's unit starts it with
    --no-persistence-mode."""
    pid = host.read_line(PERSISTENCED_PID)
    if pid is None:  # a daemon in a container writes it there
        found = [str(one) for one in pids(host, PERSISTENCED)]
    else:
        found = [pid] if pid.isdecimal() and is_daemon(host, pid, (PERSISTENCED,)) else []
    return any(_switches_on(processes.cmdline(host, one)) for one in found)


def _switches_on(words: List[str]) -> bool:
    answer = True
    for word in words[1:]:
        given = re.fullmatch(_PERSISTENCE, word)
        if given is not None:
            answer = not given.group(1) and (given.group(2) or "").lower() not in _OFF
    return answer
