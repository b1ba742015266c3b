# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A time as programs read it."""

from __future__ import annotations


def moment(seconds: float) -> str:
    """RFC 3339 in UTC, to the second. A time that no calendar has becomes the nearest one that it has."""
    import datetime

    earliest = datetime.datetime(1970, 1, 1)
    try:
        found = earliest + datetime.timedelta(seconds=int(seconds))
    except (OverflowError, ValueError):
        found = earliest if seconds < 0 else datetime.datetime(9999, 12, 31, 23, 59, 59)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
