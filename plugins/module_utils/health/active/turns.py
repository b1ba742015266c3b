# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes that wait for each other: one after another on a shared path, and all at once."""

from __future__ import annotations

import mmap
import time
from typing import Callable, Iterable

_POLL_SECONDS = 0.001
_GONE = 255


class Turns:
    """How many steps each of several processes has finished. Made before they start; memory that they share.

    A process that ends or hangs counts as one that has finished all steps, so nobody waits for it.
    """

    def __init__(self, count: int) -> None:
        self._steps = mmap.mmap(-1, max(count, 1))
        self.count = count

    def finished(self, who: int, step: int) -> None:
        """``who`` has finished that step (1 to 254)."""
        self._steps[who] = max(step, self._steps[who])

    def gone(self, who: int) -> None:
        """``who`` has ended, or does not answer."""
        self._steps[who] = _GONE

    def wait(self, step: int, waiting: Callable[[], object], others: Iterable[int] = ()) -> None:
        """Until each of ``others`` (none given: all) has finished that step. ``waiting`` is called all the time."""
        awaited = tuple(others) or range(self.count)
        while any(self._steps[other] < step for other in awaited):
            waiting()
            time.sleep(_POLL_SECONDS)
