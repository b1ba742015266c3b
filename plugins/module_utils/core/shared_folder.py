# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders on a network file system, which many nodes have: one node at a time writes to them, and the first one that
does leaves the others nothing to write.

The turn is a file that is made only where there is none (O_EXCL, which NFS has since version 3); flock is not kept
between the clients of every file system. Who has it touches it again and again; who waits takes away one that it saw
untouched for long enough, as its node has died. So no clock is compared with that of another machine.

What lies in such a folder may be the work of a user: nothing is opened through a link, or waited for.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
import time
from typing import Callable, Dict, Iterator, Sequence, Tuple

from .child import Child
from .host import Host
from .machine import whole_name
from .resource import NodeError

NAME = ".gpu_node.turn"
TOUCH_SECONDS = 10.0
#: Of the naps of who waits. A server that does not answer, which stops them both, makes no turn older.
STALE_SECONDS = 60.0
# Many wait: they look at different moments, and of a thousand each asks the server once a second.
_NAP_SECONDS = (0.1, 1.0)


@contextlib.contextmanager
def turn(host: Host, folder: str, wait_seconds: float, needed: Callable[[], bool]) -> Iterator[None]:
    """Be the only node that writes to ``folder`` and what lies below it; at once where that is not ``needed``, since
    the nodes before have written what this one would.

    :raises NodeError: others have been at it for too long, or nothing can be written there.
    """
    path = host.path(os.path.join(folder, NAME))
    deadline, longest = time.monotonic() + wait_seconds, _NAP_SECONDS[0]
    seen, untouched_seconds = ("", 0), 0.0
    while True:
        if not needed():
            yield
            return
        made = _made(host.path(folder), folder)
        if made:
            break
        before, seen = seen, _look(path)
        if seen != before:
            untouched_seconds = 0.0
        if untouched_seconds >= STALE_SECONDS:
            _end(path, seen[0])
            untouched_seconds = 0.0
        elif time.monotonic() >= deadline:
            reason = "other nodes have been writing to it for {0:.0f} s, now {1}".format(wait_seconds, _holder(seen[0]))
            raise NodeError(folder, reason, "run it again when they are done")
        nap = random.uniform(longest / 2, longest)  # noqa: S311 no secret
        time.sleep(nap)
        untouched_seconds += nap
        longest = min(2 * longest, _NAP_SECONDS[1])
    try:
        with contextlib.closing(Child(lambda dummy: _touches(path), TOUCH_SECONDS, folder)):
            yield
    finally:
        _end(path, made)  # if it counted as untouched it may be another node's


def watched(host: Host, steps: Callable[[], Sequence[str]]) -> Callable[[], bool]:
    """Whether this node has steps to do. ``steps`` looks at the whole node, and gives the paths that they change: while
    all of these are as they were before that look there is no need for another."""
    paths: Sequence[str] = ()
    before: Dict[str, object] = {}

    def needed() -> bool:
        nonlocal paths, before
        now = _prints(host, paths)
        if not paths or now != before:
            before, paths = now, steps()
        return bool(paths)

    return needed


def _prints(host: Host, paths: Sequence[str]) -> Dict[str, object]:
    """Another for each file that is put, replaced or removed."""
    for folder in {os.path.dirname(path) for path in paths}:
        with contextlib.suppress(OSError):  # at the opening of a folder a client of NFS asks whether it has changed
            os.scandir(host.path(folder)).close()
    found: Dict[str, object] = {}
    for path in paths:
        try:
            one = os.lstat(host.path(path))
            found[path] = (one.st_ino, one.st_ctime_ns)
        except OSError:
            found[path] = None
    return found


def _made(place: str, folder: str) -> str:
    """The text of this turn, like no other; empty: it is another node's. The folder comes first, so that all nodes take
    turns in the same one."""
    text = "{0} {1} {2}\n".format(whole_name(), os.getpid(), os.urandom(8).hex())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.makedirs(place, exist_ok=True)
        if os.stat(place).st_mode & stat.S_IWOTH:
            reason = "every user may write to it, and root of each node writes there"
            raise NodeError(folder, reason, "run 'chmod o-w {0}', or give another folder".format(folder))
        handle = os.open(os.path.join(place, NAME), flags, 0o644)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.isdir(place):
            return ""
        remedy = "let root of this node write there, or have a node do it that may"
        raise NodeError(folder, "nothing can be written there ({0})".format(error.strerror), remedy) from error
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return text


def _touches(path: str) -> Iterator[None]:
    while True:
        time.sleep(TOUCH_SECONDS)
        yield  # ends where nobody is there any more to take it
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)


def _look(path: str) -> Tuple[str, int]:
    """What the turn says, and when it was touched, as the server has it: a client of NFS asks at each opening."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(handle, 300).decode("utf-8", "replace"), os.fstat(handle).st_mtime_ns
        finally:
            os.close(handle)
    except OSError:
        return "", 0


def _end(path: str, text: str) -> None:
    """Take the turn of this text away, and none that has come in its place since somebody looked."""
    aside = "{0}.{1}".format(path, os.urandom(8).hex())
    with contextlib.suppress(OSError):
        os.rename(path, aside)
        try:
            if _look(aside)[0] != text:
                os.link(aside, path)
        finally:
            os.unlink(aside)


def _holder(text: str) -> str:
    name = text.split(" ")[0]
    return "the node " + name if name else "another node"
