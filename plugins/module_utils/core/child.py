# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do what may hang in a child process, so that a call that never returns ends as a named error.

A lost GPU, a wedged driver or a dead disk can hold a call for ever, in the kernel, where not even SIGKILL ends it.
The parent therefore makes no such call itself, never waits for a child without a limit, and knows from the child's
reports which call was under way. A child that outlives its parent holds none of the parent's files: not the
lock of a resource, and not the pipe whose end an ssh session waits for.

:func:`collect` runs one child to its end; a :class:`Child` is one that is watched beside others.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import select
import signal
import struct
import time
from typing import Any, Callable, Generic, Iterable, List, Optional, Tuple, TypeVar

from .frozen import frozen
from .resource import NodeError

Item = TypeVar("Item")
Report = Callable[..., None]  # report(label) or report(label, limit_seconds)

_LENGTH = struct.Struct("=I")
# How often the parent looks at the deadline of a silent child: the call under way may have a shorter one by now.
_GLANCE_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


@frozen
class Collected(Generic[Item]):
    """What a child produced. ``hung_at`` names the call that did not return in time, or None. ``left``: the child could
    not be ended, and still holds its devices."""

    items: Tuple[Item, ...]
    hung_at: Optional[str]
    left: bool = False


class ChildDied(NodeError):
    """The child ended in the middle of a call; ``items`` is what it had produced by then."""

    def __init__(self, call: str, items: Tuple[Any, ...]) -> None:
        super().__init__(
            call,
            "the child process ended in the middle of this call",
            "look for a crash of a library or an out-of-memory kill in the kernel log",
        )
        self.items = items


