# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Active checks for a user: their time before they start, their progress on a terminal, and an end on a signal."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from typing import Any, Callable, Iterator, List, Union

from .. import health
from ..core.resource import NodeError
from ..health import budget
from ..health.course import Progress, Show

# DEC and xterm: to the first column, and erase the rest of the line.
_ERASE = "\r\033[K"


class Stopped(KeyboardInterrupt):
    """A signal that ends the command. As ^C, so that whatever runs is cleaned up in the same way."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(examine: Callable[[Show], health.Verdict], for_people: bool) -> Union[health.Verdict, int]:
    """The verdict, or the exit status if a signal ended the checks. ``for_people``: show plan and progress."""
    line = _Line() if for_people else None
    began, number = time.monotonic(), int(signal.SIGINT)
    try:
        with _stopped_by_signals():
            return examine(None if line is None else line.show)
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Stopped) else number
    finally:
        if line is not None:
            line.erase()
    reason = "{0} ended it after {1:.0f} s, without a verdict; the processes that it started have ended, too".format(
        signal.Signals(number).name, time.monotonic() - began
    )
    with contextlib.suppress(OSError):  # the terminal may be gone
        print("gpunode: {0}".format(NodeError("health --active", reason, "run it again")), file=sys.stderr, flush=True)
    return 128 + number


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    def stop(number: int, dummy: Any) -> None:
        raise Stopped(number)

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What a caller ignores (nohup, a shell without job control) stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Line:
    """The plan, and then one line on a terminal that is rewritten; elsewhere a line for each check."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        self._owner = os.getpid()
        self._shown = ""
        self._check = ""

    def show(self, progress: Progress) -> None:
        if not progress.check:
            self._print(announcement(progress.plan) + "\n")
            return
        text = line(progress)
        if self._terminal:
            text = text[: max(20, shutil.get_terminal_size().columns - 1)]
            if text != self._shown:
                # Before it is written: a signal may come as soon as it can be read.
                self._shown = text
                self._print(_ERASE + text)
        elif progress.check != self._check:
            self._print(text + "\n")
        self._check = progress.check

    def erase(self) -> None:
        if self._shown and os.getpid() == self._owner:
            self._print(_ERASE)
            self._shown = ""

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more, which ends no check
            sys.stderr.write(text)
            sys.stderr.flush()


def announcement(plan: budget.Plan) -> str:
    """What the checks take together, and each of the longest. Pure."""
    runs = [part for part in plan.parts if part.covered and part.span is not None]
    where = " on {0} GPU{1}".format(plan.gpus, "" if plan.gpus == 1 else "s") if plan.gpus else ""
    if not runs:
        return "Active checks: there is nothing to measure on this node"
    parts = ["{0} {1}".format(part.check, duration(part.seconds)) for part in runs]
    text = "Active checks{0}: about {1} ({2})".format(where, duration(plan.seconds), ", ".join(parts))
    left_out = [part.check for part in plan.parts if not part.covered]
    if left_out:
        text += "; not covered in {0}: {1}".format(duration(plan.budget or 0.0), ", ".join(left_out))
    return text


def line(progress: Progress) -> str:
    """``[2/7] gpu_compute: all 8 GPUs, about 40 s left``. Pure."""
    parts: List[str] = [progress.place] if progress.place else []
    parts.append("about {0} left".format(duration(progress.remaining_seconds)))
    number = min(progress.done + 1, len(progress.plan.parts))
    return "[{0}/{1}] {2}: {3}".format(number, len(progress.plan.parts), progress.check, ", ".join(parts))


def duration(seconds: float) -> str:
    """``45 s``, ``2 min 5 s``. Pure."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return "{0} s".format(whole)
    return "{0} min {1} s".format(whole // 60, whole % 60) if whole % 60 else "{0} min".format(whole // 60)
