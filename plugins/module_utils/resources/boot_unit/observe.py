# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a unit file, its link and what systemd has read of it."""

from __future__ import annotations

import os
from typing import Iterable, Optional

from ...core.host import Host
from .types import FOLDER, WANTS, State

# systemd's own test for being the init of a machine: sd_booted(3).
RUNS = "/run/systemd/system"


def observe(host: Host, name: str, drop_ins: Iterable[str] = ()) -> State:
    path = "{0}/{1}".format(FOLDER, name)
    link: Optional[str] = None
    if os.path.islink(host.path(path)):
        link = os.readlink(host.path(path))
    return State(
        text=None if link else host.read(path),
        link=link,
        enabled=os.path.lexists(host.path("{0}/{1}".format(WANTS, name))),
        stale=_stale(host, name),
        drop_ins=tuple((one, host.read("{0}/{1}".format(FOLDER, one))) for one in drop_ins),
    )


def _stale(host: Host, name: str) -> bool:
    if not host.exists(RUNS):  # an image being built: there is nothing to reload
        return False
    done = host.run(["systemctl", "show", "--property=NeedDaemonReload", name])
    return done.stdout.strip() == "NeedDaemonReload=yes"