def die_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Let the kernel end this process when the one that started it (``parent``) ends, however that happens."""
    import ctypes  # most children read files, and do not need it

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(with_signal), 0, 0, 0)
    if os.getppid() != parent:  # it ended before that was said
        os._exit(1)


class _Here:
    """Of this process: whether its children end with it, and, in a child, the memory that its parent sees."""

    tied = False
    watch: Optional[_Watch] = None


def end_children_with_this_process() -> None:
    """From now on each :class:`Child` of this process, and each child of those, ends as soon as its parent ends."""
    _Here.tied = True


def at(place: str) -> None:
    """In a child: report to the parent what it works on (``GPU 3 (0000:0b:00.0)``), which sets no time limit."""
    if _Here.watch is not None:
        _Here.watch.at(place)


class _Watch:
    """What parent and child both see: the call under way and the moment by which it must return.

    Shared memory, because a message for each of some thousand calls would cost more than the calls.
    """

    _DEADLINE = struct.Struct("@d")
    _LABEL_AT = 16
    _PLACE_AT = 384
    _SIZE = 512

    def __init__(self, label: str, limit_seconds: float) -> None:
        self._memory = mmap.mmap(-1, self._SIZE)
        self._limit_seconds = limit_seconds
        self.report(label)

    def report(self, label: str, limit_seconds: Optional[float] = None) -> None:
        self._put(label, self._LABEL_AT, self._PLACE_AT)
        self.extend(limit_seconds)

    def at(self, place: str) -> None:
        self._put(place, self._PLACE_AT, self._SIZE)

    def _put(self, words: str, first: int, end: int) -> None:
        text = words.encode("utf-8", "replace")[: end - first - 1]
        self._memory[first : first + len(text) + 1] = text + b"\0"

    def extend(self, limit_seconds: Optional[float] = None) -> None:
        limit = self._limit_seconds if limit_seconds is None else limit_seconds
        # The monotonic clock is the same in both processes. The deadline is written last.
        # Not with pack_into: that fills the place with zeros first, and the parent would see a deadline long past.
        self._memory[: self._DEADLINE.size] = self._DEADLINE.pack(time.monotonic() + limit)

    @property
    def remaining_seconds(self) -> float:
        return float(self._DEADLINE.unpack(self._memory[: self._DEADLINE.size])[0]) - time.monotonic()

    def expired(self) -> bool:
        """Whether the call under way is over its limit. Looks twice: nothing promises that a look does not fall into
        the middle of a write, where half an old and half a new number may be any time."""
        seen = self._memory[: self._DEADLINE.size]
        if self.remaining_seconds > 0:
            return False
        time.sleep(0.01)
        return self._memory[: self._DEADLINE.size] == seen

    @property
    def label(self) -> str:
        return self._text(self._LABEL_AT)

    @property
    def place(self) -> str:
        return self._text(self._PLACE_AT)

    def _text(self, first: int) -> str:
        return self._memory[first:].split(b"\0", 1)[0].decode("utf-8", "replace")

    def close(self) -> None:
        self._memory.close()


class Child(Generic[Item]):
    """A child process that runs ``task(report)``; ``items`` is what it has yielded by now.

    Wait on it with ``select`` (it has a ``fileno``) for at most :attr:`glance_seconds`, then call :meth:`look`.
    Once that returns True it has ended: done, hung (``hung_at`` names the call), dead in the middle of the call
    ``died_at``, or with the ``error`` that the task raised.
    """

    def __init__(self, task: Callable[[Report], Iterable[Item]], silence_seconds: float, label: str) -> None:
        self.items: List[Item] = []
        self.hung_at: Optional[str] = None
        self.died_at: Optional[str] = None
        self.error: Optional[Exception] = None
        self._buffer = b""
        self._watch = _Watch(label, silence_seconds)
        self._handle, writing = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                _Here.watch = self._watch
                if _Here.tied:
                    die_with_parent(parent)
                keep_only(writing)
                _child(task, writing, self._watch)
                status = 0
            finally:
                # No clean-up of the parent's world (atexit handlers, buffered output): it is not ours.
                os._exit(status)
        os.close(writing)

    def fileno(self) -> int:
        return self._handle

    @property
    def label(self) -> str:
        """The call that it reported last."""
        return self._watch.label

    @property
    def place(self) -> str:
        """The part of the machine that it works on, see :func:`at`; empty if it reported none."""
        return self._watch.place

    @property
    def glance_seconds(self) -> float:
        """How long one may wait for this child before the next :meth:`look`."""
        return max(0.0, min(self._watch.remaining_seconds, _GLANCE_SECONDS))

    def look(self) -> bool:
        """Take in what the child has said, without waiting. True: there is nothing more to come."""
        ready, dummy, dummy = select.select([self._handle], [], [], 0)
        if not ready:
            if self._watch.expired():
                self.hung_at = self._watch.label
                return True
            return False
        chunk = os.read(self._handle, 65536)
        if not chunk:
            self.died_at = self._watch.label
            return True
        self._buffer += chunk
        return self._take_in()

    def _take_in(self) -> bool:
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + int(_LENGTH.unpack_from(self._buffer)[0])
            if len(self._buffer) < end:
                break
            kind, payload = pickle.loads(self._buffer[_LENGTH.size : end])  # noqa: S301 the child is our own
            self._buffer = self._buffer[end:]
            if kind == "item":
                self.items.append(payload)
                continue
            if kind == "error":
                self.error = payload
            return True
        return False

    def close(self) -> bool:
        """End it, whatever it does. False: it is stuck in the kernel, and still there."""
        os.close(self._handle)
        self._watch.close()
        return _reap(self._pid)


def collect(task: Callable[[Report], Iterable[Item]], silence_seconds: float) -> Collected[Item]:
    """Run ``task(report)`` in a child and collect what it yields.

    The task calls ``report(label)`` before each call that may hang; each report and each item starts the
    time limit anew, so a long series of calls is fine while every single one returns within
    ``silence_seconds`` (or within its own limit, given as ``report(label, limit_seconds)``). Items and
    exceptions must be picklable.

    :raises Exception: whatever the task raised.
    :raises ChildDied: when the child died (killed, out of memory, crashed in the driver's library).
    """
    child = Child(task, silence_seconds, "start of the child process")
    try:
        while not child.look():
            select.select([child], [], [], child.glance_seconds)
    finally:
        ended = child.close()
    if child.error is not None:
        raise child.error
    if child.died_at is not None:
        raise ChildDied(child.died_at, tuple(child.items))
    return Collected(tuple(child.items), child.hung_at, not ended)


def keep_only(keep: int) -> None:
    """In a new process: close every other file that came over from the parent; the standard ones become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        if standard != keep:
            os.dup2(null, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != keep:
            with contextlib.suppress(OSError):  # the handle of the listing itself is closed already
                os.close(int(name))


def _send(handle: int, kind: str, payload: Any) -> None:
    body = pickle.dumps((kind, payload))
    body = _LENGTH.pack(len(body)) + body
    while body:
        body = body[os.write(handle, body) :]


def _child(task: Callable[[Report], Iterable[Any]], handle: int, watch: _Watch) -> None:
    try:
        for item in task(watch.report):
            watch.extend()
            _send(handle, "item", item)
        _send(handle, "end", None)
    except Exception as error:
        try:
            _send(handle, "error", error)
        except Exception:  # not picklable: its text must do
            _send(handle, "error", RuntimeError("{0}: {1}".format(type(error).__name__, error)))


def _reap(child: int) -> bool:
    """Kill the child and wait for a moment; one that is stuck in the kernel is left to init, which is False."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 1.0
    pause = 0.0002
    while time.monotonic() < deadline:
        try:
            if os.waitpid(child, os.WNOHANG)[0]:
                return True
        except ChildProcessError:
            return True
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    return False
