# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A time as programs read it, and one that a person wrote."""

from __future__ import annotations

import re
from typing import Optional

from .frozen import frozen

# ISO 8601; YAML and Ansible make a blank of the T.
_WRITTEN = r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*([Zz]|[+-]\d\d:?\d\d)?)?"


@frozen
class Written:
    """``seconds`` since 1970, in UTC where no zone was given. ``clock``: a time of the day was given."""

    seconds: float
    clock: bool
    zone: bool


def read(text: str) -> Optional[Written]:
    """None: it is no date of the calendar, also in UTC, or no zone of the world."""
    import datetime  # seldom wanted, and not for nothing before each job

    found = re.fullmatch(_WRITTEN, text.strip())
    if found is None:
        return None
    zone = (found.group(7) or "Z").replace(":", "")
    away = 0 if zone in "Zz" else (int(zone[1:3]) * 60 + int(zone[3:5])) * (-1 if zone[0] == "-" else 1)
    try:
        year, month, day, hour, minute, second = (int(one or 0) for one in found.groups()[:6])
        place = datetime.timezone(datetime.timedelta(minutes=away))
        when = datetime.datetime(year, month, day, hour, minute, second, tzinfo=place).astimezone(datetime.timezone.utc)
    except (OverflowError, ValueError):
        return None
    return Written(when.timestamp(), found.group(4) is not None, found.group(7) is not None)


def moment(seconds: float) -> str:
    """RFC 3339 in UTC, to the second. A time that no calendar has becomes the nearest one that it has."""
    import datetime

    earliest = datetime.datetime(1970, 1, 1)
    try:
        found = earliest + datetime.timedelta(seconds=int(seconds))
    except (OverflowError, ValueError):
        found = earliest if seconds < 0 else datetime.datetime(9999, 12, 31, 23, 59, 59)
    return found.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
