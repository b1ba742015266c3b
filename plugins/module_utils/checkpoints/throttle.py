# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do when the store says that it is busy (503): halve the cap, tell it. Pure."""

from __future__ import annotations

from ..core.frozen import frozen

# azcopy counts all requests of a job. A few in a hundred are what its own retries are for.
BUSY_PERCENT = 5.0
# All copies of a node see the same busy account: one of them halves the cap of all, and what that does shows later.
SETTLE_SECONDS = 20.0
# No slower than this part of the first cap: below, an account is busy with somebody else.
LEAST = 16
# azcopy begins a file anew when it is started again, and its own retries do in the end: what is over half done goes on.
RESTART_BELOW_PERCENT = 50.0
_MOST_WAIT_SECONDS = 30.0
TRIES = 4


@frozen
class Cap:
    """``first``: as planned; ``now``: what is started from now on gets that; ``since``: when it was last halved."""

    first: float
    now: float
    since: float = float("-inf")
    halved: int = 0


def halved(cap: Cap, busy_percent: float, now: float) -> Cap:
    """The cap after a report of a copy; the same where there is nothing to do."""
    least = max(cap.first / LEAST, 0.01)
    if busy_percent < BUSY_PERCENT or now - cap.since < SETTLE_SECONDS or cap.now <= least:
        return cap
    return Cap(cap.first, max(cap.now / 2, least), now, cap.halved + 1)


def restarts(own_cap: float, cap: Cap, busy_percent: float, done_percent: float) -> bool:
    """Whether a running copy is begun anew under the cap of now."""
    return own_cap > cap.now and busy_percent >= BUSY_PERCENT and done_percent < RESTART_BELOW_PERCENT


def wait_seconds(attempt: int, chance: float) -> float:
    """Before another try; ``chance`` from 0 to 1, so that the files of many nodes do not come back together."""
    return min(_MOST_WAIT_SECONDS, 2.0**attempt) * (0.5 + chance / 2)
