# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find devices by what does not change: disks by serial, arrays by UUID."""

from __future__ import annotations

import contextlib
import os
from typing import Optional

from ...core.host import Host
from ...core.resource import NodeError
from ...facts.scratch import disks
from . import observe


def disk_path(host: Host, serial: str) -> str:
    """The path of the one disk with this serial number, as things are now."""
    found = [name for name in disks.disk_names(host) if disks.serial_of(host, name) == serial]
    if len(found) != 1:
        raise NodeError(
            "disk {0}".format(serial),
            "it has gone" if not found else "{0} disks bear this serial number".format(len(found)),
            "look at the kernel log, then run it again",
        )
    return "/dev/" + found[0]


def array_path(host: Host, uuid: str, running: bool = False) -> Optional[str]:
    """The path of the array with this UUID, if the kernel has it."""
    for name in observe.array_names(host):
        if observe.array_detail(host, name)[0] != uuid:
            continue
        state = host.read_line("/sys/block/{0}/md/array_state".format(name))
        if running and state in ("inactive", "clear", "broken", None):
            continue
        return "/dev/" + name
    return None


def settle(host: Host) -> None:
    """Let udev finish what the last step set off; a container without udev has nothing to wait for."""
    if host.which("udevadm") is not None:
        with contextlib.suppress(NodeError):
            host.run(["udevadm", "settle", "--timeout=20"], 30.0, accept=(0, 1))


def sync_device(host: Host, path: str) -> None:
    """What was written is on the medium before the next step, so that a power cut cannot reorder them."""
    handle = os.open(host.path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
