# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the timer, the declared lease, and what this machine knows of it."""

from __future__ import annotations

import time

from ...core import declaration, lease, machine, managed_files
from ...core.host import Host
from ...jobs.lease.follow import MOTD
from .options import Desired
from .types import UNIT, State


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(lease.SECTION) or {}
    return State(
        files=managed_files.observe(host, UNIT.paths, declared),
        declared=declared,
        timer=UNIT.look(host),
        now=time.time(),
        machine=machine.identity(host) or "",
        memory=lease.read(host),
        remembered=host.exists(lease.MEMORY),
        motd=managed_files.look(host, MOTD).ours,
        missing=next((one for one in desired.on_expiry[:1] if host.which(one) is None), ""),
    )
