# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run NVML calls in a child process, so that a call that never returns ends as a named error.

A lost GPU or a wedged driver can hold an NVML call for ever, in the kernel, where not even SIGKILL ends it.
The parent therefore never calls NVML, never waits for a child without a limit, and knows from the child's
reports which call was under way. A child that outlives its parent holds none of the parent's files: not the
lock of a resource, and not the pipe whose end an ssh session waits for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import pickle
import select
import signal
import struct
import time
from typing import Any, Callable, Generic, Iterable, List, Optional, Tuple, TypeVar

from ..resource import NodeError

Item = TypeVar("Item")
Report = Callable[..., None]  # report(label) or report(label, limit_seconds)

_LENGTH = struct.Struct("=I")
# How often the parent looks at the deadline of a silent child: the call under way may have a shorter one by now.
_GLANCE_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Collected(Generic[Item]):
    """What a child produced. ``hung_at`` names the call that did not return in time, or None."""

    items: Tuple[Item, ...]
    hung_at: Optional[str]


class ChildDied(NodeError):
    """The child ended in the middle of a call; ``items`` is what it had produced by then."""

    def __init__(self, call: str, items: Tuple[Any, ...]) -> None:
        super().__init__(
            call,
            "the child process ended in the middle of this NVML call",
            "look for a crash of libnvidia-ml.so.1 or an out-of-memory kill in the kernel log",
        )
        self.items = items


class _Watch:
    """What parent and child both see: the call under way and the moment by which it must return.

    Shared memory, because a message for each of some thousand calls would cost more than the calls.
    """

    _DEADLINE = struct.Struct("@d")
    _LABEL_AT = 16
    _SIZE = 512

    def __init__(self, label: str, limit_seconds: float) -> None:
        self._memory = mmap.mmap(-1, self._SIZE)
        self._limit_seconds = limit_seconds
        self.report(label)

    def report(self, label: str, limit_seconds: Optional[float] = None) -> None:
        text = label.encode("utf-8", "replace")[: self._SIZE - self._LABEL_AT - 1]
        self._memory[self._LABEL_AT : self._LABEL_AT + len(text) + 1] = text + b"\0"
        self.extend(limit_seconds)

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
        return self._memory[self._LABEL_AT :].split(b"\0", 1)[0].decode("utf-8", "replace")

    def close(self) -> None:
        self._memory.close()


def collect(task: Callable[[Report], Iterable[Item]], silence_seconds: float) -> Collected[Item]:
    """Run ``task(report)`` in a child and collect what it yields.

    The task calls ``report(label)`` before each call that may hang; each report and each item starts the
    time limit anew, so a long series of calls is fine while every single one returns within
    ``silence_seconds`` (or within its own limit, given as ``report(label, limit_seconds)``). Items and
    exceptions must be picklable.

    :raises Exception: whatever the task raised.
    :raises ChildDied: when the child died (killed, out of memory, crashed in the driver's library).
    """
    watch = _Watch("start of the NVML child process", silence_seconds)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _let_go(writing)
            _child(task, writing, watch)
            status = 0
        finally:
            # No clean-up of the parent's world (atexit handlers, buffered output): it is not ours.
            os._exit(status)
    os.close(writing)
    try:
        return _parent(reading, watch)
    finally:
        os.close(reading)
        watch.close()
        _reap(child)


def _let_go(keep: int) -> None:
    """Close every file that came over from the parent; the standard ones become /dev/null."""
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


def _parent(handle: int, watch: _Watch) -> Collected[Any]:
    items: List[Any] = []
    buffer = b""
    while True:
        while len(buffer) >= _LENGTH.size and len(buffer) >= _LENGTH.size + _LENGTH.unpack_from(buffer)[0]:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            # The child is our own. (pylint takes what Struct.unpack_from gives for something else than a number.)
            kind, payload = pickle.loads(buffer[_LENGTH.size : end])  # noqa: S301 pylint: disable=invalid-slice-index
            buffer = buffer[end:]  # pylint: disable=invalid-slice-index
            if kind == "item":
                items.append(payload)
            elif kind == "error":
                raise payload
            else:
                return Collected(tuple(items), None)
        ready, dummy, dummy = select.select([handle], [], [], max(0.0, min(watch.remaining_seconds, _GLANCE_SECONDS)))
        if not ready:
            if not watch.expired():
                continue
            return Collected(tuple(items), watch.label)
        chunk = os.read(handle, 65536)
        if not chunk:
            raise ChildDied(watch.label, tuple(items))
        buffer += chunk


def _reap(child: int) -> None:
    """Kill the child and wait for a moment; one that is stuck in the kernel is left to init."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 1.0
    pause = 0.0002
    while time.monotonic() < deadline:
        try:
            if os.waitpid(child, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
