# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that the kernel told of in its log: one check for each subject of the table of messages."""

from __future__ import annotations

import functools
from typing import Dict, List, Optional, Tuple

from ...core import processes
from ...core.frozen import frozen
from ...core.resource import NodeError
from ...facts.virtual import virtual
from ..container import contained
from ..data.kernel_message import Message
from ..data.kernel_messages import MESSAGES
from ..evidence import Evidence
from ..firmware_records import sections
from ..types import Check, Cost, Expected, Finding, Judgement, Outcome

# What a pass of each means, in the order of a report.
TITLES: Dict[str, str] = {
    "kernel_machine_checks": "The processor reported no machine check",
    "kernel_hung_tasks": "No task hangs in the kernel",
    "kernel_stalls": "No CPU was stuck",
    "kernel_out_of_memory": "The memory of the system was not used up",
    "cpu_throttling": "No processor was slowed down by heat",
    "pci_errors": "No PCIe device made errors on its bus",
    "ib_device_faults": "No network device has failed",
    "storage_errors": "No disk or file system has failed",
    "nfs_servers": "Every NFS server answers",
}
# A storm of messages names each thing once; more things than these are one trouble.
_MOST = 64
_DAY_SECONDS = 86400.0


@frozen
class Event:
    """``place`` is that of the message in the table; ``age_seconds`` that of the newest of ``count`` lines."""

    place: int
    key: str
    count: int
    age_seconds: float


@frozen
class Seen:
    """``complete`` false: the older part of the log is lost. ``virtual`` is asked only where a message depends on it;
    None: it is not known."""

    events: Tuple[Event, ...]
    complete: bool
    virtual: Optional[bool] = None


def _look(evidence: Evidence, check: str) -> Optional[Seen]:
    """None: the log is that of the host of this container, and not told in it."""
    try:
        log = evidence.kernel_log
    except NodeError:
        if contained(evidence.host):
            return None
        raise
    places = [place for place, one in enumerate(MESSAGES) if one.check == check]
    rules = [(place, MESSAGES[place].rule, False) for place in places if not MESSAGES[place].of_record]
    rules += [(place, ended, True) for place in places for ended in MESSAGES[place].ended]
    events: Dict[Tuple[int, str], Tuple[int, float]] = {}
    for number, found, line in log.find([rule for dummy, rule, dummy_end in rules]):
        name = (rules[number][0], found.groupdict().get("key") or "")
        if rules[number][2]:
            for ended in [one for one in events if one[1] == name[1] and MESSAGES[one[0]].ended]:
                del events[ended]
        elif name in events or len(events) < _MOST:
            count, newest = events.get(name, (0, 0.0))
            events[name] = (count + 1, max(newest, line.seconds))
    by_section = {one: place for place in places for one in MESSAGES[place].sections}
    for section in sections(log) if by_section else ():
        place = by_section.get((section.kind, section.severity))
        if place is not None and ((place, section.device) in events or len(events) < _MOST):
            count, newest = events.get((place, section.device), (0, 0.0))
            events[place, section.device] = (count + 1, max(newest, section.seconds))
    uptime = processes.uptime(evidence.host) or 0.0
    seen = (
        Event(place, key, count, max(0.0, uptime - newest)) for (place, key), (count, newest) in sorted(events.items())
    )
    guest = virtual(evidence.host) if any(MESSAGES[place].bare_metal for place, dummy in events) else None
    return Seen(tuple(seen), log.complete, guest)


def judge(seen: Optional[Seen], dummy: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="the kernel log is that of the host of this container")
    findings: List[Finding] = []
    passed = 0
    for event in seen.events:
        message = MESSAGES[event.place]
        elsewhere = message.bare_metal and seen.virtual is not False
        if message.outcome is Outcome.PASS or elsewhere or not _counts(message, event.age_seconds):
            passed += event.count
            continue
        findings.append(_finding(message, event))
    text = "the log since the boot" if seen.complete else "the newest part of the log; what is older is lost"
    return Judgement(text + (", {0} lines that no longer count".format(passed) if passed else ""), tuple(findings))


def _counts(message: Message, age_seconds: float) -> bool:
    return message.hours is None or age_seconds <= message.hours * 3600


def _finding(message: Message, event: Event) -> Finding:
    times = "" if event.count == 1 else ", {0} times".format(event.count)
    reason = "{0}{1}, {2}".format(message.meaning, times, _ago(event.age_seconds))
    return Finding(
        message.outcome,
        message.thing.format(event.key or "of unknown address"),
        reason,
        message.remedy,
        message.action,
        message.certainty,
        event.key,
        message.code,
    )


def _ago(seconds: float) -> str:
    if seconds < 3600:
        return "{0:.0f} min ago".format(seconds / 60)
    if seconds < 2 * _DAY_SECONDS:
        return "{0:.0f} h ago".format(seconds / 3600)
    return "{0:.0f} days ago".format(seconds / _DAY_SECONDS)


def _check(name: str, title: str) -> Check:
    look = functools.partial(_look, check=name)
    return Check(name, title, Cost.PASSIVE, judge, look, lane="log", seconds=20.0)


CHECKS = tuple(_check(name, title) for name, title in TITLES.items())
