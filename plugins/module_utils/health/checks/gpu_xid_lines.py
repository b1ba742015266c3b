# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xid and SXid lines of the kernel log, taken apart and counted. Pure.

NVRM: Xid (PCI:0000:dc:00): 45, pid=4711, name=python3, Ch 00000010
NVRM: Xid (PCI:0000:01:00 GPU-I:05): 13, pid='<unknown>', name=<unknown>, Graphics Exception
NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)
NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional, Tuple

from ...frozen import frozen, replaced
from ...nvml.identity import normalise_pci_address
from ..data.xids import RECOVERY_ACTION_CHANGED
from ..kernel_log import KernelLog, Line

# Words that every line of interest has one of.
WORDS = ("NVRM: Xid", "NVRM: loading NVIDIA")
SWITCH_WORDS = (": SXid (",)
# More distinct ones than this are a flood of garbage.
_MOST_EVENTS = 1000
_TEXT_LENGTH = 200

# Compiled by those who find such a line, and not before each job.
_XID = r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,20})(?: GPU-I:[0-9A-Fa-f]+)?[^)]{0,40}\): ([0-9]{1,5})(?:, ?(.*))?$"
_PROCESS = r"pid='?(<unknown>|[0-9]+)'?, name='?([^,']{0,64})'?(?:, ?|$)"
_NVLINK = r"([A-Z][A-Z0-9_]*(?:/[A-Z0-9_]+)?) +(Fatal|Nonfatal)\b"
_RECOVERY = r"changed from 0x[0-9A-Fa-f]+ \(([^)]*)\) to 0x[0-9A-Fa-f]+ \(([^)]*)\)"
_SWITCH = r"nvidia-nvswitch([0-9]{1,3}): SXid \(PCI:([0-9A-Fa-f:.]{4,20})\): ([0-9]{1,6}), (Fatal|Non-fatal), (.*)$"
_DRIVER_LOADED = "NVRM: loading NVIDIA"


@frozen
class Event:
    """The same Xid of the same GPU, however often. ``severity``: Fatal or Nonfatal where the line says so; ``unit``
    what it names then. ``process`` is that of the last one; ``first`` and ``last`` are in seconds after the boot."""

    pci_address: str
    code: int
    text: str
    severity: str = ""
    unit: str = ""
    process: str = ""
    count: int = 1
    first: float = 0.0
    last: float = 0.0


@frozen
class Recovery:
    """Xid 154: what the driver asked for from then on, in its own words, in lower case."""

    pci_address: str
    seconds: float
    words: str


@frozen
class Xids:
    """What the log tells. ``loads`` are the moments at which the driver was loaded."""

    events: Tuple[Event, ...] = ()
    recoveries: Tuple[Recovery, ...] = ()
    loads: Tuple[float, ...] = ()


def parse_xid(line: Line) -> Optional[Event]:
    found = re.search(_XID, line.text)
    if found is None:
        return None
    address = normalise_pci_address(found.group(1))
    if address is None:
        return None
    rest = found.group(3) or ""
    process = ""
    owner = re.match(_PROCESS, rest)
    if owner is not None:
        pid, name = owner.groups()
        process = "" if "unknown" in pid and "unknown" in name else "{1} ({0})".format(pid, name)
        rest = rest[owner.end() :]
    link = re.match(_NVLINK, rest)
    unit, severity = (link.group(1), link.group(2)) if link is not None else ("", "")
    return Event(
        address,
        int(found.group(2)),
        rest.strip()[:_TEXT_LENGTH],
        severity,
        unit,
        process,
        first=line.seconds,
        last=line.seconds,
    )


def parse_switch(line: Line) -> Optional[Event]:
    """Lines that go on with ``Severity`` or ``Data`` belong to one before, and are none."""
    found = re.search(_SWITCH, line.text)
    address = None if found is None else normalise_pci_address(found.group(2))
    if found is None or address is None:
        return None
    text = found.group(5).strip()[:_TEXT_LENGTH]
    unit = "nvidia-nvswitch" + found.group(1)
    return Event(address, int(found.group(3)), text, found.group(4), unit, first=line.seconds, last=line.seconds)


def read_xids(log: KernelLog) -> Xids:
    events: List[Event] = []
    recoveries: List[Recovery] = []
    loads: List[float] = []
    for line in log.having(*WORDS):
        if _DRIVER_LOADED in line.text:
            loads.append(line.seconds)
            continue
        event = parse_xid(line)
        if event is None:
            continue
        if event.code == RECOVERY_ACTION_CHANGED:
            change = re.search(_RECOVERY, event.text)
            words = " ".join(change.group(2).lower().split()) if change is not None else ""
            recoveries.append(Recovery(event.pci_address, event.last, words))
        else:
            events.append(event)
    return Xids(counted(events), tuple(_last_of_each(recoveries)), tuple(loads))


def read_switches(log: KernelLog) -> Tuple[Event, ...]:
    return counted(event for event in map(parse_switch, log.having(*SWITCH_WORDS)) if event is not None)


def counted(events: Iterable[Event]) -> Tuple[Event, ...]:
    """Those of one GPU, code and severity as one, in the order in which they came first."""
    answer: Dict[Tuple[str, int, str], Event] = {}
    for event in events:
        name = (event.pci_address, event.code, event.severity)
        before = answer.get(name)
        if before is not None:
            answer[name] = replaced(
                event, count=before.count + 1, first=min(before.first, event.first), last=max(before.last, event.last)
            )
        elif len(answer) < _MOST_EVENTS:
            answer[name] = event
    return tuple(answer.values())


def _last_of_each(recoveries: Iterable[Recovery]) -> Iterable[Recovery]:
    last: Dict[str, Recovery] = {}
    for one in recoveries:
        last[one.pci_address] = one
    return last.values()
