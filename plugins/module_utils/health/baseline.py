# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of a node over the last day, so that a check can tell growth from history.

A point an hour is kept, and of the last minutes one a minute. Growth is counted from the oldest point of the window, so
a fault is told for a day, not once and not for ever; a counter that grows slowly has a longer window. A rate is counted
from a point of the last minutes. A counter that became smaller (a reboot, another part in its place) starts anew.
"""

from __future__ import annotations

import functools
from typing import Dict, List, Mapping, Sequence, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.state_file import StateFile, document
from .types import Measured, Origin

PATH = "/var/lib/gpu_node/health/baseline.json"
WINDOW_HOURS = 24.0
LONGER_WINDOWS_HOURS = {"gpu_retired_pages_double_bit": 7 * 24.0}
_EVERY_SECONDS = 3600.0
# One look each five minutes (health_gate_interval_seconds) leaves a point of 10 to 15 minutes ago.
_RECENT_SECONDS = 20 * 60.0
_RECENT_EVERY_SECONDS = 60.0
Points = List[Tuple[float, float]]  # (seconds since 1970, value), oldest first
Baseline = Mapping[Tuple[str, str], Points]


def origins(baseline: Baseline, now: float) -> Dict[Tuple[str, str], Tuple[Origin, ...]]:
    """The points of each counter within the window, oldest first."""
    answer = {}
    for name, points in baseline.items():
        kept = _within(name, points, now)
        if kept:
            answer[name] = tuple(Origin(value, (now - time) / 3600.0) for time, value in kept)
    return answer


def updated(baseline: Baseline, measured: Sequence[Measured], now: float) -> Dict[Tuple[str, str], Points]:
    """The baseline after a run. Pure."""
    answer = {name: _within(name, points, now) for name, points in baseline.items()}
    for figure in measured:
        if not figure.counter:
            continue
        points = answer.get(figure.counted, [])
        if points and figure.value < points[-1][1]:
            points = []
        if not points or now - points[-1][0] >= _RECENT_EVERY_SECONDS:
            points = [*_thinned(points, now), (now, figure.value)]
        answer[figure.counted] = points
    return {name: points for name, points in answer.items() if points}


def _thinned(points: Points, now: float) -> Points:
    kept: Points = []
    for point in points:
        if not kept or now - point[0] <= _RECENT_SECONDS or point[0] - kept[-1][0] >= _EVERY_SECONDS:
            kept.append(point)
    return kept


def _within(name: Tuple[str, str], points: Sequence[Tuple[float, float]], now: float) -> Points:
    """Without what is older than the window, and without what the clock of a node once put into the future."""
    hours = LONGER_WINDOWS_HOURS.get(name[0], WINDOW_HOURS)
    return [point for point in points if now - hours * 3600 <= point[0] <= now]


@frozen
class _Counter:
    name: str
    key: str
    points: Tuple[Tuple[float, float], ...]


@frozen
class _Counters:
    counters: Tuple[_Counter, ...] = ()


FILE = StateFile("baseline", PATH, functools.partial(document, _Counters), mode=0o644)


def read(host: Host) -> Dict[Tuple[str, str], Points]:
    """Empty if there is none, or it is damaged: it is then made anew."""
    found = FILE.read(host)[0] or _Counters()
    return {(one.name, one.key): list(one.points) for one in found.counters}


def write(host: Host, baseline: Baseline) -> str:
    """Returns the sentence about a damaged file that was in its place.

    :raises NodeError: when it cannot be written.
    """
    counters = [
        {"name": name, "key": key, "points": [list(point) for point in points]}
        for (name, key), points in sorted(baseline.items())
    ]
    return FILE.write(host, {"counters": counters})
