# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what was set: the settings that NVML cannot read back, and what they were before us.

A record that is missing or damaged counts as empty: then nothing counts as set, and the settings are applied once more.
"""

from __future__ import annotations

import functools
import os
from typing import Dict, Iterable, Optional, Tuple

from ...core import processes
from ...core.frozen import frozen
from ...core.host import Host
from ...core.state_file import StateFile, document
from .types import RECORD_PATH, Entry


def driver_load(host: Host, driver_version: Optional[str]) -> str:
    """A name for this boot and this load of the driver; another one means that the driver's settings are gone.

    The inode number of /sys/module/nvidia is given out anew at each load of the module and stays for its
    life (the times of sysfs files do not: they change when the kernel drops the inode from its cache).
    """
    boot = processes.boot_id(host) or "unknown"
    try:
        module = str(os.stat(host.path("/sys/module/nvidia")).st_ino)
    except OSError:
        module = "-"
    return "boot {0} module {1} driver {2}".format(boot, module, driver_version or "-")


@frozen
class _Record:
    gpus: Dict[str, Entry]


FILE = StateFile("gpu_settings", RECORD_PATH, functools.partial(document, _Record), mode=0o644)


def read(host: Host) -> Tuple[Tuple[str, Entry], ...]:
    record = FILE.read(host)[0]
    return () if record is None else tuple(sorted(record.gpus.items()))


def write(host: Host, changes: Iterable[Tuple[str, Optional[Entry]]]) -> None:
    """Put entries in, take those out whose entry is None; the file goes away with the last one."""
    entries: Dict[str, Entry] = dict(read(host))
    for uuid, entry in changes:
        if entry is None:
            entries.pop(uuid, None)
        else:
            entries[uuid] = entry
    if not entries:
        FILE.remove(host)
        return
    FILE.write(host, _Record(entries))
