# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie on the host: the image cache, the state of the nodes, the files of this tree; and the locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Iterator, Optional

from .progress import Step, VirtualNodeError

TOOL = Path(__file__).resolve().parent.parent
RECIPE = TOOL / "recipe"
SIMULATOR = TOOL.parent / "nvml_simulator"
MACHINES = SIMULATOR / "machines"


def cache() -> Path:
    """The cache of this project: ``~/.cache/trainyard-gpu-node``, or under XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "trainyard-gpu-node"


def images() -> Path:
    return cache() / "images"


def runs() -> Path:
    """The folder of all runs.

    They lie in the cache and not under XDG_RUNTIME_DIR: that is a filesystem in memory, and the disks of eight
    nodes would fill it.
    """
    base = os.environ.get("VIRTUAL_NODE_STATE")
    return Path(base) if base else cache() / "nodes"


def nodes(run: str) -> Path:
    """The nodes of one run."""
    return runs() / run


@contextlib.contextmanager
def lock(path: Path, waiting_for: str, limit_seconds: float = 3600.0) -> Iterator[None]:
    """An exclusive lock on a file, with progress while somebody else holds it."""
    waited: Optional[Step] = None
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _take(handle, path):
            break
        os.close(handle)
        waited = waited or Step("waiting for {0}".format(waiting_for))
        waited.tick()
        if waited.seconds > limit_seconds:
            raise VirtualNodeError(
                "{0}: still locked after {1:.0f} s; look for a stuck virtual_node process.".format(path, limit_seconds)
            )
        time.sleep(0.1)
    try:
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path) -> bool:
    """Lock it, and see that it is still the file of that name: its last holder may have removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(handle).st_ino == os.stat(str(path)).st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock; the kernel drops it when that process ends, however it ends."""
    try:
        handle = os.open(str(path), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
