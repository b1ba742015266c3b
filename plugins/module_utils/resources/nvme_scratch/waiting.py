# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at all that this resource manages; just after a boot, wait for disks that are late."""

from __future__ import annotations

import os
import time
import uuid

from ...core import processes
from ...core.host import Host
from ...core.resource import NodeError
from ...core.systemd import boot_unit
from ...facts.scratch import record
from ...facts.scratch.disks import disk_names
from .devices import settle
from .disks import judge
from .observe import observe, visible_disks
from .options import Desired
from .types import Found, Identity, State

# So long after a boot a controller may still appear (hv_pci brings them one by one).
BOOT_SECONDS = 600.0


def look(host: Host, desired: Desired) -> Found:
    wait_for_disks(host, desired)
    return look_now(host, desired)


def look_now(host: Host, desired: Desired) -> Found:
    """:raises NodeError: it takes root."""
    if os.geteuid() != 0 and host.root == "/":
        raise NodeError("nvme_scratch", "it needs root to look at disks and to mount", "run it as root (become: true)")
    return Found(
        observe(host, desired),
        boot_unit.look(host, desired.unit),
        Identity(uuid.uuid4().hex, uuid.uuid4().hex),
    )


def wait_for_disks(host: Host, desired: Desired) -> None:
    """Give late controllers a moment, but only just after a boot and only while disks are missing."""
    uptime = processes.uptime(host) or 0.0
    if uptime > BOOT_SECONDS or not desired.present:
        return
    settle(host)
    if desired.count is None and not host.exists(record.RECORD_PATH):
        return
    known, dummy = record.read(host)
    built_of = set(known.builds[-1].serials) if known is not None and known.builds else set()
    deadline = time.monotonic() + desired.wait_seconds
    while time.monotonic() < deadline:
        chosen = judge(State(disks=visible_disks(host, desired)), desired).chosen
        here = built_of & {one.disk.serial for one in chosen}
        # Other disks may make up the number while one of ours is late. After a deallocation none of them comes back.
        if len(chosen) >= (desired.count or len(built_of)) and here in (set(), built_of):
            return
        before = disk_names(host)
        while time.monotonic() < deadline and disk_names(host) == before:
            time.sleep(0.5)
        settle(host)
