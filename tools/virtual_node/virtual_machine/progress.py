# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tool is doing, with elapsed seconds, on standard error; silent on request."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Iterator


class VirtualNodeError(Exception):
    """A failure told in one sentence for the user: the thing, the reason, the remedy."""


_quiet = False


def set_quiet(quiet: bool) -> None:
    global _quiet
    _quiet = quiet


def say(text: str) -> None:
    if not _quiet:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class Step:
    """A long step. ``tick`` may be called at any rate; it writes a line at most every ten seconds."""

    every_seconds = 10.0

    def __init__(self, title: str) -> None:
        self.title = title
        self.start = time.monotonic()
        self.last = self.start

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def tick(self, detail: str = "") -> None:
        now = time.monotonic()
        if now - self.last >= self.every_seconds:
            self.last = now
            say("  ... {0}: {1:.0f} s{2}".format(self.title, self.seconds, ": " + detail if detail else ""))


@contextlib.contextmanager
def step(title: str) -> Iterator[Step]:
    say(title)
    current = Step(title)
    yield current
    say("  {0}: done in {1:.1f} s".format(title, current.seconds))
