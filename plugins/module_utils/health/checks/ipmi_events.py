# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's own event log (IPMI SEL), on bare metal with ipmitool: critical entries of the last day or so.

The board's clock may be in any time zone, so an entry counts for :data:`_HOURS`. One whose time is none (from before
the clock was set, or of the future) is counted in what was seen, and tells nothing: nobody knows of which year it is.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple, Union

from ...core.frozen import frozen
from ...facts.virtual import virtual
from ..data.ipmi_events import EVENTS, meant
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome

_DEVICES = ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
_TOOL = "ipmitool"
_NEWEST = 64  # each entry takes the board some 10 ms
_SECONDS = 10.0
_HOURS = 38.0  # a day, and 14 hours of the farthest time zone
_AHEAD_HOURS = 14.0


@frozen
class Entry:
    """``time`` in seconds since 1970 as if the board's clock were UTC, or None."""

    number: int
    time: Optional[float]
    sensor: str
    text: str


def look(evidence: Evidence) -> Union[Tuple[Entry, ...], str]:
    """A text says why there is nothing to look at."""
    host = evidence.host
    if not any(host.exists(path) for path in _DEVICES):
        return "there is no IPMI device (/dev/ipmi0)"
    if host.which(_TOOL) is None:
        return "ipmitool is not installed"
    guest = virtual(host)
    if guest or guest is None:
        return "this is a virtual machine" if guest else "it is not known whether this is bare metal"
    # An empty log: status 0, and "SEL has no entries" among the errors.
    done = host.run((_TOOL, "sel", "list", "last", str(_NEWEST)), _SECONDS)
    found = (_entry(line) for line in done.stdout.splitlines()[-_NEWEST:])
    return tuple(one for one in found if one is not None)


def _entry(line: str) -> Optional[Entry]:
    """``1a | 05/20/24 | 11:22:33 UTC | Memory #0x53 | Uncorrectable ECC | Asserted``; None for what has ended."""
    fields = [one.strip() for one in line[:512].split("|")]
    if len(fields) < 5 or (len(fields) > 5 and fields[5] != "Asserted"):
        return None
    try:
        number = int(fields[0], 16)
    except ValueError:
        return None
    return Entry(number, _time(fields[1], fields[2]), fields[3].partition(" #")[0], fields[4])


def _time(day: str, clock: str) -> Optional[float]:
    """Both forms of ipmitool's days: 05/20/24 and 05/20/2024. "Pre-Init" has none."""
    import datetime  # seldom wanted

    words = clock.split()
    for form in ("%m/%d/%Y %H:%M:%S", "%m/%d/%y %H:%M:%S"):
        try:
            found = datetime.datetime.strptime("{0} {1}".format(day, words[0] if words else ""), form)
        except ValueError:
            continue
        if found.year >= 2000:
            return found.replace(tzinfo=datetime.timezone.utc).timestamp()
    return None


def judge(seen: Union[Tuple[Entry, ...], str], expected: Expected) -> Judgement:
    if isinstance(seen, str):
        return Judgement(not_applicable=seen)
    counted: Dict[str, int] = {}
    timeless = 0
    for entry in seen:
        event = meant(entry.sensor, entry.text)
        if event is None:
            continue
        age_hours = None if entry.time is None else (expected.now - entry.time) / 3600.0
        if age_hours is None or age_hours < -_AHEAD_HOURS:
            timeless += 1
        elif age_hours <= _HOURS:
            counted[event.code] = counted.get(event.code, 0) + 1
    findings: List[Finding] = []
    for event in EVENTS:
        count = counted.get(event.code)
        if count is not None:
            reason = "{0}{1} within the last day, by its event log".format(
                event.meaning, "" if count == 1 else ", {0} times".format(count)
            )
            certainty = Certainty.CERTAIN if event.outcome is Outcome.FAIL else Certainty.LIKELY
            findings.append(
                Finding(event.outcome, "machine", reason, event.remedy, event.action, certainty, code=event.code)
            )
    told = "{0} entries".format(len(seen))
    if timeless:
        told += ", {0} critical ones without a time".format(timeless)
    return Judgement(told, tuple(findings))


CHECKS = (
    Check("ipmi_events", "The machine's event log has no fresh fault", Cost.PASSIVE, judge, look, "processes", 15.0),
)
