# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a unit file, its link and what systemd has read of it."""

from __future__ import annotations

import os
from typing import Optional

from ..host import Host
from .types import FOLDER, WANTS, BootUnit, Seen

# systemd's own test for being the init of a machine: sd_booted(3).
RUNS = "/run/systemd/system"


def look(host: Host, unit: BootUnit) -> Seen:
    link: Optional[str] = None
    if os.path.islink(host.path(unit.path)):
        link = os.readlink(host.path(unit.path))
    return Seen(
        text=None if link else host.read(unit.path),
        link=link,
        enabled=os.path.lexists(host.path("{0}/{1}".format(WANTS, unit.name))),
        stale=_stale(host, unit.name),
        drop_ins=tuple((name, host.read("{0}/{1}".format(FOLDER, name))) for name, dummy in unit.drop_ins),
    )


def _stale(host: Host, name: str) -> bool:
    if not host.exists(RUNS):  # an image being built: there is nothing to reload
        return False
    done = host.run(["systemctl", "show", "--property=NeedDaemonReload", name])
    return done.stdout.strip() == "NeedDaemonReload=yes"
