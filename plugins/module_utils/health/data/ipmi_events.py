# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entries of a machine's event log (IPMI SEL) that tell of a fault; all others say nothing here.

The words are those that ``ipmitool sel list`` prints (ipmitool, include/ipmitool/ipmi_sel.h). Which of them matter:
github.com/facebookresearch/gcm, check_ipmitool, for those marked (gcm), where each is critical; here a fault of what
the machine has twice, a power supply, warns.
"""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen
from ..types import Outcome, Remedy

_REPLACE = "read 'ipmitool sel elist' for which it is, and have it replaced"
_COOL = "look at fans, filters and the temperature of the room (ipmitool sdr type fan; ipmitool sdr type temperature)"


@frozen
class Event:
    """``sensor`` is the type of the sensor and ``text`` what happened, as patterns of the whole; both without case."""

    code: str
    sensor: str
    text: str
    meaning: str
    outcome: Outcome
    action: Remedy
    remedy: str
    source: str


_TABLE = "IPMI specification 2.0, table 42-3, sensor type {0}"

EVENTS: Tuple[Event, ...] = (
    Event(
        "memory",
        r"Memory",
        r"Uncorrectable (?:ECC|error).*",
        "the memory had an error that could not be corrected",
        Outcome.FAIL,
        Remedy.REPLACE,
        _REPLACE,
        _TABLE.format("0Ch") + " (gcm)",
    ),
    Event(
        "processor",
        r"Processor",
        r"IERR|Thermal Trip|SM BIOS Uncorrectable CPU-complex Error|FRB\d.*",
        "a processor failed",
        Outcome.FAIL,
        Remedy.REPLACE,
        _REPLACE,
        _TABLE.format("07h"),
    ),
    Event(
        "bus",
        r"Critical Interrupt",
        r"Bus Fatal Error|Bus Uncorrectable error|PCI SERR|PCI PERR",
        "a bus had an error that could not be corrected",
        Outcome.FAIL,
        Remedy.LOOK,
        "read 'ipmitool sel elist' for the slot, drain the node, and reseat or replace the card",
        _TABLE.format("13h") + " (gcm)",
    ),
    Event(
        "firmware",
        r"System Firmwares?(?: Error)?",
        r"BIOS corruption detected",
        "its firmware is damaged",
        Outcome.FAIL,
        Remedy.REPLACE,
        "write the firmware anew, or have the board replaced",
        _TABLE.format("0Fh") + " (gcm)",
    ),
    Event(
        "temperature",
        r"Temperature",
        r"Upper (?:Critical|Non-recoverable) going high\b.*",
        "it became too hot",
        Outcome.WARN,
        Remedy.LOOK,
        _COOL,
        "IPMI specification 2.0, table 42-2, threshold events 09h and 0Bh",
    ),
    Event(
        "fan",
        r"Fan",
        r"Lower (?:Critical|Non-recoverable) going low\b.*",
        "a fan is too slow",
        Outcome.WARN,
        Remedy.LOOK,
        _COOL,
        "IPMI specification 2.0, table 42-2, threshold events 02h and 04h",
    ),
    Event(
        "throttled",
        r"Processor",
        r"Throttled",
        "a processor was slowed down",
        Outcome.WARN,
        Remedy.LOOK,
        _COOL,
        _TABLE.format("07h") + " (gcm)",
    ),
    Event(
        "power",
        r"Power (?:Supply|Unit)",
        r"Failure detected|Power Supply AC lost|AC lost.*",
        "a power supply failed or lost its input",
        Outcome.WARN,
        Remedy.LOOK,
        "see that the power supplies have input and sit well, and replace the one that 'ipmitool sel elist' names",
        _TABLE.format("08h and 09h") + " (gcm)",
    ),
    Event(
        "drive",
        r"Drive Slot(?: / Bay)?",
        r"Drive Fault.*|In Failed Array",
        "a disk failed",
        Outcome.WARN,
        Remedy.LOOK,
        "compare with nvme_smart and scratch_array, and replace the disk that 'ipmitool sel elist' names",
        _TABLE.format("0Dh"),
    ),
)


def meant(sensor: str, text: str) -> Optional[Event]:
    """What an entry tells, or None."""
    import re  # only where there is such a log

    for one in EVENTS:
        if re.fullmatch(one.sensor, sensor, re.IGNORECASE) and re.fullmatch(one.text, text, re.IGNORECASE):
            return one
    return None
