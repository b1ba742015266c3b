# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds a block device open. The kernel tells only of exclusive opens (O_EXCL), so every process is asked.

A device is known by its number: its node may have any name, also inside of a container. Nothing is asked of a file
system (AT_STATX_DONT_SYNC, statx(2)): a process may hold files of a server that does not answer any more.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import struct
import time
from typing import Callable, Dict, Iterator, Mapping, Optional, Set, Tuple

from ...core import open_files, processes
from ...core.host import Host

LIMIT_SECONDS = 20.0
# udev, blkid and their like have a device open for a moment only, just when it is new.
TRIES = 6
PAUSE_SECONDS = 0.5

_AT_FDCWD = -100
_STATX_DONT_SYNC = 0x4000
_STATX_TYPE = 0x1
# linux/stat.h: stx_mode at 28, stx_rdev_major and stx_rdev_minor at 128; 256 bytes in all.
_MODE, _DEVICE = struct.Struct("=28xH"), struct.Struct("=128xII")

Number = Tuple[int, int]


def _library() -> Optional[Callable[..., int]]:
    """statx of the C library: glibc has it since 2.28, musl since 1.1.24."""
    return getattr(ctypes.CDLL(None, use_errno=True), "statx", None)


_statx = _library()


def block_device(path: str) -> Optional[Number]:
    """The number of the block device that is open behind a link of /proc; None: it is something else.

    :raises OSError: the process is gone, or may not be asked.
    """
    if _statx is None:
        found = os.stat(path)
        return (os.major(found.st_rdev), os.minor(found.st_rdev)) if stat.S_ISBLK(found.st_mode) else None
    buffer = ctypes.create_string_buffer(256)
    if _statx(_AT_FDCWD, os.fsencode(path), _STATX_DONT_SYNC, _STATX_TYPE, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    (mode,) = _MODE.unpack_from(buffer)
    return _DEVICE.unpack_from(buffer) if stat.S_ISBLK(mode) else None


def plain(name: str) -> str:
    """A process calls itself what it likes; nothing but harmless characters is shown."""
    return re.sub(r"[^A-Za-z0-9_.:/@+-]", "?", name)[:40] or "?"


def _processes(host: Host, wanted: Set[Number], deadline: float) -> Iterator[Tuple[Number, str]]:
    """:raises OSError: one of them may not be asked, or there are too many."""
    if processes.in_container(host):
        raise OSError(errno.EPERM, "processes outside of this container cannot be seen")
    for pid in processes.pids(host):
        seen: Set[Number] = set()
        for link in open_files.descriptors(host, pid):
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, "the processes have too many files open to be asked", link)
            try:
                number = block_device(link)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if number in wanted and number is not None and number not in seen:
                seen.add(number)
                name = plain(processes.name(host, pid))
                yield number, "process {0} ({1})".format(pid, name)


def _kernel(host: Host, wanted: Set[Number]) -> Iterator[Tuple[Number, str]]:
    """Loop devices and NVMe over Fabrics targets hold a device open without a process, and not exclusively."""
    places = [
        ("/sys/block/{0}/loop/backing_file".format(name), name)
        for name in host.names("/sys/block")
        if name.startswith("loop")
    ]
    targets = "/sys/kernel/config/nvmet/subsystems"
    for target in host.names(targets):
        folder = "{0}/{1}/namespaces".format(targets, target)
        what = "NVMe target " + plain(target)
        places += [("{0}/{1}/device_path".format(folder, one), what) for one in host.names(folder)]
    for path, what in places:
        backing = host.read_line(path)
        if not backing or not backing.startswith("/dev/"):
            continue
        try:
            number = block_device(host.path(backing))
        except OSError:
            continue
        if number in wanted and number is not None:
            yield number, what


def look(host: Host, numbers: Mapping[str, Number]) -> Optional[Dict[str, Tuple[str, ...]]]:
    """Who holds which of these devices open, now and for longer than a moment; None: it could not be found out."""
    wanted = set(numbers.values())
    deadline = time.monotonic() + LIMIT_SECONDS
    found: Dict[str, Tuple[str, ...]] = {}
    for turn in range(TRIES):
        try:
            seen = sorted([*_processes(host, wanted, deadline), *_kernel(host, wanted)])
        except OSError:
            return None
        found = {name: tuple(who for number, who in seen if number == own) for name, own in numbers.items()}
        if not any(found.values()) or turn == TRIES - 1:
            break
        time.sleep(PAUSE_SECONDS)
    return found
