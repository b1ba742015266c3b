# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show something again and again: in place on a terminal, one after the other elsewhere."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from typing import Any, Callable, Iterator, Union

from ..core.machine import short_name
from .exit_status import DONE
from .output import painter

# Terminals of DEC and xterm: another screen, whose lines are cut and not wrapped, without a cursor; and back again.
_ENTER = "\033[?1049h\033[?7l\033[?25l"
_LEAVE = "\033[?25h\033[?7h\033[?1049l"
# Home; each line erases what it leaves of its old one, and the last one what is below it: nothing is ever blank.
_HOME, _REST_OF_LINE, _BELOW = "\033[H", "\033[K", "\033[J"

Picture = Union[str, Any]  # a text, or what is printed as JSON


def watch(seconds: float, draw: Callable[[], Picture]) -> int:
    """Print what ``draw`` returns every so many seconds, until ^C. What takes longer than that skips its turns."""
    began, turn = time.monotonic(), 0
    picture = draw()  # before the screen is taken: an error is told on the screen where it was asked for
    in_place = isinstance(picture, str) and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
    try:
        with _screen() if in_place else contextlib.nullcontext():
            while True:
                _show(picture, seconds, in_place)
                turn = max(turn + 1, int((time.monotonic() - began) / seconds) + 1)
                time.sleep(max(0.0, began + turn * seconds - time.monotonic()))
                picture = draw()
    except KeyboardInterrupt:
        if in_place:
            print(picture, flush=True)  # what was seen last stays
        return DONE


def _show(picture: Picture, seconds: float, in_place: bool) -> None:
    if not isinstance(picture, str):
        print(json.dumps(picture, sort_keys=True), flush=True)  # a document a line
        return
    head = "{0}  {1}  every {2:g} s, ^C ends".format(short_name(), time.strftime("%Y-%m-%d %H:%M:%S"), seconds)
    if not in_place:
        print("{0}\n{1}\n".format(head, picture), flush=True)
        return
    lines = [painter(sys.stdout)(head, "faint"), *picture.split("\n")]
    # Of the terminal itself: LINES may be exported from another one. Serial consoles say 0.
    height = os.get_terminal_size(sys.stdout.fileno()).lines or 24
    if len(lines) > height:
        lines[height - 1 :] = ["... {0} more lines".format(len(lines) - height + 1)]
    # One write, so that the terminal never shows half of it.
    sys.stdout.write(_HOME + (_REST_OF_LINE + "\n").join(lines) + _REST_OF_LINE + _BELOW)
    sys.stdout.flush()


@contextlib.contextmanager
def _screen() -> Iterator[None]:
    """The other screen, left again however this ends: ^C, an error, SIGTERM, a lost connection, ^Z for a while."""

    def put(text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            os.write(sys.stdout.fileno(), text.encode())  # a signal may come in the middle of a buffered write

    def end(number: int, dummy: Any) -> None:
        raise SystemExit(128 + number)

    def pause(number: int, dummy: Any) -> None:
        put(_LEAVE)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # sleeps here until it is continued
        signal.signal(number, pause)
        put(_ENTER)

    handlers = {signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGTSTP: pause}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    put(_ENTER)
    try:
        yield
    finally:
        put(_LEAVE)
        for number, handler in before.items():
            signal.signal(number, handler)
