# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the service, at what it goes by and at what it remembers."""

from __future__ import annotations

import os

from ...core import declaration, folder_given, managed_files, systemd
from ...core.host import Host
from ...core.resource import NodeError
from ...core.systemd import boot_unit
from ...facts import sysfs
from ...health.events import ask, memory
from ...health.events.settings import SECTION
from .options import Desired
from .types import UNIT, State


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    running = systemd.running(host)
    metrics = dict.fromkeys(str(one) for one in (desired.textfile, declared.get("textfile")) if one)
    return State(
        unit=boot_unit.look(host, UNIT),
        declared=declared,
        azure=ask.is_azure(sysfs.dmi(host)),
        running=running,
        active=running and _active(host),
        foreign=bool(desired.textfile) and managed_files.look(host, desired.textfile).foreign,
        folder=folder_given.look(host, os.path.dirname(desired.textfile)) if desired.textfile else None,
        metrics=tuple(one for one in metrics if managed_files.look(host, one).ours),
        left=tuple(path for path in (memory.PATH, memory.DAMAGED) if host.exists(path)),
        drained=memory.read(host).drained,
    )


def _active(host: Host) -> bool:
    try:
        (shown,) = systemd.show(host, (UNIT.name,), ("ActiveState",))
    except NodeError:
        return False
    return shown.get("ActiveState") in ("active", "activating")
