# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what was set: the settings that NVML cannot read back, and what they were before us.

A record that is missing, cut short or of another form counts as empty: then nothing counts as set, and the
settings are applied once more.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from ...core.frozen import plain
from ...core.host import Host
from .types import RECORD_PATH, ClockClaim, Entry

VERSION = 1


def driver_load(host: Host, driver_version: Optional[str]) -> str:
    """A name for this boot and this load of the driver; another one means that the driver's settings are gone.

    The inode number of /sys/module/nvidia is given out anew at each load of the module and stays for its
    life (the times of sysfs files do not: they change when the kernel drops the inode from its cache).
    """
    boot = host.read_line("/proc/sys/kernel/random/boot_id") or "unknown"
    try:
        module = str(os.stat(host.path("/sys/module/nvidia")).st_ino)
    except OSError:
        module = "-"
    return "boot {0} module {1} driver {2}".format(boot, module, driver_version or "-")


def read(host: Host) -> Tuple[Tuple[str, Entry], ...]:
    text = host.read(RECORD_PATH)
    try:
        content = json.loads(text) if text else None
    except ValueError:
        return ()
    if not isinstance(content, dict) or content.get("version") != VERSION or not isinstance(content.get("gpus"), dict):
        return ()
    entries = ((uuid, _entry(value)) for uuid, value in sorted(content["gpus"].items()))
    return tuple((uuid, entry) for uuid, entry in entries if entry is not None)


def write(host: Host, changes: Iterable[Tuple[str, Optional[Entry]]]) -> None:
    """Put entries in, take those out whose entry is None; the file goes away with the last one."""
    entries: Dict[str, Entry] = dict(read(host))
    for uuid, entry in changes:
        if entry is None:
            entries.pop(uuid, None)
        else:
            entries[uuid] = entry
    if not entries:
        host.remove(RECORD_PATH, folder_too=True)
        return
    content = {"version": VERSION, "gpus": {uuid: plain(entry) for uuid, entry in entries.items()}}
    host.write(RECORD_PATH, json.dumps(content, indent=2, sort_keys=True) + "\n")


def _typed(value: Any, kind: type) -> bool:
    # bool is an int to Python, not to us.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _entry(value: Any) -> Optional[Entry]:
    if not isinstance(value, dict) or not isinstance(value.get("driver_load"), str):
        return None
    changed = value.get("changed")
    ecc_before = value.get("ecc_before")
    return Entry(
        driver_load=value["driver_load"],
        persistence=value.get("persistence") is True,
        changed=tuple(str(name) for name in changed) if isinstance(changed, list) else (),
        clocks=_claim(value.get("clocks")),
        ecc_before=ecc_before if isinstance(ecc_before, bool) else None,
    )


def _claim(value: Any) -> Optional[ClockClaim]:
    if not isinstance(value, Mapping):
        return None
    graphics_way, memory_way = value.get("graphics_way"), value.get("memory_way")
    if not isinstance(graphics_way, str) or not isinstance(memory_way, str):
        return None
    graphics, memory = value.get("graphics_mhz"), value.get("memory_mhz")
    return ClockClaim(
        graphics_way=graphics_way,
        memory_way=memory_way,
        graphics_mhz=graphics if _typed(graphics, int) else None,
        memory_mhz=memory if _typed(memory, int) else None,
        graphics_seen=value.get("graphics_seen") is True,
        memory_seen=value.get("memory_seen") is True,
    )
