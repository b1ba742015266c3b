# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware errors that the firmware reports through APEI, read by record. Pure.

The kernel prints each record as several messages with the same number in braces, and records of two sources may
alternate (Linux, drivers/acpi/apei/ghes.c and drivers/firmware/efi/cper.c). A record has sections, each with its own
severity. Records of the previous boot (BERT) have no number.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from ..core.frozen import frozen
from .kernel_log import KernelLog, Rule

PCIE, OTHER = "PCIe error", ""
_PREFIX = r"\{(?P<record>\d{1,10})\}\[Hardware Error\]: {1,8}"
_SEVERITY = r"(?P<severity>recoverable|fatal|corrected|info)\Z"
_EVENT, _SECTION, _TYPE, _DEVICE = range(4)
RULES = (
    Rule("event severity: ", _PREFIX + "event severity: " + _SEVERITY, "{1}[Hardware Error]: event severity: info"),
    Rule(", type: ", _PREFIX + r"Error \d+, type: " + _SEVERITY, "{1}[Hardware Error]:  Error 0, type: recoverable"),
    Rule(
        "section",
        _PREFIX + r"section[_ ]type: (?P<kind>[^\n]{1,80})\Z",
        "{1}[Hardware Error]:   section_type: PCIe error",
    ),
    Rule(
        "device_id: ",
        _PREFIX + r"device_id: (?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\Z",
        "{1}[Hardware Error]:   device_id: 0000:5e:00.0",
    ),
)


@frozen
class Section:
    """``kind`` is :data:`PCIE` or :data:`OTHER`; ``device`` the PCI address of the former, if the record has it."""

    kind: str
    severity: str
    device: str
    seconds: float


def sections(log: KernelLog) -> Tuple[Section, ...]:
    """A record without a section, such as one whose end is lost, counts as one section of the record's severity."""
    records: Dict[str, List[Section]] = {}
    ended: List[List[Section]] = []
    for place, found, line in log.find(RULES):
        number = found.group("record")
        some = records.setdefault(number, [])
        if place == _EVENT:
            ended.append(some)
            records[number] = [Section(OTHER, found.group("severity"), "", line.seconds)]
        elif place == _SECTION:
            some.append(Section(OTHER, found.group("severity"), "", line.seconds))
        elif place == _TYPE and len(some) > 1:
            kind = PCIE if found.group("kind") == PCIE else OTHER
            some[-1] = Section(kind, some[-1].severity, "", line.seconds)
        elif place == _DEVICE and some and some[-1].kind == PCIE:
            some[-1] = Section(PCIE, some[-1].severity, found.group("device"), line.seconds)
    return tuple(one for some in (*ended, *records.values()) for one in (some[1:] or some))
