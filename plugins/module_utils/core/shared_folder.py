# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders on a network file system, which many nodes have: one node at a time writes to them, and the first one that
does leaves the others nothing to write.

The turn is a file that is made only where there is none (O_EXCL, which NFS has since version 3); flock is not kept
between the clients of every file system. A node that died holding it is told by the age of the file, on the clock of
the file server.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable, Iterator, Optional, Sequence

from . import mounts
from .host import Host
from .resource import NodeError

NAME = ".gpu_node.turn"
#: HPC-X takes minutes to unpack on a slow file server. A file that is older belongs to nobody.
STALE_SECONDS = 1800.0
_PAUSE_SECONDS = (0.25, 8.0)


def on_network(host: Host, folders: Sequence[str]) -> Optional[str]:
    """The first of these folders on a network file system, or the one above it that is there already."""
    table = mounts.read(host)
    for folder in folders:
        there = folder
        while there != "/" and not os.path.isdir(host.path(there)):
            there = os.path.dirname(there)
        mount = mounts.holding(table, host.real_path(there))
        if mount is not None and mount.network:
            return there
    return None


@contextlib.contextmanager
def turn(host: Host, folder: str, wait_seconds: float, needed: Callable[[], bool]) -> Iterator[None]:
    """Be the only node that writes to ``folder`` and what lies below it; at once where that is not ``needed``, since
    the nodes before have written what this one would.

    :raises NodeError: another node has been at it for too long, or nothing can be written there.
    """
    path = host.path(os.path.join(folder, NAME))
    deadline, pause = time.monotonic() + wait_seconds, _PAUSE_SECONDS[0]
    made = ""
    while needed():
        made = _made(path, folder)
        if made:
            break
        stale = _text(path)
        if _age(path) > STALE_SECONDS:
            _end(path, stale)
            continue
        if time.monotonic() >= deadline:
            raise NodeError(
                folder,
                "{0} has been writing to it for {1:.0f} s".format(_holder(path), wait_seconds),
                "wait for it, or remove {0} when no node is at it".format(os.path.join(folder, NAME)),
            )
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE_SECONDS[1])
    try:
        yield
    finally:
        if made:  # after so long a time that it counted as stale it may be another node's
            _end(path, made)


def _end(path: str, text: str) -> None:
    """Take the turn of this text away, and none that has come in its place since somebody looked."""
    aside = "{0}.{1}.{2}".format(path, os.uname().nodename, os.getpid())
    with contextlib.suppress(OSError):
        os.rename(path, aside)
        if _text(aside) != text:
            os.link(aside, path)
        os.unlink(aside)


def _made(path: str, folder: str) -> str:
    """The text of this turn, like no other; empty: it is another node's."""
    text = "{0} {1} {2}\n".format(os.uname().nodename, os.getpid(), os.urandom(8).hex())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return ""
    except OSError as error:
        remedy = "let root of this node write there, or have a node do it that may"
        raise NodeError(folder, "nothing can be written there ({0})".format(error.strerror), remedy) from error
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return text


def _age(path: str) -> float:
    """By the clock of the server, which another new file tells."""
    probe = "{0}.now.{1}.{2}".format(path, os.uname().nodename, os.getpid())
    try:
        with open(probe, "w", encoding="utf-8"):
            pass
        now = os.stat(probe).st_mtime
        os.unlink(probe)
        return now - os.stat(path).st_mtime
    except OSError:  # it is gone by now
        return 0.0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(300)
    except OSError:
        return ""


def _holder(path: str) -> str:
    name = _text(path).split(" ")[0]
    return "the node " + name if name else "another node"
