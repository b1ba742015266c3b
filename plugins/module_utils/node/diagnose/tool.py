# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a tool for what it prints, within a time and a size, and keep what it had printed when its time was over."""

from __future__ import annotations

import os
import select
import subprocess
import time
from typing import Any, Dict, List, Sequence

from ...core.resource import NodeError
from ...health.active import apart
from .types import Told

# So long a tool may take to end when it has closed its output.
_LINGER_SECONDS = 5.0


class Kept:
    """The first or the last bytes of a stream."""

    def __init__(self, most: int, tail: bool) -> None:
        self._most, self._tail = most, tail
        self._pieces: List[bytes] = []
        self._size = 0
        self.cut_bytes = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._tail:
            while self._pieces and self._size - len(self._pieces[0]) >= self._most:
                self._drop(0, len(self._pieces[0]))
        elif self._size > self._most:
            self._drop(-1, self._size - self._most)

    def _drop(self, place: int, count: int) -> None:
        piece = self._pieces.pop(place)
        if count < len(piece):
            self._pieces.append(piece[: len(piece) - count])
        self._size -= count
        self.cut_bytes += count

    def bytes(self) -> bytes:
        """At most so many."""
        found = b"".join(self._pieces)
        if len(found) > self._most:
            self.cut_bytes += len(found) - self._most
            found = found[-self._most :]
        return found


def run(argv: Sequence[str], seconds: float, most: int, tail: bool = False, folder: str = "/") -> Told:
    """What it printed, errors behind the rest. Of the caller's environment it gets nothing: a tool may print its own.

    ``folder``: where it runs and makes its temporary files.
    """
    if folder != "/":
        argv = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", folder, *argv]
    out, errors = Kept(most, tail), Kept(most // 8, True)
    reason, ended = "", ""
    try:
        with apart.started(argv, environment(folder)) as process:
            streams: Dict[Any, Kept] = {process.stdout: out, process.stderr: errors}
            deadline = time.monotonic() + seconds
            while streams:
                ready = select.select(list(streams), [], [], max(0.0, deadline - time.monotonic()))[0]
                if not ready:
                    reason = "it did not end within {0:g} s".format(seconds)
                    break
                for stream in ready:
                    piece = os.read(stream.fileno(), 65536)
                    if piece:
                        streams[stream].add(piece)
                    else:
                        del streams[stream]
            if not reason:
                status = process.wait(timeout=_LINGER_SECONDS)
                # No failure of ours: what a tool has to say is in its text.
                ended = "" if status == 0 else "\n==> it ended with status {0} <==\n".format(status)
    except NodeError as error:
        return Told("", error.reason)
    except subprocess.TimeoutExpired:
        reason = "it closed its output and did not end"
    text = out.bytes().decode("utf-8", "replace")
    told = errors.bytes().decode("utf-8", "replace")
    return Told(text + ("\n==> errors <==\n" + told if told.strip() else "") + ended, reason, out.cut_bytes)


def environment(folder: str) -> Dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "HOME": folder,
        "TMPDIR": folder if folder != "/" else "/tmp",  # noqa: S108 no file of ours
    }
